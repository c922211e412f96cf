"""The explorer in a real browser: every view, by mouse and keyboard, with nothing loaded from elsewhere."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

import httpx
import pytest

from scholarbase import Client, write_papers
from scholarbase.api.holding import Libraries
from scholarbase.ingest.job import ingest
from scholarbase.models.papers import Paper
from scholarbase.search.library import Library
from tests import fulltexts
from tests.api.test_exports import with_formulas
from tests.browsers import browser  # noqa: F401
from tests.conftest import run_cli, serving_in_thread
from tests.fulltexts import MERGING

pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.ui import WebDriverWait

from tests.api.browser_page import SECONDS, Page

pytestmark = pytest.mark.slow
STRINGS = "arXiv:hep-th/9301068"
QUESTION = "two dimensional QCD"
SIZES = {"phone": (390, 844), "tablet": (800, 1000), "desktop": (1280, 900)}
SIMILAR = "section[aria-label='Similar papers'] .result"


@pytest.fixture(scope="module")
def library(default_library: Path) -> Iterator[Library]:
    with Library.open(default_library) as opened:
        yield opened


@pytest.fixture(scope="module")
def small(small_snapshot: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A library of the sample's first 150 papers, as an older snapshot that the server holds."""
    path = tmp_path_factory.mktemp("libraries") / "small"
    ingest([small_snapshot], path)
    with Library.open(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(
    library: Library, small: Library, full_texts: Library, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    libraries = Libraries(library)
    libraries.add(small)
    libraries.add(full_texts)
    with serving_in_thread(libraries, sessions=str(tmp_path_factory.mktemp("sessions"))) as address:
        with Client(address, headers={"X-ScholarBase-Snapshot": small.snapshot_id}) as client:
            client.call_tool("search_papers", {"q": "theory", "limit": 5}, session="moved")
        with Client(address) as client:
            client.call_tool("search_papers", {"q": "theory", "limit": 5}, session="moved")
            client.open_session(
                "agent-1", query="What is QCD in two dimensions?", limits={"calls": 4, "tokens": 90_000}
            )
            client.call_tool("search_papers", {"q": QUESTION, "limit": 5}, session="agent-1")
            client.call_tool("get_citations", {"paper_id": STRINGS, "limit": 3}, session="agent-1")
            client.call_tool("search_papers", {"q": QUESTION, "limit": 5}, session="agent-1")
            httpx.post(
                f"{address}/v1/tools/get_papers",
                json={"ids": ["2001.00001"], "missing": "error"},
                headers={"X-ScholarBase-Session": "agent-1"},
            )
        yield address


@pytest.fixture
def page(browser: Any, url: str) -> Page:  # noqa: F811
    browser.set_window_size(*SIZES["desktop"])
    return Page(browser, url)


VIEWS = {
    "start": ("", "fieldset"),
    "search": (f"#/search?q={quote(QUESTION)}&sort=-date&explain=1", "fieldset"),
    "words": (f"#/search?q={quote(QUESTION)}&mode=sparse&engine=fts5&category=hep-th&from=1993", "fieldset"),
    "nothing": ("#/search?q=zzyzxq&mode=sparse", "fieldset, .dim"),
    "compare": (
        f"#/compare?q={quote(QUESTION)}&a_mode=sparse&b_mode=sparse&b_snapshot=SMALL",
        ".sides .result",
    ),
    "paper": (f"#/paper?id={STRINGS}", SIMILAR),
    "author": ("#/author?name=Washington+Taylor", "section[aria-label=Papers] .result"),
    "text": (f"#/paper?id={MERGING}&snapshot=TEXTS", ".fulltext"),
    "sessions": ("#/sessions", "tbody tr"),
    "session": ("#/session?name=agent-1&call=3", "section[aria-label=Call] .result"),
    "references": ("#/references", ".drop"),
    "library": ("#/library", ".categories"),
}
REACHED = """
const names = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
return [...document.querySelectorAll(names)].filter(e => e.checkVisibility({visibilityProperty: true})
  && !e.disabled).map(e => { e.dataset.number ??= String(Math.random()); return e.dataset.number; })
"""
WATCH = """
window.reached = [];
document.addEventListener("focusin", ({ target }) => {
  if (target.matches(":focus-visible")) window.reached.push(target.dataset.number);
});
document.activeElement.blur();
window.getSelection().removeAllRanges();
"""


def open_all(page: Page) -> None:
    """Open what is folded, and wait for what is loaded then."""
    page.driver.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    if page.all("textarea[name=references]"):
        page.wait("button", "Show me an example").click()
        page.wait(".reference table")
    if page.all("select[name=hops]"):
        page.wait(".around .dim")
    if page.all(".fulltext"):
        page.wait(".outline button").click()
        page.wait("article.text p")
        page.driver.execute_script(
            "document.querySelectorAll('details').forEach(one => { one.open = true; })"
        )
        page.wait(".page img")


def check_view(page: Page, address: str, shows: str) -> None:
    """No error and no barrier in three sizes and in the dark, and everything can be reached with Tab."""
    page.driver.set_window_size(*SIZES["phone"])
    page.open(address, shows=shows)
    open_all(page)
    for name, size in SIZES.items():  # the page adapts without being loaded again
        page.driver.set_window_size(*size)
        page.check_loaded()
        if name != "tablet":  # which has the layout of a desktop, narrower
            page.check_barriers()
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        assert page.run("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        page.check_loaded()
        page.check_barriers("color-contrast", "link-in-text-block")  # the rules of colours
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    wanted = set(page.driver.execute_script(REACHED))
    page.driver.execute_script(WATCH)
    for _ in range(3):  # a busy browser may lose a key
        ActionChains(page.driver, duration=0).send_keys(Keys.TAB * (len(wanted) + 5)).perform()
        if wanted <= (reached := set(page.run("window.reached"))):
            break
    assert wanted <= reached


def drawn(paper: Paper) -> str:
    """The text of a title whose formulas are drawn: indices have no marks."""
    return without_marks(paper.title or "")


def shown_titles(page: Page, css: str) -> list[str]:
    """The titles on the page, as :func:`drawn` has them."""
    return [without_marks(text) for text in page.texts(css)]


def without_marks(text: str) -> str:
    """The text without the marks of indices, and with plain letters."""
    return normalize("NFKC", text).replace("_", "").replace("^", "").replace("\u2212", "-")


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_in_three_sizes_two_colours_and_by_keyboard(
    page: Page, small: Library, full_texts: Library, name: str
) -> None:
    address, shows = VIEWS[name]
    address = address.replace("SMALL", small.snapshot_id).replace("TEXTS", full_texts.snapshot_id)
    check_view(page, address, shows)


# -- search --------------------------------------------------------------------------------------------------


def test_a_search_shows_what_the_api_returns(page: Page, library: Library) -> None:
    page.open(shows="fieldset")
    box = page.wait("input[name=q]")
    assert page.run("document.activeElement === arguments[0]", box)
    box.send_keys(QUESTION, Keys.ENTER)
    page.wait(".result mark")  # the newest papers, which the page shows first, have none
    expected = library.search(QUESTION, explain=True)
    assert shown_titles(page, ".result h3") == [drawn(hit.paper) for hit in expected.results]
    least = "at least " if expected.total_relation == "gte" else ""
    assert page.texts(".summary p")[0] == f"{least}{expected.total:,} papers"
    # How they were found is behind a switch.
    assert page.all(".legs") == []
    assert not page.wait("select[name=mode]").is_displayed()
    page.wait(".switch", "How results were found").click()
    page.wait(".legs")
    assert page.wait("select[name=mode]").is_displayed()
    assert page.texts(".summary p")[0] == f"{least}{expected.total:,} papers (hybrid, feedback)"
    first = expected.results[0].explain or ()
    named = {"feedback": "words (feedback)", "dense": "meaning (dense)", "graph": "citations (graph)"}
    assert page.texts(".result:first-child .legs .leg") == [named[leg.leg] for leg in first]
    assert f"rank {first[-1].rank}, score " in page.texts(".result:first-child .legs li")[-1]
    marked = {text.lower() for text in page.texts(".result:first-child h3 mark")}
    assert {"two", "dimensional", "qcd"} <= marked
    page.wait("a", "Next").click()
    page.wait("ol[start='11'] .result")
    assert page.texts(".result h3") == [
        hit.paper.title for hit in library.search(QUESTION, offset=10).results
    ]


def test_filters_have_counts_and_change_the_results(page: Page, library: Library) -> None:
    page.open(f"#/search?q={quote(QUESTION)}&mode=sparse", shows="fieldset")
    found = library.facets(QUESTION, mode="sparse")
    assert page.texts(".facet .count")[0] == f"{found.category.values[0].papers:,}"
    assert page.texts(".facet span:nth-child(2)")[0] == found.category.values[0].value
    page.wait("input[value='hep-lat']").click()
    page.wait(".facet input:checked")
    expected = library.search(QUESTION, mode="sparse", category=["hep-lat"])
    page.wait(".summary p", f"{expected.total:,} papers")
    assert shown_titles(page, ".result h3") == [drawn(hit.paper) for hit in expected.results]
    WebDriverWait(page.driver, SECONDS).until(
        lambda _: page.run("document.activeElement.dataset.key") == "category:hep-lat"
    )
    page.driver.execute_script("document.querySelector('.years rect').dispatchEvent(new Event('click'))")
    year = library.facets(QUESTION, mode="sparse", category=["hep-lat"]).year.values[0].value
    one_year = library.search(
        QUESTION, mode="sparse", category=["hep-lat"], from_=str(year), to=str(year), limit=10
    )
    page.wait(".summary p", f"{one_year.total:,} paper")
    WebDriverWait(page.driver, SECONDS).until(lambda _: f"from={year}&to={year}" in page.run("location.hash"))
    assert shown_titles(page, ".result h3") == [drawn(hit.paper) for hit in one_year.results]
    # The address has it all: another visitor sees the same.
    address = page.run("location.hash")
    before = page.texts(".result h3")
    page.open(address, shows=".summary p")
    assert page.texts(".result h3") == before
    page.check()


def test_what_a_question_excludes_is_removed_by_its_chip(page: Page, library: Library) -> None:
    page.open(f"#/search?q={quote('black holes but not strings, without entropy')}", shows=".chip")
    assert page.texts(".chip") == ["not strings \u00d7", "last: entropy \u00d7"]
    page.wait(".chip", "not strings").click()
    expected = library.search("black holes", exclude=["entropy"])
    WebDriverWait(page.driver, SECONDS).until(lambda _: page.texts(".chip") == ["not about entropy \u00d7"])
    assert shown_titles(page, ".result h3") == [drawn(hit.paper) for hit in expected.results]
    page.open(f"#/search?q={quote('black holes but not strings')}", shows=".chip")
    page.wait(".summary a", "Search for all words").click()
    WebDriverWait(page.driver, SECONDS).until(lambda _: "negation=off" in page.run("location.hash"))
    page.check()


def test_the_first_results_are_sorted_by_date_and_citations(page: Page, library: Library) -> None:
    page.open(f"#/search?q={quote(QUESTION)}&mode=sparse", shows=".result")
    first = library.search(QUESTION, mode="sparse", limit=100).results
    papers = [hit.paper for hit in first]
    newest = sorted(papers, key=lambda one: one.publication_date or str(one.year), reverse=True)
    most_cited = sorted(papers, key=lambda one: one.citation_count or 0, reverse=True)
    for value, expected in (("-date", newest), ("-citation_count", most_cited)):
        Select(page.wait("select[name=sort]")).select_by_value(value)
        page.wait(".result:first-child h3", drawn(expected[0]))
        assert shown_titles(page, ".result h3") == [drawn(one) for one in expected[:10]]
        page.wait(".summary p", "of which the first 100 are sorted")
    page.wait("nav[aria-label=Pages] a", "Next").click()
    page.wait("ol[start='11'] .result")
    assert shown_titles(page, ".result h3") == [drawn(one) for one in most_cited[10:20]]
    page.wait(".copy summary").click()
    page.wait(".copy button", "BibTeX").click()
    page.wait(".copy .panel:not(.hidden)")
    entries = write_papers(with_formulas(library, most_cited[10:20]))
    WebDriverWait(page.driver, SECONDS).until(
        lambda _: page.run("document.querySelector('.copy textarea').value") == entries
    )
    page.wait(".copy p", "Python, Command line, MCP call: the first 100 results, best first")
    page.wait(".copy button", "MCP call").click()
    body = json.loads(page.run("document.querySelector('.copy textarea').value"))["params"]["arguments"]
    answered = httpx.post(f"{page.url}/v1/tools/search_papers", json=body).json()["results"]
    assert [hit["paper"]["id"] for hit in answered] == [one.id for one in papers]


def test_copies_for_other_programs_return_the_same_results(page: Page, url: str, library: Library) -> None:
    q = 'title:QCD "it\'s" $HOME `x` \\ OR two'
    page.open(
        f"#/search?q={quote(q)}&mode=sparse&engine=fts5&category=hep-th&from=1993&min_citations=1",
        shows=".copy",
    )
    page.wait(".copy summary").click()
    expected = library.search(
        q, mode="sparse", engine="fts5", category=["hep-th"], from_="1993", min_citations=1
    )
    assert expected.results
    ids = [hit.paper.id for hit in expected.results]

    def copied(name: str) -> str:
        page.wait(".copy button", name).click()
        return str(page.run("document.querySelector('.copy textarea').value"))

    words = shlex.split(copied("curl").replace("\\\n", " "))
    data = [words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--data-urlencode"]
    found = httpx.get(words[2], params=[(name, value) for name, value in data]).json()
    assert [hit["paper"]["id"] for hit in found["results"]] == ids
    script = copied("Python")
    printed: list[Any] = []
    exec(compile(ast.parse(script), "copied", "exec"), {"print": lambda *values: printed.append(values[1])})
    assert printed == ids
    command = shlex.split(copied("Command line"))
    done = run_cli(*command[1:-2], "--json", *command[-2:])
    assert [hit["paper"]["id"] for hit in json.loads(done.stdout)["results"]] == ids
    call = json.loads(copied("MCP call"))["params"]
    body = call["arguments"]
    answered = httpx.post(f"{url}/v1/tools/{call['name']}", json=body).json()
    assert [hit["paper"]["id"] for hit in answered["results"]] == ids
    copied("BibTeX")
    WebDriverWait(page.driver, SECONDS).until(
        lambda _: (
            page.run("document.querySelector('.copy textarea').value")
            == write_papers(with_formulas(library, [hit.paper for hit in expected.results]))
        )
    )


def test_all_papers_are_browsed_without_a_question(page: Page, library: Library) -> None:
    page.open(shows=".examples .chip")
    newest = library.search("*").results
    assert shown_titles(page, ".result h3") == [drawn(hit.paper) for hit in newest]
    assert page.texts(".head > p") == [f"{library.facets().total:,} papers"]
    titles = [hit.paper.title for hit in library.search("*", prefer="cited", limit=20).results]
    assert set(page.texts(".examples a:not(.chip)")) < set(titles)
    page.wait(".orders a", "Most cited").click()
    most_cited = library.search("*", prefer="cited").results
    page.wait(".result:first-child h3", drawn(most_cited[0].paper))
    assert shown_titles(page, ".result h3") == [drawn(hit.paper) for hit in most_cited]
    value = library.facets().category.values[0].value
    page.wait(".examples .chip", value).click()
    page.wait(".chosen .chip", f"{value} \u00d7")
    of_category = library.search("*", category=[value]).results
    page.wait(".result:first-child h3", drawn(of_category[0].paper))
    assert shown_titles(page, ".result h3") == [drawn(hit.paper) for hit in of_category]
    page.wait(".chosen .chip").click()
    page.wait(".examples .chip")
    # An id alone is the address of a paper.
    page.open("#/hep-th/9301068", shows="h1")
    page.wait("h1", "Two Dimensional QCD is a String Theory")


# -- other views ---------------------------------------------------------------------------------------------


def test_two_snapshots_side_by_side_show_what_moved_and_what_is_new(
    page: Page, library: Library, small: Library
) -> None:
    page.open("#/library", shows=".categories")
    page.wait(f"a[href*='b_snapshot={small.snapshot_id}']").click()
    page.wait("select[name=b_snapshot]")
    assert page.run("document.querySelector('select[name=b_snapshot]').value") == small.snapshot_id
    page.wait("input[name=q]").send_keys("string theory")
    for side in "ab":
        Select(page.wait(f"select[name={side}_mode]")).select_by_value("sparse")
    page.wait("button.primary").click()
    page.wait("section .result")
    left, right = (one.search("string theory", mode="sparse", limit=20).results for one in (library, small))
    assert page.texts("section[aria-label=Right] h3") == [hit.paper.title for hit in right]
    held = {one.id for one in small.papers([hit.paper.id for hit in left]) if one is not None}
    ranks = {hit.paper.id: place for place, hit in enumerate(right, 1)}
    tags = page.texts("section[aria-label=Left] .tag")
    for place, (hit, tag) in enumerate(zip(left, tags, strict=True), 1):
        if hit.paper.id not in held:
            assert tag == "not in the right snapshot"
        elif hit.paper.id not in ranks:
            assert tag == "not in the right list"
        else:
            other = ranks[hit.paper.id]
            assert tag == "same rank" if other == place else tag.endswith(f"rank {other} on the right")
    assert "not in the right snapshot" in tags
    # A paper of the older snapshot opens there, and so does all that it links to.
    page.wait("section[aria-label=Right] h3 a").click()
    page.wait("h1", right[0].paper.title or "")
    page.wait("#pinned code", small.snapshot_id[:8])
    assert f"snapshot={small.snapshot_id}" in page.run("location.hash")
    cited = small.citations(right[0].paper.id, limit=10)
    page.wait("section[aria-label='Cited by'] h2", f"Cited by {cited.total:,}")
    page.wait("#pinned a").click()
    WebDriverWait(page.driver, SECONDS).until(lambda _: page.texts("#pinned") == [""])
    cited = library.citations(right[0].paper.id, limit=10)
    page.wait("section[aria-label='Cited by'] h2", f"Cited by {cited.total:,}")
    page.check()


def test_a_full_text_is_read_by_sections_searched_and_shown_as_pages(page: Page, full_texts: Library) -> None:
    page.open(f"#/paper?id={MERGING}&snapshot={full_texts.snapshot_id}", shows=".fulltext")
    page.wait("summary", "Full text").click()
    page.wait(".outline button")
    outline = full_texts.text(MERGING)
    assert outline.sections is not None
    assert page.texts(".outline button") == ["Abstract", "1 Introduction", "2 Method", "Figures and tables"]
    assert page.texts(".outline .dim") == [
        f" {one.tokens} token{'s' if one.tokens != 1 else ''}" for one in outline.sections
    ]
    page.wait(".outline button", "2 Method").click()
    page.wait("article.text h4", "2 Method")
    assert page.texts("article.text p") == ["Take the smaller head of both lists, again and again."]
    page.wait("button", "Read from the start").click()
    page.wait("article.text h4", "Abstract")
    shown = page.texts("article.text h4, article.text p")
    assert "\n\n".join(shown) == fulltexts.MERGING_TEXT
    page.wait("input[name=find]").send_keys("unlike them", Keys.ENTER)
    page.wait(".fulltext ol li")
    assert page.texts(".fulltext mark") == ["Unlike them"]
    page.wait(".fulltext li button", "Read").click()
    page.wait("article.text p", "Unlike them [1], we keep a zebra.")
    page.wait("summary", "Images of its pages").click()
    page.wait(".page img[alt='Page 1 of Merging sorted lists']")
    page.wait("button", "Next page").click()
    page.wait(".page img[alt='Page 2 of Merging sorted lists']")
    size = page.run(
        "[document.querySelector('.page img').naturalWidth, document.querySelector('.page img').naturalHeight]"
    )
    assert size[0] / size[1] == pytest.approx(400 / 600, rel=0.01)
    assert page.run(
        "[...document.querySelectorAll('.fulltext button')].find(e => e.textContent === 'Next page').disabled"
    )
    page.check()
    page.open(f"#/paper?id={fulltexts.ABSTRACT_ONLY}&snapshot={full_texts.snapshot_id}", shows=".fulltext")
    page.wait("summary", "Full text").click()
    page.wait(".fulltext .notice", "full text")
    page.driver.get_log("browser")  # which names the response 404


def test_references_are_checked_and_saved_corrected(page: Page, library: Library, tmp_path: Path) -> None:
    paper = library.paper(STRINGS)
    bibliography = """% My references
@article{gross93, author = {D. J. Gross and W. Taylor},
  title = "Two {D}imensional QCD is a Strng Theory", journal = {Nucl. Phys. B}, year = 1992}

@misc{none, title = {Nothing like this was ever written by anyone}, year = 2001}
"""
    page.open("#/references", shows=".drop")
    page.wait("textarea").send_keys("arXiv:hep-th/9301068")
    page.wait("button", "Check").click()
    page.wait(".reference h3 a", paper.title or "")
    (tmp_path / "mine.bib").write_text(bibliography)
    page.wait("input[type=file]").send_keys(str(tmp_path / "mine.bib"))
    page.wait(".reference", "gross93")
    checked = library.check_references(bibliography).results
    assert page.texts(".verdict") == ["Differs", "Not in this library"]
    differences = [(one.field, one.reference, one.library) for one in checked[0].differences]
    cells = page.texts(".reference th[scope=row], .reference tbody td:not(:last-child)")
    assert cells == [cell for one in differences for cell in one]
    marked = "document.querySelectorAll('.reference input')"
    assert page.run(f"[...{marked}].map(e => [e.ariaLabel.split(' ')[3], e.checked])") == [
        ["title", True],
        ["year", True],
    ]
    page.wait(".chips button", "Not in this library 1").click()
    assert [row.is_displayed() for row in page.all(".reference")] == [False, True]
    folder = str(tmp_path)
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
    page.wait("button", "Download the corrected .bib").click()
    saved = tmp_path / "corrected.bib"
    WebDriverWait(page.driver, SECONDS).until(lambda _: saved.exists() and saved.stat().st_size)
    title = "{Two {D}imensional {QCD} is a String Theory}"
    expected = bibliography.replace('"Two {D}imensional QCD is a Strng Theory"', title)
    expected = expected.replace("year = 1992", f"year = {{{paper.year}}}")
    remark = f"% not in this snapshot: {checked[1].reason}\n@misc"
    assert saved.read_text() == expected.replace("@misc", remark)
    # The library now has no other difference than what was not taken.
    again = library.check_references(saved.read_text()).results
    assert {one.field for one in again[0].differences} == {one[0] for one in differences} - {"title", "year"}
    # The check remains while its papers are looked at.
    page.wait(".chips button", "All").click()
    page.wait(".reference h3 a").click()
    page.wait("h1", paper.title or "")
    page.driver.back()
    page.wait(".reference", "gross93")
    page.check()


def test_a_paper_has_its_citations_paged_and_sorted_and_its_graph(page: Page, library: Library) -> None:
    page.open(f"#/paper?id={STRINGS}", shows="section[aria-label='Similar papers'] .result")
    assert page.texts("h1") == ["Two Dimensional QCD is a String Theory"]
    cited = library.citations(STRINGS, limit=10)
    page.wait("section[aria-label='Cited by'] .result")
    assert shown_titles(page, "section[aria-label='Cited by'] h3") == [
        drawn(one.paper) for one in cited.results
    ]
    assert page.texts("section[aria-label='Cited by'] h2") == [f"Cited by {cited.total:,}"]
    Select(page.wait("section[aria-label='Cited by'] select")).select_by_value("date")
    oldest = library.citations(STRINGS, limit=10, sort="date").results
    page.wait("section[aria-label='Cited by'] .result:first-child h3", drawn(oldest[0].paper))
    page.wait("section[aria-label='Cited by'] button", "Next").click()
    page.wait("section[aria-label='Cited by'] ol[start='11']")
    entry = write_papers(with_formulas(library, [library.paper(STRINGS)]))
    WebDriverWait(page.driver, SECONDS).until(
        lambda _: entry == page.run("document.querySelector('textarea').value")
    )
    page.wait("summary", "Surroundings").click()
    page.wait(".graph circle")
    near = {one.paper.id for one in library.citations(STRINGS, limit=14).results}
    near |= {one.paper.id for one in library.references(STRINGS, limit=14).results}
    assert len(page.all(".graph circle")) == 1 + len(near)
    both = near | {STRINGS}
    edges = sum(
        other.paper.id in both
        for one in both
        for other in library.references(one, limit=200, fields=["id"]).results
    )
    assert len(page.all(".graph line")) == edges > len(near) - 1
    Select(page.wait("select[name=hops]")).select_by_value("2")
    page.wait(".graph circle.hop2")
    assert 1 + len(near) < len(page.all(".graph circle")) <= 1 + 28 + 20
    page.check()


def test_a_session_is_a_timeline_with_budgets_and_recall(page: Page, url: str, tmp_path: Path) -> None:
    page.open("#/sessions", shows="tbody tr")
    page.wait("td a", "agent-1").click()
    page.wait(".timeline")
    with Client(url) as client:
        calls, report = client.trajectory("agent-1"), client.session_report("agent-1")
    rows = page.all(".timeline tbody tr")
    assert len(rows) == len(calls) == 4
    cells = [[cell.text for cell in row.find_elements(By.TAG_NAME, "td")] for row in rows]
    assert [one[2] for one in cells] == [call["tool"] for call in calls]
    assert [int(one[5]) for one in cells][2] == 0  # the same search again finds nothing new
    assert int(cells[-1][6]) == report["candidates"]
    assert "2001.00001" in cells[-1][3]
    assert f"{report['calls']} of 4" in " ".join(page.texts("table td"))
    page.wait("summary", "Recall").click()
    page.wait("#answers").send_keys(f"{STRINGS}\n{calls[0]['ids'][1]}\narXiv:2001.00001")
    page.wait("form button", "Show the recall").click()
    judged = httpx.post(
        f"{url}/v1/sessions/agent-1/report",
        json={"answers": [STRINGS, calls[0]["ids"][1], "arXiv:2001.00001"]},
    ).json()
    page.wait(
        "form [role=status]", f"Recall {judged['recall']:.3f} of 3 answers, of which the library lacks 1."
    )
    folder = str(tmp_path)
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder})
    page.wait("button", "Save the trajectory").click()
    saved = tmp_path / "agent-1.jsonl"
    WebDriverWait(page.driver, SECONDS).until(lambda _: saved.exists() and saved.stat().st_size)
    assert [json.loads(line) for line in saved.read_text().splitlines()] == calls
    page.check()


def test_a_session_is_stepped_through_and_replayed(page: Page, url: str, small: Library) -> None:
    page.open("#/session?name=agent-1", shows=".timeline")
    with Client(url) as client:
        calls = client.trajectory("agent-1")
    page.wait("a", "Step through the calls").click()
    page.wait("section[aria-label=Call] h3", "Call 1 of 4: search_papers")
    page.wait("section[aria-label=Call] .result")
    assert page.texts("section[aria-label=Call] .tag") == ["new"] * 5
    page.wait("a", "Next call").click()
    page.wait("section[aria-label=Call] h3", "Call 2 of 4: get_citations")
    page.wait("a", "Next call").click()
    page.wait("section[aria-label=Call] h3", "Call 3 of 4: search_papers")
    assert page.texts("section[aria-label=Call] .tag") == ["seen in call 1"] * 5
    with Client(url) as client:
        titles = [paper.title for paper in client.papers(calls[2]["ids"]) if paper is not None]
    assert page.texts("section[aria-label=Call] .result > a") == titles
    assert page.run("location.hash").endswith("call=3")
    page.wait("button", "Run the calls again").click()
    page.wait("[role=status] p", "3 calls of 4 ran again: the same papers and scores.")
    page.check()
    # The first call was made on another snapshot than the last one, where all of them run again.
    page.open("#/session?name=moved", shows=".timeline")
    page.wait("button", "Run the calls again").click()
    page.wait("[role=status] li")
    with Client(url) as client:
        found = client.replay_session("moved")
    assert page.texts("[role=status] li") == [one["message"] for one in found["differences"]] != []
    page.wait("[role=status] .notice", f"Recorded on snapshot {small.snapshot_id[:8]}")
    assert page.wait(".timeline a", "theory").get_attribute("href").endswith(f"snapshot={small.snapshot_id}")
