"""A search for ``*`` lists all papers that pass the filters. The expected order is that of the papers' own values."""

from typing import Any

import pytest

from scholarbase.errors import InvalidRequest, TimeLimit
from scholarbase.search.library import Library

FIELDS = ["citation_count", "publication_date", "year"]
FILTERS: list[dict[str, Any]] = [
    {},
    {"category": ["hep-th"], "to": "1994-06"},
    {"author": ["Washington Taylor"]},
    {"min_citations": 50, "exclude": ["string"]},
    {"as_of": "1993-05"},
]


def pages(library: Library, **options: Any) -> list[Any]:
    """All results, page by page."""
    hits: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = library.search("*", limit=700, offset=offset, fields=FIELDS, **options)
        assert (page.mode, page.engine, page.total_relation) == ("sparse", "fts5", "eq")
        hits += page.results
        offset = page.next_offset
    assert page.total == len(hits)
    return hits


@pytest.mark.parametrize("filters", FILTERS)
def test_all_papers_come_newest_first(sample: Library, filters: dict[str, Any]) -> None:
    hits = pages(sample, **filters)
    assert len({hit.paper.id for hit in hits}) == len(hits) == sample.facets(**filters).total
    # A paper of which only the year is known comes after the others of this year.
    dates = [h.paper.publication_date or f"{h.paper.year}-01-01" for h in hits]
    assert dates == sorted(dates, reverse=True)
    assert [hit.score for hit in hits] == [float(date.replace("-", "")) for date in dates]


@pytest.mark.parametrize("filters", FILTERS[:-1])
def test_all_papers_come_most_cited_first(sample: Library, filters: dict[str, Any]) -> None:
    hits = pages(sample, prefer="cited", **filters)
    counts = [hit.paper.citation_count for hit in hits]
    known = [one for one in counts if one is not None]
    assert counts == sorted(known, reverse=True) + [None] * (len(counts) - len(known))


def test_facets_of_all_papers_are_those_without_a_question(sample: Library) -> None:
    assert sample.facets("*", category=["hep-th"]) == sample.facets(category=["hep-th"])


def test_a_list_explains_its_order_and_has_limits(sample: Library) -> None:
    [hit] = sample.search("*", limit=1, offset=2, prefer="cited", explain=True).results
    assert hit.explain is not None
    assert (hit.explain[0].leg, hit.explain[0].rank, hit.explain[0].score) == ("cited", 3, hit.score)
    with pytest.raises(InvalidRequest, match="as_of"):
        sample.search("*", prefer="cited", as_of="1993")
    with pytest.raises(InvalidRequest, match="beyond result"):
        sample.search("*", offset=10_000)
    with pytest.raises(TimeLimit, match="Listing papers"):
        sample.search("*", to="1994-03-02", timeout=1e-6)
