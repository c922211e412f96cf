"""The citation graph: the citations and references of a paper, and the neighbours of papers."""

from __future__ import annotations

from functools import lru_cache
from time import perf_counter
from typing import Final

from scholarbase.indexes.citations import Most
from scholarbase.models.checks import as_of_day, check_sort
from scholarbase.models.limits import Direction
from scholarbase.models.paging import next_offset
from scholarbase.models.requests import EdgeBody, ExpandBody
from scholarbase.models.responses import Citation, CitationsResponse, ExpandResponse, Neighbour
from scholarbase.search.lookup import CACHED_IDS, Lookup
from scholarbase.search.opening import Opened, Part
from scholarbase.timing import stages


class Graph(Part):
    """Reads the citations of one library. Thread-safe. Its errors are those of the methods of a library."""

    def __init__(self, opened: Opened, lookup: Lookup) -> None:
        super().__init__(opened, lookup)
        self.few_edges: Final = lru_cache(CACHED_IDS)(self._catalog.few_edges)
        """The number of citations or references (a direction) of a paper (its catalogue id), None if it has many."""

    def citations(self, request: EdgeBody) -> CitationsResponse:
        """A page of the papers that cite a paper."""
        return self._edges(request, "citations")

    def references(self, request: EdgeBody) -> CitationsResponse:
        """A page of the papers that a paper cites."""
        return self._edges(request, "references")

    def _edges(self, request: EdgeBody, direction: Direction) -> CitationsResponse:
        start = perf_counter()
        filters, warnings = self._lookup.filters(request)
        number = self._lookup.id(request.paper_id, request.as_of)
        limit, offset = request.limit, request.offset
        edges = self._catalog.edges(
            number,
            direction,
            limit,
            offset,
            check_sort(request.sort, request.as_of),
            filters,
            fields=request.fields,
            as_of=request.as_of,
            at_most=self.few_edges(number, direction),
        )
        # A first page that is not full has all the edges.
        whole = offset == 0 and len(edges) < limit
        total = len(edges) if whole else self._catalog.count_edges(number, direction, filters)
        following = next_offset(offset, len(edges), total)
        stages().append((direction, start, perf_counter()))
        results = tuple([Citation(e.paper, e.is_influential, e.contexts, e.intents) for e in edges])
        return CitationsResponse(self._snapshot, total, following, results, warnings, request.fields)

    def expand(self, request: ExpandBody) -> ExpandResponse:
        """The neighbours of papers."""
        start = perf_counter()
        filters, warnings = self._lookup.filters(request)
        resolved = perf_counter()
        total, rows = self._catalog.expand(
            self._lookup.ids(request.seeds, request.as_of),
            request.direction,
            request.hops,
            filters,
            request.limit,
            request.offset,
            as_of=None if request.as_of is None else as_of_day(request.as_of),
            most=Most(request.citations_per_seed, request.references_per_seed),
        )
        expanded = perf_counter()
        papers = self._catalog.papers([row.paper_id for row in rows], request.fields, as_of=request.as_of)
        ends = (
            ("filters", start, resolved),
            ("expand", resolved, expanded),
            ("hydrate", expanded, perf_counter()),
        )
        stages().extend(ends)
        results = tuple(Neighbour(p, row.seeds, row.hops) for row, p in zip(rows, papers, strict=True))
        following = next_offset(request.offset, len(results), total)
        return ExpandResponse(self._snapshot, total, following, results, warnings, request.fields)
