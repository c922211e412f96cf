"""The interactive page in a browser: the first click of a newcomer."""

from __future__ import annotations

from typing import Any

import pytest

from scholarbase.search.library import Library
from tests.conftest import serving_in_thread
from tests.evaluation.test_report_in_browser import browser  # noqa: F401

pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 120
OF_TEXTS = ("text", "find", "passages", "citation_contexts", "page_image", "search_passages")


@pytest.mark.slow
def test_every_form_answers_200_without_typing(browser: Any, sample: Library, tmp_path: Any) -> None:  # noqa: F811
    """The page left required parameters empty, since it does not read the examples of a schema."""
    with serving_in_thread(sample, sessions=str(tmp_path)) as url:
        browser.get(f"{url}/docs")
        wait = WebDriverWait(browser, SECONDS)
        wait.until(lambda page: page.find_elements(By.CSS_SELECTOR, ".opblock"))
        forms = browser.find_elements(By.CSS_SELECTOR, ".opblock.opblock-get, .opblock.opblock-post")
        answered = []
        for form in forms:
            name = form.get_attribute("id").rpartition("-")[2]
            if "session" in name or name in ("trajectory", "judged_report", "record_answer", "reload"):
                continue  # a session's name cannot be known, and a reload needs an admin key
            if name in OF_TEXTS or name.startswith("sql"):
                continue  # the sample has no full texts, and SQL is off
            click(browser, form.find_element(By.CSS_SELECTOR, ".opblock-summary-control"))
            for button in (".try-out__btn", ".execute"):
                click(browser, wait.until(lambda _, f=form, b=button: f.find_element(By.CSS_SELECTOR, b)))
            status = wait.until(
                lambda _, f=form: f.find_element(
                    By.CSS_SELECTOR, ".live-responses-table tbody .response-col_status"
                )
            )
            assert status.text.split()[0] == "200", name
            answered.append(name)
            click(browser, form.find_element(By.CSS_SELECTOR, ".opblock-summary-control"))
    assert {"search", "match_title", "paper", "citations", "references", "similar", "expand"} <= set(answered)


def click(page: Any, element: Any) -> None:
    page.execute_script("arguments[0].click()", element)
