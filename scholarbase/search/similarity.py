"""Papers similar to a paper: the nearest to its vector, those cited together with it, and those that the citation graph
links with it and with the nearest."""

from __future__ import annotations

import math
from dataclasses import replace
from time import perf_counter
from typing import Final, NamedTuple

from scholarbase.errors import InvalidRequest, UnsupportedMode
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import DENSE, ScoredId
from scholarbase.models.requests import SimilarBody
from scholarbase.models.responses import Hit, LegExplanation, SimilarResponse
from scholarbase.search.fusion import GRAPH, MOST_LINKS, GraphLeg, fuse, scaled, zero
from scholarbase.search.legs import Ranking
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened, Part
from scholarbase.timing import stages

COCITATION: Final = "cocitation"
"""The name of the leg of papers that are cited together with the paper."""
NOT_COMPARABLE: Final = "{!r} has no similar papers: it has no dense vector and no citations."


PAPER_WEIGHT: Final = 10
"""The weight of the paper as a seed of the graph, of which the paper nearest to it has 1 (docs/measurements.md)."""


class _Leg(NamedTuple):
    hits: list[ScoredId]
    has_more: bool


class Similarity(Part):
    """Finds the papers of one library that are similar to a paper. Needs no encoder. Thread-safe."""

    def __init__(self, opened: Opened, lookup: Lookup) -> None:
        super().__init__(opened, lookup)
        self._vectors = opened.vectors
        self._graph = GraphLeg(opened.catalog)
        self._k = opened.settings.rrf_k
        self._depth = opened.settings.fusion_depth
        self._exact = opened.settings.exact
        counts = opened.manifest.counts
        self._has_vectors = counts["dense_vectors"] > 0
        self._has_edges = counts["edges"] > 0

    def similar(self, request: SimilarBody) -> SimilarResponse:
        """A page of the papers similar to a paper."""
        start = perf_counter()
        filters, warnings = self._lookup.filters(request)
        number = self._lookup.id(request.paper_id, request.as_of)
        stages().append(("filters", start, perf_counter()))
        ranking = self._rank(number, request, filters)
        if not ranking.total and not self._is_comparable(number, request.as_of):
            warnings += (NOT_COMPARABLE.format(request.paper_id),)
        hits, explanations = ranking.hits, ranking.explanations
        start = perf_counter()
        papers = self._catalog.papers([hit.id for hit in hits], request.fields, as_of=request.as_of)
        stages().append(("hydrate", start, perf_counter()))
        return SimilarResponse(
            self._snapshot,
            ranking.total,
            ranking.relation,
            ranking.next_offset,
            tuple(Hit(h.score, paper, explanations.get(h.id)) for h, paper in zip(hits, papers, strict=True)),
            warnings,
            request.fields,
        )

    def _rank(self, paper_id: int, request: SimilarBody, filters: ResolvedFilters) -> Ranking:
        """Rank the papers similar to the paper with this catalogue id, and cut the page.

        Raises:
            UnsupportedMode: the library has neither dense vectors nor citations.
            InvalidRequest: the page is too deep.
            VectorIndexError, LibraryCorrupt: a leg failed.
        """
        if not self._has_vectors and not self._has_edges:
            raise UnsupportedMode(
                "similar papers require dense vectors or citations, and this library was built without both: ingest "
                "with --encoder, or from a release with citations, or search for words of the paper's title."
            )
        if request.offset >= self._depth:
            raise InvalidRequest(
                f"offset {request.offset} is beyond result {self._depth}, the last of the similar papers: use filters."
            )
        dense = self._dense(paper_id, request, filters)
        day = self._lookup.day(request.as_of)
        legs = {DENSE: dense, COCITATION: self._cocited(paper_id, filters, day)}
        seeds = self._seeds(paper_id, dense.hits)
        if self._has_edges:
            others = replace(filters, exclude=filters.exclude | {paper_id})
            linked, has_more, edges = self._graph.rank(seeds, self._depth, others, day)
            legs[GRAPH] = _Leg(linked, has_more)
        start = perf_counter()
        end = min(request.offset + request.limit, self._depth)
        lists = {name: leg.hits for name, leg in legs.items()}
        hits, total, explanations = fuse(lists, end, k=self._k, explain=request.explain)
        hits = hits[request.offset :]
        if GRAPH in legs and request.explain:
            named = self._graph.linked(edges)
            explanations = {
                number: tuple(
                    LegExplanation(leg.leg, leg.rank, leg.score, leg.share, (), *named.get(number, ((), ())))
                    if leg.leg == GRAPH
                    else leg
                    for leg in explanations[number]
                )
                for number, _ in hits
            }
        stages().append(("fusion", start, perf_counter()))
        reached = request.offset + len(hits)
        return Ranking(
            hits,
            total,
            "gte" if any(leg.has_more for leg in legs.values()) else "eq",
            reached if hits and reached < min(total, self._depth) else None,
            explanations,
        )

    def _is_comparable(self, paper_id: int, as_of: str | None) -> bool:
        """Whether the paper has a vector, or citations, whatever the filters of a request."""
        if self._vectors.dense_vectors([paper_id]):
            return True
        _, far, _ = self._catalog.linked([paper_id], MOST_LINKS, as_of=self._lookup.day(as_of))
        return far.size > 0

    def _dense(self, paper_id: int, request: SimilarBody, filters: ResolvedFilters) -> _Leg:
        start = perf_counter()
        vector = self._vectors.dense_vectors([paper_id]).get(paper_id)
        leg = _Leg([], False)
        if vector is not None:
            others = replace(filters, exclude=filters.exclude | {paper_id})
            hits = self._vectors.search_dense(
                vector, self._depth + 1, others, exact=request.exact or self._exact
            )
            # A search of the graph may miss papers.
            has_more = len(hits) > self._depth or self._vectors.count(others, vector=DENSE) > len(hits)
            leg = _Leg(hits[: self._depth], has_more)
        stages().append((DENSE, start, perf_counter()))
        return leg

    def _seeds(self, paper_id: int, near: list[ScoredId]) -> list[ScoredId]:
        """The paper and those near it, as seeds of the graph."""
        scores = scaled(near, zero(near, self._depth, 0.0)).tolist()
        scored = [ScoredId(hit.id, score) for hit, score in zip(near, scores, strict=True)]
        return [ScoredId(paper_id, math.sqrt(PAPER_WEIGHT)), *scored]

    def _cocited(self, paper_id: int, filters: ResolvedFilters, day: int | None) -> _Leg:
        start = perf_counter()
        leg = _Leg(*self._catalog.cocited(paper_id, self._depth, filters, as_of=day))
        stages().append((COCITATION, start, perf_counter()))
        return leg
