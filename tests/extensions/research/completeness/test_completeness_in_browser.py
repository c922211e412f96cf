"""The explorer shows how complete a list or a session is, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

pytest.importorskip("selenium.webdriver", reason="needs selenium")

from scholarbase import Client, Library
from tests.api.browser_page import Page
from tests.api.test_explorer_in_browser import QUESTION, check_view
from tests.browsers import browser  # noqa: F401
from tests.conftest import serving_in_thread

pytestmark = pytest.mark.slow
SENTENCE = "strong"


@pytest.fixture(scope="module")
def url(default_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = str(tmp_path_factory.mktemp("sessions"))
    with (
        Library.open(default_library) as library,
        serving_in_thread(library, sessions=folder, timeout=300) as address,
    ):
        yield address


@pytest.fixture(scope="module")
def listed(url: str) -> list[str]:
    """Papers of the first results, the best and some that are far behind."""
    with Client(url) as client:
        return [hit.paper.id for hit in client.search(QUESTION, limit=60).results][::6]


def test_the_estimate_of_a_list_is_that_of_the_api(browser: Any, url: str, listed: list[str]) -> None:  # noqa: F811
    page = Page(browser, url)
    relevant, known = listed[:7], listed[5:]
    answered = httpx.post(
        f"{url}/v1/completeness", json={"q": QUESTION, "relevant": relevant, "known": known}, timeout=60
    ).json()
    [by_known] = [one for one in answered["estimates"] if one["method"] == "known"]
    address = urlencode({"q": QUESTION, "relevant": relevant, "known": known}, doseq=True)
    check_view(page, f"#/completeness?{address}", "table")
    count = int(by_known["unseen"] + 0.5)  # JavaScript rounds 2.5 up
    has = f"{count} relevant paper has" if count == 1 else f"{count} relevant papers have"
    ends = f"with a probability of 80% between {by_known['low']} and {by_known['high']}."
    assert page.texts(SENTENCE) == [f"About {has} not been seen; {ends}"]
    based = page.texts("[aria-label='What it is based on'] tbody td:first-child")
    assert based == [one["samples"] for one in answered["estimates"]]
    tried = [one["name"] for name in ("searches", "seeds", "years") for one in answered[name]]
    assert page.texts("[aria-label='What to try next'] tbody a") == tried
    page.wait("[aria-label='What to try next'] a").click()
    page.wait(".result")
    leg, text = tried[0].split(": ", 1)
    assert page.run("document.querySelector('input[name=q]').value") == text
    assert f"mode={ {'words': 'sparse', 'meaning': 'dense'}[leg] }" in page.run("location.hash")


def test_too_few_papers_are_no_estimate_and_results_can_be_chosen(browser: Any, url: str) -> None:  # noqa: F811
    page = Page(browser, url)
    page.open(f"#/completeness?{urlencode({'q': QUESTION})}", shows="textarea")
    page.wait("button", "Choose from results").click()
    page.wait("fieldset input")
    for box in page.all("fieldset input")[:2]:
        box.click()
    page.wait("button.primary", "Estimate").click()
    page.wait(SENTENCE, "Cannot know. Fewer than 3 relevant papers are known, too few for an estimate.")
    assert page.all("[aria-label='What it is based on']") == []
    page.wait("[aria-label='What to try next'] a")
    page.check()


def test_a_session_has_its_estimate(browser: Any, url: str, listed: list[str]) -> None:  # noqa: F811
    with Client(url) as client:
        client.open_session("review", query=QUESTION)
        for q in (QUESTION, "QCD strings"):
            client.call_tool("search_papers", {"q": q, "limit": 20}, session="review")
        client.call_tool("get_citations", {"paper_id": listed[0], "limit": 20}, session="review")
    answered = httpx.post(f"{url}/v1/sessions/review/completeness", json={"relevant": listed}).json()
    page = Page(browser, url)
    page.open("#/session?name=review", shows=".timeline")
    page.wait("summary", "completeness").click()
    page.wait("#answers").send_keys("\n".join(listed))
    page.wait("form button", "How complete is it?").click()
    least = max(one["low"] for one in answered["estimates"])
    page.wait(SENTENCE, f"At least {least} relevant" if least else "Cannot know. The searches agree")
    tried = [one["name"] for name in ("searches", "seeds", "years") for one in answered[name]]
    assert page.texts("[aria-label='What to try next'] tbody td:nth-child(2)") == tried
    page.check()
