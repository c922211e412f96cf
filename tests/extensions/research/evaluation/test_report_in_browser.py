"""Reports in a real browser: no errors, visible plots, queries opened by mouse and keyboard, and printing."""

from __future__ import annotations

from typing import Any

import pytest

from scholarbase.models.calls import Call
from scholarbase_research.evaluation.report import write_report
from tests.browsers import browser  # noqa: F401
from tests.extensions.research.evaluation.made import a_query, a_run
from tests.extensions.research.evaluation.test_report import FIRST, NASTY, QUERIES, SECOND

pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of a search and of an agent, with a query that is full of markup."""
    queries = [*QUERIES, a_query("q5", ["a"], text=NASTY, intent="scope")]
    calls = (Call("q1", 1, "search_papers", "search", {}, ("a", "x", "b"), 1),)
    runs = [
        a_run("first", queries, FIRST),
        a_run("second", queries, SECOND | {"q5": ["x", "a"]}, kind="trajectory", calls=calls, search=None),
    ]
    return write_report(runs, tmp_path_factory.mktemp("reports") / "report").as_uri()


@pytest.fixture
def page(browser: Any, address: str) -> Any:  # noqa: F811
    browser.get_log("browser")
    browser.get(address)
    return browser


def shown_queries(page: Any) -> list[str]:
    return [button.text for button in page.find_elements(By.CSS_SELECTOR, "#list tr.query button")]


def test_the_page_opens_without_errors_and_requests_nothing_else(page: Any, address: str) -> None:
    assert page.get_log("browser") == []
    requested = page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in requested if not name.startswith("data:")] == []
    assert page.execute_script("return window.hurt") is None


def test_a_query_is_found_and_opened_by_mouse(page: Any) -> None:
    assert len(shown_queries(page)) == 5
    page.find_element(By.ID, "filter").send_keys("q3")
    assert shown_queries(page) == ["question q3"]
    assert page.find_element(By.ID, "shown").text == "1 of 5"
    page.find_element(By.CSS_SELECTOR, "#list tr.query button").click()
    detail = page.find_element(By.CSS_SELECTOR, "#list tr.detail")
    answers = [row.text for row in detail.find_elements(By.CSS_SELECTOR, ".inner tbody tr")]
    assert answers[0] == "Title of d d, 2020 2 1"
    assert answers[3].endswith("not found not found")
    hits = [item.text.split(" d, ")[0] for item in detail.find_elements(By.CSS_SELECTOR, "li.hit")]
    assert hits[0] == "Title of d"
    assert len(hits) == 5


def test_a_query_is_opened_and_closed_by_keyboard(page: Any) -> None:
    page.find_element(By.ID, "filter").send_keys("q2")
    button = page.find_element(By.CSS_SELECTOR, "#list tr.query button")
    button.send_keys(Keys.ENTER)
    assert "not in the library" in page.find_element(By.CSS_SELECTOR, "#list tr.detail").text
    assert button.get_attribute("aria-expanded") == "true"
    button.send_keys(Keys.SPACE)
    assert page.find_elements(By.CSS_SELECTOR, "#list tr.detail") == []


def test_the_list_can_be_sorted_and_filtered(page: Any) -> None:
    head = page.find_element(By.CSS_SELECTOR, "#list th:last-child button")
    head.click()
    assert head.find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    assert shown_queries(page)[0] == "question q4"
    head.click()
    assert shown_queries(page)[-1] in ("question q4", NASTY)
    kind = Select(page.find_element(By.ID, "kind"))
    kind.select_by_visible_text("second worse than first")
    assert shown_queries(page) == ["question q1"]
    kind.select_by_visible_text("an answer not in the library")
    assert shown_queries(page) == ["question q2"]


def test_markup_in_a_query_is_shown_as_text(page: Any) -> None:
    page.find_element(By.ID, "filter").send_keys("onerror")
    assert shown_queries(page) == [NASTY]
    page.find_element(By.CSS_SELECTOR, "#list tr.query button").click()
    assert page.execute_script("return window.hurt") is None
    assert page.get_log("browser") == []
