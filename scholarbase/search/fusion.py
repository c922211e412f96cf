"""Reciprocal rank fusion: several ranked lists to one.

Each list gives a paper ``weight / (k + rank)``, ranks counted from one, and a paper's score is the sum over
the lists that hold it (Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and
individual rank learning methods", SIGIR 2009, https://doi.org/10.1145/1571941.1572114). Qdrant's own fusion
counts ranks from zero, so its ``k = 61`` is the ``k = 60`` of the paper and of this module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scholarbase.errors import InvalidRequest
from scholarbase.indexes.vectors.base import ScoredId

K: Final = 60
"""The constant of the paper, which found little difference around it."""


class Share(NamedTuple):
    """What one leg gave to a paper: its rank (from one) and score there, its part of the fused score."""

    rank: int
    score: float
    share: float


class Fused(NamedTuple):
    """A paper, its fused score, and where that comes from: the leg's name to its share."""

    id: int
    score: float
    shares: Mapping[str, Share]


def fuse(
    legs: Mapping[str, Sequence[ScoredId]], *, k: float = K, weights: Mapping[str, float] | None = None
) -> list[Fused]:
    """Fuse ranked lists, each best first. Every paper of every list is in the answer; ties break by id.

    ``weights`` names some or all of the legs; the others count 1.

    Raises:
        InvalidRequest: ``k`` or a weight is not a number of zero or more, or a weight names no leg.
        ValueError: a leg ranks a paper twice.
    """
    weights = weights or {}
    _check(legs, k, weights)
    shares: dict[int, dict[str, Share]] = {}
    for name, leg in legs.items():
        weight = weights.get(name, 1.0)
        for rank, (paper_id, score) in enumerate(leg, start=1):
            of_paper = shares.setdefault(paper_id, {})
            if name in of_paper:
                raise ValueError(
                    f"Leg {name!r} ranks paper {paper_id} twice, {of_paper[name].rank} and {rank}."
                )
            of_paper[name] = Share(rank, score, weight / (k + rank))
    # fsum rounds once, so that a score does not depend on the order in which the legs are named.
    fused = [
        Fused(paper_id, math.fsum(share.share for share in of_paper.values()), of_paper)
        for paper_id, of_paper in shares.items()
    ]
    return sorted(fused, key=lambda paper: (-paper.score, paper.id))


class FusionTable:
    """The papers of two legs with their ranks side by side: for fusing the same two lists many times over, with
    other constants. What :meth:`best` gives is, paper for paper, the beginning of what :func:`fuse` gives."""

    def __init__(self, first: Sequence[int], second: Sequence[int], depth: int) -> None:
        """``first`` and ``second`` are the papers of each leg, best first, of which ``depth`` are fused.

        Raises:
            ValueError: a leg ranks a paper twice.
        """
        legs = [np.asarray(leg[:depth], dtype=np.int64) for leg in (first, second)]
        self.ids: NDArray[np.int64] = np.unique(np.concatenate(legs))
        self._ranks = []
        for leg in legs:
            ranks = np.full(len(self.ids), np.inf)
            ranks[np.searchsorted(self.ids, leg)] = np.arange(1, len(leg) + 1)
            if np.isfinite(ranks).sum() != len(leg):
                raise ValueError("A leg ranks a paper twice.")
            self._ranks.append(ranks)

    def best(self, limit: int, *, k: float, weights: tuple[float, float]) -> NDArray[np.int64]:
        """The ids of the ``limit`` best papers, best first, ties by id."""
        return self.ids[self._order(self._scores(k, weights), limit)]

    def best_scored(self, limit: int, *, k: float, weights: tuple[float, float]) -> list[ScoredId]:
        """The same with their scores, which are those of :func:`fuse` to the last bit."""
        scores = self._scores(k, weights)
        order = self._order(scores, limit)
        return list(map(ScoredId, self.ids[order].tolist(), scores[order].tolist()))

    def _scores(self, k: float, weights: tuple[float, float]) -> NDArray[np.float64]:
        # The sum of two numbers is rounded once, as fsum does; a paper that a leg lacks gets weight / inf from it.
        return weights[0] / (k + self._ranks[0]) + weights[1] / (k + self._ranks[1])

    @staticmethod
    def _order(scores: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
        """The places of the ``limit`` best scores, best first, ties by place: the ids ascend with them."""
        places = np.arange(len(scores))
        if len(scores) > limit:
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            places = np.flatnonzero(scores >= least)
        order = np.argsort(-scores[places], kind="stable")[:limit]
        return places[order]


def _check(legs: Mapping[str, Sequence[ScoredId]], k: float, weights: Mapping[str, float]) -> None:
    if not math.isfinite(k) or k < 0:
        raise InvalidRequest(
            f"k is {k!r}: reciprocal rank fusion needs a number of zero or more, usually {K}."
        )
    for name, weight in weights.items():
        if name not in legs:
            raise InvalidRequest(
                f"A weight names the leg {name!r}: this search has {', '.join(legs) or 'none'}."
            )
        if not math.isfinite(weight) or weight < 0:
            raise InvalidRequest(f"The weight of leg {name!r} is {weight!r}: give a number of zero or more.")
