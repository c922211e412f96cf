"""The preference of a search for recent or for cited papers. docs/measurements.md has the figures behind the constants.

A score is multiplied by ``1 / (1 + age / YEARS)``, the age in years at ``as_of`` or ``to``, else on the snapshot's
newest day (:attr:`.Catalog.newest_day`); or by ``(1 + citations) ** CITED``, those known at ``as_of``, 0 if unknown. A
negative score is divided by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.models.responses import LegExplanation
from scholarbase.search.plan import Plan

YEARS: Final = 3.0
"""The age at which a score is halved."""
CITED: Final = 0.1
"""The power of citations: with 1,000 of them, a score is doubled."""


def preferred(
    catalog: Catalog,
    hits: Sequence[ScoredId],
    plan: Plan,
    explanations: Mapping[int, tuple[LegExplanation, ...]],
) -> tuple[list[ScoredId], dict[int, tuple[LegExplanation, ...]]]:
    """The hits, sorted by the scores that the preference of the request gives them, ties by id; and explanations with
    an entry of the preference: the paper's rank without it, its factor, and what that adds to the score."""
    name = plan.request.prefer
    ids = [hit.id for hit in hits]
    factors = (
        _recent(catalog, ids, plan.filters.last_day) if name == "recent" else _cited(catalog, ids, plan.day)
    )
    scored = [
        # A negative cosine is divided, so that a greater factor raises it too.
        ScoredId(hit.id, hit.score * factor if hit.score > 0 else hit.score / factor)
        for hit, factor in zip(hits, factors.tolist(), strict=True)
    ]
    explained = dict(explanations)
    if plan.request.explain:
        for rank, (hit, new, factor) in enumerate(zip(hits, scored, factors.tolist(), strict=True), 1):
            leg = LegExplanation(name, rank, factor, new.score - hit.score)
            explained[hit.id] = (*explained.get(hit.id, ()), leg)
    return sorted(scored, key=lambda hit: (-hit.score, hit.id)), explained


def _recent(catalog: Catalog, ids: Sequence[int], last_day: int | None) -> NDArray[np.float64]:
    """The factors of ages. A paper without a date counts as the oldest of the others."""
    days = catalog.last_days(ids)
    today = _years(last_day or catalog.newest_day or 0)
    ages = {number: max(0.0, today - _years(day)) for number, day in days.items()}
    oldest = max(ages.values(), default=0.0)
    return np.array([1 / (1 + ages.get(number, oldest) / YEARS) for number in ids])


def _cited(catalog: Catalog, ids: Sequence[int], as_of: int | None) -> NDArray[np.float64]:
    counts = catalog.citation_counts(ids, as_of)
    return np.array([(1 + counts.get(number, 0)) ** CITED for number in ids])


def _years(day: int) -> float:
    """A day ``yyyymmdd`` in years."""
    return day // 10000 + (day // 100 % 100) / 12 + day % 100 / 365
