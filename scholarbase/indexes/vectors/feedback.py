"""Pseudo-relevance feedback: expand a query with terms of the first papers it finds, and search again.

A question names its topic in a few words, and relevant papers may use others. Most of BM25's first papers are about the
topic: terms that several of them share and few other papers have are added to the query with a small weight. This is
the idea of Rocchio (1971) and of relevance models (Lavrenko and Croft, SIGIR 2001); the weights are tuned on one half
of AutoScholarQuery (docs/vectors.md has the results on the other).

The first :data:`KEPT` papers of the original query keep their ranks: added terms drift off the topic, and lower the
rank of a single right result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from scholarbase.indexes.vectors.base import BM25, EngineVector, ScoredId, append_scaled
from scholarbase.indexes.vectors.bm25 import Bm25Queries
from scholarbase.indexes.vectors.index import VectorIndex

PAPERS: Final = 20
"""First papers whose terms are considered."""
SHARED_BY: Final = 3
"""The least number of these papers that must share a term."""
TERMS: Final = 40
"""The greatest number of added terms."""
WEIGHT: Final = 0.5
"""The weight of the best added term, before its IDF; the query's own terms have 1."""
KEPT: Final = 10
"""First papers of the original query that keep their ranks."""


class Feedback:
    """Expands BM25 queries over one index. Safe to share between threads."""

    def __init__(self, index: VectorIndex, queries: Bm25Queries) -> None:
        self._index = index
        self._queries = queries

    def expand(
        self, terms: Sequence[int], first: Sequence[ScoredId], day: int | None = None
    ) -> EngineVector | None:
        """Add terms of the query's ``first`` results to its own ``terms``; None if the results share no others.

        A term's rating is the sum of its BM25 weights in those papers times its IDF, as of ``day``. Its weight in the
        query is :data:`WEIGHT` times its rating relative to the greatest, times its IDF; it is rounded like those of
        the query's own terms. Ties break by the term's number.

        Raises:
            VectorIndexError: the index fails or cannot be reached.
        """
        vectors = self._index.sparse_vectors(BM25, [hit.id for hit in first[:PAPERS]]).values()
        found, places, papers = np.unique(
            np.array([term for vector in vectors for term in vector.indices], dtype=np.uint32),
            return_inverse=True,
            return_counts=True,
        )
        # The sums of rounded weights are exact in any order.
        sums = np.bincount(places, [weight for vector in vectors for weight in vector.values])
        is_shared = papers >= SHARED_BY
        own = set(terms)
        summed = dict(zip(found[is_shared].tolist(), sums[is_shared].tolist(), strict=True))
        shared = [term for term in summed if term not in own]
        if not shared:
            return None
        idf = self._queries.idf([*terms, *shared], day)
        rated = sorted((-summed[term] * idf[term], term) for term in shared)[:TERMS]
        best = rated[0][0]
        factors = dict.fromkeys(terms, 1.0) | {term: WEIGHT * rating / best for rating, term in rated}
        return self._queries.rounded({term: factor * idf[term] for term, factor in factors.items()})


def follow(first: Sequence[ScoredId], second: Sequence[ScoredId]) -> list[ScoredId]:
    """The first :data:`KEPT` results of the original query, then those of the expanded one (:func:`.append_scaled`)."""
    return append_scaled(first[:KEPT], second)[0]
