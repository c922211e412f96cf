"""Bibliographies of each format, whole and broken."""

import json
from typing import Any

import pytest

from scholarbase.bibliographies import read_bibliography
from scholarbase.bibliographies.bibtex import read_bibtex
from scholarbase.bibliographies.ids import find_ids
from scholarbase.bibliographies.names import surname
from scholarbase.bibliographies.references import Reference
from scholarbase.bibliographies.ris import read_ris
from scholarbase.bibliographies.years import years_in
from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import parse
from scholarbase.ingest.sources.columns import json_rows
from scholarbase.models.limits import MAX_REFERENCES
from tests.ingest.sources.test_json_records import ANSWER, ARXIV, FORMS, ITEM, LISTED, WORK
from tests.tables import cases

BIBTEX = r"""
@string{npb = "Nucl. Phys. B"}
% a comment between entries
@article{gross93,
  author = {Gross, David J. and Taylor, Washington and others},
  title = "{Two} dimensional {QCD} is a string theory",
  journal = npb # { (suppl.)},
  year = 1993,
  eprint = {hep-th/9301068},
}
@article{broken,
  title = {No closing brace,
  year = 2001

@misc(paren, title={In parentheses},
  author="K{\"o}nig, Fran{\c c}ois and {\O}rsted, S{\o}ren", doi={10.1000/X1})
@book without braces
"""


def test_bibtex_with_abbreviations_accents_and_a_broken_entry() -> None:
    read = read_bibliography(BIBTEX)
    assert read.format == "bibtex"
    gross, broken, paren, bare = read.references
    assert (gross.key, gross.line, gross.year) == ("gross93", 4, 1993)
    assert gross.title == "Two dimensional QCD is a string theory"
    assert gross.authors == ("Gross, David J.", "Taylor, Washington")
    assert gross.more_authors
    assert gross.venue == "Nucl. Phys. B (suppl.)"
    assert gross.ids == (parse("hep-th/9301068"),)
    assert broken.problem is not None
    assert "broken" in broken.problem
    assert broken.line == 11
    assert paren.authors == ("König, François", "Ørsted, Søren")
    assert paren.ids == (parse("10.1000/x1"),)
    assert bare.problem is not None


def test_ris_records_without_an_end_and_lines_outside() -> None:
    text = "TY  - JOUR\nAU  - Perdew, John P.\nAU  - Burke, K\nTI  - Generalized Gradient\n approximation\n"
    text += "PY  - 1996/10/28\n"
    text += "DO  - 10.1103/PhysRevLett.77.3865\nTY  - CONF\nT1  - Another\nER  - \nstray line\n"
    read = read_bibliography(text)
    assert read.format == "ris"
    first, second = read.references
    assert first.authors == ("Perdew, John P.", "Burke, K")
    assert (first.title, first.year) == ("Generalized Gradient approximation", 1996)
    assert first.ids == (parse("10.1103/physrevlett.77.3865"),)
    assert (second.title, second.line) == ("Another", 8)


def test_csl_json_items_of_any_kind() -> None:
    item = {
        "id": "gross",
        "title": "Two dimensional QCD",
        "author": [{"family": "Gross", "given": "David"}, {"literal": "A Group"}],
        "issued": {"date-parts": [[1993, 1]]},
        "DOI": "10.1016/0550-3213(93)90403-C",
        "container-title": "Nuclear Physics B",
    }
    read = read_bibliography(json.dumps([item, "text", {"issued": {"raw": "May 2001"}}]))
    assert read.format == "csl-json"
    first, second, third = read.references
    assert first.authors == ("Gross, David", "{A Group}")
    assert (first.year, first.venue) == (1993, "Nuclear Physics B")
    assert first.ids == (parse("10.1016/0550-3213(93)90403-c"),)
    assert second.problem == "The item is not a JSON object."
    assert third.year == 2001
    assert read_bibliography(json.dumps(item)).references[0].key == "gross"
    [broken] = read_bibliography('[{"id": 1,').references
    assert broken.problem is not None


def test_json_of_other_sources_is_read_as_what_it_is() -> None:
    """It was read as CSL-JSON, without its authors, ids and years."""
    sha = "a" * 40
    read: list[tuple[Any, tuple[str, ...], int | None, list[str]]] = [
        (
            WORK | {"doi": "https://doi.org/10.1000/W", "related_works": ["https://openalex.org/W3"] * 1000},
            ("Ann Bell",),
            2001,
            ["DOI:10.1000/w", "OpenAlex:W1"],
        ),
        (ANSWER, ("Ann Bell",), 2017, ["arXiv:1706.03762", f"sha:{sha}", "CorpusId:13756489"]),
        (
            {"citingPaper": ANSWER},
            ("Ann Bell",),
            2017,
            ["arXiv:1706.03762", f"sha:{sha}", "CorpusId:13756489"],
        ),
        (ARXIV, ("A. Bell", "C. Dee"), None, ["arXiv:0704.0001"]),
        (LISTED, ("Ann Bell", "Carl Dee"), None, ["DOI:10.1000/l"]),
        (ITEM, ("Bell, A", "{Org, Inc.}"), None, ["DOI:10.1000/i"]),
    ]
    for record, authors, year, found in read:
        for name, form in FORMS:
            bibliography = read_bibliography(form(record))
            assert bibliography.format == "csl-json"
            [reference] = bibliography.references
            assert (reference.authors, reference.year) == (authors, year), (name, record)
            assert list(map(str, reference.ids)) == found, name
            again = read_bibliography(bibliography.text_of(bibliography.references)).references
            assert [one.ids for one in again] == [reference.ids]


def test_json_without_papers_is_refused_with_its_keys() -> None:
    [one, two] = read_bibliography('{"data": [{"foo": 1, "bar": [2]}, {"title": "T"}]}').references
    assert one.problem is not None
    assert one.problem.startswith(
        "The keys of the JSON object are 'foo', 'bar'. Items of CSL-JSON (title, author,"
    )
    assert (two.title, two.problem) == ("T", None)


def test_lines_numbered_over_several_lines_with_ids_in_the_text() -> None:
    text = """[1] D. J. Gross and W. Taylor, "Two dimensional QCD is a
    string theory," Nucl. Phys. B 400, 181 (1993), arXiv:hep-th/9301068.
[2] J. P. Perdew, K. Burke, and M. Ernzerhof, Phys. Rev. Lett. 77, 3865 (1996)
10.1016/0550-3213(93)90403-c
[3] A. Vaswani et al., (https://doi.org/10.48550/arXiv.1706.03762)."""
    read = read_bibliography(text)
    assert read.format == "text"
    gross, perdew, doi, vaswani = read.references
    assert gross.title == "Two dimensional QCD is a string theory"
    assert (gross.key, gross.year, gross.ids) == ("1", 1993, (parse("hep-th/9301068"),))
    assert (perdew.line, perdew.title, perdew.ids, perdew.year) == (3, None, (), 1996)
    assert doi.ids == (parse("10.1016/0550-3213(93)90403-c"),)
    assert vaswani.ids == (parse("1706.03762"),)


def test_items_of_a_latex_bibliography() -> None:
    text = (
        "\\bibitem[G93]{gross} D.~J. Gross, {\\it Two} QCD,\n Nucl. {\\bf B} (1993)\n\\bibitem{b} B. B, 2001"
    )
    first, second = read_bibliography(text).references
    assert (first.key, first.year) == ("gross", 1993)
    assert (second.key, second.line) == ("b", 3)
    bbl = "% REVTeX\n\\begin{thebibliography}{2}%\n\\providecommand \\bibitemStop [0]{}%\n" + text.replace(
        "[G93]", " [{Gross \\emph\n {et~al.}(1993)}]"
    )
    first, second = read_bibliography(f"{bbl}\n\nC. C, 2002\n\\end{{thebibliography}}\nText").references
    assert (first.key, first.line, first.year) == ("gross", 4, 1993)
    assert (second.key, second.line, second.years) == ("b", 7, (2001, 2002))


def test_a_heading_is_no_reference() -> None:
    for heading in ("References", "## 7. Bibliography", "WORKS CITED:"):
        (one,) = read_bibliography(f"\n{heading}\n\n[1] A. B, References to\n a title, 2001").references
        assert (one.line, one.raw) == (4, "[1] A. B, References to a title, 2001")


def test_a_part_of_a_bibliography_reads_the_same() -> None:
    for text in (
        BIBTEX,
        "[1] A. B, Title one, 2001\n   more\n\nno number\n[2] C",
        '[{"title":"a"},{"title":"b"},3]',
    ):
        read = read_bibliography(text)
        for begin in range(len(read.references)):
            part = read.references[begin:]
            again = read_bibliography(read.text_of(part), read.format)
            assert [(one.title, one.ids, one.problem is None) for one in again.references] == [
                (one.title, one.ids, one.problem is None) for one in part
            ]


@pytest.mark.parametrize("text", ["@article{k,title={a}}\n", "TY  - JOUR\nER  - \n", "A line\n"])
def test_more_references_than_a_request_takes_are_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"1,001 references.*1,000"):
        read_bibliography(text * (MAX_REFERENCES + 1))
    every = read_bibliography(text * (MAX_REFERENCES + 1), most=None)
    assert [len(part) for part in every.parts()] == [MAX_REFERENCES, 1]


def test_a_text_over_the_limit_or_without_references_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="1,000,000 bytes"):
        read_bibliography("é" * 600_000)
    with pytest.raises(InvalidRequest, match="no reference in the format bibtex"):
        read_bibliography("% nothing", "bibtex")
    assert len(read_bibliography("a" * 10_000).references) == 1


@pytest.mark.parametrize(
    ("start", "name"),
    [
        ('<?xml version="1.0"?>\n<PubmedArticleSet>', "XML or HTML"),
        ("\n<!DOCTYPE html>", "XML or HTML"),
        (r"{\rtf1\ansi", "RTF"),
        ("%PDF-1.7", "a PDF"),
        ('"Key","Item Type","Publication Year","Author","Title"\n"A","book","1999","Gross","QCD"', "a table"),
        ("title\tdoi\nTwo dimensional QCD is a string theory\t10.1000/1", "a table"),
    ],
)
def test_a_file_that_is_no_bibliography_is_refused(start: str, name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"references is {name}.*send BibTeX"):
        read_bibliography(start)


def test_the_format_is_known_by_the_content() -> None:
    assert len(read_bibliography(f"author, title, year: as in a table\n{BIBTEX}").references) == 4
    assert [r.ids[0] for r in read_bibliography("<https://doi.org/10.1000/1>").references] == [
        parse("10.1000/1")
    ], "a link in angle brackets"
    for text, found in cases("references", "format"):
        assert read_bibliography(text).format == found, text


def test_surnames_in_any_order() -> None:
    for name, last in cases("references", "surname"):
        assert surname(name) == last, name


def test_ids_of_bibtex_fields_and_ris_tags() -> None:
    for fields, ids in cases("references", "bibtex ids"):
        [reference] = read_bibtex("@misc{k, title={T}, " + fields + "}")[0]
        assert list(map(str, reference.ids)) == ids, fields
    for line, ids in cases("references", "ris ids"):
        [reference] = read_ris(f"TY  - JOUR\nTI  - T\n{line}\nER  - \n")
        assert list(map(str, reference.ids)) == ids, line


def test_dois_in_a_text() -> None:
    for text, ids in cases("references", "dois"):
        assert {str(one.id): text[one.start : one.end] for one in find_ids(text)} == ids


def test_people_in_the_forms_of_json() -> None:
    for people, expected in cases("references", "people"):
        for key in ("authors", "creators"):
            item = json.dumps({"title": "A title", key: people})
            [read] = read_bibliography(f"[{item}]").references
            [row] = json_rows([(1, item.encode())], {})
            assert isinstance(row.content, Reference)
            assert list(read.authors) == list(row.content.authors) == expected, people


def test_an_item_with_a_particle_that_is_dropped_and_a_subtitle() -> None:
    person = {"family": "Cruz", "given": "Juan", "dropping-particle": "de la"}
    item = {"title": ["A title"], "subtitle": ["And more"], "author": [person], "issued": {"raw": "2001"}}
    [read] = read_bibliography(json.dumps([item])).references
    assert (read.title, read.authors) == ("A title: And more", ("Cruz, Juan de la",))


def test_the_last_year_of_a_line_is_that_of_the_reference() -> None:
    assert years_in("A. Author. The elections of 1948. Polls 3, 2004.") == (2004, (1948, 2004))
    assert years_in("A. Author (1999). Towards 2050.") == (1999, (1999, 2050))
