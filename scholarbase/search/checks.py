"""Checks of references: the paper of a library that each reference means."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from time import perf_counter
from typing import Any, Final

from scholarbase.bibliographies import Reference, read_bibliography
from scholarbase.bibliographies.requests import check_requests, placed
from scholarbase.errors import TimeLimit
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.limits import MAX_QUERY_LENGTH
from scholarbase.models.papers import Paper
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import (
    CheckedReference,
    CheckResponse,
    TitleMatch,
    Unfinished,
    count_statuses,
)
from scholarbase.search.checking import Outcome, References
from scholarbase.search.opened import Opened, finished, runs
from scholarbase.timing import stages

WORD_CANDIDATES: Final = 20
"""Papers with the words of a reference whose titles are compared with it."""
SHOWN_REFERENCE: Final = 300
"""Characters of a reference that the response repeats."""


class Checks(Opened):
    """The methods of a library that check references."""

    @runs(CheckBody)
    def run_check(self, request: CheckBody) -> CheckResponse:
        """Run a :class:`CheckBody`. Raises as ``check_references``; but a reference that takes longer than the time
        limit is :class:`Unfinished`."""
        self._check_open()
        bibliography = read_bibliography(request.references, request.input_format)
        checking = References(self._catalog, self._with_words, self._lookup.day(request.as_of))
        start = perf_counter()
        outcomes = [
            finished(partial(checking.check, reference), "reference", reference.raw)
            for reference in bibliography.references
        ]
        checked = perf_counter()
        numbers = {number for one in outcomes if isinstance(one, Outcome) for number in one.papers}
        papers = self._catalog.papers(list(numbers), request.fields, counts=request.as_of is None)
        by_number = dict(zip(numbers, papers, strict=True))
        stages().extend((("references", start, checked), ("hydrate", checked, perf_counter())))
        results = tuple(
            one if isinstance(one, Unfinished) else _checked(place, reference, one, by_number)
            for place, (reference, one) in enumerate(zip(bibliography.references, outcomes, strict=True), 1)
        )
        return CheckResponse(
            self.snapshot_id, bibliography.format, count_statuses(results), results, request.fields
        )

    def _with_words(self, text: str, filters: ResolvedFilters) -> list[int]:
        """The papers with the words of a reference, the best first."""
        request = SearchRequest(
            q=text[:MAX_QUERY_LENGTH], mode="sparse", engine="bm25", syntax="plain", limit=WORD_CANDIDATES
        )
        plan, _ = self._ranker.plan(request, filters)
        return [hit.id for hit in self._ranker.rank(plan).hits]

    def _check_all(self, **arguments: Any) -> CheckResponse:
        requests = check_requests(**arguments)
        results: list[CheckedReference] = []
        for part in requests.parts:
            found = self.run_check(requests.body_of(part)).results
            for at, one in zip(part, found, strict=True):
                if isinstance(one, Unfinished):
                    raise TimeLimit(one.error)
                results.append(placed(one, at))
        return requests.response(self.snapshot_id, results)


def _checked(
    position: int, reference: Reference, outcome: Outcome, papers: Mapping[int, Paper]
) -> CheckedReference:
    """The result for a reference."""
    text = " ".join(reference.raw[: 2 * SHOWN_REFERENCE].split())
    return CheckedReference(
        position,
        reference.line,
        outcome.status,
        outcome.reason,
        text if len(text) <= SHOWN_REFERENCE else f"{text[:SHOWN_REFERENCE]}...",
        reference.key,
        None if outcome.paper is None else papers[outcome.paper],
        outcome.differences,
        tuple(TitleMatch(round(score, 4), papers[number]) for score, number in outcome.matches),
    )
