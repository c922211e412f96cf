"""Fusion of ranked lists: of their scores, with the papers that citations link to them, and by reciprocal rank.

Fusion of scores is the weighted sum of the legs' scores, each scaled to between 0 and 1: the convex combination of
Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023,
https://arxiv.org/abs/2210.11934. Ranks alone say nothing about how far the first result of BM25 is ahead of the others.
docs/measurements.md has the figures behind the constants.

The leg of the citation graph has papers that the first results of the other legs cite, or that cite them. An answer may
have none of a question's words, and be cited by half of the papers that have them. The leg is one step of a random walk
with restart (Tong, Faloutsos and Pan, "Fast Random Walk with Restart and Its Applications", ICDM 2006,
https://doi.org/10.1109/ICDM.2006.70) from the first results of the fused text legs, the *seeds*: of the weight of all
seeds, the part that is linked with a paper, which for a seed includes its own.

In reciprocal rank fusion a paper's score is the sum of ``weight / (k + rank)``, ranks counted from one, over the lists
that contain it (Cormack, Clarke and Büttcher, "Reciprocal rank fusion outperforms Condorcet and individual rank
learning methods", SIGIR 2009, https://doi.org/10.1145/1571941.1572114). Qdrant's own fusion counts ranks from zero: its
``k = 61`` is ``k = 60`` in the paper and in this module.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.citations import Edges
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import DENSE, ScoredId, scored_id
from scholarbase.models.responses import LegExplanation
from scholarbase.timing import stages

K: Final = 60
"""The constant of the paper, which found similar results with other values near it."""

WEIGHTS: Final = (0.45, 0.55)
"""The weights of the sparse and the dense leg."""
STANDOUT_WEIGHTS: Final = (0.75, 0.25)
"""Those where the first sparse result stands out. Half of its leg's weight is then for the squares of the scores, so
that the words decide which papers come first, and both legs which of the many others are found at all."""
STANDOUT: Final = 1.4
"""The first sparse result stands out if its score is this many times the score of the tenth. Then few papers have the
words of the query, and BM25 finds them better."""
FIRST: Final = 300
"""The number of results of a fusion of scores that come from as many of each leg. Longer legs find no better ones, and
take longer; the results after them are fused from whole legs."""

GRAPH: Final = "graph"
"""The name of the citation graph's leg in explanations."""
SEEDS: Final = 50
"""First results whose citations and references are followed. A seed's weight is the square of its score."""
CITING: Final = 0.5
"""The part of a seed's weight for a paper that cites it; one that it cites gets all."""
MOST_LINKS: Final = 1000
"""Papers that a seed may cite, and that may cite it. Of one with more, that direction is left out: being cited next to
thousands of others says little about a paper, and reading them takes long."""
CHECKED: Final = 500
"""Papers whose filters are checked at once."""
SHOWN: Final = 10
"""Linked seeds that an explanation names."""


# -- scores --------------------------------------------------------------------------------------------


def stands_out(hits: Sequence[ScoredId]) -> bool:
    """Whether the first result of a sparse leg is far ahead of the tenth."""
    return len(hits) >= 10 and hits[0].score >= STANDOUT * hits[9].score


def zero(hits: Sequence[ScoredId], depth: int, least: float) -> float:
    """The score of a leg, best first, that counts as 0.

    It is the last score of a leg with ``depth`` results, which was cut there. A shorter one is complete: it is
    ``least``, the lowest possible score.
    """
    if not hits:
        return least
    return hits[-1].score if len(hits) >= depth else min(least, hits[-1].score)


def scaled(hits: Sequence[ScoredId], least: float) -> NDArray[np.float64]:
    """The scores of a leg, best first, scaled so that the best is 1 and ``least`` is 0."""
    scores = np.array([score for _, score in hits], dtype=np.float64)
    if not len(scores) or scores[0] == least:
        return np.ones(len(scores))
    shares: NDArray[np.float64] = (scores - least) / (scores[0] - least)
    return shares


def weighted(
    legs: Mapping[str, NDArray[np.float64]], configured: Mapping[str, float], *, has_standout: bool
) -> dict[str, NDArray[np.float64]]:
    """The part of the fused score of each result of dense and sparse legs, from its scaled score.

    ``configured`` weights (1 if missing) take precedence.
    """
    if configured:
        return {name: configured.get(name, 1.0) * scores for name, scores in legs.items()}
    by_words, dense = STANDOUT_WEIGHTS if has_standout else WEIGHTS
    return {
        name: dense * scores
        if name == DENSE
        else by_words * ((scores + scores**2) / 2 if has_standout else scores)
        for name, scores in legs.items()
    }


def combine(
    legs: Mapping[str, Sequence[ScoredId]],
    configured: Mapping[str, float],
    zeros: Mapping[str, float],
    *,
    limit: int,
) -> tuple[list[ScoredId], int, dict[str, NDArray[np.float64]]]:
    """Fuse the scores of legs, each best first. Ties break by id. ``zeros`` has the :func:`zero` of each leg.

    Returns the ``limit`` best papers, the number of papers in all legs together, and each leg's part of the score, in
    the order of its hits.
    """
    has_standout = any(name != DENSE and stands_out(hits) for name, hits in legs.items())
    scores = {name: scaled(hits, zeros[name]) for name, hits in legs.items()}
    shares = weighted(scores, configured, has_standout=has_standout)
    return *summed(list(legs.values()), list(shares.values()), limit=limit), shares


def summed(
    legs: Sequence[Sequence[ScoredId]], shares: Sequence[NDArray[np.float64]], *, limit: int
) -> tuple[list[ScoredId], int]:
    """The ``limit`` best papers by the sum of their shares in the legs, ties by id; and the number of all of them."""
    ids, places = np.unique(
        np.array([hit.id for hits in legs for hit in hits], dtype=np.int64), return_inverse=True
    )
    if not len(ids):
        return [], 0
    scores = np.bincount(places, np.concatenate(shares), minlength=len(ids))
    # The ids ascend, and a stable sort keeps their order where scores are equal.
    order = np.argsort(-scores, kind="stable")[:limit]
    return list(map(scored_id, zip(ids[order].tolist(), scores[order].tolist(), strict=True))), len(ids)


def explained(
    fused: Sequence[ScoredId],
    legs: Mapping[str, Sequence[ScoredId]],
    shares: Mapping[str, NDArray[np.float64]],
) -> dict[int, tuple[LegExplanation, ...]]:
    """The explanations of fused papers: what each leg adds, whose ``shares`` are in the order of its hits."""
    explanations: dict[int, tuple[LegExplanation, ...]] = {hit.id: () for hit in fused}
    for name, hits in legs.items():
        for rank, (hit, share) in enumerate(zip(hits, shares[name].tolist(), strict=True), 1):
            if hit.id in explanations:
                explanations[hit.id] += (LegExplanation(name, rank, hit.score, share),)
    return explanations


# -- citations -----------------------------------------------------------------------------------------


class GraphLeg:
    """The leg of the citation graph in one library. As of a day, an edge exists if both of its papers do."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def rank(
        self, hits: Sequence[ScoredId], depth: int, filters: ResolvedFilters, day: int | None
    ) -> tuple[list[ScoredId], bool, Edges]:
        """The ``depth`` best papers that pass the filters and are linked with seeds, the first of ``hits``, each with
        the square root of its part of the weight of all seeds; whether there are more; and the edges of the seeds."""
        start = perf_counter()
        seeds = [hit for hit in hits[:SEEDS] if hit.score > 0]
        ids = np.array([seed.id for seed in seeds], dtype=np.int64)
        edges = near, far, is_reference = self._catalog.linked(ids.tolist(), MOST_LINKS, as_of=day)
        weights = np.array([seed.score for seed in seeds], dtype=np.float64) ** 2
        order = np.argsort(ids)
        of_edge = weights[order[np.searchsorted(ids, near, sorter=order)]]
        papers, positions = np.unique(np.concatenate([ids, far]), return_inverse=True)
        parts = np.concatenate([weights, np.where(is_reference, 1.0, CITING) * of_edge])
        shares = np.bincount(positions, parts, minlength=len(papers)) / (weights.sum() or 1.0)
        # The ids ascend, and a stable sort keeps their order where shares are equal.
        best = np.argsort(-shares, kind="stable")
        ranked = zip(papers[best].tolist(), np.sqrt(shares[best]).tolist(), strict=True)
        leg = list(islice(self._passing(map(scored_id, ranked), filters), depth + 1))
        stages().append((GRAPH, start, perf_counter()))
        return leg[:depth], len(leg) > depth, edges

    def _passing(self, ranked: Iterator[ScoredId], filters: ResolvedFilters) -> Iterator[ScoredId]:
        """The papers that pass the filters. They are checked some at a time, since the first may be enough."""
        if filters is NO_FILTERS:
            yield from ranked
        while batch := list(islice(ranked, CHECKED)):
            passing = self._catalog.passing([hit.id for hit in batch], filters)
            yield from (hit for hit in batch if hit.id in passing)

    def added_to(
        self,
        hits: Sequence[ScoredId],
        limit: int,
        *,
        weight: float,
        depth: int,
        filters: ResolvedFilters,
        day: int | None,
    ) -> tuple[list[ScoredId], int, list[ScoredId], Edges]:
        """The ``limit`` best papers by the sum of their scores in the hits and, ``weight`` times, in the leg, ties by
        id; the number of all of them; and the leg and the edges (:meth:`rank`)."""
        leg, _, edges = self.rank(hits, depth, filters, day)
        scores = [np.array([score for _, score in part], dtype=np.float64) for part in (hits, leg)]
        scores[1] *= weight
        return *summed((hits, leg), scores, limit=limit), leg, edges

    def linked(self, edges: Edges) -> dict[int, tuple[tuple[str, ...], tuple[str, ...]]]:
        """For the explanations of the papers of the leg, with its edges: the ids of the first seeds that cite a paper,
        and of those that it cites."""
        seeds = list(dict.fromkeys(edges[0].tolist()))
        papers = self._catalog.papers(seeds, ("id",))
        names = {seed: paper.id for seed, paper in zip(seeds, papers, strict=True)}
        citing: dict[int, list[str]] = {}
        cited: dict[int, list[str]] = {}
        for near, far, is_reference in zip(*(column.tolist() for column in edges), strict=True):
            (citing if is_reference else cited).setdefault(far, []).append(names[near])
        return {
            number: (tuple(citing.get(number, ())[:SHOWN]), tuple(cited.get(number, ())[:SHOWN]))
            for number in citing.keys() | cited.keys()
        }


# -- ranks ---------------------------------------------------------------------------------------------


def fuse(
    legs: Mapping[str, Sequence[ScoredId]],
    limit: int = sys.maxsize,
    *,
    k: float = K,
    weights: Mapping[str, float] | None = None,
    explain: bool = False,
) -> tuple[list[ScoredId], int, dict[int, tuple[LegExplanation, ...]]]:
    """Fuse ranked lists, each best first. Ties break by id. Legs without an entry in ``weights`` have weight 1.

    Returns the ``limit`` best papers, the number of papers in all legs, and with ``explain`` the shares of the best.

    Raises:
        ValueError: a leg ranks a paper twice.
    """
    shares = {
        name: (weights or {}).get(name, 1.0) / (k + np.arange(1, len(hits) + 1, dtype=np.float64))
        for name, hits in legs.items()
    }
    papers = [np.array([hit.id for hit in hits], dtype=np.int64) for hits in legs.values()]
    ids = np.unique(np.concatenate(papers))
    parts = np.zeros((len(papers), len(ids)))
    for part, leg, of_leg in zip(parts, papers, shares.values(), strict=True):
        places = np.searchsorted(ids, leg)
        part[places] = of_leg
        if len(np.unique(places)) != len(leg):
            raise ValueError("A leg ranks a paper twice.")
    # The sum is rounded once, so that a score does not depend on the order of the legs.
    scores = parts.sum(axis=0) if len(parts) == 2 else np.array(list(map(math.fsum, parts.T.tolist())))
    order = np.argsort(-scores, kind="stable")[:limit]
    fused = list(map(ScoredId, ids[order].tolist(), scores[order].tolist()))
    return fused, len(ids), explained(fused, legs, shares) if explain else {}
