"""Pseudo-relevance feedback: expand a query with terms of the first papers it finds, and search again.

A question names its topic in a few words, and relevant papers may use others. Most of BM25's first papers are about the
topic: terms that several of them share and few other papers have are added to the query with a small weight. This is
the idea of Rocchio (1971) and of relevance models (Lavrenko and Croft, SIGIR 2001); the weights are tuned on one half
of AutoScholarQuery (docs/vectors.md has the results on the other).

The first :data:`KEPT` papers of the original query keep their ranks: added terms drift off the topic, and lower the
rank of a single right result.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Final

from scholarbase.indexes.vectors.base import BM25, EngineVector, ScoredId, SparseVector
from scholarbase.indexes.vectors.index import VectorIndex

PAPERS: Final = 20
"""First papers whose terms are considered."""
SHARED_BY: Final = 3
"""The least number of these papers that must share a term."""
TERMS: Final = 40
"""The greatest number of added terms."""
WEIGHT: Final = 0.5
"""The weight of the best added term; the query's own terms have 1."""
KEPT: Final = 10
"""First papers of the original query that keep their ranks."""
SAMPLE: Final = 8192
"""Papers in which document frequencies are counted: enough to tell general academic words from a topic's."""


class Feedback:
    """Expands BM25 queries over one index. Safe to share between threads."""

    def __init__(self, index: VectorIndex, last_id: int) -> None:
        """``last_id`` is the greatest id of a point."""
        self._index = index
        self._last_id = last_id
        self._lock = Lock()
        self._sampled: tuple[Counter[int], int] | None = None

    def expand(self, query: EngineVector, first: Sequence[ScoredId]) -> SparseVector | None:
        """Add terms of the query's ``first`` results to it; None if they share none.

        A term's rating is the sum of its BM25 weights in those papers times its inverse document frequency. Its weight
        is :data:`WEIGHT` times its rating relative to the greatest. Ties break by the term's id.

        Raises:
            VectorIndexError: the index fails or cannot be reached.
        """
        frequencies, papers = self._sample()
        summed: Counter[int] = Counter()
        sharing: Counter[int] = Counter()
        found = self._index.sparse_vectors(BM25, [hit.id for hit in first[:PAPERS]])
        for hit in first[:PAPERS]:
            if hit.id in found:
                vector = found[hit.id]
                sharing.update(vector.indices)
                for term, weight in zip(vector.indices, vector.values, strict=True):
                    summed[term] += weight  # type: ignore[assignment]  # a counter of weights
        own = set(query.indices)
        rated = sorted(
            (
                (-weight * _idf(frequencies[term], papers), term)
                for term, weight in summed.items()
                if sharing[term] >= SHARED_BY and term not in own
            )
        )[:TERMS]
        if not rated:
            return None
        best = rated[0][0]
        terms = dict(zip(query.indices, query.values, strict=True))
        terms |= {term: WEIGHT * rating / best for rating, term in rated}
        indices = sorted(terms)
        return SparseVector(indices, [terms[term] for term in indices])

    def _sample(self) -> tuple[Counter[int], int]:
        """Document frequencies in the sample and its size. The sample is every n-th id, so it is always the same."""
        with self._lock:
            if self._sampled is None:
                step = max(1, self._last_id // SAMPLE)
                vectors = self._index.sparse_vectors(BM25, list(range(1, self._last_id + 1, step))[:SAMPLE])
                counts: Counter[int] = Counter()
                for vector in vectors.values():
                    counts.update(vector.indices)
                self._sampled = counts, len(vectors)
            return self._sampled


def _idf(frequency: int, papers: int) -> float:
    """BM25's inverse document frequency, by the index's formula."""
    return math.log(1 + (papers - frequency + 0.5) / (frequency + 0.5))


def follow(first: Sequence[ScoredId], second: Sequence[ScoredId]) -> list[ScoredId]:
    """The first :data:`KEPT` results of the original query, then those of the expanded one, without duplicates.

    The scores of the expanded query are scaled so that none is above the last kept score.
    """
    kept = list(first[:KEPT])
    ids = {hit.id for hit in kept}
    rest = [hit for hit in second if hit.id not in ids]
    if not kept or not rest:
        return kept + rest
    scale = min(1.0, kept[-1].score / rest[0].score)
    return kept + [ScoredId(hit.id, min(hit.score * scale, kept[-1].score)) for hit in rest]
