"""All papers that pass the filters of a search whose question is ``*``: the newest first, or the most cited."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Final

from scholarbase import deadlines
from scholarbase.errors import InvalidRequest
from scholarbase.indexes.filters import ResolvedFilters, filter_sql
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.models.limits import MAX_DEPTH
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import Hit, LegExplanation, SearchResponse
from scholarbase.search.cache import Cache
from scholarbase.search.legs import MAX_CACHED_IDS
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened, Part
from scholarbase.timing import stages

ALL: Final = "*"
"""The question that every paper matches."""
LISTING: Final = ("Listing papers", "use more filters")
"""Activity and advice for the error at the time limit."""
_CACHED_PAPERS: Final = 500_000
"""Papers of all cached lists, about 100 bytes each. A list reads every row of the catalogue."""


class Browsing(Part):
    """Lists the papers of one library. Thread-safe. Its errors are those of the methods of a library."""

    def __init__(self, opened: Opened, lookup: Lookup) -> None:
        super().__init__(opened, lookup)
        self._lists: Cache[tuple[int, list[ScoredId]]] = Cache(
            _CACHED_PAPERS, lambda papers: len(papers[1]) + 1
        )

    def all(self, request: SearchRequest) -> SearchResponse:
        """A page of all papers that pass the filters: the newest first, the most cited with ``prefer="cited"``."""
        start = perf_counter()
        by_citations = request.prefer == "cited"
        if by_citations and request.as_of is not None:
            raise InvalidRequest(
                f"prefer 'cited' cannot be combined with as_of {request.as_of!r} where q is '*', because the counts of "
                "citations are those of today: leave one out."
            )
        if request.offset >= MAX_DEPTH:
            raise InvalidRequest(
                f"offset {request.offset} is beyond result {MAX_DEPTH}, the last of a list: use filters."
            )
        filters, warnings = self._lookup.filters(request)
        key = (filters, by_citations)
        listed = partial(self._list, filters, by_citations)
        is_cached = len(filters.within or ()) + len(filters.exclude) <= MAX_CACHED_IDS
        total, ranked = self._lists.get(key, listed) if is_cached else listed()
        read = perf_counter()
        end = min(request.offset + request.limit, MAX_DEPTH)
        hits = ranked[request.offset : end]
        papers = self._catalog.papers([hit.id for hit in hits], request.fields, as_of=request.as_of)
        stages().extend((("list", start, read), ("hydrate", read, perf_counter())))
        name = "cited" if by_citations else "recent"
        return SearchResponse(
            self._snapshot,
            "sparse",
            "fts5",
            total,
            "eq",
            end if end < len(ranked) else None,
            tuple(
                Hit(
                    hit.score,
                    paper,
                    (LegExplanation(name, rank, hit.score, hit.score),) if request.explain else None,
                )
                for rank, (hit, paper) in enumerate(zip(hits, papers, strict=True), request.offset + 1)
            ),
            warnings=warnings,
            fields=request.fields,
        )

    def _list(self, filters: ResolvedFilters, by_citations: bool) -> tuple[int, list[ScoredId]]:
        """The number of papers, and the first of them with their numbers of citations or their first days. Papers
        without the value come last with the score 0, equal ones in the order of the ingest. A date of which only the
        year is known comes after the other days of the year, as in lists of citations."""
        condition, params = filter_sql(filters, "p")
        first, second = (
            ("p.citation_count", "p.citation_count") if by_citations else ("p.first_day", "p.last_day")
        )
        order = f"ORDER BY {first} DESC NULLS LAST, {second} DESC, p.id LIMIT {MAX_DEPTH}"
        with self._catalog.reading(*LISTING) as connection:
            rows = connection.execute(
                f"SELECT p.id, ifnull({first}, 0) FROM papers AS p WHERE {condition} {order}", params
            ).fetchall()
            total = len(rows)
            if total == MAX_DEPTH:
                count = f"SELECT count(*) FROM papers AS p WHERE {condition}"
                [total] = connection.execute(count, params).fetchone()
        deadlines.check(*LISTING)
        return total, [ScoredId(number, float(score)) for number, score in rows]
