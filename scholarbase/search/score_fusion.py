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


def scaled(hits: Sequence[ScoredId], depth: int, least: float) -> npt.NDArray[np.float64]:
    """The scores of a leg, best first, scaled so that the best is 1.

    0 is the last score of a leg with ``depth`` results, which was cut there. A shorter one is complete: 0 is ``least``,
    the lowest possible score.
    """
    scores = np.array([score for _, score in hits], dtype=np.float64)
    if not len(scores):
        return scores
    zero = scores[-1] if len(scores) >= depth else min(least, scores[-1])
    if scores[0] == zero:
        return np.ones(len(scores))
    shares: npt.NDArray[np.float64] = (scores - zero) / (scores[0] - zero)
    return shares


def combine(
    legs: Mapping[str, Sequence[ScoredId]],
    weights: Mapping[str, float],
    least: Mapping[str, float],
    *,
    depth: int,
    limit: int,
) -> Combined:
    """Fuse legs, each best first and at most ``depth`` long. Ties break by id.

    ``least`` is the lowest possible score of a leg, 0 if missing.
    """
    shares = {name: weights[name] * scaled(hits, depth, least.get(name, 0.0)) for name, hits in legs.items()}
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
