"""The legs of a search: one by words (BM25, BM25 with feedback, FTS5, or learned weights), one by meaning.

Every leg applies the filters before it takes its first results; ties break by id.

Feedback expands a query with terms of the first papers it finds, and searches again. A question names its topic in a
few words, and relevant papers may use others. Most of BM25's first papers are about the topic: terms that several of
them share and few other papers have are added to the query with a small weight. This is the idea of Rocchio (1971) and
of relevance models (Lavrenko and Croft, SIGIR 2001); the weights are tuned on one half of AutoScholarQuery
(docs/measurements.md has the results on the other). The first :data:`FEEDBACK_KEPT` papers of the original query keep
their ranks: added terms drift off the topic, and lower the rank of a single right result.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import lru_cache, partial
from time import perf_counter
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from scholarbase.encoders import Encodings
from scholarbase.errors import EncoderError, LibraryCorrupt, VectorIndexError
from scholarbase.indexes import query_syntax
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.frequencies import ANY_TERM
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
    EngineVector,
    ScoredId,
    Search,
    SparseVector,
    scored_id,
)
from scholarbase.indexes.vectors.bm25 import DOCUMENT_STEP, Bm25Text
from scholarbase.models.encoders import STATIC
from scholarbase.models.limits import TotalRelation
from scholarbase.models.responses import FailedLeg, LegExplanation
from scholarbase.search.cache import Cache
from scholarbase.search.fusion import K
from scholarbase.search.opening import Opened
from scholarbase.search.plan import Plan
from scholarbase.timing import stages

log = logging.getLogger("scholarbase.ranking")

CACHED_QUERIES: Final = 4096
"""Queries whose vectors are cached. Encoding takes far longer than searching, and paging, evaluations and agents repeat
queries. 16 MB at 1,024 dimensions."""
CONSIDERED: Final = 50
"""Results of each leg among which the first papers of both are found, whose vectors are added to the query's."""
DENSE_FEEDBACK_PAPERS: Final = 5
"""First papers whose vectors are added."""
DENSE_FEEDBACK_WEIGHT: Final = 0.5
"""The weight of their mean, scaled to unit length; the query's own vector has 1."""

QUERY_STEP: Final = 2.0**-5
"""The step of a query whose greatest possible score is 2,048 or less: with k1 = 1 the weights of its terms add up to
1,024 or less, such as those of a hundred rare words."""
_EXACT: Final = 2.0**24
FEEDBACK_PAPERS: Final = 20
"""First papers whose terms are considered."""
FEEDBACK_SHARED_BY: Final = 3
"""The least number of these papers that must share a term."""
FEEDBACK_TERMS: Final = 40
"""The greatest number of added terms."""
FEEDBACK_WEIGHT: Final = 0.5
"""The weight of the best added term, before its IDF; the query's own terms have 1."""
SMALL: Final = 500
"""Vectors of a library that are all compared with every query."""
FEEDBACK_KEPT: Final = 10
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

T = TypeVar("T")


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
    reranked: int | None = None
    """The number of papers that it scored."""
    pageable: int = 0
    """The number of results that paging could reach, were there no limit of depth."""


class Legs:
    """The legs of searches over one library. Thread-safe."""

    def __init__(self, opened: Opened, bm25: Bm25Text) -> None:
        self._dense_vectors = opened.manifest.counts["dense_vectors"]
        self._vectors = opened.vectors
        self._encoder = opened.encoder
        self._is_static = opened.encoder is not None and opened.encoder.spec.kind == STATIC
        self._settings = opened.settings
        self._words = Words(opened, bm25)
        self._encode = lru_cache(CACHED_QUERIES)(self._encode_text)
        self._threads = ThreadPoolExecutor(opened.settings.readers, thread_name_prefix="sparse-leg")

    def close(self) -> None:
        """Shut down the thread pool. Running searches finish."""
        self._threads.shutdown(wait=False)

    def forget_queries(self) -> None:
        """Empty the cache of query vectors."""
        self._encode.cache_clear()

    def run(self, plan: Plan) -> tuple[dict[str, Ranking], list[FailedLeg]]:
        """Run the legs. The sparse leg comes first; errors raise, unless the request accepts partial results."""
        names = [name for name in (plan.engine, DENSE if plan.mode != "sparse" else None) if name is not None]
        if plan.matches_nothing:
            return {name: Ranking([], 0, "eq") for name in names}, []
        if self._vectors.is_remote and plan.engine is not None:
            with self._vectors.ahead(self._first_searches(plan)):
                return self._run_all(plan)
        return self._run_all(plan)

    def _run_all(self, plan: Plan) -> tuple[dict[str, Ranking], list[FailedLeg]]:
        if plan.engine is None:
            return self._run({DENSE: partial(self._dense, plan, None)}, plan)
        sparse = partial(self._sparse, plan)
        if plan.mode == "sparse":
            return self._run({plan.engine: sparse}, plan)
        if plan.engine == "learned" or self._is_static or self._vectors.is_remote:
            run = _once(sparse)
            return self._run({DENSE: partial(self._dense, plan, run), plan.engine: run}, plan)
        # Run the sparse leg in a thread while the model encodes the query. Not the encoder in a thread: Qdrant Edge
        # holds Python's lock while it searches, so the thread could not send the query to the model. The learned leg
        # needs the model itself.
        started = self._threads.submit(copy_context().run, sparse)
        try:
            dense = partial(self._dense, plan, started.result)
            return self._run({DENSE: dense, plan.engine: started.result}, plan)
        finally:
            # A request that failed must not leave its search behind: only so many may run at once.
            if not started.cancel():
                wait([started])

    def _run(
        self, legs: Mapping[str, Callable[[], Ranking]], plan: Plan
    ) -> tuple[dict[str, Ranking], list[FailedLeg]]:
        rankings: dict[str, Ranking] = {}
        failed: list[FailedLeg] = []
        last: Exception | None = None
        for name, leg in legs.items():
            try:
                rankings[name] = leg()
            except (EncoderError, VectorIndexError, LibraryCorrupt) as error:
                if not plan.request.partial:
                    raise
                log.warning("leg %s failed: %s", name, error)
                failed.append(FailedLeg(name, error.for_clients))
                last = error
        if not rankings and last is not None:
            raise last
        return dict(reversed(rankings.items())), failed[::-1]

    def _first_searches(self, plan: Plan) -> list[Search]:
        """The first searches of both legs."""
        adds = plan.fusion == "scores"
        searches: list[Search] = []
        try:
            if plan.mode != "sparse":
                vector = self._encoded(plan).dense[0]
                if vector.any() and plan.floor != math.inf:
                    depth = CONSIDERED if adds else plan.depth + 1
                    read = (DENSE,) if adds else ()
                    searches.append(Search(DENSE, vector, depth, plan.filters, self._is_exact(plan), read))
            learned = self._learned(plan) if plan.engine == "learned" else None
        except EncoderError:
            return []  # the leg that needs the encoder raises or reports it
        return searches + self._words.first_searches(plan, learned, adds=adds)

    def _sparse(self, plan: Plan) -> Ranking:
        return self._words.rank(plan, self._learned(plan) if plan.engine == "learned" else None)

    def _learned(self, plan: Plan) -> SparseVector:
        weights = self._encoded(plan).sparse
        if weights is None:
            raise EncoderError(
                "The query encoder returned no learned weights, which engine 'learned' requires."
            )
        return SparseVector(weights[0].indices.tolist(), weights[0].values.tolist())

    def _dense(self, plan: Plan, sparse: Callable[[], Ranking] | None) -> Ranking:
        """Search by meaning. A hybrid search that fuses scores adds the vectors of the first papers to the query's."""
        vector = self._encoded(plan).dense[0]
        if not vector.any() or plan.floor == math.inf:
            # No paper is nearer than another: a static encoder knows no token of the query, or no paper its words.
            return Ranking([], 0, "eq")
        near = self._first_sparse(sparse) if sparse is not None and plan.fusion == "scores" else []
        start = perf_counter()
        try:
            return self._nearest(self._expanded(vector, near, plan) if near else vector, plan)
        finally:
            stages().append((DENSE, start, perf_counter()))

    def _first_sparse(self, sparse: Callable[[], Ranking]) -> list[ScoredId]:
        """The results of the sparse leg, with which the dense leg is expanded."""
        try:
            return sparse().hits
        except (EncoderError, VectorIndexError, LibraryCorrupt):
            return []  # the sparse leg itself raises or reports it

    def _nearest(self, vector: npt.NDArray[np.float32], plan: Plan) -> Ranking:
        """The papers nearest to a vector, above the floor of similarity."""
        floor, depth = plan.floor, plan.depth
        # One more, to see whether more are above the floor.
        hits = self._search_dense(vector, depth + 1, plan)
        if floor is None:
            return Ranking(hits[:depth], self._count_dense(plan.filters), "eq")
        above = _above(hits, floor)
        if not above and hits and not self._is_exact(plan):
            # So that no results means that there are none.
            above = _above(self._search_dense(vector, 1, plan, exact=True), floor)
        if len(above) <= depth:
            complete = self._is_exact(plan) or not above
            return Ranking(above, len(above), "eq" if complete else "gte")
        above = above[:depth]
        if not plan.request.exact:
            return Ranking(above, depth + 1, "gte")
        most = min(self._dense_vectors, MOST_COUNTED)
        total = self._words.counted(
            (DENSE, vector.tobytes(), floor, plan.filters),
            plan.filters,
            lambda: self._vectors.count_similar(vector, floor, most, plan.filters),
        )
        return Ranking(above, total, "gte" if total == MOST_COUNTED else "eq")

    def _search_dense(
        self, vector: npt.NDArray[np.float32], limit: int, plan: Plan, *, exact: bool = False
    ) -> list[ScoredId]:
        return self._vectors.search_dense(vector, limit, plan.filters, exact=exact or self._is_exact(plan))

    def _is_exact(self, plan: Plan) -> bool:
        # Comparing few papers with the query takes no longer than searching the graph, and misses none.
        within = None if plan.filters is NO_FILTERS else plan.filters.listed
        few = self._dense_vectors <= SMALL or (within is not None and len(within) <= plan.depth)
        return few or plan.request.exact or self._settings.exact

    def _expanded(
        self, vector: npt.NDArray[np.float32], near: Sequence[ScoredId], plan: Plan
    ) -> npt.NDArray[np.float32]:
        """The query's vector with those of the first papers of both legs.

        They are mostly about the topic, and closer to its other papers than a short question is. This is Rocchio's
        method (1971) with dense vectors: Li et al., "Pseudo Relevance Feedback with Deep Language Models and Dense
        Retrievers", TOIS 2023, https://arxiv.org/abs/2108.11044. docs/measurements.md has the figures.
        """
        nearest = self._search_dense(vector, CONSIDERED, plan)
        papers = list(self._vectors.dense_vectors(first_papers(near, nearest)).values())
        if plan.floor is not None and plan.request.min_similarity is None:
            # The nearest papers of a small library may be about something else.
            papers = [paper for paper in papers if paper @ vector >= plan.floor]
        return expanded_vector(vector, papers)

    def _count_dense(self, filters: ResolvedFilters) -> int:
        if filters is NO_FILTERS:
            return self._dense_vectors
        count = partial(self._vectors.count, filters, vector=DENSE)
        return self._words.counted((DENSE, filters), filters, count)

    def _encoded(self, plan: Plan) -> Encodings:
        """The vectors of the text, of query syntax of its words."""
        q = plan.request.q
        start = perf_counter()
        try:
            return self._encode(" ".join(query_syntax.words(q)) if plan.is_syntax else q)
        finally:
            stages().append(("encode", start, perf_counter()))

    def _encode_text(self, text: str) -> Encodings:
        """A query is encoded alone, because a batch changes the last bits of its vector, and the same request must
        return the same bytes."""
        assert self._encoder is not None  # the plan has no leg that needs one
        return self._encoder.encode_queries([text])


class Words:
    """The sparse leg of searches over one library. Thread-safe."""

    def __init__(self, opened: Opened, bm25: Bm25Text) -> None:
        self._points = opened.manifest.counts["points"]
        self._catalog = opened.catalog
        self._vectors = opened.vectors
        self._title_weight = opened.settings.fts5_title_weight
        self._bm25 = Bm25Queries(bm25, opened.catalog.document_frequencies)
        self._counts: Cache[int] = Cache(CACHED_COUNTS)

    def first_searches(self, plan: Plan, learned: SparseVector | None, *, adds: bool) -> list[Search]:
        """The first searches of vectors of :meth:`rank`. ``adds``: vectors of the first papers are added to a query."""
        filters = plan.filters
        added = (DENSE,) if adds else ()
        if learned is None:
            if plan.engine == "fts5" or not plan.terms:
                return []
            vector = self._bm25.weighted(tuple(plan.terms), plan.frequencies)
            if plan.engine == FEEDBACK:
                return [Search(BM25, vector, FEEDBACK_PAPERS + 1, filters, vectors=(BM25, *added))]
            searches = [Search(BM25, vector, plan.depth + 1, filters)]
        else:
            searches = [Search(LEARNED, learned, plan.depth + 1, filters)]
        if adds:
            # Of the papers that only this leg has, no others can be added (first_papers).
            searches.append(searches[0]._replace(limit=DENSE_FEEDBACK_PAPERS, vectors=added))
        return searches

    def rank(self, plan: Plan, learned: SparseVector | None) -> Ranking:
        """Run the engine of a plan; ``learned`` is the query's vector for the engine of this name."""
        engine = plan.engine
        start = perf_counter()
        try:
            if learned is not None:
                return self._sparse(plan, LEARNED, learned)
            if engine == "fts5" or not plan.terms:
                return self._fts5(plan)
            vector = self._bm25.weighted(tuple(plan.terms), plan.frequencies)
            return (
                self._with_feedback(plan, vector) if engine == FEEDBACK else self._sparse(plan, BM25, vector)
            )
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

    def _with_feedback(self, plan: Plan, vector: EngineVector) -> Ranking:
        """BM25, repeated with words of its first results, if there are more than ``FEEDBACK_PAPERS``."""
        first = self._vectors.search_sparse(BM25, vector, FEEDBACK_PAPERS + 1, plan.filters)
        if len(first) <= FEEDBACK_PAPERS:
            return Ranking(first, len(first), "eq")
        papers = self._vectors.sparse_vectors(BM25, [hit.id for hit in first[:FEEDBACK_PAPERS]])
        expanded = self._bm25.expand(plan.terms, papers.values(), plan.day)
        if expanded is None:
            return self._sparse(plan, BM25, vector)
        second = self._sparse(plan, BM25, expanded)
        hits = append_scaled(first[:FEEDBACK_KEPT], second.hits)[0]
        return Ranking(hits[: plan.depth], max(second.total, len(hits)), second.relation)

    def _sparse(self, plan: Plan, name: str, vector: SparseVector | EngineVector) -> Ranking:
        # Fetch one more, to see whether more match.
        hits = self._vectors.search_sparse(name, vector, plan.depth + 1, plan.filters)
        if len(hits) <= plan.depth:
            return Ranking(hits, len(hits), "eq")
        if not plan.request.exact:
            return Ranking(hits[: plan.depth], len(hits), "gte")
        most = min(self._points, MOST_COUNTED)
        total = self.counted(
            (name, frozenset(vector.indices), plan.filters),
            plan.filters,
            lambda: self._vectors.count_sparse(name, vector, most + 1, plan.filters),
        )
        return Ranking(hits[: plan.depth], min(total, most), "eq" if total <= most else "gte")

    def counted(self, key: Hashable, filters: ResolvedFilters, count: Callable[[], int]) -> int:
        """A count of papers that pass the filters, cached by its key."""
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
        return self.weighted(terms, self._frequencies(terms, day)) if terms else EngineVector([], [])

    def weighted(self, terms: Sequence[int], frequencies: Mapping[int, int]) -> EngineVector:
        """The vector of terms, with their IDF of these document frequencies."""
        return self._rounded(_idf(terms, frequencies))

    def _rounded(self, weights: Mapping[int, float]) -> EngineVector:
        """The vector of these weights, rounded so that its scores are exact."""
        return EngineVector(list(weights), round_query(list(weights.values()), self._greatest))

    def expand(
        self, terms: Sequence[int], papers: Iterable[SparseVector | EngineVector], day: int | None = None
    ) -> EngineVector | None:
        """Add terms of the first ``papers`` of a query to its own ``terms``; None if the papers share no others.

        A term's rating is the sum of its BM25 weights in those papers times its IDF, as of ``day``. Its weight in the
        query is :data:`FEEDBACK_WEIGHT` times its rating relative to the greatest, times its IDF; it is rounded like
        those of the query's own terms. Ties break by the term's number.
        """
        vectors = list(papers)
        numbers, places, holding = np.unique(
            np.array([term for vector in vectors for term in vector.indices], dtype=np.uint32),
            return_inverse=True,
            return_counts=True,
        )
        # The sums of rounded weights are exact in any order.
        sums = np.bincount(places, [weight for vector in vectors for weight in vector.values])
        is_shared = holding >= FEEDBACK_SHARED_BY
        summed = dict(zip(numbers[is_shared].tolist(), sums[is_shared].tolist(), strict=True))
        known = set(terms)
        shared = [term for term in summed if term not in known]
        if not shared:
            return None
        all_terms = [*terms, *shared]
        idf = _idf(all_terms, self._frequencies(all_terms, day))
        rated = sorted((-summed[term] * idf[term], term) for term in shared)[:FEEDBACK_TERMS]
        best = rated[0][0]
        factors = dict.fromkeys(terms, 1.0) | {
            term: FEEDBACK_WEIGHT * rating / best for rating, term in rated
        }
        return self._rounded({term: factor * idf[term] for term, factor in factors.items()})


def _idf(terms: Sequence[int], frequencies: Mapping[int, int]) -> dict[int, float]:
    """The inverse document frequency of each term, above 0 also for one that no paper has."""
    papers = frequencies.get(ANY_TERM, 0)
    counts = {term: frequencies.get(term, 0) for term in terms}
    return {term: math.log(1 + (papers - count + 0.5) / (count + 0.5)) for term, count in counts.items()}


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


def first_papers(sparse: Sequence[ScoredId], dense: Sequence[ScoredId]) -> list[int]:
    """The first papers of two legs, by reciprocal rank fusion (:mod:`.fusion`)."""
    scores: dict[int, float] = {}
    for leg in (sparse, dense):
        for rank, hit in enumerate(leg[:CONSIDERED], 1):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1 / (K + rank)
    return sorted(scores, key=lambda number: (-scores[number], number))[:DENSE_FEEDBACK_PAPERS]


def expanded_vector(
    vector: npt.NDArray[np.float32], papers: Sequence[npt.NDArray[np.float32]]
) -> npt.NDArray[np.float32]:
    """The query's vector with those of papers, all of unit length; unchanged without papers."""
    if not papers:
        return vector
    mean = np.sum(papers, axis=0, dtype=np.float64)
    length = np.linalg.norm(mean)
    if length == 0:
        return vector
    expanded = vector + DENSE_FEEDBACK_WEIGHT * mean / length
    return (expanded / np.linalg.norm(expanded)).astype(np.float32)


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
    scale = min(1.0, most / rest[0].score) if rest[0].score > 0 and most >= 0 else 1.0
    # Rounding may put the product above the limit.
    appended = [scored_id((number, most if (s := score * scale) > most else s)) for number, score in rest]
    return [*kept, *appended], scale


def _above(hits: Sequence[ScoredId], floor: float) -> list[ScoredId]:
    """The hits, best first, with at least this score."""
    return list(hits[: bisect_right(hits, -floor, key=lambda hit: -hit.score)])


def _once(run: Callable[[], T]) -> Callable[[], T]:
    """A function that runs another one at the first call, and later returns or raises the same."""
    result: Future[T] = Future()

    def get() -> T:
        if not result.done():
            try:
                result.set_result(run())
            except BaseException as error:
                result.set_exception(error)
        return result.result()

    return get
