"""Pseudo-relevance feedback: a query is asked a second time, with words of the papers that it found first.

A question names its topic in a few words, and the papers that answer it use others. The papers that BM25 ranks first
are mostly about the topic: terms that several of them share, and that few other papers have, are added to the query
with a small weight. This is the idea of Rocchio (1971) and of relevance models (Lavrenko and Croft, SIGIR 2001); the
weights are of our own choice, tuned on one half of AutoScholarQuery (docs/vectors.md has what it gives on the other).

What the query itself ranks first stays first: added words drift, and where a query has one right answer they only push
it down. So the feedback decides what follows after :data:`KEPT`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from threading import Lock
from typing import Final

from scholarbase.indexes.vectors.base import BM25, ScoredId, SparseVector, VectorIndex

PAPERS: Final = 20
"""First papers whose terms are looked at."""
SHARED_BY: Final = 3
"""How many of them must have a term: one paper's own words are chance."""
TERMS: Final = 40
"""Terms that are added at most."""
WEIGHT: Final = 0.5
"""The weight of the best of them, where each of the query's own has 1."""
KEPT: Final = 10
"""First papers of the query alone that stay where they are."""
SAMPLE: Final = 8192
"""Papers in which it is counted how common a term is: enough to tell words of the trade from words of a topic."""


class Feedback:
    """Expands BM25 queries over one index. Safe to share between threads."""

    def __init__(self, index: VectorIndex, last_id: int) -> None:
        """``last_id`` is the greatest id of a point."""
        self._index = index
        self._last_id = last_id
        self._lock = Lock()
        self._sampled: tuple[Counter[int], int] | None = None

    def expand(self, query: SparseVector, first: Sequence[ScoredId]) -> SparseVector | None:
        """The query with terms of its ``first`` results added, None where they share none.

        A term's weight is the sum of its BM25 weights in those papers times its inverse document frequency,
        relative to the greatest such product. Ties break by the term's number.

        Raises:
            VectorIndexError: the index fails or cannot be reached.
        """
        frequencies, papers = self._sample()
        summed: Counter[int] = Counter()
        having: Counter[int] = Counter()
        found = self._index.sparse_vectors(BM25, [hit.id for hit in first[:PAPERS]])
        for hit in first[:PAPERS]:
            if hit.id in found:
                vector = found[hit.id]
                having.update(vector.indices)
                for term, weight in zip(vector.indices, vector.values, strict=True):
                    summed[term] += weight  # type: ignore[assignment]  # a counter of weights
        own = set(query.indices)
        rated = sorted(
            (
                (-weight * _idf(frequencies[term], papers), term)
                for term, weight in summed.items()
                if having[term] >= SHARED_BY and term not in own
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
        """In how many papers of the sample each term is, and how many papers that are. The sample is spread evenly
        over the library's ids, so that it is the same at every opening."""
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
    """BM25's inverse document frequency, as the index has it."""
    return math.log(1 + (papers - frequency + 0.5) / (frequency + 0.5))


def follow(first: Sequence[ScoredId], second: Sequence[ScoredId]) -> list[ScoredId]:
    """The first :data:`KEPT` of the query alone, then what the expanded query ranks, each paper once.

    The two have scores of different scale. Those of the second are scaled so that none is above the last that was
    kept.
    """
    kept = list(first[:KEPT])
    ids = {hit.id for hit in kept}
    rest = [hit for hit in second if hit.id not in ids]
    if not kept or not rest:
        return kept + rest
    scale = min(1.0, kept[-1].score / rest[0].score)
    return kept + [ScoredId(hit.id, min(hit.score * scale, kept[-1].score)) for hit in rest]
