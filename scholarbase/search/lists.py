"""Lists of all papers of a library that meet a condition (:mod:`scholarbase.indexes.listing`)."""

from __future__ import annotations

from collections.abc import Sequence
from threading import BoundedSemaphore
from time import perf_counter
from typing import Final

from scholarbase import deadlines
from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import parse
from scholarbase.indexes.listing import Condition, Days, Listed, ListOrder, every, uses_counts
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import PAPER_FIELDS
from scholarbase.models.responses import Hit
from scholarbase.search.cache import Cache
from scholarbase.search.opened import Opened
from scholarbase.timing import stages

CACHED_BYTES: Final = 40 << 20
"""Bytes of cached lists, since a caller pages through one. A paper takes 8 bytes, and 4 more in a list by relevance:
one of 3 million papers by relevance fits. A longer list than fits, of 3.5 million papers by relevance, is made again
for each page. With the other caches a process stays within 100 MB above idle (docs/reliability.md)."""
CONDITION_BYTES: Final = 1 << 20
"""Bytes that the condition of a cached list counts for: it may have 10,000 ids. So at most 40 lists are cached."""
LISTS_AT_ONCE: Final = 2
"""Lists that are made at once; others wait. One of 3 million papers takes 36 MB, and 16 MB for sorting in SQLite."""
_ACTIVITY: Final = ("Listing papers", "use fewer words, names and conditions")


def list_cache() -> Cache[Listed]:
    """A cache of ``CACHED_BYTES``."""
    return Cache(CACHED_BYTES, lambda one: one.nbytes + CONDITION_BYTES)


class Lists(Opened):
    """The methods of a library that list papers."""

    _lists: Cache[Listed]
    _making: BoundedSemaphore

    def listed(
        self,
        condition: Condition,
        *,
        order: ListOrder | Sequence[ListOrder] = "-relevance",
        limit: int = MAX_LIMIT,
        offset: int = 0,
        fields: Sequence[str] = PAPER_FIELDS,
        first: Sequence[str] = (),
        as_of: str | None = None,
    ) -> tuple[int, list[Hit]]:
        """The number of papers that meet a condition, and a page of them (:mod:`scholarbase.indexes.listing`).

        Args:
            order: one or several, the first one first.
            first: ids of papers that come before all others if they meet the condition, such as the one whose title is
                searched for. They have the score of the best.

        Raises:
            InvalidRequest: the condition or the order needs counts of citations, which are unknown with ``as_of``.
            NothingLeft: ``as_of`` is before every paper.
            TimeLimit: it takes longer than the time limit.
        """
        orders: tuple[ListOrder, ...] = (order,) if isinstance(order, str) else tuple(order)
        condition = self._existing(condition, as_of, orders)
        start = perf_counter()
        found = self._lists.get((condition, orders), lambda: self._list(condition, orders))
        deadlines.check(*_ACTIVITY)
        listed = perf_counter()
        if first:
            found = found.with_first(self._lookup.held(first, as_of))
        page = slice(offset, offset + limit)
        papers = self._catalog.papers(found.ids[page].tolist(), fields, counts=as_of is None)
        scores = [0.0] * len(papers) if found.scores is None else found.scores[page].tolist()
        stages().extend((("list", start, listed), ("hydrate", listed, perf_counter())))
        return len(found.ids), [Hit(score, paper) for score, paper in zip(scores, papers, strict=True)]

    def count_years(self, condition: Condition, *, as_of: str | None = None) -> list[tuple[int, int]]:
        """The number of papers of each year that meet a condition, most papers first. Raises as :meth:`listed`."""
        return self._catalog.years(self._existing(condition, as_of))

    def held(self, ids: Sequence[str], *, as_of: str | None = None) -> tuple[int, ...]:
        """The catalogue ids of those papers that the library holds, for a condition. Raises as ``papers``."""
        self._check_open()
        return self._lookup.held(ids, as_of)

    def reference_ids(self, ids: Sequence[str], *, as_of: str | None = None) -> dict[str, list[str]]:
        """The ids of the papers that each of these papers cites; nothing for one that the library does not hold.

        Raises as ``papers``.
        """
        self._check_open()
        day = self._lookup.day(as_of)
        return self._catalog.reference_ids([parse(paper_id) for paper_id in ids], day)

    def _existing(
        self, condition: Condition, as_of: str | None, orders: Sequence[ListOrder] = ()
    ) -> Condition:
        """A condition on the papers that exist as of a day."""
        self._check_open()
        day = self._lookup.day(as_of)
        if day is None:
            return condition
        if uses_counts(condition, orders):
            raise InvalidRequest(
                f"Counts of citations and references, and retractions, cannot be combined with as_of {as_of!r}: the "
                "snapshot has only its own, later ones. Leave one of them out."
            )
        return every([condition, Days(last=day)])

    def _list(self, condition: Condition, orders: Sequence[ListOrder]) -> Listed:
        """The whole list. Raises TimeLimit if others take until the time limit."""
        deadlines.check(*_ACTIVITY)
        with deadlines.turn(self._making):
            return self._catalog.listed(condition, orders, title_weight=self.settings.fts5_title_weight)
