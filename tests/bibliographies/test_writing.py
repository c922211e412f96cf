"""Papers written as bibliographies, read again by our readers and by the packages that others use."""

import csv
import io
import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import bibtexparser
import pytest
import rispy
from bibtexparser.middlewares import LatexDecodingMiddleware
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from scholarbase import write_papers
from scholarbase.bibliographies.bibtex import read_bibtex
from scholarbase.bibliographies.csl import read_csl
from scholarbase.bibliographies.latex import escaped
from scholarbase.bibliographies.names import NameParts, display_name, name_parts
from scholarbase.bibliographies.references import PAPERS, Reference
from scholarbase.bibliographies.ris import read_ris
from scholarbase.bibliographies.writing import citation_keys
from scholarbase.errors import InvalidRequest
from scholarbase.ingest.job import ingest
from scholarbase.ingest.sources.columns import FIELDS, recognise
from scholarbase.markup import plain
from scholarbase.models.papers import AsWritten, Author, Journal, Paper
from scholarbase.models.status import Notice
from scholarbase.search.library import Library
from tests.tables import cases

GROSS: Final = Paper(
    "arXiv:hep-th/9301068",
    external_ids={"arXiv": "hep-th/9301068", "DOI": "10.1016/0550-3213(93)90403-c"},
    title="Two Dimensional QCD is a String Theory & More: 100% of $5 terms, #1_a",
    abstract="Line one.\nLine two: {0, 1}, <a href, x^2 and 'quotes' & more.",
    authors=(Author("David J. Gross"), Author("Ludwig van der Berg"), Author("The CMS Collaboration")),
    year=1993,
    publication_date="1993-01-17",
    venue="Nucl. Phys. B",
    journal=Journal("Nuclear Physics B", "400", "181-208"),
    publication_types=("JournalArticle",),
    categories=("hep-th", "hep-ph"),
)
VASWANI: Final = Paper(
    "arXiv:1706.03762",
    external_ids={"arXiv": "1706.03762"},
    title="Attention is All",
    authors=(Author("Ashish Vaswani"), Author("Aidan N. Gomez Jr.")),
    year=2017,
)
ONLY_S2: Final = Paper(
    "CorpusId:7",
    title="A book",
    year=2001,
    status="retracted",
    publication_types=("Book",),
    url="https://example.org/{7}",
)
PAPERS_HERE: Final = (GROSS, VASWANI, ONLY_S2)


def same(read: Sequence[Reference], papers: Sequence[Paper]) -> None:
    """The references have the titles, authors, years, abstracts and ids of the papers."""
    assert [one.problem for one in read] == [None] * len(papers)
    for one, paper in zip(read, papers, strict=True):
        assert one.title == paper.title
        assert [display_name(name) for name in one.authors] == [author.name for author in paper.authors]
        assert one.year == paper.year
        assert one.abstract == (" ".join(paper.abstract.split()) if paper.abstract else None)
        own = {str(i) for i in one.ids}
        assert own >= {f"{k}:{v}" for k, v in paper.external_ids.items() if k in ("arXiv", "DOI")}


def test_bibtex_is_read_as_the_same_papers() -> None:
    text = write_papers(PAPERS_HERE, "bibtex")
    read, _ = read_bibtex(text, PAPERS)
    same(read, PAPERS_HERE)
    assert [one.kind for one in read] == ["article", "misc", "book"]
    assert read[0].venue == "Nuclear Physics B"
    assert (read[0].volume, read[0].pages) == ("400", "181-208")


def test_bibtexparser_reads_what_was_written() -> None:
    library = bibtexparser.parse_string(
        write_papers(PAPERS_HERE), append_middleware=[LatexDecodingMiddleware()]
    )
    assert not library.failed_blocks
    gross, _, book = library.entries
    assert gross["title"] == GROSS.title
    assert gross["author"] == "David J. Gross and Ludwig van der Berg and The CMS Collaboration"
    assert gross["abstract"].startswith("Line one. Line two: ")
    assert gross["primaryClass"] == "hep-th"
    assert book["note"] == "CorpusId:7. Retracted"


def test_ris_is_read_as_the_same_papers() -> None:
    text = write_papers(PAPERS_HERE, "ris")
    same(read_ris(text, PAPERS), PAPERS_HERE)
    gross, vaswani, book = rispy.loads(text)
    assert gross["type_of_reference"] == "JOUR"
    assert gross["authors"] == ["Gross, David J.", "van der Berg, Ludwig", "The CMS Collaboration"]
    assert (gross["start_page"], gross["end_page"], gross["volume"]) == ("181", "208", "400")
    assert gross["doi"] == "10.1016/0550-3213(93)90403-c"
    assert vaswani["authors"][1] == "Gomez, Aidan N., Jr."
    assert vaswani["type_of_reference"] == "UNPB"
    assert book["notes"] == ["CorpusId:7. Retracted"]


def test_csl_json_is_read_as_the_same_papers() -> None:
    text = write_papers(PAPERS_HERE, "csl")
    same(read_csl(text), PAPERS_HERE)
    gross, vaswani, book = json.loads(text)
    assert gross["type"] == "article-journal"
    assert gross["issued"] == {"date-parts": [[1993, 1, 17]]}
    assert gross["author"][1] == {"family": "van der Berg", "given": "Ludwig"}
    assert gross["author"][2] == {"literal": "The CMS Collaboration"}
    assert vaswani["author"][1] == {"family": "Gomez", "given": "Aidan N.", "suffix": "Jr."}
    assert (vaswani["type"], book["type"]) == ("article", "book")


def test_csv_has_columns_that_an_ingest_knows_and_no_formulas() -> None:
    formula = Paper(
        "CorpusId:8", title='=HYPERLINK("https://example.org";"x")', authors=(Author("Doe; John"),)
    )
    rows = list(csv.DictReader(io.StringIO(write_papers([*PAPERS_HERE, formula], "csv"))))
    assert rows[0]["title"] == GROSS.title
    assert rows[0]["authors"] == "David J. Gross; Ludwig van der Berg; The CMS Collaboration"
    assert (rows[0]["arxiv_id"], rows[0]["doi"]) == ("hep-th/9301068", "10.1016/0550-3213(93)90403-c")
    assert (rows[1]["arxiv_id"], rows[1]["doi"]) == ("1706.03762", "10.48550/arxiv.1706.03762")
    assert rows[3]["title"] == '\'=HYPERLINK("https://example.org";"x")'
    assert rows[3]["authors"] == "Doe, John"
    known = set(recognise(rows[0], {}))
    assert known >= set(FIELDS) - {"pmid", "keywords", "type", "extra"}


def test_all_papers_of_the_sample_are_read_again(sample: Library) -> None:
    papers = [hit.paper for hit in sample.iter_search("theory OR models OR learning", limit=300)]
    assert len(papers) == 300
    for text, read in (
        (write_papers(papers), lambda text: read_bibtex(text, PAPERS)[0]),
        (write_papers(papers, "ris"), lambda text: read_ris(text, PAPERS)),
        (write_papers(papers, "csl"), lambda text: read_csl(text, PAPERS)),
    ):
        found = read(text)
        assert [one.title for one in found] == [" ".join((paper.title or "").split()) for paper in papers]
        assert [one.year for one in found] == [paper.year for paper in papers]
        keys = [one.key for one in found]
        assert len({str(key).lower() for key in keys}) == len(papers)


TEXTS: Final = st.text(
    st.sampled_from(
        string.ascii_letters + string.digits + " $\\{}%#&_^~-`'\".,@=()[]<>|äøßŁ量\u2028\n\t\x00"
    ),
    max_size=40,
)


def one_line(text: str) -> str:
    return " ".join(text.replace("\x00", " ").split())


@settings(max_examples=50, deadline=None)
@given(title=TEXTS, name=TEXTS)
def test_no_text_changes_or_ends_an_entry(title: str, name: str) -> None:
    papers = [
        Paper("CorpusId:1", title=title, authors=(Author(name),) if name.strip() else (), year=2001),
        VASWANI,
    ]
    for form, read in (
        ("bibtex", lambda text: read_bibtex(text, PAPERS)[0]),
        ("ris", lambda text: read_ris(text, PAPERS)),
        ("csl", read_csl),
    ):
        found: list[Reference] = read(write_papers(papers, form))  # type: ignore[arg-type]
        assert [one.problem for one in found] == [None, None], form
        assert (found[1].title, found[0].year) == (VASWANI.title, 2001)
        # A BibTeX entry has the text itself, unless it looks like a formula that Zotero escaped.
        expected = {plain(one_line(title))} | ({one_line(title)} if form == "bibtex" else set())
        assert (found[0].title or "") in expected, form


@pytest.mark.parametrize(
    "formula", [r"\input{/etc/passwd}", r"\write18{id}", r"\href{javascript:x}{y}", "^^5cinput x"]
)
def test_a_formula_that_reads_files_or_makes_links_is_not_written(formula: str) -> None:
    paper = Paper("CorpusId:1", title="QCD", as_written=AsWritten(title=f"QCD ${formula}$"))
    assert "title = {QCD}" in write_papers([paper])
    harmless = Paper("CorpusId:1", title="QCD", as_written=AsWritten(title=r"QCD $\left(\alpha\right)$"))
    assert r"title = {QCD $\left(\alpha\right)$}" in write_papers([harmless])


@given(text=TEXTS)
def test_escaped_text_is_read_as_the_same(text: str) -> None:
    text = one_line(text.replace("$", "").replace("\\", "/"))
    assert plain(escaped(text), braces=True) == text


def test_marks_are_escaped() -> None:
    for text, tex in cases("references", "tex"):
        assert escaped(text) == tex
        assert plain(tex, braces=True) == text


def test_names_in_parts() -> None:
    for name, parts in cases("references", "parts"):
        assert name_parts(name) == NameParts(*parts)


def test_names_in_braces_are_organisations_from_an_ingest_to_an_export(tmp_path: Path) -> None:
    names = ["The ATLAS Collaboration", "Google DeepMind", "OpenAI", "Barnes, Noble and Sons"]
    listed = " and ".join(["Bell, Ann", *(f"{{{name}}}" for name in names)])
    (tmp_path / "my.bib").write_text(f"@misc{{k, title = {{A title}}, year = 2001, author = {{{listed}}}}}")
    ingest([tmp_path / "my.bib"], tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        [hit] = library.search("title", mode="sparse").results
        paper = Paper.from_dict(json.loads(json.dumps(hit.paper.to_dict())))
        assert library.search("title", mode="sparse", author="google deepmind").total == 1
    assert [(one.name, one.is_group) for one in paper.authors[1:]] == [(name, True) for name in names]
    assert "is_group" not in paper.to_dict()["authors"][0]
    assert f" author = {{Ann Bell and {' and '.join(f'{{{name}}}' for name in names)}}}" in write_papers(
        [paper]
    )
    literals = [{"literal": name} for name in names]
    items = write_papers([paper], "csl")
    assert json.loads(items)[0]["author"] == [{"family": "Bell", "given": "Ann"}, *literals]
    for entries in (
        read_bibtex(write_papers([paper]))[0],
        read_csl(items),
        read_ris(write_papers([paper], "ris")),
    ):
        assert list(entries[0].authors[1:]) == [f"{{{name}}}" for name in names]


def test_equal_keys_get_letters() -> None:
    keys = citation_keys([VASWANI] * 30)
    assert keys[:3] == ["Vaswani2017AttentionIA", "Vaswani2017AttentionIAa", "Vaswani2017AttentionIAb"]
    assert keys[-1] == "Vaswani2017AttentionIAac"
    assert len(set(keys)) == 30


def test_an_entry_has_the_own_key_of_its_paper() -> None:
    for key, written in cases("references", "key"):
        paper = structs.replace(VASWANI, external_ids={"Key": key})
        assert write_papers([paper]).startswith(f"@misc{{{written},\n")
        assert f"\nID  - {written}\n" in write_papers([paper], "ris")
        assert json.loads(write_papers([paper], "csl"))[0]["id"] == written


def test_own_keys_stay_and_made_keys_give_way() -> None:
    own = [
        structs.replace(ONLY_S2, external_ids={"Key": key})
        for key in ("Vaswani2017AttentionIA", "B", "b", "B")
    ]
    assert citation_keys([VASWANI, *own]) == [
        *("Vaswani2017AttentionIAa", "Vaswani2017AttentionIA", "B", "b", "Ba")
    ]


def test_the_note_has_the_day_of_a_retraction() -> None:
    """Of the last one; a later correction is not one. Without a known day the note has only the status."""
    notices = (
        Notice("retraction", "2010-01-02"),
        Notice("retraction", "2012-03-15"),
        Notice("correction", "2013-01-01"),
    )
    paper = structs.replace(ONLY_S2, notices=notices)
    assert "note = {CorpusId:7. Retracted on 2012-03-15}" in write_papers([paper])
    assert "\nN1  - CorpusId:7. Retracted on 2012-03-15\n" in write_papers([paper], "ris")
    assert json.loads(write_papers([paper], "csl"))[0]["note"] == "CorpusId:7. Retracted on 2012-03-15"
    assert "note = {CorpusId:7. Retracted}" in write_papers([structs.replace(ONLY_S2, notices=())])


def test_an_entry_of_ones_own_file_has_no_made_id_and_a_dash_of_tex() -> None:
    """It had the note ``Doc:...`` and a Unicode dash in its pages."""
    assert GROSS.journal is not None
    journal = structs.replace(GROSS.journal, pages="1735\N{EN DASH}1780")
    own = structs.replace(
        ONLY_S2, id="Doc:lstm-1", external_ids={"Key": "my.bib/lstm"}, status=None, journal=journal
    )
    text = write_papers([own])
    assert "pages = {1735--1780}" in text
    assert "note =" not in text
    assert read_bibtex(text, PAPERS)[0][0].pages == "1735\N{EN DASH}1780"


def test_nothing_is_an_empty_bibliography() -> None:
    assert [write_papers([], form) for form in ("bibtex", "ris", "csl")] == ["", "", "[]\n"]
    assert write_papers([], "csv").startswith("id,title,authors,")
    wrong: Any = "endnote"
    with pytest.raises(InvalidRequest, match="format is 'endnote': use one of bibtex, ris, csl, csv"):
        write_papers([GROSS], wrong)
