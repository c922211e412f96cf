"""The sparse leg of a search, by words: BM25, BM25 with feedback, FTS5 and learned weights.

Feedback expands a query with terms of the first papers it finds, and searches again. A question names its topic in a
few words, and relevant papers may use others. Most of BM25's first papers are about the topic: terms that several of
them share and few other papers have are added to the query with a small weight. This is the idea of Rocchio (1971) and
of relevance models (Lavrenko and Croft, SIGIR 2001); the weights are tuned on one half of AutoScholarQuery
(docs/vectors.md has the results on the other). The first :data:`KEPT` papers of the original query keep their ranks:
added terms drift off the topic, and lower the rank of a single right result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from scholarbase.deadlines import check
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.frequencies import ANY_TERM
from scholarbase.indexes.vectors.base import (
    BM25,
    LEARNED,
    EngineVector,
    ScoredId,
    SparseVector,
    scored_id,
)
from scholarbase.indexes.vectors.bm25 import DOCUMENT_STEP, Bm25Text
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.manifest import Manifest
from scholarbase.models.limits import TotalRelation
from scholarbase.models.responses import FailedLeg, LegExplanation
from scholarbase.search.cache import Cache
from scholarbase.search.plan import Plan
from scholarbase.settings import Settings
from scholarbase.timing import stages

QUERY_STEP: Final = 2.0**-5
"""The step of a query whose greatest possible score is 2,048 or less: with k1 = 1 the weights of its terms add up to
1,024 or less, such as those of a hundred rare words."""
_EXACT: Final = 2.0**24
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
CACHED_COUNTS: Final = 1024
MAX_CACHED_IDS: Final = 100
"""Ids in the filters of a count that is cached: long lists rarely repeat, and need much memory."""
MOST_COUNTED: Final = 50_000
"""Matches that an exact search counts. Qdrant ranks them, and holds the GIL meanwhile: 0.1 s, for 200,000 0.4 s."""
FEEDBACK: Final = "feedback"
"""The name of the leg of BM25 with feedback."""
WORD_LEGS: Final = (BM25, FEEDBACK, "fts5")
"""Legs that compare words, so that explanations can name them. Learned weights are of a model's tokens."""
ADVICE: Final = "use fewer words, filters and ids, or a smaller limit"
"""The advice of the error at the time limit. FTS5 has its own."""
_SEARCH: Final = {
    BM25: ("The search with BM25", ADVICE),
    LEARNED: ("The search with learned weights", ADVICE),
}
_COUNTING: Final = ("Counting the matches", "use fewer words, filters and ids, or leave exact out")


class Ranking(NamedTuple):
    """Ranked papers, best first, and the number of matches, of one leg or one page of a search."""

    hits: list[ScoredId]
    total: int
    relation: TotalRelation
    next_offset: int | None = None
    explanations: Mapping[int, tuple[LegExplanation, ...]] = MappingProxyType({})
    failed_legs: tuple[FailedLeg, ...] = ()
    rerank: str | None = None
    """The reranker that sorted the first papers, if one did."""
    pageable: int = 0
    """The number of results that paging could reach, were there no limit of depth."""
    has_standout: bool = False
    """Whether the first result of a sparse leg is far ahead of the others."""
    first: list[ScoredId] | None = None
    """The dense results from which the first results of a hybrid search are fused; None if they are ``hits``."""


class Words:
    """The sparse leg of searches over one library. Thread-safe."""

    def __init__(
        self, manifest: Manifest, papers: Catalog, vectors: VectorIndex, settings: Settings, bm25: Bm25Text
    ) -> None:
        self._points = manifest.counts["points"]
        self._catalog = papers
        self._vectors = vectors
        self._title_weight = settings.fts5_title_weight
        self._bm25 = Bm25Queries(bm25, papers.document_frequencies)
        self._counts: Cache[int] = Cache(CACHED_COUNTS)

    def rank(self, plan: Plan, learned: SparseVector | None = None) -> Ranking:
        """Run the engine of a plan; ``learned`` is the query's vector for the engine of this name."""
        engine = plan.engine
        start = perf_counter()
        try:
            if learned is not None:
                return self._sparse(plan, LEARNED, learned)
            if engine == "fts5" or not plan.terms:
                return self._fts5(plan)
            vector = self._bm25.rounded(self._bm25.idf(plan.terms, plan.day))
            return self._repeated(plan, vector) if engine == FEEDBACK else self._sparse(plan, BM25, vector)
        finally:
            stages().append((str(engine), start, perf_counter()))

    def _fts5(self, plan: Plan) -> Ranking:
        if plan.expression is None:
            return Ranking([], 0, "eq")
        expression, filters = plan.expression, plan.filters
        hits = self._catalog.search_text(expression, plan.depth, filters, title_weight=self._title_weight)
        total = len(hits)
        if total == plan.depth:
            key = ("fts5", expression, filters)
            total = self.counted(key, filters, lambda: self._catalog.count_text(expression, filters))
        return Ranking(hits, total, "eq")

    def _repeated(self, plan: Plan, vector: EngineVector) -> Ranking:
        """BM25, repeated with words of its first results. A query with at most ``PAPERS`` matches is not repeated."""
        first = self._search(BM25, vector, PAPERS + 1, plan.filters)
        if len(first) <= PAPERS:
            return Ranking(first, len(first), "eq")
        papers = self._vectors.sparse_vectors(BM25, [hit.id for hit in first[:PAPERS]])
        expanded = self._bm25.expand(plan.terms, papers.values(), plan.day)
        if expanded is None:
            return self._sparse(plan, BM25, vector)
        second = self._sparse(plan, BM25, expanded)
        hits = append_scaled(first[:KEPT], second.hits)[0]
        return Ranking(hits[: plan.depth], max(second.total, len(hits)), second.relation)

    def _sparse(self, plan: Plan, name: str, vector: SparseVector | EngineVector) -> Ranking:
        # Fetch one more, to see whether more match.
        hits = self._search(name, vector, plan.depth + 1, plan.filters)
        if len(hits) <= plan.depth:
            return Ranking(hits, len(hits), "eq")
        if not plan.request.exact:
            return Ranking(hits[: plan.depth], len(hits), "gte")
        most = min(self._points, MOST_COUNTED)
        total = self.counted(
            (name, frozenset(vector.indices), plan.filters),
            plan.filters,
            lambda: len(self._vectors.search_sparse(name, vector, most + 1, plan.filters)),
        )
        return Ranking(hits[: plan.depth], min(total, most), "eq" if total <= most else "gte")

    def _search(
        self, name: str, vector: SparseVector | EngineVector, limit: int, filters: ResolvedFilters
    ) -> list[ScoredId]:
        check(*_SEARCH[name])
        return self._vectors.search_sparse(name, vector, limit, filters)

    def counted(self, key: Hashable, filters: ResolvedFilters, count: Callable[[], int]) -> int:
        """A count of papers that pass the filters, cached by its key."""
        check(*_COUNTING)
        if len(filters.within or ()) + len(filters.exclude) > MAX_CACHED_IDS:
            return count()
        return self._counts.get(key, count)


class Bm25Queries:
    """Makes query vectors with the document frequencies of one library. Safe to share between threads."""

    def __init__(
        self, text: Bm25Text, frequencies: Callable[[Sequence[int], int | None], Mapping[int, int]]
    ) -> None:
        """``frequencies`` looks up document frequencies (:meth:`.catalog.Catalog.document_frequencies`)."""
        self._text = text
        self._frequencies = frequencies
        self._greatest = text.parameters.k1 + 1

    def vector(self, text: str, day: int | None = None) -> EngineVector:
        """The vector of a query: the IDF of each of its terms, of all papers or as of a ``day``. Empty if it has only
        stop words."""
        terms = self._text.query(text).indices
        return self.rounded(self.idf(terms, day)) if terms else EngineVector([], [])

    def idf(self, terms: Sequence[int], day: int | None) -> dict[int, float]:
        """The inverse document frequency of each term, above 0 also for one that no paper has."""
        found = self._frequencies(terms, day)
        papers = found.get(ANY_TERM, 0)
        return {term: _idf(papers, found.get(term, 0)) for term in terms}

    def rounded(self, weights: Mapping[int, float]) -> EngineVector:
        """The vector of these weights, rounded so that its scores are exact."""
        return EngineVector(list(weights), round_query(list(weights.values()), self._greatest))

    def expand(
        self, terms: Sequence[int], papers: Iterable[SparseVector], day: int | None = None
    ) -> EngineVector | None:
        """Add terms of the first ``papers`` of a query to its own ``terms``; None if the papers share no others.

        A term's rating is the sum of its BM25 weights in those papers times its IDF, as of ``day``. Its weight in the
        query is :data:`WEIGHT` times its rating relative to the greatest, times its IDF; it is rounded like those of
        the query's own terms. Ties break by the term's number.
        """
        vectors = list(papers)
        found, places, holding = np.unique(
            np.array([term for vector in vectors for term in vector.indices], dtype=np.uint32),
            return_inverse=True,
            return_counts=True,
        )
        # The sums of rounded weights are exact in any order.
        sums = np.bincount(places, [weight for vector in vectors for weight in vector.values])
        is_shared = holding >= SHARED_BY
        summed = dict(zip(found[is_shared].tolist(), sums[is_shared].tolist(), strict=True))
        own = set(terms)
        shared = [term for term in summed if term not in own]
        if not shared:
            return None
        idf = self.idf([*terms, *shared], day)
        rated = sorted((-summed[term] * idf[term], term) for term in shared)[:TERMS]
        best = rated[0][0]
        factors = dict.fromkeys(terms, 1.0) | {term: WEIGHT * rating / best for rating, term in rated}
        return self.rounded({term: factor * idf[term] for term, factor in factors.items()})


def _idf(papers: int, holding: int) -> float:
    return math.log(1 + (papers - holding + 0.5) / (holding + 0.5))


def round_query(weights: Sequence[float], greatest: float) -> list[float]:
    """Round the weights of a query's terms to multiples of :data:`QUERY_STEP`, or of a greater step in a long query.

    The step is doubled until the greatest possible score is exact. The least weight is one step, not 0, so that papers
    with any of the terms are found.

    Args:
        weights: positive numbers.
        greatest: an upper bound of a document's weights, which for BM25 is k1 + 1.
    """
    most = math.ceil(greatest / DOCUMENT_STEP)
    step = QUERY_STEP
    while True:
        multiples = [round(weight / step) or 1 for weight in weights]
        if most * sum(multiples) <= _EXACT or max(multiples) == 1:
            return [multiple * step for multiple in multiples]
        step *= 2


def append_scaled(kept: Sequence[ScoredId], others: Sequence[ScoredId]) -> tuple[list[ScoredId], float]:
    """Append the other hits of another ranking to those kept, both best first, without duplicates.

    The scores of the appended hits are multiplied by a factor, so that none is above the last kept score. Returns all
    hits, and the factor.
    """
    ids = {hit.id for hit in kept}
    rest = [hit for hit in others if hit.id not in ids]
    if not kept or not rest:
        return [*kept, *rest], 1.0
    most = kept[-1].score
    scale = min(1.0, most / rest[0].score) if rest[0].score > 0 else 1.0
    # Rounding may put the product above the limit.
    appended = [scored_id((number, most if (s := score * scale) > most else s)) for number, score in rest]
    return [*kept, *appended], scale
