"""Lists of papers by numbers, citations and what papers have, in every order, against plain Python on the sample."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from scholarbase.errors import InvalidRequest
from scholarbase.indexes import query_syntax
from scholarbase.search.library import Library
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import (
    Among,
    Either,
    Every,
    Has,
    Number,
    Text,
    Without,
    every,
)

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


def details(row: Any) -> dict[str, Any]:
    return json.loads(row["details"] or "{}")  # type: ignore[no-any-return]


def ids(sample: Library, condition: Any = Every(()), **options: Any) -> list[str]:  # noqa: B008
    """The ids on all pages."""
    found: list[str] = []
    total = 1
    while len(found) < total:
        total, hits = lists.listed(sample, condition, offset=len(found), fields=(), **options)
        found += [hit.paper.id for hit in hits]
    return found


def test_orders(sample: Library, rows: list[sqlite3.Row]) -> None:
    counted = sorted(rows, key=lambda r: (r["citation_count"] is None, -(r["citation_count"] or 0)))
    assert ids(sample, order="-citation_count") == [name(row) for row in counted]
    titled = sorted(rows, key=lambda r: (r["title"].encode(), r["id"]))
    assert ids(sample, order="title") == [name(row) for row in titled]
    both = sorted(
        rows,
        key=lambda r: (r["citation_count"] is None, r["citation_count"] or 0, r["title"].encode()),
    )
    assert ids(sample, order=("citation_count", "title")) == [name(row) for row in both]


def test_relevance_is_that_of_the_full_text(sample: Library) -> None:
    text = Text(query_syntax.compile('"black hole" AND title:entropy'))
    native = sample.search('"black hole" AND title:entropy', syntax="query", limit=100, exact=True)
    total, hits = lists.listed(sample, text)
    assert total == native.total > 0
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in native.results], rel=1e-6)
    years = sorted(hit.paper.year or 0 for hit in hits)
    later = every([text, Number("year", low=years[-1])])
    by_id = {hit.paper.id: hit.score for hit in hits}
    some = lists.listed(sample, later)[1]
    assert 0 < len(some) < len(hits)
    assert all(hit.score == by_id[hit.paper.id] for hit in some)
    # A paper without the words may be among the results, with a score of 0.
    either = lists.listed(sample, Either((text, Among("id", lists.held(sample, [CITED])))))[1]
    assert {hit.paper.id: hit.score for hit in either} == {**by_id, CITED: by_id.get(CITED, 0.0)}


@pytest.mark.parametrize(
    ("condition", "order"),
    [
        (Every(()), "-citation_count"),
        (Every(()), ("-date", "reference_count")),
        (Number("citation_count", 1), "-date"),
        (Without(Either((Has("abstract"), Number("reference_count")))), "-date"),
    ],
)
def test_counts_of_a_past_date_are_unknown(sample: Library, condition: Any, order: Any) -> None:
    with pytest.raises(InvalidRequest, match="cannot be combined with as_of"):
        lists.listed(sample, condition, order=order, as_of="1994-06")
