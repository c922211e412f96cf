"""The leg of the citation graph: papers that the first results of the other legs cite, or that cite them.

An answer may have none of a question's words, and be cited by half of the papers that have them. The leg is one step of
a random walk with restart (Tong, Faloutsos and Pan, "Fast Random Walk with Restart and Its Applications", ICDM 2006,
https://doi.org/10.1109/ICDM.2006.70) from the first results of the fused text legs, the *seeds*: of the weight of all
seeds, the part that is linked with a paper, which for a seed includes its own. docs/measurements.md has the figures
behind the constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from time import perf_counter
from typing import Final

import numpy as np

from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import ScoredId, scored_id
from scholarbase.models.responses import LegExplanation
from scholarbase.search.fusion import summed
from scholarbase.timing import stages

GRAPH: Final = "graph"
"""The name of the leg in explanations."""
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


class GraphLeg:
    """The papers linked with seeds, the first of ``hits``, as many as another leg may have (``depth``).

    All of them pass the filters. As of a day, an edge exists if both of its papers do.
    """

    def __init__(
        self,
        catalog: Catalog,
        hits: Sequence[ScoredId],
        depth: int,
        filters: ResolvedFilters,
        day: int | None,
        *,
        weight: float = 1.0,
    ) -> None:
        start = perf_counter()
        self._catalog = catalog
        self._weight = weight
        self._seeds = [hit for hit in hits[:SEEDS] if hit.score > 0]
        ids = np.array([seed.id for seed in self._seeds], dtype=np.int64)
        self._edges = edges = catalog.linked(ids.tolist(), MOST_LINKS, as_of=day)
        weights = np.array([seed.score for seed in self._seeds], dtype=np.float64) ** 2
        order = np.argsort(ids)
        of_edge = weights[order[np.searchsorted(ids, edges.near, sorter=order)]]
        papers, places = np.unique(np.concatenate([ids, edges.far]), return_inverse=True)
        parts = np.concatenate([weights, np.where(edges.is_reference, 1.0, CITING) * of_edge])
        shares = np.bincount(places, parts, minlength=len(papers)) / (weights.sum() or 1.0)
        # The ids ascend, and a stable sort keeps their order where shares are equal.
        best = np.argsort(-shares, kind="stable")
        ranked = zip(papers[best].tolist(), np.sqrt(shares[best]).tolist(), strict=True)
        hits = list(islice(self._passing(map(scored_id, ranked), filters), depth + 1))
        self.has_more = len(hits) > depth
        self.hits = hits[:depth]
        """Best first, each with the square root of its part of the weight of all seeds."""
        stages().append((GRAPH, start, perf_counter()))

    def _passing(self, ranked: Iterator[ScoredId], filters: ResolvedFilters) -> Iterator[ScoredId]:
        """The papers that pass the filters. They are checked some at a time, since the first may be enough."""
        if filters is NO_FILTERS:
            yield from ranked
        while batch := list(islice(ranked, CHECKED)):
            passing = self._catalog.passing([hit.id for hit in batch], filters)
            yield from (hit for hit in batch if hit.id in passing)

    def added_to(self, hits: Sequence[ScoredId], limit: int) -> tuple[list[ScoredId], int]:
        """The ``limit`` best papers by the sum of their scores in the hits and in the leg, ties by id; and the number
        of all of them."""
        scores = [np.array([score for _, score in leg], dtype=np.float64) for leg in (hits, self.hits)]
        scores[1] *= self._weight
        return summed((hits, self.hits), scores, limit=limit)

    def explain(
        self, explanations: Mapping[int, tuple[LegExplanation, ...]]
    ) -> dict[int, tuple[LegExplanation, ...]]:
        """The explanations of the text legs, with those of this one."""
        linked = self.linked()
        explained = dict(explanations)
        for rank, (number, score) in enumerate(self.hits, 1):
            leg = LegExplanation(GRAPH, rank, score, self._weight * score, (), *linked.get(number, ((), ())))
            explained[number] = (*explained.get(number, ()), leg)
        return explained

    def linked(self) -> dict[int, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The ids of the first seeds that cite a paper, and of those that it cites."""
        seeds = [seed.id for seed in self._seeds]
        names = {
            seed: paper.id for seed, paper in zip(seeds, self._catalog.papers(seeds, ("id",)), strict=True)
        }
        citing: dict[int, list[str]] = {}
        cited: dict[int, list[str]] = {}
        for near, far, is_reference in zip(*(column.tolist() for column in self._edges), strict=True):
            (citing if is_reference else cited).setdefault(far, []).append(names[near])
        return {
            number: (tuple(citing.get(number, ())[:SHOWN]), tuple(cited.get(number, ())[:SHOWN]))
            for number in citing.keys() | cited.keys()
        }
