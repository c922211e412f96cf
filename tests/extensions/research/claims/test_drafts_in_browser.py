"""The explorer compares a draft with what it cites, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("selenium.webdriver", reason="needs selenium")

from tests.api.browser_page import Page
from tests.browsers import browser  # noqa: F401
from tests.extensions.research.claims.test_drafts import (  # noqa: F401
    BIBLIOGRAPHY,
    DRAFTS,
    library,
    library_folder,
    url,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", DRAFTS)
def test_wrong_citations_are_shown(browser: Any, url: str, name: str) -> None:  # noqa: F811
    page = Page(browser, url)
    page.open("#/references", shows=".drop")
    fill = "[...document.querySelectorAll('textarea')].forEach((one, n) => { one.value = arguments[0][n]; })"
    page.driver.execute_script(fill, [BIBLIOGRAPHY, DRAFTS[name]])
    page.wait("summary", "Compare a draft").click()
    page.wait("button", "Compare").click()
    page.wait("details .reference", "falk")
    rows = {row.split(" line ")[0]: row for row in page.texts("details .reference")}
    shown = {
        "Retracted Supported braaten": "That was before the draft (2006-04-17).",
        "Not found in the paper jaffe": "Another paper has these words: Dark Matters in Axino Gravitino Cosmology",
        "Contradicts falk": "The sentence has 5, and not 15.",
        "Not found in the paper schlumpf": "may hold all the same",
        "Not in this library larsen": "No paper of this snapshot",
        "Another version Supported farrar": "different: year.",
    }
    rows = {" ".join(name.split()): text for name, text in rows.items()}
    for one, words in shown.items():
        found = [text for name, text in rows.items() if name.replace(" ", "") == one.replace(" ", "")]
        assert len(found) == 1, (one, list(rows))
        assert words in found[0]
    assert len(rows) == 20
    page.check()
