"""Fusion of scores: the weighted sum of the legs' scores, each scaled to between 0 and 1.

Ranks alone say nothing about how far the first result of BM25 is ahead of the others. The method is the convex
combination of Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023,
https://arxiv.org/abs/2210.11934. docs/ranking.md has the measurements behind the constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from scholarbase.indexes.vectors.base import DENSE, ScoredId, scored_id

WEIGHTS: Final = (0.45, 0.55)
"""The weights of the sparse and the dense leg."""
STANDOUT_WEIGHTS: Final = (0.75, 0.25)
"""Those where the first sparse result stands out."""
STANDOUT: Final = 1.4
"""The first sparse result stands out if its score is this many times the score of the tenth. Then few papers have the
words of the query, and BM25 finds them better."""
_COMPARED: Final = 10
"""The rank of the result that the first is compared with."""
FIRST: Final = 100
"""The first results of a fusion, for which the dense leg is only :data:`DENSE_FIRST` deep: a search of the graph for
1,000 takes three times as long, for the same recall. The results after them are fused from whole legs."""
DENSE_FIRST: Final = 300
BEYOND: Final = 1.3
"""How much lower than the first score the 1,000th dense one is, relative to the 300th."""


class Combined(NamedTuple):
    """Papers, best first, their scores, and the number of papers in all legs together."""

    hits: list[ScoredId]
    found: int
    shares: Mapping[str, npt.NDArray[np.float64]]
    """Each leg's part of the score, in the order of its hits."""


def stands_out(hits: Sequence[ScoredId]) -> bool:
    """Whether the first result of a sparse leg is far ahead of the others."""
    return len(hits) >= _COMPARED and hits[0].score >= STANDOUT * hits[_COMPARED - 1].score


def leg_weights(
    legs: Mapping[str, Sequence[ScoredId]], configured: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The weight of each leg, dense and sparse; ``configured`` weights (1 if missing) take precedence."""
    if configured:
        return {name: configured.get(name, 1.0) for name in legs}
    sparse = next((hits for name, hits in legs.items() if name != DENSE), ())
    by_words, dense = STANDOUT_WEIGHTS if stands_out(sparse) else WEIGHTS
    return {name: dense if name == DENSE else by_words for name in legs}


def zero(hits: Sequence[ScoredId], depth: int, least: float) -> float:
    """The score of a leg, best first, that counts as 0.

    It is the last score of a leg with ``depth`` results, which was cut there. A shorter one is complete: it is
    ``least``, the lowest possible score.
    """
    if not hits:
        return least
    return hits[-1].score if len(hits) >= depth else min(least, hits[-1].score)


def zero_of_first(hits: Sequence[ScoredId], least: float) -> float:
    """:func:`zero` of a dense leg cut after :data:`DENSE_FIRST` results: an estimate of its 1,000th score, so that the
    last of them do not count as 0."""
    cut = zero(hits, DENSE_FIRST, least)
    if len(hits) < DENSE_FIRST:
        return cut
    return min(cut, max(least, hits[0].score - BEYOND * (hits[0].score - cut)))


def scaled(hits: Sequence[ScoredId], least: float) -> npt.NDArray[np.float64]:
    """The scores of a leg, best first, scaled so that the best is 1 and ``least`` is 0."""
    scores = np.array([score for _, score in hits], dtype=np.float64)
    if not len(scores) or scores[0] == least:
        return np.ones(len(scores))
    shares: npt.NDArray[np.float64] = (scores - least) / (scores[0] - least)
    return shares


def combine(
    legs: Mapping[str, Sequence[ScoredId]],
    weights: Mapping[str, float],
    zeros: Mapping[str, float],
    *,
    limit: int,
) -> Combined:
    """Fuse legs, each best first. Ties break by id. ``zeros`` has the :func:`zero` of each leg."""
    shares = {name: weights[name] * scaled(hits, zeros[name]) for name, hits in legs.items()}
    ids, places = np.unique(
        np.array([hit.id for hits in legs.values() for hit in hits], dtype=np.int64), return_inverse=True
    )
    if not len(ids):
        return Combined([], 0, shares)
    scores = np.bincount(places, np.concatenate(list(shares.values())), minlength=len(ids))
    # The ids ascend, and a stable sort keeps their order where scores are equal.
    order = np.argsort(-scores, kind="stable")[:limit]
    best = list(map(scored_id, zip(ids[order].tolist(), scores[order].tolist(), strict=True)))
    return Combined(best, len(ids), shares)
