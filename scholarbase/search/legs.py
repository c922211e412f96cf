"""The legs of a search: one by words (:mod:`.words`), and one by the meaning of dense vectors.

Every leg applies the filters before it takes its first results; ties break by id.
"""

from __future__ import annotations

import logging
import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import lru_cache, partial
from time import perf_counter
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from scholarbase.deadlines import check
from scholarbase.encoders import Encoder, Encodings
from scholarbase.errors import EncoderError, LibraryCorrupt, VectorIndexError
from scholarbase.indexes import query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import DENSE, ScoredId, SparseVector
from scholarbase.indexes.vectors.bm25 import Bm25Text
from scholarbase.indexes.vectors.index import HNSW_EF, VectorIndex
from scholarbase.manifest import Manifest
from scholarbase.models.encoders import STATIC
from scholarbase.models.responses import FailedLeg
from scholarbase.search.fusion import K
from scholarbase.search.plan import Plan
from scholarbase.search.words import ADVICE, MOST_COUNTED, Ranking, Words
from scholarbase.settings import Settings
from scholarbase.timing import stages

log = logging.getLogger("scholarbase.ranking")

CACHED_QUERIES: Final = 4096
"""Queries whose vectors are cached. Encoding takes far longer than searching, and paging, evaluations and agents repeat
queries. 16 MB at 1,024 dimensions."""
_SEARCH: Final = ("The search", ADVICE)
"""Activity and advice for the error at the time limit."""
_BY_MEANING: Final = ("The search by dense vectors", "use fewer filters and ids, or a smaller limit")
_EXACTLY: Final = ("The exact search by dense vectors", "leave exact out, or use fewer filters and ids")
STANDOUT: Final = 1.4
"""The first sparse result stands out if its score is this many times the score of the tenth. Then few papers have the
words of the query, and BM25 finds them better."""
_COMPARED: Final = 10
"""The rank of the result that the first is compared with."""
CONSIDERED: Final = 50
"""Results of each leg among which the first papers of both are found, whose vectors are added to the query's."""
FEEDBACK_EF: Final = 256
"""Size of the candidate list of the dense search for them. 384, as in other searches, finds no more in the end."""
FEEDBACK_PAPERS: Final = 5
"""First papers whose vectors are added."""
FEEDBACK_WEIGHT: Final = 0.5
"""The weight of their mean, scaled to unit length; the query's own vector has 1."""

T = TypeVar("T")


class Legs:
    """The legs of searches over one library. Thread-safe."""

    def __init__(
        self,
        manifest: Manifest,
        papers: Catalog,
        vectors: VectorIndex,
        encoder: Encoder | None,
        settings: Settings,
        bm25: Bm25Text,
    ) -> None:
        self._dense_vectors = manifest.counts["dense_vectors"]
        self._vectors = vectors
        self._encoder = encoder
        self._is_static = encoder is not None and encoder.spec.kind == STATIC
        self._settings = settings
        self._words = Words(manifest, papers, vectors, settings, bm25)
        self._encode = lru_cache(CACHED_QUERIES)(self._encode_text)
        self._threads = ThreadPoolExecutor(settings.readers, thread_name_prefix="sparse-leg")

    def close(self) -> None:
        """Shut down the thread pool. Running searches finish."""
        self._threads.shutdown(wait=False)

    def forget_queries(self) -> None:
        """Empty the cache of query vectors."""
        self._encode.cache_clear()

    def run(self, plan: Plan) -> tuple[dict[str, Ranking], list[FailedLeg]]:
        """Run the legs. The sparse leg comes first; errors raise, unless the request accepts partial results."""
        names = [name for name in (plan.engine, DENSE if plan.dense_depths else None) if name is not None]
        if plan.matches_nothing:
            return {name: Ranking([], 0, "eq") for name in names}, []
        if plan.engine is None:
            return self._run({DENSE: partial(self._dense, plan, None)}, plan)
        sparse = partial(self._sparse, plan)
        if not plan.dense_depths:
            return self._run({plan.engine: sparse}, plan)
        if plan.engine == "learned" or self._is_static:
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
            check(*_SEARCH)
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
        return {
            name: ranking._replace(has_standout=name != DENSE and stands_out(ranking.hits))
            for name, ranking in reversed(rankings.items())
        }, failed[::-1]

    def _sparse(self, plan: Plan) -> Ranking:
        if plan.engine != "learned":
            return self._words.rank(plan)
        weights = self._encoded(plan).sparse
        if weights is None:
            raise EncoderError(
                "The query encoder returned no learned weights, which engine 'learned' requires."
            )
        vector = SparseVector(weights[0].indices.tolist(), weights[0].values.tolist())
        return self._words.rank(plan, vector)

    def _dense(self, plan: Plan, sparse: Callable[[], Ranking] | None) -> Ranking:
        """Search by meaning. A hybrid search that fuses scores adds the vectors of the first papers to the query's."""
        vector = self._encoded(plan).dense[0]
        if not vector.any() or plan.floor == math.inf:
            # No paper is nearer than another: a static encoder knows no token of the query, or no paper its words.
            return Ranking([], 0, "eq")
        near = self._first_sparse(sparse)

        def search() -> Ranking:
            check(*_BY_MEANING)
            expanded = vector if not near or stands_out(near) else self._expanded(vector, near, plan)
            first_depth = plan.dense_depths[0]
            if first_depth == plan.depth:
                return self._nearest(expanded, plan, plan.depth)
            if self._is_exact(plan):
                whole = self._nearest(expanded, plan, plan.depth)
                return whole._replace(first=whole.hits[:first_depth])
            first = self._nearest(expanded, plan, first_depth)
            is_enough = len(plan.dense_depths) == 1 and len(first.hits) == first_depth
            if not first.hits or is_enough:
                return first
            # A longer search finds papers that a shorter one misses. So its first ones are not those of the first page,
            # and where few papers are above the floor, only it knows whether there is a next page.
            return self._nearest(expanded, plan, plan.depth)._replace(first=first.hits)

        return _timed(DENSE, search)

    def _first_sparse(self, sparse: Callable[[], Ranking] | None) -> list[ScoredId]:
        """The results of the sparse leg, with which the dense leg is expanded; none where it is not."""
        if sparse is None or self._settings.fusion != "scores":
            return []
        try:
            return sparse().hits
        except (EncoderError, VectorIndexError, LibraryCorrupt):
            return []  # the sparse leg itself raises or reports it

    def _nearest(self, vector: npt.NDArray[np.float32], plan: Plan, depth: int) -> Ranking:
        """The ``depth`` papers nearest to a vector, above the floor of similarity."""
        floor = plan.floor
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
        self,
        vector: npt.NDArray[np.float32],
        limit: int,
        plan: Plan,
        *,
        exact: bool = False,
        ef: int = HNSW_EF,
    ) -> list[ScoredId]:
        exact = exact or self._is_exact(plan)
        check(*(_EXACTLY if exact else _BY_MEANING))
        return self._vectors.search_dense(vector, limit, plan.filters, exact=exact, ef=ef)

    def _is_exact(self, plan: Plan) -> bool:
        # Comparing few papers with the query takes no longer than searching the graph, and misses none.
        within = None if plan.filters is NO_FILTERS else plan.filters.listed
        return (
            plan.request.exact or self._settings.exact or (within is not None and len(within) <= plan.depth)
        )

    def _expanded(
        self, vector: npt.NDArray[np.float32], near: Sequence[ScoredId], plan: Plan
    ) -> npt.NDArray[np.float32]:
        """The query's vector with those of the first papers of both legs.

        They are mostly about the topic, and closer to its other papers than a short question is. This is Rocchio's
        method (1971) with dense vectors: Li et al., "Pseudo Relevance Feedback with Deep Language Models and Dense
        Retrievers", TOIS 2023, https://arxiv.org/abs/2108.11044. docs/ranking.md has the measurements.
        """
        nearest = self._search_dense(vector, CONSIDERED, plan, ef=FEEDBACK_EF)
        first = first_papers(near, nearest)
        return expanded_vector(vector, list(self._vectors.dense_vectors(first).values()))

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


def stands_out(hits: Sequence[ScoredId]) -> bool:
    """Whether the first result of a sparse leg is far ahead of the others."""
    return len(hits) >= _COMPARED and hits[0].score >= STANDOUT * hits[_COMPARED - 1].score


def first_papers(sparse: Sequence[ScoredId], dense: Sequence[ScoredId]) -> list[int]:
    """The first papers of two legs, by reciprocal rank fusion (:mod:`.fusion`)."""
    scores: dict[int, float] = {}
    for leg in (sparse, dense):
        for rank, hit in enumerate(leg[:CONSIDERED], 1):
            scores[hit.id] = scores.get(hit.id, 0.0) + 1 / (K + rank)
    return sorted(scores, key=lambda number: (-scores[number], number))[:FEEDBACK_PAPERS]


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
    expanded = vector + FEEDBACK_WEIGHT * mean / length
    return (expanded / np.linalg.norm(expanded)).astype(np.float32)


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


def _timed(name: str, leg: Callable[[], Ranking]) -> Ranking:
    start = perf_counter()
    try:
        return leg()
    finally:
        stages().append((name, start, perf_counter()))
