"""Lists of papers by conditions, against plain SQL on the sample's tables."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.models.listing import Among, Has, InRange, ListRequest
from scholarbase.search.library import Library

CITED = "arXiv:hep-th/9302103"


@pytest.fixture(scope="module")
def rows(sample_library: Path) -> list[sqlite3.Row]:
    connection = sqlite3.connect(f"file:{sample_library / 'catalog.sqlite'}?immutable=1", uri=True)
    connection.row_factory = sqlite3.Row
    found = connection.execute(
        "SELECT p.*, abstract FROM papers AS p LEFT JOIN abstracts AS a ON a.paper_id = p.id ORDER BY p.id"
    ).fetchall()
    connection.close()
    return found


def name(row: Any) -> str:
    return f"arXiv:{row['arxiv_id']}" if row["arxiv_id"] else f"CorpusId:{row['corpus_id']}"


def every(sample: Library, **arguments: Any) -> list[str]:
    """The ids on all pages."""
    ids: list[str] = []
    offset: int | None = 0
    while offset is not None:
        found = sample.run_list(ListRequest.of(limit=1000, offset=offset, fields=(), **arguments))
        ids += [paper.id for paper in found.papers]
        offset = found.next_offset
        assert found.total >= len(ids)
    assert found.total == len(ids)
    return ids


def test_pages_have_every_paper_once_newest_first(sample: Library, rows: list[sqlite3.Row]) -> None:
    dated = sorted((row for row in rows if row["first_day"]), key=lambda r: (-r["first_day"], -r["last_day"]))
    assert every(sample)[: len(dated)] == [name(row) for row in dated]
    assert len(every(sample)) == len(set(every(sample))) == len(rows)


def test_orders(sample: Library, rows: list[sqlite3.Row]) -> None:
    counted = sorted(rows, key=lambda r: -1 if r["citation_count"] is None else r["citation_count"])
    assert every(sample, sort=("-citation_count", "-id")) == [name(row) for row in reversed(counted)]
    assert every(sample, sort=("id",)) == [name(row) for row in rows]
    assert every(sample, sort=("title",)) == [
        name(row) for row in sorted(rows, key=lambda r: r["title"].encode())
    ]


@pytest.mark.parametrize(
    ("condition", "keep"),
    [
        (
            InRange("year", ((1993, 1994), (1996, None))),
            lambda r: r["year"] in (1993, 1994) or (r["year"] or 0) > 1995,
        ),
        (InRange("year", ((None, 1994),), negated=True), lambda r: r["year"] is None or r["year"] > 1994),
        (InRange("citation_count", ((10, 20),)), lambda r: 10 <= (r["citation_count"] or 0) <= 20),
        (InRange("year", ()), lambda r: False),
        (Has("abstract"), lambda r: bool(r["abstract"])),
        (Has("abstract", negated=True), lambda r: not r["abstract"]),
        (Has("arxiv"), lambda r: r["arxiv_id"] is not None),
        (Has("doi"), lambda r: '"DOI"' in (r["external_ids"] or "")),
        (Among("id", (CITED, "arXiv:2309.06180")), lambda r: name(r) == CITED),
        (Among("id", (CITED,), negated=True), lambda r: name(r) != CITED),
    ],
)
def test_conditions(sample: Library, rows: list[sqlite3.Row], condition: Any, keep: Any) -> None:
    expected = [name(row) for row in rows if keep(row)]
    assert every(sample, conditions=(condition,), sort=("id",)) == expected


def test_citing_and_cited_papers(sample: Library) -> None:
    citing = {edge.paper.id for edge in sample.citations(CITED, limit=1000).results}
    assert citing
    assert set(every(sample, conditions=(Among("cites", (CITED,)),))) == citing
    one = sorted(citing)[0]
    cited = {edge.paper.id for edge in sample.references(one, limit=1000).results}
    assert CITED in cited
    assert set(every(sample, conditions=(Among("cited_by", (one,)),))) == cited
    assert set(every(sample, conditions=(Among("cited_by", (one,)), Has("references")))) <= cited


def test_a_text_is_query_syntax_with_exact_counts(sample: Library) -> None:
    request = ListRequest.of(q='"black hole" AND title:entropy', sort=("-relevance",), limit=10)
    found = sample.run_list(request)
    native = sample.search(
        '"black hole" AND title:entropy', syntax="query", engine="fts5", limit=10, exact=True
    )
    assert found.total == native.total > 0
    assert {paper.id for paper in found.papers} == {hit.paper.id for hit in native.results}
    assert list(found.scores) == sorted(found.scores, reverse=True)


def test_years(sample: Library, rows: list[sqlite3.Row]) -> None:
    counted = Counter(row["year"] for row in rows if row["year"] is not None)
    assert dict(sample.count_years(ListRequest.of())) == counted
    assert [n for _, n in sample.count_years(ListRequest.of())] == sorted(counted.values(), reverse=True)


def test_nothing_is_later_than_as_of(sample: Library) -> None:
    ids = every(sample, as_of="1994-06")
    papers = [paper for paper in sample.papers(ids) if paper is not None]
    assert len(papers) == len(ids) > 0
    assert max(paper.publication_date or "" for paper in papers) <= "1994-06-30"
    late = next(p.id for p in sample.run_list(ListRequest.of(limit=1)).papers)
    assert every(sample, conditions=(Among("cited_by", (late,)),), as_of="1994-06") == []
    [first] = sample.run_list(ListRequest.of(as_of="1994-06", limit=1)).papers
    assert first.citation_count is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"sort": ("-relevance",)},
        {"sort": ("-citation_count",), "as_of": "1994-06"},
        {"conditions": (InRange("citation_count", ((1, None),)),), "as_of": "1994-06"},
        {"conditions": (Has("abstract"),) * 101},
        {"conditions": (InRange("year", ((1, 2),) * 101),)},
        {"conditions": (Among("id", (CITED,) * 10_001),)},
        {"q": '"unclosed'},
        {"q": ""},
        {"conditions": (Among("id", ("nonsense",)),)},
    ],
)
def test_invalid_requests(sample: Library, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        sample.run_list(ListRequest.of(**arguments))
