"""Pages of ar5iv, read as PaSa's agent reads them, and PDFs, from full texts of several sources."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from lxml import html

from scholarbase.ingest.job import ingest
from scholarbase.search.library import Library
from scholarbase_fulltext.latexml import read_latexml
from tests.conftest import serving_in_thread
from tests.documents.pdfs import two_pages
from tests.documents.records import record, write
from tests.sessions.agents import wait_recorded

PAGE = (Path(__file__).parent / "ar5iv.html").read_text("utf-8")

PDF = two_pages()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server over a library with a page of arXiv, two papers of unarXive and a PDF."""
    folder = tmp_path_factory.mktemp("ar5iv")
    sources = folder / "texts"
    (sources / "2301.00001v2").mkdir(parents=True)
    (sources / "2301.00001v2" / "index.html").write_text(PAGE)
    cited = [("Beginnings", "As in {{cite:2}} and {{cite:9}}."), ("Endings", "None.")]
    write(sources / "a.jsonl.gz", [record(1, cited, cites=[2, 9]), record(2, [("Only", "Text.")])])
    (sources / "2001.00003.pdf").write_bytes(PDF)
    described = {"title": "A PDF of two pages", "authors": ["Ada Lovelace"], "abstract": "It has a picture."}
    (sources / "2001.00003.json").write_bytes(orjson.dumps(described))
    ingest([], folder / "library", documents=[sources])
    with (
        Library.open(folder / "library") as library,
        serving_in_thread(library, sessions=str(folder / "sessions")) as url,
    ):
        yield url


def cited_titles(page: str) -> dict[str, list[str]]:
    """The titles that each section cites outside of its subsections, as PaSa's agent reads a page of ar5iv: of each
    ``cite`` the first link, and of an entry the second of its three blocks."""
    assert "https://ar5iv.labs.arxiv.org/html" in page
    assert page.count("<h1") == 1
    tree = html.fromstring(page)
    [abstract] = tree.find_class("ltx_abstract")
    assert abstract.text_content().strip()
    [entries] = tree.find_class("ltx_biblist")
    titles = {}
    for entry in entries.findall("li"):
        blocks = [one.text_content().strip() for one in entry.find_class("ltx_bibblock")]
        if len(blocks) == 3:
            titles[f"#{entry.get('id')}"] = blocks[1]
    found: dict[str, list[str]] = {}
    for section in tree.iter("section"):
        heading = " ".join(section[0].text_content().split())
        for cite in section.iter("cite"):
            link = cite.find("a").get("href")
            if next(cite.iterancestors("section")) is section and link in titles:
                found.setdefault(heading, []).append(titles[link])
    return found


def test_sections_have_the_titles_of_their_references(texts: str) -> None:
    response = httpx.get(f"{texts}/ar5iv/html/2301.00001")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert cited_titles(response.text) == {
        "1 Start": ["Ideas of all kinds", "The paper of number 2"],
        "1.1 Deep": ["The paper of number 2"],
        "Appendix A Proofs": ["Ideas of all kinds"],
    }


def test_texts_of_other_sources_are_pages_too(texts: str) -> None:
    page = httpx.get(f"{texts}/ar5iv/html/2001.00001").text
    assert cited_titles(page) == {"1 Beginnings": ["The paper of number 2"]}
    assert "The paper of number 9" in page  # an entry of one block, since the library does not have the paper
    assert "picture" in httpx.get(f"{texts}/ar5iv/html/2001.00003").text


def test_a_page_read_again_is_the_same_text(texts: str) -> None:
    original, again = (
        read_latexml(page.encode()) for page in (PAGE, httpx.get(f"{texts}/ar5iv/html/2301.00001v2").text)
    )
    assert again.ids == ("arXiv:2301.00001",)
    assert again.metadata == original.metadata
    assert again.document.text == original.document.text
    assert again.document.sections == original.document.sections
    assert again.document.figures == original.document.figures
    assert [one.ids for one in again.document.bibliography] == [
        one.ids for one in original.document.bibliography
    ]


def test_pdfs_are_the_files_that_the_library_has(texts: str) -> None:
    for name in ("2001.00003", "2001.00003v1", "2001.00003v1.pdf"):
        response = httpx.get(f"{texts}/ar5iv/pdf/{name}")
        assert response.headers["content-type"] == "application/pdf"
        assert response.content == PDF


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("pdf/2001.00001", "no PDF of '2001.00001' (only unarxive)"),
        ("html/2301.00001v1", "no version 1 of the text of '2301.00001v1', only version 2"),
        ("html/2301.99999", "2301.99999"),
        ("html/nothing", "nothing"),
        ("abs/2301.00001", "Not Found"),
    ],
)
def test_what_the_library_lacks_is_404_with_a_sentence(texts: str, path: str, sentence: str) -> None:
    response = httpx.get(f"{texts}/ar5iv/{path}")
    assert response.status_code == 404
    text = html.fromstring(response.text).text_content()
    assert sentence in re.sub(r"\s+", " ", text)


def test_a_later_paper_is_unknown(texts: str) -> None:
    for name, status in (("2001.00001", 200), ("2001.00002", 404)):
        response = httpx.get(f"{texts}/ar5iv/html/{name}", headers={"X-ScholarBase-As-Of": "2020-01-02"})
        assert response.status_code == status


def test_a_session_records_the_paper_of_a_page(texts: str) -> None:
    response = httpx.get(f"{texts}/ar5iv/html/2001.00001", headers={"X-ScholarBase-Session": "pages"})
    assert response.headers["X-ScholarBase-Call"] == "1"
    wait_recorded(texts, "pages")
    call = orjson.loads(httpx.get(f"{texts}/v1/sessions/pages").text)
    assert (call["tool"], call["arguments"], call["ids"]) == (
        "read_paper",
        {"paper_id": "2001.00001"},
        ["arXiv:2001.00001"],
    )
