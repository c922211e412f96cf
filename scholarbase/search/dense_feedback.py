"""Feedback for dense vectors: add the vectors of the first papers to the query's, and search again.

The first papers of both legs together are mostly about the topic, and closer to its other papers than a short question
is. This is Rocchio's method (1971) with dense vectors: Li et al., "Pseudo Relevance Feedback with Deep Language
Models and Dense Retrievers", TOIS 2023, https://arxiv.org/abs/2108.11044. docs/ranking.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.search.fusion import FusionTable, K

CONSIDERED: Final = 50
"""Results of each leg among which the first papers of both are found."""
EF: Final = 256
"""Size of the candidate list of the dense search for them. 384, as in other searches, finds no more in the end."""
PAPERS: Final = 5
"""First papers whose vectors are added."""
WEIGHT: Final = 0.5
"""The weight of their mean, scaled to unit length; the query's own vector has 1."""


def first_papers(sparse: Sequence[ScoredId], dense: Sequence[ScoredId]) -> list[int]:
    """The first papers of two legs, by reciprocal rank fusion."""
    ranked = [[hit.id for hit in leg[:CONSIDERED]] for leg in (sparse, dense)]
    table = FusionTable(ranked[0], ranked[1], CONSIDERED)
    papers: list[int] = table.best(PAPERS, k=K, weights=(1.0, 1.0)).tolist()
    return papers


def expand(
    vector: npt.NDArray[np.float32], papers: Sequence[npt.NDArray[np.float32]]
) -> npt.NDArray[np.float32]:
    """The query's vector with those of papers, all of unit length; unchanged without papers."""
    if not papers:
        return vector
    mean = np.sum(papers, axis=0, dtype=np.float64)
    length = np.linalg.norm(mean)
    if length == 0:
        return vector
    expanded = vector + WEIGHT * mean / length
    return (expanded / np.linalg.norm(expanded)).astype(np.float32)
