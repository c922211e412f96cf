"""``Library.matching``: all papers that match a condition, in pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from scholarbase.deadlines import time_limit
from scholarbase.errors import InvalidRequest, LibraryError, NothingLeft, TimeLimit
from scholarbase.indexes.matches import Matches
from scholarbase.models.requests import Filters
from scholarbase.search.library import Library
from tests.conftest import arxiv_rows, sample_rows

ALL = Matches()


def read(library: Library, condition: Matches, limit: int, **filters: str) -> list[str]:
    position, ids = None, list[str]()
    while True:
        page = library.matching(condition, Filters(**filters), limit=limit, after=position, fields=["id"])
        ids += [paper.id for paper in page.papers]
        if page.position is None:
            assert page.total == len(ids)
            return ids
        assert len(page.papers) == limit
        position = page.position


@pytest.mark.parametrize("limit", [1000, 2440, 610, 2441])
def test_pages_of_any_size_are_the_whole(sample: Library, limit: int) -> None:
    ids = read(sample, ALL, limit)
    joined = {f"arXiv:{row['id']}" for row in arxiv_rows()}
    alone = {
        f"CorpusId:{row['corpusid']}"
        for row in sample_rows("papers")
        if "ArXiv" not in (row["externalids"] or {})
    }
    assert set(ids) >= joined
    assert len(ids) == len(set(ids)) == 2440
    assert set(ids) - joined >= alone - joined


def test_conditions(sample: Library) -> None:
    every = set(read(sample, ALL, 2440))
    having = set(read(sample, Matches('"string"'), 100))
    assert having == {
        hit.paper.id for hit in sample.search('"string"', syntax="query", limit=1000, fields=["id"]).results
    }
    assert set(read(sample, Matches('"string"', excludes=True), 700)) == every - having


def test_nothing_is_later_than_the_date(sample: Library) -> None:
    page = sample.matching(ALL, Filters(as_of="1993-06"), fields=["publication_date", "citation_count"])
    assert page.total > 100
    assert all((paper.publication_date or "9") <= "1993-06-30" for paper in page.papers)
    assert {paper.citation_count for paper in page.papers} == {None}
    with pytest.raises(NothingLeft):
        sample.matching(ALL, Filters(as_of="1900-01"))


def test_a_malformed_expression_is_an_error(sample: Library) -> None:
    with pytest.raises(InvalidRequest, match="malformed"):
        sample.matching(Matches("AND ("), Filters())


def test_it_ends_at_the_time_limit(sample: Library) -> None:
    with time_limit(1e-9), pytest.raises(TimeLimit):
        sample.matching(Matches('"theory"'), Filters())


def test_a_closed_library(sample_library: Path) -> None:
    library = Library.open(sample_library)
    library.close()
    with pytest.raises(LibraryError, match="closed"):
        library.matching(ALL, Filters())
