"""Files of full texts: which they are, and which papers they belong to."""

import gzip
import lzma
import os
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from scholarbase.documents.model import BadDocument, FullText
from scholarbase.documents.readers import DocumentEntry, detect_documents, read_documents, sidecars
from scholarbase.errors import SourceError
from scholarbase.ingest.sources.files import open_lines
from tests import tables
from tests.documents.pdfs import two_pages
from tests.extensions.fulltext.holding import check
from tests.extensions.fulltext.test_jats import ARTICLE
from tests.extensions.fulltext.test_s2orc import first_form
from tests.extensions.fulltext.test_unarxive import RECORD


def entries(path: Path, after: int = 0) -> Iterator[DocumentEntry]:
    for file in detect_documents([path]):
        yield from read_documents(file, open_lines, after)


def only(path: Path) -> FullText:
    (entry,) = entries(path)
    assert isinstance(entry.document, FullText), entry.document
    check(entry.document.document)
    return entry.document


def test_a_folder_of_all_sources(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(orjson.dumps(RECORD) + b"\n"))
    (tmp_path / "b.jsonl.xz").write_bytes(lzma.compress(orjson.dumps(first_form()) + b"\n"))
    (tmp_path / "c.nxml").write_text(ARTICLE)
    (tmp_path / "d.pdf").write_bytes(two_pages())
    (tmp_path / "e.md").write_text("# One\n\nText.")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "g.txt").write_text("Text.")
    for other in (".hidden.md", "README.md", "image.png", "d.json", "LICENSE.txt"):
        (tmp_path / other).write_text("{}")
    found = detect_documents([tmp_path, tmp_path / "e.md"])
    assert [(file.name, file.source) for file in found] == [
        ("a.jsonl.gz", "unarxive"),
        ("b.jsonl.xz", "s2orc"),
        ("c.nxml", "jats"),
        ("d.pdf", "pdf"),
        ("e.md", "markdown"),
        ("f/g.txt", "text"),
    ]
    for file in found:
        assert file.size == file.path.stat().st_size
        (entry,) = read_documents(file, open_lines)
        assert isinstance(entry.document, FullText)
        assert entry.document.source == file.source


def test_lines_are_read_on_from_a_number_and_bad_ones_are_entries(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(orjson.dumps(RECORD) + b"\n{}\n\nnothing\n" + orjson.dumps(RECORD) + b"\n")
    all_of_them = list(entries(path))
    assert [(entry.number, isinstance(entry.document, BadDocument)) for entry in all_of_them] == [
        (1, False),
        (2, True),
        (4, True),
        (5, False),
    ]
    assert [entry.number for entry in entries(path, after=2)] == [4, 5]
    text = tmp_path / "a.txt"
    text.write_text("One.")
    assert list(entries(text, after=1)) == []


@pytest.mark.parametrize(
    ("name", "ids", "version"),
    tables.rows("document-names"),
)
def test_a_name_that_is_an_id_says_which_paper_it_is(
    tmp_path: Path, name: str, ids: list[str], version: int | None
) -> None:
    path = tmp_path / name
    path.write_text("Text.")
    full = only(path)
    assert (list(full.ids), full.version, full.metadata.title) == (ids, version, None)


PAGE = """<!DOCTYPE html><html><head>{}</head><body><article class="ltx_document">
<h1 class="ltx_title ltx_title_document">A title</h1><p class="ltx_p">Text.</p></article></body></html>"""


@pytest.mark.parametrize(
    ("name", "id_", "version"),
    tables.rows("page-names"),
)
def test_pages_in_the_layouts_of_arxiv_are_named_by_ids(
    tmp_path: Path, name: str, id_: str, version: int | None
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PAGE)
    full = only(tmp_path)
    assert (full.source, full.ids, full.version) == ("latexml", (f"arXiv:{id_}",), version)
    assert full.metadata.title == "A title"


def test_the_name_of_a_page_has_the_version_that_its_address_lacks(tmp_path: Path) -> None:
    link = '<link rel="canonical" href="https://ar5iv.labs.arxiv.org/html/2301.00001">'
    for name, version in (("2301.00001v4.html", 4), ("2301.00002v5.html", None)):
        path = tmp_path / name
        path.write_text(PAGE.format(link))
        full = only(path)
        assert (full.ids, full.version) == (("arXiv:2301.00001",), version)


def test_html_of_other_programs_is_no_full_text(tmp_path: Path) -> None:
    path = tmp_path / "2301.00001.html"
    path.write_text("<!DOCTYPE html><html><body><article><p>Text.</p></article></body></html>")
    with pytest.raises(SourceError, match="HTML of LaTeXML"):
        detect_documents([path])


def test_only_a_single_article_gets_the_id_of_the_file_name(tmp_path: Path) -> None:
    path = tmp_path / "2101.00001.xml"
    article = "<article><body><p>Text.</p></body></article>"
    for count in (1, 2):
        path.write_text(f"<articles>{article * count}</articles>")
        [file] = detect_documents([path])
        entries = list(read_documents(file, open_lines))
        assert [entry.number for entry in entries] == [*range(1, count + 1)]
        ids = [entry.document.ids for entry in entries if isinstance(entry.document, FullText)]
        assert ids == ([("arXiv:2101.00001",)] if count == 1 else [(), ()])
        assert list(read_documents(file, open_lines, 1)) == entries[1:]


def test_a_json_file_beside_a_pdf_says_which_paper_it_is(tmp_path: Path) -> None:
    (tmp_path / "2212.00001.pdf").write_bytes(two_pages())
    (tmp_path / "2212.00001.json").write_text(
        '{"title": "Given", "authors": ["Ada"], "arxiv": "2212.11867v3", "date": 2022}'
    )
    full = only(tmp_path / "2212.00001.pdf")
    assert full.ids == ("arXiv:2212.11867",)
    assert full.version == 3
    assert (full.metadata.title, full.metadata.authors, full.metadata.date) == ("Given", ("Ada",), "2022")
    (tmp_path / "2212.00001.json").write_text("[]")
    (entry,) = entries(tmp_path / "2212.00001.pdf")
    assert isinstance(entry.document, BadDocument)


def test_a_json_file_without_an_id_leaves_the_id_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "2212.00001v2.txt").write_text("Text.")
    (tmp_path / "2212.00001v2.json").write_text('{"title": "Given", "date": "2022"}')
    full = only(tmp_path / "2212.00001v2.txt")
    assert (full.ids, full.version, full.metadata.title) == (("arXiv:2212.00001",), 2, "Given")


def test_a_file_name_that_is_not_utf_8_is_read_under_a_name_that_is(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"notes\xff.txt")
    path.write_text("Text.")
    path.with_suffix(".json").write_text('{"doi": "10.1000/x"}')
    [file] = detect_documents([tmp_path])
    assert file.name == "notes\\udcff.txt"
    assert [name for _, name, _ in sidecars([file])] == ["notes\\udcff.txt: notes\\udcff.json"]
    assert only(path).ids == ("DOI:10.1000/x",)


def test_files_that_are_too_long_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("scholarbase_fulltext.sources", fromlist=["x"])._LIMITS, "text", 10)
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"x" * 11))
    (entry,) = entries(path)
    assert isinstance(entry.document, BadDocument)
    assert entry.document.reason == "too-long"


@pytest.mark.parametrize("name", ["a.html.gz", "a.pdf.gz", "a.md.gz", "a.xml.gz", "a.nxml.gz"])
@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_compressed_document_that_breaks_off_is_an_entry(name: str, size: int, tmp_path: Path) -> None:
    page = b'<html><article class="ltx_document">' + os.urandom(size).hex().encode()
    (tmp_path / name).write_bytes(gzip.compress(page)[:-20])
    (entry,) = entries(tmp_path)
    assert isinstance(entry.document, BadDocument)
    assert entry.document.reason == "damaged"


def test_paths_without_documents_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No file or folder at"):
        detect_documents([tmp_path / "none"])
    with pytest.raises(SourceError, match="No full text in"):
        detect_documents([tmp_path])
    other = tmp_path / "a.csv"
    other.write_text("title\nA\n")
    with pytest.raises(SourceError, match=r"a\.csv is not a full text: documents are JSON lines of unarXive"):
        detect_documents([other])
    damaged = tmp_path / "b.jsonl.gz"
    damaged.write_bytes(gzip.compress(orjson.dumps(RECORD))[:-20])
    with pytest.raises(SourceError, match="incomplete or damaged"):
        detect_documents([damaged])


def test_the_shared_files_are_detected(shared_data: Path) -> None:
    found = detect_documents([shared_data / "unarxive-sample", shared_data / "s2ag-samples"])
    assert [(file.name, file.source) for file in found] == [
        ("arXiv_src_2212_086.jsonl.gz", "unarxive"),
        ("s2orc/s2orc-sample.jsonl.gz", "s2orc"),
    ]
