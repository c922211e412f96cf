"""Known items: the papers whose id, link or title is the query of a search.

A paper that a query names comes first, in every mode, if it passes the filters. A title of few words may also be a
phrase of its field, such as *machine translation*, for which other papers are better answers: such a title does not
change the ranking (:func:`scholarbase.indexes.titles.is_common_phrase`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import MAX_LENGTH, parse
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.models.responses import LegExplanation
from scholarbase.search.cache import Cache

MOST_SHARING: Final = 3
"""Papers that may have the same title, or the same part before a subtitle. More are not one known item."""
CACHED_PHRASES: Final = 1024
"""Titles that are known to be common phrases or not: the test takes milliseconds."""
MAY_BE_ID: Final = re.compile(r"\s*(?:\S+:\s+)?\S+\s*")
"""A text without spaces, except after a prefix such as ``arXiv:``."""
_AROUND: Final = "<>[]()\"'.,;"
"""Characters that texts write around an id or a link."""


class KnownItem(NamedTuple):
    """A paper that the query names, and by what."""

    id: int
    by: Literal["id", "title"]


class KnownItems:
    """Finds the papers that queries name. Thread-safe."""

    def __init__(self, papers: Catalog) -> None:
        self._catalog = papers
        self._common: Cache[bool] = Cache(CACHED_PHRASES)

    def find(self, q: str, titled: Sequence[int], filters: ResolvedFilters) -> tuple[KnownItem, ...]:
        """The papers that pass the filters and whose id, link or title is ``q``, by id.

        ``titled`` are those with this title (:meth:`.Catalog.titled`). Only a text that matches :data:`MAY_BE_ID` is
        read as an id.
        """
        text = q.strip()
        number = self._of_id(text) if len(text) <= MAX_LENGTH and MAY_BE_ID.fullmatch(q) else None
        if number is not None:
            return (KnownItem(number, "id"),) if self._catalog.passing(number, filters) else ()
        if not titled or self._is_common(text, filters.last_day):
            return ()
        return tuple(KnownItem(number, "title") for number in titled)

    def _of_id(self, text: str) -> int | None:
        """The paper of an id or a link; None for other texts."""
        for name in dict.fromkeys((text, text.strip(_AROUND))):
            try:
                [number] = self._catalog.resolve([parse(name)])
            except InvalidRequest:
                continue
            if number is not None:
                return number
        return None

    def _is_common(self, title: str, last_day: int | None) -> bool:
        return self._common.get((title, last_day), lambda: self._catalog.is_common_phrase(title, last_day))


def explain_known(
    known: Sequence[KnownItem],
    page: Sequence[ScoredId],
    own: Sequence[ScoredId],
    explanations: Mapping[int, tuple[LegExplanation, ...]],
) -> dict[int, tuple[LegExplanation, ...]]:
    """The explanations of a page, with an entry for each known item before those of the legs.

    Its share is what ``put_first`` added to the score of the legs, those of ``own``.
    """
    explained = dict(explanations)
    scores = {hit.id: hit.score for hit in page}
    before = dict(own) if known else {}
    for rank, (number, by) in enumerate(known, 1):
        if number in scores:
            share = scores[number] - before.get(number, 0.0)
            explained[number] = (LegExplanation(by, rank, 1.0, share), *explained.get(number, ()))
    return explained


def put_first(known: Sequence[KnownItem], hits: Sequence[ScoredId]) -> list[ScoredId]:
    """The hits with the known items before all others, each with a score above that of the next."""
    own = {hit.id: hit.score for hit in hits}
    ids = [item.id for item in known]
    ranked = [hit for hit in hits if hit.id not in ids]
    for number in reversed(ids):
        score = own.get(number, 0.0 if ranked else 1.0)
        if ranked and score <= ranked[0].score:
            score = math.nextafter(ranked[0].score, math.inf)
        ranked.insert(0, ScoredId(number, score))
    return ranked
