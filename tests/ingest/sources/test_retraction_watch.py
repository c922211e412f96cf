"""Retraction Watch's file: notices join papers by DOI and PubMed id, and have dates."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from scholarbase import Library
from scholarbase.errors import InvalidRequest
from scholarbase.indexes.filters import WITH_STATUS
from scholarbase.indexes.schema import open_for_building
from scholarbase.ingest.claims import contested_ids
from scholarbase.ingest.job import ingest
from scholarbase.ingest.notices import MAX_NOTICES, entries
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.records import PaperRecord, Reject
from scholarbase.ingest.sources.retraction_watch import notice_of
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.responses.text import as_text
from scholarbase.tools import Tools
from scholarbase.updates.job import update
from tests.conftest import json_lines, run_cli, serving_in_thread

COLUMNS = [
    "Record ID", "Title", "Subject", "Institution", "Journal", "Publisher", "Country", "Author", "URLS", "ArticleType",
    "RetractionDate", "RetractionDOI", "RetractionPubMedID", "OriginalPaperDate", "OriginalPaperDOI",
    "OriginalPaperPubMedID", "RetractionNature", "Reason", "Paywalled", "Notes",
]  # fmt: skip
"""As Crossref publishes them."""


def row(number: int, nature: str, day: str, **others: str) -> dict[str, str]:
    about = {
        "Record ID": str(number), "Title": f"Entropy of photon gas {number % 100}", "Author": "Ann Lee;Bob Ray",
        "RetractionNature": nature, "RetractionDate": day, "RetractionDOI": f"10.1000/notice.{number}",
        "RetractionPubMedID": "0", "OriginalPaperDate": "1/2/2007 0:00", "OriginalPaperDOI": "unavailable",
        "OriginalPaperPubMedID": "0", "Reason": "+Error in Data;+Unreliable Results;", "Paywalled": "No",
    }  # fmt: skip
    return about | {name.replace("_", " "): value for name, value in others.items()}


def write(path: Path, rows: Iterable[Mapping[str, str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


PAPERS = [
    {"corpusid": n, "externalids": ids, "title": f"Entropy of photon gas {n}", "authors": [{"name": "Ann Lee"}],
     "year": 2007, "publicationdate": "2007-01-02", "publicationtypes": ["Retracted Publication"] if n == 6 else None}
    for n, ids in {
        1: {"DOI": "10.1000/one"}, 2: {"PubMed": "222"}, 3: {"DOI": "10.1000/three"}, 4: {"DOI": "10.1000/four"},
        5: {"DOI": "10.1000/five"}, 6: {"DOI": "10.1000/six"}, 7: {"DOI": "10.1000/seven"},
    }.items()
]  # fmt: skip
NOTICES = [
    row(101, "Retraction", "3/15/2012 0:00", OriginalPaperDOI="10.1000/ONE"),
    row(202, "Retraction", "4/1/2013 0:00", OriginalPaperPubMedID="222"),
    row(303, "Correction", "5/1/2014 0:00", OriginalPaperDOI="10.1000/three"),
    row(404, "Expression of concern", "6/1/2010 0:00", OriginalPaperDOI="10.1000/four"),
    row(504, "Retraction", "6/1/2016 0:00", OriginalPaperDOI="10.1000/four"),
    row(605, "Retraction", "7/1/2011 0:00", OriginalPaperDOI="10.1000/five"),
    row(705, "Reinstatement", "7/1/2015 0:00", OriginalPaperDOI="10.1000/five"),
    row(
        807, "Retraction", "1/1/2012 0:00", OriginalPaperDOI="10.1000/seven", Title="Another", Author="Cy Poe"
    ),
    row(999, "Retraction", "1/1/2012 0:00", OriginalPaperDOI="10.1000/elsewhere"),
    row(990, "Retraction", "1/1/2012 0:00"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("notices")
    json_lines(folder / "papers.jsonl", PAPERS)
    write(folder / "retraction_watch.csv", NOTICES)
    ingest([folder / "papers.jsonl", folder / "retraction_watch.csv"], folder / "library",
           rules=IngestRules(keep="title"))  # fmt: skip
    with Library.open(folder / "library") as opened:
        yield opened


def statuses(library: Library, as_of: str | None = None) -> list[str | None]:
    found = library.papers([f"CorpusId:{n}" for n in range(1, 8)], fields=["status"], as_of=as_of)
    return [paper and paper.status for paper in found]


def test_thousands_of_notices_of_one_paper_took_minutes(tmp_path: Path) -> None:
    rows = [
        row(100 * n + 1, "Correction", "1/1/2012 0:00", OriginalPaperDOI="10.1000/one") for n in range(120)
    ]
    (tmp_path / "papers.jsonl").write_text(json.dumps(PAPERS[0]) + "\n")
    found = []
    for name, ordered in (("one", rows), ("other", rows[::-1])):
        sources = [tmp_path / "papers.jsonl", write(tmp_path / f"{name}.csv", ordered)]
        ingest(sources, tmp_path / name, rules=IngestRules(keep="title"))
        with Library.open(tmp_path / name) as opened:
            [paper] = opened.papers(["CorpusId:1"], fields=["notices"])
            assert paper is not None
            found.append(paper.notices)
    assert found[0] == found[1]
    assert len(found[0] or ()) == MAX_NOTICES


def test_the_entries_of_papers_are_found_without_reading_notices(tmp_path: Path) -> None:
    """A million notices filled the cache while the few other entries were sorted."""
    with closing(open_for_building(tmp_path / "catalog.sqlite")) as db:
        CatalogWriter(db, "text").store_own((), ())
        plans: list[str] = []
        db.set_trace_callback(plans.append)
        list(entries(db))
        contested_ids(db)
        db.set_trace_callback(None)
        reading = [sql for sql in plans if "place <" in sql]
        assert len(reading) == 2
        for sql in reading:
            [*_, plan] = db.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall()[0]
            assert "entries_by_place" in plan


def test_notices_join_by_doi_and_pubmed_id(library: Library) -> None:
    """An erratum is no retraction, a reinstated paper is active, and an id of another paper joins nothing."""
    assert statuses(library) == ["retracted", "retracted", None, "retracted", None, "retracted", None]
    assert library.search("photon", mode="sparse", status=["retracted"]).total == 4
    assert library.search("photon", mode="sparse").total == 7


@pytest.mark.parametrize(
    ("as_of", "retracted"),
    [
        ("2011-06", []),
        ("2012-03-14", [5]),
        ("2012-03-15", [1, 5]),
        ("2015-08", [1, 2]),
        ("2016-06-01", [1, 2, 4]),
    ],
)
def test_as_of_shows_the_status_of_that_day(library: Library, as_of: str, retracted: list[int]) -> None:
    assert [n for n, one in enumerate(statuses(library, as_of), 1) if one] == retracted


def test_notices_have_kind_date_and_reasons(library: Library) -> None:
    paper = library.paper("CorpusId:4", fields=["notices"])
    assert [(one.kind, one.date) for one in paper.notices] == [
        ("expression_of_concern", "2010-06-01"),
        ("retraction", "2016-06-01"),
    ]
    [only] = library.paper("CorpusId:4", fields=["notices"], as_of="2012-01").to_dict(["notices"])["notices"]
    assert only == {
        "kind": "expression_of_concern",
        "date": "2010-06-01",
        "reasons": ["Error in Data", "Unreliable Results"],
        "doi": "10.1000/notice.404",
        "source": "Retraction Watch",
    }
    assert library.paper("CorpusId:7", fields=["notices"]).notices == ()
    assert "notices" not in library.paper("CorpusId:7").to_dict()


def test_exports_and_texts_have_the_day(library: Library) -> None:
    path = str(library.path)
    for form in ("bibtex", "ris", "csl"):
        assert (
            "Retracted on 2012-03-15"
            in run_cli("paper", "CorpusId:1", "--format", form, "--library", path).stdout
        )
    with serving_in_thread(library) as url:
        for form in ("bibtex", "ris", "csl"):
            found = httpx.get(f"{url}/v1/search", params={"q": "photon", "mode": "sparse", "format": form})
            assert "Retracted on 2012-03-15" in found.text
    request = {"ids": ["CorpusId:1"], "fields": ["title", "status", "notices"]}
    assert "RETRACTED on 2012-03-15" in as_text(Tools(library).call("get_papers", request))


def test_a_cited_retraction_is_a_verdict_as_of_the_draft(library: Library) -> None:
    references = "10.1000/one\n10.1000/three\n10.1000/five\n10.1000/six"
    now = library.check_references(references).results
    assert [one.status for one in now] == ["retracted", "held", "held", "retracted"]
    assert (
        "It was retracted on 2012-03-15 (Retraction Watch: Error in Data, Unreliable Results)."
        in now[0].reason
    )
    assert "It was corrected on 2014-05-01" in now[1].reason
    draft = library.check_references(references, as_of="2012-03-01").results
    assert [one.status for one in draft] == ["held", "held", "retracted", "retracted"]
    assert "corrected" not in draft[1].reason


def test_an_update_replaces_the_file_and_equals_an_ingest(tmp_path: Path) -> None:
    json_lines(tmp_path / "papers.jsonl", PAPERS)
    rules = IngestRules(keep="title")
    file = write(tmp_path / "retraction_watch.csv", NOTICES[:3])
    ingest([tmp_path / "papers.jsonl", file], tmp_path / "before", rules=rules)
    write(file, NOTICES[2:])
    updated_manifest = update(tmp_path / "before", [file], tmp_path / "after")
    built = ingest([tmp_path / "papers.jsonl", file], tmp_path / "whole", rules=rules)
    assert updated_manifest.content_hash == built.content_hash
    for name in ("own_entries", "notices_joined", "notices_without_paper"):
        assert built.counts[name] == updated_manifest.counts[name]
    assert (built.counts["notices_joined"], built.counts["notices_without_paper"]) == (5, 3)
    with Library.open(tmp_path / "after") as updated, Library.open(tmp_path / "whole") as whole:
        assert (
            statuses(updated) == statuses(whole) == [None, None, None, "retracted", None, "retracted", None]
        )
        assert updated.search("photon", mode="sparse", status=["retracted"], exact=True).total == 2
        fields = ["notices"]
        assert (
            updated.paper("CorpusId:5", fields=fields).notices
            == whole.paper("CorpusId:5", fields=fields).notices
        )


def test_odd_values() -> None:
    """Dates of several forms, bytes that are not UTF-8, and rows without what a notice needs."""
    read = notice_of(row(1, "Retraction", "2021-04-15", Title="RETRACTED: M\udcfcnchen"))
    assert isinstance(read, PaperRecord)
    assert read.title == "München"
    assert read.details["notices"]["1"]["date"] == "2021-04-15"
    undated = notice_of(row(1, "Retraction", "soon"))
    assert isinstance(undated, PaperRecord)
    assert "date" not in undated.details["notices"]["1"]
    for broken in (row(1, "Praise", "1/1/2021 0:00"), row(1, "Retraction", "", Title="")):
        assert isinstance(notice_of(broken), Reject)


def test_notices_are_a_filter(library: Library) -> None:
    """A correction is no status, and the filter finds it all the same, by words and among the neighbours of a paper."""

    def found(*statuses: str) -> list[str]:
        hits = library.search("photon", mode="sparse", status=statuses, limit=20).results
        return sorted(hit.paper.id for hit in hits)

    ids = [paper.id if paper else "" for paper in library.papers([f"CorpusId:{n}" for n in range(1, 8)])]
    assert found("correction") == [ids[2]]
    assert found("expression_of_concern", "reinstatement") == [ids[3], ids[4]]
    assert found("correction", "retracted") == sorted(ids[n] for n in (0, 1, 2, 3, 5))
    assert found("correction") == sorted(
        hit.paper.id
        for hit in library.search("photon", engine="fts5", mode="sparse", status="correction").results
    )
    assert library.search("photon", mode="sparse", status="correction", within=ids[:2]).results == ()
    with pytest.raises(InvalidRequest, match="cannot be combined with 'correction'"):
        found("active", "correction")


def test_papers_with_a_status_have_an_index(library: Library) -> None:
    """Finding them reads no other paper."""
    plan = library.catalog._rows(f"EXPLAIN QUERY PLAN SELECT id FROM papers WHERE {WITH_STATUS}")
    assert "papers_with_status" in str([tuple(row) for row in plan])
