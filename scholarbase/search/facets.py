"""Counts of papers by year, category and venue: of all papers, or of those that a query finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Final

from scholarbase import deadlines
from scholarbase.indexes.facets import COUNTING, Counts
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.limits import Counted, TotalRelation
from scholarbase.models.responses import Facet, FacetsResponse, FacetValue
from scholarbase.search.browsing import ALL
from scholarbase.search.cache import Cache
from scholarbase.search.legs import MAX_CACHED_IDS
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened, Part
from scholarbase.search.plan import Planner
from scholarbase.search.ranking import Ranker
from scholarbase.timing import stages

CACHED_VALUES: Final = 50_000
"""Values of cached counts, about 100 bytes each. A library has hundreds of years and categories, and thousands of
venues; counting all papers reads every row."""
_NOTHING: Final = Counts(0, {}, {}, {}, 0, 0, 0)


class Facets(Part):
    """Counts the papers of one library. Thread-safe. Its errors are those of the methods of a library."""

    def __init__(self, opened: Opened, lookup: Lookup, planner: Planner, ranker: Ranker) -> None:
        super().__init__(opened, lookup)
        self._planner = planner
        self._ranker = ranker
        self._counts: Cache[Counts] = Cache(CACHED_VALUES, lambda counts: counts.size)

    def count(self, request: FacetsParameters) -> FacetsResponse:
        """The number of papers by year, category and venue."""
        start = perf_counter()
        filters, warnings = self._lookup.filters(request)
        counted: Counted = "filters"
        relation: TotalRelation = "eq"
        stages().append(("filters", start, perf_counter()))
        if request.q is None or request.q.strip() == ALL:
            count = partial(self._catalog.count_values, filters)
            is_cached = len(filters.within or ()) + len(filters.exclude) <= MAX_CACHED_IDS
            counts = self._timed(lambda: self._counts.get(filters, count) if is_cached else count())
        else:
            plan, others = self._planner.plan(request.search(), filters)
            warnings += others
            if request.exact:
                counted, text = "matches", plan.expression
                matching = partial(self._catalog.count_values, plan.filters, expression=text)
                counts = _NOTHING if text is None else self._timed(matching)
            else:
                counted = "results"
                ranking = self._ranker.rank(plan)
                ids = [hit.id for hit in ranking.hits]
                counts = self._timed(lambda: self._catalog.count_values(filters, ids=ids))
                relation = ranking.relation if ranking.total <= len(ids) else "gte"
        return _response(self._snapshot, request.limit, counts, counted, relation, warnings)

    def _timed(self, count: Callable[[], Counts]) -> Counts:
        start = perf_counter()
        try:
            return count()
        finally:
            deadlines.check(*COUNTING)
            stages().append(("facets", start, perf_counter()))


def _response(
    snapshot: str,
    limit: int,
    counts: Counts,
    counted: Counted,
    relation: TotalRelation,
    warnings: tuple[str, ...],
) -> FacetsResponse:
    years = tuple(FacetValue(year, counts.years[year]) for year in sorted(counts.years))
    return FacetsResponse(
        snapshot,
        counted,
        counts.total,
        relation,
        Facet(years, len(years), counts.no_year),
        _first(counts.categories, limit, counts.no_category),
        _first(counts.venues, limit, counts.no_venue),
        warnings,
    )


def _first(papers: Mapping[str, int], limit: int, unknown: int) -> Facet:
    """The values of most papers, ties in alphabetical order."""
    first = sorted(papers, key=lambda name: (-papers[name], name))[:limit]
    return Facet(tuple(FacetValue(name, papers[name]) for name in first), len(papers), unknown)
