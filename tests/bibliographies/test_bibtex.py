"""What entries inherit, names in all their forms, and dates. The values follow the manuals of BibTeX and BibLaTeX."""

import time

import pytest

from scholarbase.bibliographies import read_bibliography
from scholarbase.bibliographies.bibtex import read_bibtex
from scholarbase.bibliographies.names import display_name
from scholarbase.bibliographies.references import PAPERS, Reference
from scholarbase.identifiers import parse
from scholarbase.models.limits import MAX_REFERENCES
from tests.tables import cases

BOOKS = r"""
@incollection{part, title={A part}, author={Doe, Ann}, crossref={book}, pages={3--9}}
@incollection{own, title={Its own}, author={Doe, Ann}, crossref={BOOK}, year=2001, booktitle={Another book}}
@inproceedings{talk, title={A talk}, crossref={conf}}
@inproceedings{may, title={In May}, crossref={conf2}, month=may}
@proceedings{conf2, title={Second conference}, year=2016, month=jun, day=3}
@article{essay, title={An essay}, author={Roe, Bo}, crossref={issue}}
@inbook{chapter, title={A chapter}, crossref={mono}}
@inproceedings{lost, title={Of no book}, author={Doe, Ann}, crossref={nowhere}}
@misc{data, title={With data}, xdata={first, second}}
@misc{loop, title={In a loop}, crossref={loop}}
@book{book, title={The book}, subtitle={With a subtitle}, editor={Ed, It}, publisher={Press}, year={1999},
  doi={10.1000/book}, pages={1--900}, url={https://example.org/book}, crossref={series}}
@proceedings{conf, booktitle={Proc. of the Conference}, title={Proceedings, the long form}, editor={Chair, Pat},
  date={2015-06-07}}
@periodical{issue, title={The Review}, volume={12}, year=2003}
@book{mono, title={Monograph}, author={Sole, Author}, year=1987}
@mvbook{series, title={Volumes}, volume={4}}
@xdata{first, publisher={Data House}, year=2010, xdata={second}}
@xdata{second, journal={J. Data}, year=2011, volume={7}}
@set{both, entryset={part, own}}
"""


@pytest.fixture(scope="module")
def books() -> dict[str | None, Reference]:
    return {entry.key: entry for entry in read_bibtex(BOOKS, PAPERS)[0]}


def test_a_part_has_what_its_book_says(books: dict[str | None, Reference]) -> None:
    for key, field, expected in cases("references", "books"):
        value = getattr(books[key], field)
        if field == "pages":
            value = value.replace("\N{EN DASH}", "-")
        assert (list(value) if isinstance(value, tuple) else value) == expected, key


def test_blocks_that_only_give_fields_are_no_papers(books: dict[str | None, Reference]) -> None:
    assert books.keys().isdisjoint({"first", "second", "both"})


def test_names_are_kept() -> None:
    for written, names in cases("references", "names"):
        [entry], _ = read_bibtex(f"@misc{{a, title={{T}}, author={written}}}", PAPERS)
        assert [display_name(name) for name in entry.authors] == names
        assert entry.more_authors == ("others" in written)


def test_dates_and_titles() -> None:
    for fields, date, year in cases("references", "dates"):
        [entry], _ = read_bibtex(f"@misc{{a, title={{T}}, {fields}}}", PAPERS)
        assert (entry.date, entry.year) == (date, year), fields
    for fields, title in cases("references", "title"):
        [entry], _ = read_bibtex(f"@book{{a, {fields}}}", PAPERS)
        assert entry.title == title, fields


def test_a_comment_without_braces_is_a_comment() -> None:
    text = "@Comment a note, without braces\n@misc{a, title={A}}\n@comment\n@misc{b, title={B}}\n@book no comment\n"
    assert [entry.title for entry in read_bibtex(text, PAPERS)[0]] == ["A", "B", None]


def test_parts_in_other_requests_than_their_book_keep_its_fields() -> None:
    parts = "".join(
        f"@incollection{{p{n}, title={{Part {n}}}, crossref={{b}},}}\n" for n in range(MAX_REFERENCES + 1)
    )
    whole = read_bibliography(f"{parts}@book{{b, title={{B}}, year=1999}}", most=None)
    again = [read_bibliography(whole.text_of(part)).references for part in whole.parts()]
    assert [len(part) for part in again] == [MAX_REFERENCES, 2]
    assert {(entry.venue, entry.year) for part in again for entry in part[:-1]} == {("B", 1999)}


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"@misc{{k{n}, title={{T}}, crossref={{k{n + 1}}}}}\n" for n in range(3_000)),
        "".join(
            f"@xdata{{k{n}, xdata={{{','.join(f'k{m}' for m in range(60))}}}, year=2001}}\n"
            for n in range(60)
        )
        + "@misc{a, title={T}, xdata={k0}}",
        '@string{a="' + "x" * 900 + '"}\n@misc{a, title=' + "#".join("a" * 200_000) + "}",
        "@misc{a, title={T}, author={" + "{a} and " * 100_000 + "}}",
        "@misc{a, title={T}, author=" + "{" * 100_000 + "}" * 100_000 + "}",
    ],
    ids=["chain", "data", "macros", "names", "braces"],
)
def test_entries_that_refer_to_each_other_take_no_longer(text: str) -> None:
    begin = time.process_time()
    read_bibtex(text, PAPERS)
    assert time.process_time() - begin < 30


@pytest.mark.parametrize(
    ("fields", "title", "authors"),
    [
        ("title={Miss comma} author={A, B}", "Miss comma", ("A, B",)),
        ('title="Miss {=} comma" author="A, B" year=2001', "Miss = comma", ("A, B",)),
        (
            "title={M} # { N = x}, author={M&uuml;ller, J. and O&#39;Neil, P.}",
            "M N = x",
            ("Müller, J.", "O'Neil, P."),
        ),
    ],
)
def test_fields_without_a_comma_and_names_with_entities(
    fields: str, title: str, authors: tuple[str, ...]
) -> None:
    [entry], _ = read_bibtex(f"@misc{{k, {fields}}}")
    assert (entry.title, entry.authors) == (title, authors)


def test_an_old_arxiv_id_and_its_class() -> None:
    [entry], _ = read_bibtex("@misc{k, eprint={9301068}, eprintclass={hep-th}, eprinttype={arxiv}}")
    assert entry.ids == (parse("hep-th/9301068"),)
