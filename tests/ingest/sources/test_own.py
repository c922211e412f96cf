"""People's own files: what Zotero exports of one collection of 50 papers, and files with faults."""

import json
import random
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scholarbase.errors import InvalidRequest, SourceError, TooManyRejects
from scholarbase.ingest.job import ingest
from scholarbase.ingest.numbering import paper_number
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources import Dataset, StoredBytes, discover, parse_columns, read_records
from scholarbase.markup import plain
from scholarbase.search.library import Library
from scholarbase.search.verification import verify
from tests.conftest import SAMPLE, run_cli
from tests.ingest.contents import rows

OWN = SAMPLE / "own"
EXPORTS = ("zotero.bib", "zotero.ris", "zotero.json", "zotero.csv")


def read(path: Path, **columns: str) -> list[tuple[int, PaperRecord | Reject]]:
    """Each record or reject of a file, with its line."""
    [file] = discover([path], columns)
    return [(entry.line, entry.record) for entry in read_records(file, StoredBytes(), columns)]  # type: ignore[misc]


def papers(path: Path, **columns: str) -> list[PaperRecord]:
    return [record for _, record in read(path, **columns) if isinstance(record, PaperRecord)]


def rejects(path: Path, **columns: str) -> list[tuple[int, str]]:
    return [(line, record.reason) for line, record in read(path, **columns) if isinstance(record, Reject)]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def facts(record: PaperRecord) -> tuple[Any, ...]:
    ids = {scheme: value for scheme, value in record.external_ids.items() if scheme != "Key"}
    return record.arxiv_id, ids, [name for name, _ in record.authors], record.year


@pytest.mark.parametrize("name", EXPORTS)
def test_each_export_of_zotero_has_the_same_50_papers(name: str) -> None:
    items = json.loads((OWN / "zotero.json").read_bytes())
    found = papers(OWN / name)
    assert len(found) == 50
    assert rejects(OWN / name) == []
    assert list(map(facts, found)) == list(map(facts, papers(OWN / "zotero.ris")))
    names = [[f"{one['given']} {one['family']}".strip() for one in item["author"]] for item in items]
    assert [[author for author, _ in record.authors] for record in found] == names
    assert [record.year for record in found] == [int(item["issued"]["date-parts"][0][0]) for item in items]
    arxiv_ids = [item["note"].removeprefix("arXiv:") if "note" in item else None for item in items]
    assert [record.arxiv_id for record in found] == arxiv_ids
    dois = [
        None if one else item.get("DOI", "").lower() or None
        for item, one in zip(items, arxiv_ids, strict=True)
    ]
    assert [record.external_ids.get("DOI") for record in found] == dois
    titles = [plain(item["title"]) for item in items]
    assert [record.title.replace("\u2013", "-") for record in found] == [
        t.replace("\u2013", "-") for t in titles
    ]
    if name != "zotero.bib":  # which has no days
        days = [item["issued"]["date-parts"][0] for item in items]
        dates = ["-".join(f"{int(part):02}" for part in day) if len(day) == 3 else None for day in days]
        assert [record.publication_date for record in found] == dates
        abstracts = [plain(item["abstract"]) if "abstract" in item else None for item in items]
        assert [record.abstract for record in found] == abstracts


def test_bibtex_fields_are_read_without_latex() -> None:
    found = {record.year: record for record in papers(OWN / "zotero.bib")}
    einstein, resnet = found[1905], found[2016]
    assert einstein.title.startswith("Über die von der molekularkinetischen Theorie der Wärme geforderte")
    assert einstein.details["fields_of_study"] == ["Brownian motion"]
    assert resnet.abstract is not None
    assert resnet.abstract.endswith("used previously — by 100 % and more.")
    assert resnet.venue == "2016 IEEE Conference on Computer Vision and Pattern Recognition (CVPR)"
    assert resnet.details["publication_types"] == ["Conference"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [EXPORTS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in EXPORTS[1:])]
)
def test_one_command_makes_an_export_searchable(name: str, tmp_path: Path) -> None:
    done = run_cli("ingest", OWN / name, "--library", tmp_path / "mine", "--encoder", "none")
    assert done.returncode == 0, done.stderr
    assert re.search(r"(?m)^kept +50 papers, \d+ with an abstract; 0 citations$", done.stdout)
    assert re.search(r"(?m)^rejected +0$", done.stdout)
    with Library.open(tmp_path / "mine") as library:
        [knuth] = library.search("art of programming", limit=1).results
        assert knuth.paper.title == "The Art of Computer Programming"
        assert library.paper(knuth.paper.id).title == knuth.paper.title
        assert knuth.paper.id.startswith("Doc:knuth-1997-the-art-of-computer-programming-")
        assert library.paper("10.1109/CVPR.2016.90").id == "DOI:10.1109/cvpr.2016.90"


def test_items_behind_a_broken_one_are_read(tmp_path: Path) -> None:
    items = '[\n\t{\n\t\t"id": "a",\n\t\t"title": "A"\n\t},\n\t{\n\t\t"id": "b",,\n\t\t"author": [{}]\n\t},\n'
    path = written(tmp_path / "my.json", items + '\t{\n\t\t"id": "c",\n\t\t"title": "C"\n\t}\n]\n')
    assert [record.title for record in papers(path)] == ["A", "C"]
    assert rejects(path) == [(6, "bad-json")]


@pytest.mark.parametrize("value", ['"half of \\ud83d"', '["\\udc00"]'])
def test_a_value_that_only_python_reads_ended_in_a_traceback(value: str, tmp_path: Path) -> None:
    """Lone surrogates."""
    items = f'[{{"title": "A"}},\n{{"title": "B", "id": {value}}},\n{{"title": "C"}}]'
    path = written(tmp_path / "my.json", items)
    assert [record.title for record in papers(path)] == ["A", "C"]
    assert rejects(path) == [(2, "bad-unicode")]


@pytest.mark.slow
def test_a_field_of_ten_megabytes_is_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    long = "word " * 2_000_000
    bib = f"@misc{{a, title = {{A}}, abstract = {{{long}}}}}\n@misc{{b, title = {{B}}}}\n"
    ris = f"TY  - JOUR\nTI  - A\nAB  - {long}\nER  - \nTY  - JOUR\nTI  - B\nER  - \n"
    csl = json.dumps([{"title": "A", "abstract": long}, {"title": "B"}])
    table = f'title,abstract\nA,"{long}"\nB,short\n'
    for name, content in {"a.bib": bib, "a.ris": ris, "a.json": csl, "a.csv": table}.items():
        path = written(tmp_path / name, content)
        assert [record.title for record in papers(path)] == ["B"], name
        assert [reason for _, reason in rejects(path)] == ["entry-too-long"], name


def test_other_encodings_than_utf_8(tmp_path: Path) -> None:
    text = "@misc{a, title = {Über alles}}\n@misc{b, title = {Plain}}\n"
    latin = written(tmp_path / "latin.bib", text.encode("latin-1"))
    assert [record.title for record in papers(latin)] == ["Plain"]
    assert rejects(latin) == [(1, "bad-unicode")]
    table = written(tmp_path / "latin.csv", "title,year\nÜber alles,2001\nPlain,2002\n".encode("latin-1"))
    assert [record.title for record in papers(table)] == ["Plain"]
    assert rejects(table) == [(2, "bad-unicode")]
    keyed = written(tmp_path / "keyed.bib", "@misc{Müller, title = {Über}}".encode("latin-1"))
    [(_, refused)] = read(keyed)
    assert isinstance(refused, Reject)
    assert refused.detail.startswith("'M\ufffdller': The entry is not valid UTF-8")
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"):
        for name, content in (("wide.csv", "title,year\nA,2001\n"), ("wide.bib", text)):
            with pytest.raises(SourceError, match=f"is in {encoding[:6].upper()}: save it as UTF-8"):
                discover([written(tmp_path / name, content.encode(encoding))])
    with pytest.raises(SourceError, match=r"latin\.jsonl is not valid UTF-8"):
        discover([written(tmp_path / "latin.jsonl", '{"title": "Über alles"}\n'.encode("latin-1"))])
    with pytest.raises(SourceError, match=r"mac\.csv has lines that end with CR alone: save it with LF"):
        discover([written(tmp_path / "mac.csv", b"title,year\rA,2001\r")])
    with ZipFile(tmp_path / "stored.zip", "w") as archive:  # whose lines could be read without unpacking it
        archive.writestr("a.jsonl", '{"title": "A"}\n{"title": "B"}\n')
    with pytest.raises(SourceError, match=r"stored\.zip is a ZIP archive: unpack it"):
        discover([tmp_path / "stored.zip"])
    marked = written(tmp_path / "marked.csv", "title,year\nÜber alles,2001\n".encode("utf-8-sig"))
    assert [record.title for record in papers(marked)] == ["Über alles"]


def test_a_csv_without_a_column_of_titles_names_its_first_line(tmp_path: Path) -> None:
    path = written(tmp_path / "my.csv", "Paper,Jahr\nOne,2001\n")
    with pytest.raises(SourceError, match="has no column of titles: its first line is 'Paper,Jahr'"):
        discover([path])
    assert [(r.title, r.year) for r in papers(path, title="Paper", year="Jahr")] == [("One", 2001)]
    with pytest.raises(
        SourceError, match="has no column 'DOI', which --columns names: its columns are Paper, Jahr"
    ):
        discover([path], {"title": "Paper", "doi": "DOI"})


def test_rows_that_do_not_fit_their_header(tmp_path: Path) -> None:
    path = written(
        tmp_path / "my.csv",
        'title;authors;arxiv\n"A; b";"Ada Lovelace, Charles Babbage";806.1945\nshort;x\n'
        '"over\ntwo lines";"Lovelace, Ada";1910.0773800000002\nodd "quotes";;\n"never closed;x;y\n',
    )
    found = papers(path)
    assert [record.title for record in found] == ["A; b", "over two lines", 'odd "quotes"']
    assert [record.authors for record in found[:2]] == [
        [("Ada Lovelace", None), ("Charles Babbage", None)],
        [("Ada Lovelace", None)],
    ]
    assert [(record.arxiv_id, record.repaired) for record in found[:2]] == [
        ("0806.1945", True),
        ("1910.07738", True),
    ]
    assert rejects(path) == [(3, "bad-row"), (7, "bad-row")]


def test_json_lines_with_named_columns(tmp_path: Path) -> None:
    lines = [
        {
            "Title": "A",
            "Authors": [{"name": "Ada Lovelace"}, "Babbage, Charles"],
            "year": 1843.0,
            "DOI": "10.1000/A",
        },
        {"Title": None},
        {"title": "B", "arxiv_id": 1108.27, "keywords": ["x", "y"]},
    ]
    path = written(tmp_path / "my.jsonl", "\n".join(map(json.dumps, lines)) + "\n{\n")
    a, b = papers(path)
    assert (a.authors, a.year, a.external_ids) == (
        [("Ada Lovelace", None), ("Charles Babbage", None)],
        1843,
        {"DOI": "10.1000/a"},
    )
    assert (b.arxiv_id, b.repaired, b.details["fields_of_study"]) == ("1108.2700", True, ["x", "y"])
    assert rejects(path) == [(2, "no-title"), (4, "bad-json")]


def test_columns_of_the_command_line() -> None:
    assert parse_columns("title=Paper Title, doi=DOI") == {"title": "Paper Title", "doi": "DOI"}
    for text in ("title", "titel=Title", "title=", "title=A,title=B"):
        with pytest.raises(InvalidRequest, match="columns"):
            parse_columns(text)


def test_an_empty_file_and_one_without_any_paper(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"my\.bib is empty"):
        discover([written(tmp_path / "my.bib", " \n")])
    with pytest.raises(SourceError, match="The bibtex files have no entry"):
        ingest([written(tmp_path / "none.bib", "% nothing yet\n")], tmp_path / "library")
    with pytest.raises(
        TooManyRejects, match=r"1 of 1 entries .* so that no paper is left. The first is line 1 of"
    ):
        ingest([written(tmp_path / "bad.bib", "@misc{a, year = 1}\n")], tmp_path / "other")


def test_notes_beside_a_snapshot_are_no_sources(tmp_path: Path) -> None:
    """A data set often comes with the BibTeX entry by which to cite it."""
    written(tmp_path / "citation.bib", "@misc{a, title = {A}}\n")
    assert [file.dataset for file in discover([tmp_path])] == [Dataset.BIBTEX]
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d", "title": "T", "text": "x"}\n')
    assert [file.dataset for file in discover([tmp_path])] == [Dataset.BEIR]


def test_an_entry_joins_the_paper_of_another_source(tmp_path: Path) -> None:
    line = {
        "id": "1706.03762",
        "title": "Attention Is All You Need",
        "categories": "cs.CL",
        "abstract": "Abstract.",
        "authors": "Ashish Vaswani, Noam Shazeer",
        "versions": [{"created": "Mon, 12 Jun 2017 17:57:34 GMT"}],
    }
    (tmp_path / "arxiv.json").write_text(json.dumps(line) + "\n")
    bib = written(
        tmp_path / "my.bib",
        "@inproceedings{a, title={Attention is all you need}, author={Vaswani, A.}, year=2017, doi={10.1000/nips}}\n"
        "@misc{b, title={Attention is all you need}, author={Someone, Else}, year=2017}\n",
    )
    manifest = ingest([tmp_path / "arxiv.json", bib], tmp_path / "library")
    assert (manifest.counts["papers"], manifest.counts["own_joined"]) == (2, 1)
    with Library.open(tmp_path / "library") as library:
        assert library.paper("DOI:10.1000/nips").id == "arXiv:1706.03762"
        assert library.paper("DOI:10.1000/nips").abstract == "Abstract."
        assert [
            hit.paper.authors[0].name
            for hit in library.search("attention").results
            if hit.paper.id[:3] == "Doc"
        ]


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["text", "arxiv"])
def test_every_keep_rule_keeps_ones_own_papers(rule: Any, tmp_path: Path) -> None:
    table = written(tmp_path / "my.csv", "title,abstract\nA,Words.\nB,\n")
    assert ingest([table], tmp_path / "library", rules=IngestRules(keep=rule)).counts["papers"] == 2


ENTRIES = [
    "@misc{a, title={One}, author={A, X}, year=2001}",
    "@misc{b, title={One!}, author={A, X}, year=2001, abstract={Words.}}",
    "@misc{c, title={One}, author={A, X}, year=2002, doi={10.1000/c}}",
    "@misc{d, title={Two}, doi={10.1000/c}}",
    "@misc{d, title={Three}, eprint={2309.06180}}",
    "@misc{e, title={Three again}, eprint={2309.06180}, doi={10.1000/e}}",
    "@misc{f, title={Four}, doi={10.1000/E}}",
    "@misc{g, title={Five}}",
]


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    folder = tmp_path_factory.mktemp("in-order")
    return _rows(folder, ENTRIES)


def _rows(folder: Path, entries: list[str]) -> dict[str, list[tuple[Any, ...]]]:
    ingest([written(folder / "my.bib", "\n".join(entries))], folder / "library")
    found = rows(folder / "library")
    return {table: found[table] for table in ("papers", "abstracts", "aliases")}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_order_of_entries_does_not_matter(
    seed: int, in_order: dict[str, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    entries = random.Random(seed).sample(ENTRIES, len(ENTRIES))
    assert _rows(tmp_path, entries) == in_order
    assert len(in_order["papers"]) == 5


@pytest.mark.slow
def test_an_entry_that_gives_a_paper_an_arxiv_id_changes_its_number(tmp_path: Path) -> None:
    papers = [
        {"corpusid": 7, "title": "One", "externalids": {"DOI": "10.1000/one"}},
        {"corpusid": 8, "title": "Two", "externalids": {"ArXiv": "2309.06180"}},
    ]
    (tmp_path / "s2").mkdir()
    written(tmp_path / "s2" / "papers.jsonl", "".join(json.dumps(one) + "\n" for one in papers))
    written(tmp_path / "s2" / "citations.jsonl", '{"citationid":1,"citingcorpusid":8,"citedcorpusid":7}\n')
    bib = written(tmp_path / "my.bib", "@misc{a, title={One}, doi={10.1000/one}, eprint={1706.03762}}")
    sets = {"s2": [tmp_path / "s2" / "papers.jsonl"], "mine": [bib]}
    ingest([tmp_path / "s2"], tmp_path / "library", sets=sets, rules=IngestRules(keep="title"))
    one, two = paper_number("1706.03762", 7, {}), paper_number("2309.06180", 8, {})
    found = rows(tmp_path / "library")
    assert [row[:3] for row in found["papers"]] == [(one, 7, "1706.03762"), (two, 8, "2309.06180")]
    assert [row[:2] for row in found["edges"]] == [(two, one)]
    assert sorted(found["sets"]) == [("mine", one), ("s2", one), ("s2", two)]
    with closing(sqlite3.connect(tmp_path / "library" / "catalog.sqlite")) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert not {"own_entries", "own_papers", "set_members", "wanted_authors"} & tables
    assert list(verify(tmp_path / "library"))
    with Library.open(tmp_path / "library") as library:
        assert [edge.paper.id for edge in library.references("arXiv:2309.06180").results] == [
            "arXiv:1706.03762"
        ]


@given(st.text(max_size=300))
def test_any_text_is_read_or_rejected(text: str) -> None:
    from scholarbase.ingest.sources.own import paper_of, read_entries

    for form in ("bibtex", "ris"):
        for entry in read_entries(form, text.encode("utf-8", "surrogatepass")):
            assert isinstance(paper_of(entry), PaperRecord | Reject)


def _lines() -> Iterator[str]:
    for name in EXPORTS:
        yield from (OWN / name).read_text("utf-8-sig").splitlines(keepends=True)


@given(st.lists(st.sampled_from(sorted(set(_lines()))), max_size=30))
def test_shuffled_lines_of_exports_never_stop_the_job(lines: list[str]) -> None:
    from scholarbase.ingest.sources.columns import csv_rows, json_rows
    from scholarbase.ingest.sources.own import paper_of, read_entries

    text = "".join(lines)
    for form in ("bibtex", "ris"):
        assert all(paper_of(entry) for entry in read_entries(form, text.encode()))
    numbered = list(enumerate(text.encode().splitlines(), 1))
    assert all(row.content for row in json_rows(iter(numbered), {}))
    assert all(row.content for row in csv_rows(iter([(0, b"title,year"), *numbered]), {}))
