"""Markup in papers, queries and sessions is text in the explorer, and keys stay in its memory, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from scholarbase import Client
from scholarbase.api.access.keys import create_key
from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library
from tests import fulltexts
from tests.browsers import browser  # noqa: F401
from tests.conftest import serving_in_thread, snapshot_of

pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver.common.keys import Keys

from tests.api.browser_page import Page

pytestmark = pytest.mark.slow
NASTY = '<svg/onload="window.hurt = 1"></svg><img/src=x onerror="window.hurt = 2">'


@pytest.mark.whole
def test_markup_of_papers_queries_and_sessions_is_text(
    browser: Any,  # noqa: F811
    tmp_path: Path,
) -> None:
    rows = [
        {
            "corpusid": number,
            "title": f"{NASTY} title {number}",
            "abstract": f"{NASTY} abstract about neutrons",
            "externalids": {"ArXiv": f"2401.0000{number}", "DOI": f'10.1000/"><script>{number}'},
            "authors": [{"name": f"{NASTY} Author", "authorId": None}],
            "venue": f"{NASTY} venue",
            "year": 2020,
            "url": "javascript:window.hurt=3",
        }
        for number in (1, 2)
    ]
    body = [(f"{NASTY} section", "1", "section", f"{NASTY} paragraph"), (NASTY, "1.1", "subsection", "More.")]
    text = fulltexts.record(
        "2401.00001",
        f"{NASTY} title 1",
        NASTY,
        "Mon, 2 Jan 2023 00:00:00 GMT",
        "cs.DS",
        body,
        figures={"f": f"{NASTY} caption"},
    )
    (tmp_path / "texts.jsonl").write_text(json.dumps(text))
    ingest(
        [snapshot_of(tmp_path / "snapshot", rows, [(1, 2)])],
        tmp_path / "library",
        documents=[tmp_path / "texts.jsonl"],
    )
    settings = {"sessions": str(tmp_path / "sessions")}
    with Library.open(tmp_path / "library") as library, serving_in_thread(library, **settings) as url:
        with Client(url) as client:
            client.open_session("nasty", query=NASTY)
            client.call_tool("search_papers", {"q": NASTY + " neutrons"}, session="nasty")
        page = Page(browser, url)
        for address, shows in (
            (
                f"#/search?q={quote('neutrons ' + NASTY)}&venue={quote(NASTY)}&author={quote(NASTY)}",
                ".summary p",
            ),
            ("#/search?q=neutrons", ".result mark"),
            (f"#/compare?q={quote('neutrons ' + NASTY)}&a_engine=bm25&b_engine=fts5", ".sides .result"),
            ("#/paper?id=arXiv:2401.00001", ".fulltext"),
            (f"#/author?name={quote(NASTY + ' Author')}", "section[aria-label=Papers] .result"),
            ("#/sessions", "tbody tr"),
            ("#/session?name=nasty&call=1", "section[aria-label=Call] .result"),
            (f"#/session?name={quote(NASTY)}", ".notice.error"),
            (f"#/{quote(NASTY)}", ".notice.error"),
            ("#/library", "table"),
        ):
            page.open(address, shows=shows)
            page.driver.execute_script(
                "document.querySelectorAll('details').forEach(one => { one.open = true; })"
            )
            if "paper" in address:
                page.wait(".graph circle")
                assert page.texts("h1") == [f"{NASTY} title 1"]
                page.wait(".outline button", f"1 {NASTY} section").click()
                page.wait("article.text h4", f"1 {NASTY} section")
                page.wait("article.text p", f"{NASTY} paragraph")
                page.wait("details li", f"{NASTY} caption")
                assert all(
                    link.get_attribute("href").startswith("http") for link in page.all("main a[target]")
                )
            if address == "#/search?q=neutrons":
                assert f"{NASTY} title 1" in page.texts(".result h3")
                page.wait(".facet span:nth-child(2)", f"{NASTY} venue")
            assert page.run("window.hurt") is None
            assert page.all("main script, main img, main iframe") == []


def test_the_page_asks_for_a_key_and_keeps_it_in_memory(
    browser: Any,  # noqa: F811
    sample: Library,
    tmp_path: Path,
) -> None:
    secret, _ = create_key(tmp_path / "keys.json", "reader")
    with serving_in_thread(sample, keys=str(tmp_path / "keys.json")) as url:
        page = Page(browser, url)
        page.open(f"#/search?q={quote('two dimensional QCD')}", shows="dialog[open]")
        page.wait("#key-value").send_keys("wrong", Keys.ENTER)
        page.wait("#key-problem", "The key is unknown")
        page.wait("#key-value").send_keys(secret, Keys.ENTER)
        page.wait(".result")
        page.wait("fieldset")
        kept = page.run(
            "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])"
        )
        assert secret not in kept
        assert json.loads(kept)[:3] == [{}, {}, ""]
        assert secret not in page.run("document.documentElement.outerHTML")
        page.wait(".copy summary").click()
        page.wait(".copy button", "curl").click()
        assert "$SCHOLARBASE_API_KEY" in page.run("document.querySelector('.copy textarea').value")
        page.open(f"#/search?q={quote('two dimensional QCD')}", shows="dialog[open]")
        page.wait("dialog button", "Cancel").click()
        page.wait(".notice.error", "requires a key")
        page.driver.get_log("browser")  # which names the responses without a key
