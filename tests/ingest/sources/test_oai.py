"""arXiv's OAI records give the papers of its metadata snapshot."""

import gzip
import random
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest

from scholarbase import Library
from scholarbase.errors import SourceError, TooManyRejects
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.records import PaperRecord
from scholarbase.ingest.sources import SourceFile, StoredBytes, discover, read_records
from tests.conftest import DENSE_PAPERS, arxiv_rows, sample_rows
from tests.ingest.contents import rejects, rows
from tests.ingest.sources import harvests

KNOWN: dict[str, Any] = {
    "id": "0704.0001",
    "submitter": "Pavel Nadolsky",
    "authors": "C. Bal\\'azs, E. L. Berger, P. M. Nadolsky, C.-P. Yuan",
    "title": "Calculation of prompt diphoton production cross sections at Tevatron and\n  LHC energies",
    "comments": "37 pages, 15 figures; published version",
    "journal-ref": "Phys.Rev.D76:013009,2007",
    "doi": "10.1103/PhysRevD.76.013009",
    "report-no": "ANL-HEP-PR-07-12",
    "categories": "hep-ph",
    "license": None,
    "abstract": "  A fully differential calculation in perturbative quantum chromodynamics is\npresented for the "
    "production of massive photon pairs at hadron colliders, for p < q & more.\n",
    "versions": [
        {"version": "v1", "created": "Mon, 2 Apr 2007 19:18:42 GMT"},
        {"version": "v2", "created": "Tue, 24 Jul 2007 20:10:27 GMT"},
    ],
    "update_date": "2008-11-26",
    "authors_parsed": [
        ["Balázs", "C.", ""],
        ["Berger", "E. L.", ""],
        ["Nadolsky", "P. M.", ""],
        ["Yuan", "C. -P.", ""],
    ],
}
"""The first line of arXiv's metadata snapshot, with a shorter abstract."""
HARVEST = "arXivRaw/2005-09-16..2026-11-22/pages/000001.xml.gz"


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return path


def content(library: Path) -> dict[str, Any]:
    return {table: held for table, held in rows(library).items() if table != "meta"}


def read(path: Path) -> list[Any]:
    [file] = discover([path])
    assert file.dataset == "arxiv"
    return [entry.record for entry in read_records(file, StoredBytes(), {})]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """Real records of the sample, half of them of papers of the small snapshot."""
    known = {row["externalids"]["ArXiv"] for row in islice(sample_rows("papers"), DENSE_PAPERS)}
    records, chance = list(arxiv_rows()), random.Random(1)
    joined, alone = ([one for one in records if (one["id"] in known) is both] for both in (True, False))
    return [KNOWN, *chance.sample(joined, 30), *chance.sample(alone, 30)]


@pytest.mark.slow
def test_a_harvest_gives_the_library_of_the_snapshot(
    tmp_path: Path, small_snapshot: Path, lines: list[dict[str, Any]]
) -> None:
    """The papers of Semantic Scholar join both alike; versions, comments and dates of changes are the same."""
    snapshot = write_lines(tmp_path / "arxiv.jsonl", lines)
    for part, some in enumerate((lines[:40], lines[40:]), 1):
        harvests.write(tmp_path / "arxiv" / HARVEST.replace("1.xml", f"{part}.xml"), map(harvests.raw, some))
    one = ingest([small_snapshot, snapshot], tmp_path / "one")
    other = ingest([small_snapshot, tmp_path / "arxiv"], tmp_path / "other")
    assert content(tmp_path / "one") == content(tmp_path / "other")
    assert one.content_hash == other.content_hash
    assert one.counts["arxiv_joined"] == other.counts["arxiv_joined"] > 0
    with Library.open(tmp_path / "other") as library:
        paper = library.paper("0704.0001")
    assert paper.versions == ("2007-04-02T19:18:42Z", "2007-07-24T20:10:27Z")
    assert (paper.comment, paper.update_date) == ("37 pages, 15 figures; published version", "2008-11-26")
    assert [author.name for author in paper.authors] == [
        "C. Balázs",
        "E. L. Berger",
        "P. M. Nadolsky",
        "C.-P. Yuan",
    ]


def test_the_format_arxiv_has_no_versions(tmp_path: Path) -> None:
    """``created`` is the day of the last version: of a revised paper it says nothing about the first."""
    late = KNOWN | {"id": "1601.04794", "created": "2026-08-30"}
    path = harvests.write(
        tmp_path / "pages/000001.xml.gz",
        [harvests.parsed(KNOWN | {"created": "2007-04-02"}), harvests.parsed(late)],
    )
    first, second = read(path)
    [line] = read(write_lines(tmp_path / "arxiv.jsonl", [KNOWN]))
    del line.details["versions"]
    assert first == line
    assert (second.year, second.publication_date) == (2016, None)


def test_withdrawals_are_marked(tmp_path: Path) -> None:
    """By arXiv's source type of the last version, or by the comment."""
    comment = KNOWN | {
        "id": "0704.0002",
        "comments": "This paper has been withdrawn by the author due to an error",
    }
    path = harvests.write(
        tmp_path / HARVEST,
        [
            harvests.raw(KNOWN, withdrawn=True),
            harvests.raw(comment),
            harvests.raw(KNOWN | {"id": "0704.0003"}),
        ],
    )
    ingest([path], tmp_path / "library")
    with Library.open(tmp_path / "library") as library:
        found = library.papers(["0704.0001", "0704.0002", "0704.0003"], fields=["status"])
    assert [paper and paper.status for paper in found] == ["withdrawn", "withdrawn", None]


@pytest.mark.parametrize("order", [(2, 1, 0), pytest.param((1, 2, 0), marks=pytest.mark.slow)])
def test_the_newest_record_counts_and_deleted_ones_are_gone(tmp_path: Path, order: tuple[int, ...]) -> None:
    other = KNOWN | {"id": "0704.0002"}
    pages = (
        [harvests.raw(KNOWN | {"title": "A much longer title, which was the first"}), harvests.raw(other)],
        [harvests.raw(KNOWN | {"title": "Second", "update_date": "2020-01-01"})],
        [harvests.deleted("0704.0002", "2021-01-01"), harvests.deleted("0704.0009", "2021-01-01")],
    )
    for place, number in enumerate(order):
        harvests.write(tmp_path / f"source/{place}.xml.gz", pages[number])
    manifest = ingest([tmp_path / "source"], tmp_path / "library")
    assert manifest.counts["papers"] == 1
    assert manifest.counts["arxiv_deleted"] == 2
    with Library.open(tmp_path / "library") as library:
        assert library.paper("0704.0001").title == "Second"


def test_a_bad_record_is_counted_with_its_line(tmp_path: Path) -> None:
    good = [harvests.raw(KNOWN | {"id": f"0704.{n:04}"}) for n in range(1, 4)]
    bad = harvests.raw(KNOWN | {"id": "0704.x", "title": None})
    path = harvests.write(tmp_path / "pages/000001.xml.gz", [*good, bad])
    assert ingest([path], tmp_path / "library").rejects == {"bad-id": 1}
    [reject] = rejects(tmp_path / "library")
    written = gzip.decompress(path.read_bytes()).decode().splitlines()
    assert "0704.x" in written[reject["line"]], "the line where the record starts; the next has its header"


def test_records_of_another_format_are_refused(tmp_path: Path) -> None:
    dc = '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"/>'
    path = harvests.write(
        tmp_path / "pages/1.xml.gz",
        [harvests.record(KNOWN | {"id": f"0704.{n:04}"}, dc) for n in range(1, 13)],
    )
    with pytest.raises(TooManyRejects, match=r"12 of 12 lines.*oai_dc/: arXiv or arXivRaw was expected"):
        ingest([path], tmp_path / "library")


WHOLE = harvests.page([harvests.raw(KNOWN), harvests.raw(KNOWN | {"id": "0704.0002"})])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            WHOLE[: -len("</OAI-PMH>\n")],
            r"is not a whole page of records: no element found.*after 2 whole records\. Download it again",
        ),
        (WHOLE[: WHOLE.index("0704.0002")], r"line \d+, column \d+, after 1 whole records"),
        (WHOLE.replace("</abstract>", "</abstrac>"), r"mismatched tag: line \d+"),
        (
            WHOLE.replace("<OAI-PMH", "<!DOCTYPE x [<!ENTITY a 'b'>]>\n<OAI-PMH"),
            "it has a document type declaration",
        ),
        (
            harvests.document("<error code='badResumptionToken'>expired</error>"),
            r"the error badResumptionToken \(exp",
        ),
        (harvests.document("<Identify/>"), "it has no ListRecords"),
        (harvests.document("<a>" * 120), "more than 100 elements within each other"),
    ],
    ids=["cut at its end", "cut in a record", "broken", "with a DTD", "an error", "no list", "deep"],
)
def test_a_broken_page_is_a_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "000001.xml.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(SourceError, match=message):
        ingest([path], tmp_path / "library", rules=IngestRules(keep="title"))
    assert not (tmp_path / "library/manifest.json").exists()


def test_a_cut_gzip_stream_is_a_clear_error(tmp_path: Path) -> None:
    path = harvests.write(tmp_path / "000001.xml.gz", [harvests.raw(KNOWN)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match=r"000001\.xml\.gz is incomplete or damaged"):
        ingest([path], tmp_path / "library")


def test_nothing_that_matches_is_a_page_without_records(tmp_path: Path) -> None:
    (tmp_path / "000001.xml").write_text(harvests.document("<error code='noRecordsMatch'/>"))
    assert read(tmp_path / "000001.xml") == []


def test_records_are_read_again_from_any_place(tmp_path: Path) -> None:
    path = harvests.write(
        tmp_path / "a.xml.gz", [harvests.raw(KNOWN | {"id": f"0704.{n:04}"}) for n in range(1, 9)]
    )
    file = SourceFile(path, path.name, discover([path])[0].dataset, 0, "page")
    entries = list(read_records(file, StoredBytes(), {}, after=5))
    assert [entry.number for entry in entries] == [6, 7, 8]
    assert [entry.record.arxiv_id for entry in entries if isinstance(entry.record, PaperRecord)] == [
        f"0704.{n:04}" for n in (6, 7, 8)
    ]
