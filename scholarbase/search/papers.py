"""Papers by their titles and by their ids."""

from __future__ import annotations

from functools import partial
from time import perf_counter

from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.models.papers import Paper
from scholarbase.models.requests import PaperBatchBody, PaperBody, TitleBatchBody, TitleParameters
from scholarbase.models.responses import (
    PaperBatchResponse,
    PaperResponse,
    TitleBatchResponse,
    TitleMatch,
    TitleMatchResponse,
    finished,
)
from scholarbase.search.opening import Part
from scholarbase.timing import stages


class Papers(Part):
    """Looks up the papers of one library. Thread-safe. Its errors are those of the methods of a library."""

    def title(self, request: TitleParameters) -> TitleMatchResponse:
        """The papers with a title."""
        results = self._match(request.title, request, self._lookup.day(request.as_of))
        return TitleMatchResponse(self._snapshot, results, request.fields)

    def titles(self, request: TitleBatchBody) -> TitleBatchResponse:
        """The papers with each title; a title that takes longer than the time limit is :class:`.Unfinished`."""
        day = self._lookup.day(request.as_of)
        results = [
            finished(partial(self._match, title, request, day), "title", title) for title in request.titles
        ]
        return TitleBatchResponse(self._snapshot, tuple(results), request.fields)

    def _match(
        self, title: str, request: TitleParameters | TitleBatchBody, day: int | None
    ) -> tuple[TitleMatch, ...]:
        filters = NO_FILTERS if day is None else ResolvedFilters(last_day=day)
        start = perf_counter()
        matches = self._catalog.match_title(title, request.limit, request.min_score, filters)
        matched = perf_counter()
        papers = self._catalog.papers([match.id for match in matches], request.fields, as_of=request.as_of)
        stages().extend((("titles", start, matched), ("hydrate", matched, perf_counter())))
        return tuple(TitleMatch(m.score, paper) for m, paper in zip(matches, papers, strict=True))

    def paper(self, request: PaperBody) -> PaperResponse:
        """One paper."""
        number = self._lookup.id(request.paper_id, request.as_of)
        start = perf_counter()
        [paper] = self._catalog.papers([number], request.fields, as_of=request.as_of)
        stages().append(("hydrate", start, perf_counter()))
        return PaperResponse(self._snapshot, paper, request.fields)

    def papers(self, request: PaperBatchBody) -> PaperBatchResponse:
        """Many papers. Raises PaperNotFound if the request needs all of them."""
        day = self._lookup.day(request.as_of)
        numbers = self._lookup.find(request.ids, day)
        existing = {paper_id for paper_id in numbers if paper_id is not None}
        if day is not None:
            existing = self._catalog.existing(list(existing), day)
        if request.needs_all:
            for paper_id, number in zip(request.ids, numbers, strict=True):
                if number not in existing:
                    self._lookup.id(paper_id, request.as_of)  # raises
        start = perf_counter()
        papers = self._catalog.papers(list(existing), request.fields, as_of=request.as_of)
        stages().append(("hydrate", start, perf_counter()))
        by_id: dict[int | None, Paper] = dict(zip(existing, papers, strict=True))
        return PaperBatchResponse(self._snapshot, tuple(map(by_id.get, numbers)), request.fields)
