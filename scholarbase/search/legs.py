"""The legs of a search: BM25, BM25 with feedback, FTS5 and learned weights by words, and dense vectors by meaning.

Every leg applies the filters before it takes its first results; ties break by id.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from scholarbase.deadlines import check
from scholarbase.encoders import Encoder, Encodings
from scholarbase.errors import EncoderError, InvalidRequest, LibraryCorrupt, VectorIndexError
from scholarbase.indexes import query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import BM25, DENSE, LEARNED, EngineVector, ScoredId, SparseVector
from scholarbase.indexes.vectors.bm25 import Bm25Queries, Bm25Text
from scholarbase.indexes.vectors.feedback import PAPERS, Feedback, follow
from scholarbase.indexes.vectors.index import HNSW_EF, VectorIndex
from scholarbase.manifest import Manifest
from scholarbase.models.checks import as_of_day
from scholarbase.models.encoders import STATIC
from scholarbase.models.limits import Engine, Mode, TotalRelation
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import FailedLeg, LegExplanation
from scholarbase.search import dense_feedback
from scholarbase.search.cache import Cache
from scholarbase.search.known_items import KnownItem
from scholarbase.search.score_fusion import DENSE_FIRST, stands_out
from scholarbase.settings import Settings
from scholarbase.timing import stages

log = logging.getLogger("scholarbase.ranking")

CACHED_COUNTS: Final = 1024
CACHED_QUERIES: Final = 4096
"""Queries whose vectors are cached. Encoding takes far longer than searching, and paging, evaluations and agents repeat
queries. 16 MB at 1,024 dimensions."""
FEEDBACK: Final = "feedback"
"""The name of the leg of BM25 with feedback."""
_SEARCH: Final = ("The search", "use fewer words, filters and ids, or a smaller limit")
"""Activity and advice for the error at the time limit. The same of each part follow; FTS5 has its own."""
_BY_WORDS: Final = {
    BM25: ("The search with BM25", _SEARCH[1]),
    LEARNED: ("The search with learned weights", _SEARCH[1]),
}
_BY_MEANING: Final = ("The search by dense vectors", "use fewer filters and ids, or a smaller limit")
_EXACTLY: Final = ("The exact search by dense vectors", "leave exact out, or use fewer filters and ids")
_COUNTING: Final = ("Counting the matches", "use fewer words, filters and ids, or leave exact out")
WORD_LEGS: Final = (BM25, FEEDBACK, "fts5")
"""Legs that compare words, so that explanations can name them. Learned weights are of a model's tokens."""
LONG_EXCLUSION: Final = 1000
"""Above this many excluded ids, a search fetches more results and removes them itself."""
MOST_FETCHED: Final = 20_000
MOST_COUNTED: Final = 50_000
"""Matches that an exact search counts. Qdrant ranks them, and holds the GIL meanwhile: 0.1 s, for 200,000 0.4 s."""
MAX_CACHED_IDS: Final = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """A resolved request: what each leg needs to run."""

    request: SearchRequest
    mode: Mode
    engine: Engine | None
    filters: ResolvedFilters
    depth: int
    expression: str | None
    """The FTS5 expression; None without FTS5, or for a text without words."""
    syntax: bool
    """Whether ``q`` is query syntax, not free text."""
    words: str
    """The text whose words BM25 ranks: ``q`` without what contractions and abbreviations leave."""
    known: tuple[KnownItem, ...] = ()
    """The papers whose id or title ``q`` is. They come first."""
    warnings: tuple[str, ...] = ()
    reranked: int = 0
    """The number of places whose papers are reranked; 0 if the page has none of them."""
    is_split: bool = False
    """Whether the first results are fused from fewer dense ones (:data:`.score_fusion.FIRST`)."""
    is_first: bool = False
    """Whether only these first results are requested."""
    matches_nothing: bool = False
    """Whether no paper can match: ``q`` has no letter or digit, or is the id of a paper that is not there."""

    @property
    def day(self) -> int | None:
        """The last day of ``as_of``."""
        return None if self.request.as_of is None else as_of_day(self.request.as_of)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranked papers, best first, and the number of matches, of one leg or one page of a search."""

    hits: list[ScoredId]
    total: int
    relation: TotalRelation
    next_offset: int | None = None
    explanations: Mapping[int, tuple[LegExplanation, ...]] = field(default_factory=dict)
    failed_legs: tuple[FailedLeg, ...] = ()
    rerank: str | None = None
    """The reranker that sorted the first papers, if one did."""
    first: list[ScoredId] | None = None
    """The dense results from which the first results of a hybrid search are fused; None if they are ``hits``."""


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
        self._manifest = manifest
        self._catalog = papers
        self._vectors = vectors
        self._encoder = encoder
        self.is_static: Final = encoder is not None and encoder.spec.kind == STATIC
        """Whether the encoder is a table of vectors, which takes less than a millisecond for a query."""
        self._settings = settings
        self._bm25 = bm25
        self._bm25_queries = Bm25Queries(bm25, papers.document_frequencies)
        self._feedback = Feedback(vectors, self._bm25_queries)
        self._counts: Cache[int] = Cache(CACHED_COUNTS)
        self._encodings: Cache[Encodings] = Cache(CACHED_QUERIES)
        self._known_words: Cache[bool] = Cache(CACHED_QUERIES)
        self._threads = ThreadPoolExecutor(settings.readers, thread_name_prefix="sparse-leg")

    def close(self) -> None:
        """Shut down the thread pool. Running searches finish."""
        self._threads.shutdown(wait=False)

    def forget_queries(self) -> None:
        """Empty the caches of query vectors and of known words."""
        self._encodings.clear()
        self._known_words.clear()

    def run(self, query: Query) -> tuple[dict[str, Ranking], list[FailedLeg]]:
        """Run the legs. The sparse leg comes first; errors raise, unless the request accepts partial results."""
        if query.matches_nothing:
            names = {"sparse": (query.engine,), "dense": (DENSE,), "hybrid": (query.engine, DENSE)}[
                query.mode
            ]
            return {name: Ranking([], 0, "eq") for name in names if name is not None}, []
        if query.engine is None:
            return self._run({DENSE: partial(self._dense, query, None)}, query)
        sparse = self._sparse_leg(query, query.engine)
        if query.mode == "sparse":
            return self._run({query.engine: sparse}, query)
        if query.engine == "learned" or self._encodes_at_once(query):
            run = _once(sparse)
            return self._run({DENSE: partial(self._dense, query, run), query.engine: run}, query)
        # Run the sparse leg in a thread while the model encodes the query. Not the encoder in a thread: Qdrant Edge
        # holds Python's lock while it searches, so the thread could not send the query to the model. The learned leg
        # needs the model itself.
        started = self._threads.submit(copy_context().run, sparse)
        try:
            dense = partial(self._dense, query, started.result)
            return self._run({DENSE: dense, query.engine: started.result}, query)
        finally:
            # A request that failed must not leave its search behind: only so many may run at once.
            if not started.cancel():
                wait([started])

    def _run(
        self, plans: Mapping[str, Callable[[], Ranking]], query: Query
    ) -> tuple[dict[str, Ranking], list[FailedLeg]]:
        legs: dict[str, Ranking] = {}
        failed: list[FailedLeg] = []
        last: Exception | None = None
        for name, leg in plans.items():
            check(*_SEARCH)
            try:
                legs[name] = leg()
            except (EncoderError, VectorIndexError, LibraryCorrupt) as error:
                if not query.request.partial:
                    raise
                log.warning("leg %s failed: %s", name, error)
                failed.append(FailedLeg(name, error.for_clients))
                last = error
        if not legs and last is not None:
            raise last
        return dict(reversed(legs.items())), failed[::-1]

    def _sparse_leg(self, query: Query, engine: Engine) -> Callable[[], Ranking]:
        """The function that runs the sparse leg."""
        legs_of = {
            "fts5": self._fts5,
            "bm25": self._bm25_leg,
            "feedback": self._feedback_leg,
            "learned": self._learned,
        }
        run: Callable[[], Ranking] = partial(legs_of[engine], query)
        if engine != "learned":  # which times its search without the encoder
            run = partial(_timed, engine, run)
        return run

    def _encodes_at_once(self, query: Query) -> bool:
        """Whether the query's vector is cached, or made in less time than it takes to start a thread."""
        return self.is_static or _encoded_text(query) in self._encodings

    def _fts5(self, query: Query) -> Ranking:
        if query.expression is None:
            return Ranking([], 0, "eq")
        expression, filters = query.expression, query.filters
        hits = self._catalog.search_text(
            expression, query.depth, filters, title_weight=self._settings.fts5_title_weight
        )
        total = len(hits)
        if total == query.depth:
            total = self._counted(
                ("fts5", expression, filters), filters, lambda: self._catalog.count_text(expression, filters)
            )
        return Ranking(hits, total, "eq")

    def _bm25_leg(self, query: Query) -> Ranking:
        vector = self._bm25_queries.vector(query.words, query.day)
        if len(vector.indices):
            return self._sparse(query, BM25, vector)
        # BM25 vectors have no stop words, so FTS5 runs queries that consist only of stop words.
        return self._fts5(replace(query, expression=free_text(query.words)))

    def _feedback_leg(self, query: Query) -> Ranking:
        """BM25, repeated with words of its first results. A query with at most ``PAPERS`` matches is not repeated."""
        vector = self._bm25_queries.vector(query.words, query.day)
        if not len(vector.indices):
            return self._bm25_leg(query)
        first = self._find_sparse(BM25, vector, PAPERS + 1, query.filters)
        if len(first) <= PAPERS:
            return Ranking(first, len(first), "eq")
        expanded = self._feedback.expand(vector.indices, first, query.day)
        if expanded is None:
            return self._sparse(query, BM25, vector)
        second = self._sparse(query, BM25, expanded)
        hits = follow(first, second.hits)
        return Ranking(hits[: query.depth], max(second.total, len(hits)), second.relation)

    def _learned(self, query: Query) -> Ranking:
        weights = self._encode(query).sparse
        if weights is None:
            raise EncoderError(
                "The query encoder returned no learned weights, which engine 'learned' requires."
            )
        vector = SparseVector(weights[0].indices.tolist(), weights[0].values.tolist())
        return _timed(LEARNED, lambda: self._sparse(query, LEARNED, vector))

    def _sparse(self, query: Query, name: str, vector: SparseVector | EngineVector) -> Ranking:
        # Fetch one more, to see whether more match.
        found = self._find_sparse(name, vector, query.depth + 1, query.filters)
        hits = found[: query.depth]
        if len(found) <= query.depth:
            return Ranking(hits, len(found), "eq")
        if not query.request.exact:
            return Ranking(hits, len(found), "gte")
        most = min(self._manifest.counts["points"], MOST_COUNTED)
        total = self._counted(
            (name, frozenset(vector.indices), query.filters),
            query.filters,
            lambda: len(self._vectors.search_sparse(name, vector, most + 1, query.filters)),
        )
        return Ranking(hits, min(total, most), "eq" if total <= most else "gte")

    def _dense(self, query: Query, sparse: Callable[[], Ranking] | None) -> Ranking:
        """Search by meaning. A hybrid search that fuses scores adds the vectors of the first papers to the query's."""
        vector = self._encode(query).dense[0]
        if not vector.any() or self._is_nonsense(query):
            # No paper is nearer than another: a static encoder knows no token of the query, or no paper its words.
            return Ranking([], 0, "eq")
        near = self._first_sparse(query, sparse)

        def search() -> Ranking:
            check(*_BY_MEANING)
            expanded = vector if not near or stands_out(near) else self._expanded(vector, near, query)
            if not query.is_split:
                return self._nearest(expanded, query, query.depth)
            if self._is_exact(query):
                whole = self._nearest(expanded, query, query.depth)
                return replace(whole, first=whole.hits[:DENSE_FIRST])
            first = self._nearest(expanded, query, DENSE_FIRST)
            if not first.hits or (query.is_first and len(first.hits) == DENSE_FIRST):
                return first
            # A longer search finds papers that a shorter one misses. So its first ones are not those of the first page,
            # and where few papers are above the floor, only it knows whether there is a next page.
            return replace(self._nearest(expanded, query, query.depth), first=first.hits)

        return _timed(DENSE, search)

    def _first_sparse(self, query: Query, sparse: Callable[[], Ranking] | None) -> list[ScoredId]:
        """The results of the sparse leg, with which the dense leg is expanded; none where it is not."""
        if sparse is None or self._settings.fusion != "scores":
            return []
        try:
            return sparse().hits
        except (EncoderError, VectorIndexError, LibraryCorrupt):
            return []  # the sparse leg itself raises or reports it

    def _nearest(self, vector: npt.NDArray[np.float32], query: Query, depth: int) -> Ranking:
        """The ``depth`` papers nearest to a vector, above the floor of similarity."""
        floor = self.floor(query)
        # One more, to see whether more are above the floor.
        hits = self._search_dense(vector, depth + 1, query)
        if floor is None:
            return Ranking(hits[:depth], self.count_dense(query.filters), "eq")
        above = _above(hits, floor)
        if not above and hits and not self._is_exact(query):
            # So that no results means that there are none.
            above = _above(self._search_dense(vector, 1, query, exact=True), floor)
        if len(above) <= depth:
            complete = self._is_exact(query) or not above
            return Ranking(above, len(above), "eq" if complete else "gte")
        above = above[:depth]
        if not query.request.exact:
            return Ranking(above, depth + 1, "gte")
        most = min(self._manifest.counts["dense_vectors"], MOST_COUNTED)
        total = self._counted(
            (DENSE, vector.tobytes(), floor, query.filters),
            query.filters,
            lambda: self._vectors.count_similar(vector, floor, most, query.filters),
        )
        return Ranking(above, total, "gte" if total == MOST_COUNTED else "eq")

    def _search_dense(
        self,
        vector: npt.NDArray[np.float32],
        limit: int,
        query: Query,
        *,
        exact: bool = False,
        ef: int = HNSW_EF,
    ) -> list[ScoredId]:
        exact = exact or self._is_exact(query)
        check(*(_EXACTLY if exact else _BY_MEANING))
        return without_long_list(
            lambda most, filters: self._vectors.search_dense(vector, most, filters, exact=exact, ef=ef),
            limit,
            query.filters,
        )

    def _is_exact(self, query: Query) -> bool:
        within = query.filters.listed
        # Comparing few papers with the query takes no longer than searching the graph, and misses none.
        few = within is not None and len(within) <= query.depth
        return few or query.request.exact or self._settings.exact

    def _expanded(
        self, vector: npt.NDArray[np.float32], near: Sequence[ScoredId], query: Query
    ) -> npt.NDArray[np.float32]:
        """The query's vector with those of the first papers of both legs (:mod:`.dense_feedback`)."""
        nearest = self._search_dense(vector, dense_feedback.CONSIDERED, query, ef=dense_feedback.EF)
        first = dense_feedback.first_papers(near, nearest)
        return dense_feedback.expand(vector, list(self._vectors.dense_vectors(first).values()))

    def floor(self, query: Query) -> float | None:
        """The least cosine of a result; None without such a limit."""
        if query.request.min_similarity is not None:
            return query.request.min_similarity if query.request.min_similarity > -1 else None
        random = self._manifest.vectors["random_similarity"]
        if not self._settings.similarity_floor or random is None:
            return None
        floor: float = random["p75" if self._has_known_words(query) else "p999"]
        return floor

    def _is_nonsense(self, query: Query) -> bool:
        """Whether a static encoder has only words that no paper has, whose pieces are near to other strange words."""
        has_own_floor = query.request.min_similarity is not None
        return (
            self.is_static
            and not has_own_floor
            and self.floor(query) is not None
            and not self._has_known_words(query)
        )

    def _has_known_words(self, query: Query) -> bool:
        """Whether a paper of the library, as of the query's day, has a word of the query, or all are stop words."""
        return self._known_words.get((query.words, query.day), lambda: self._find_known_words(query))

    def _find_known_words(self, query: Query) -> bool:
        vector = self._bm25.query(query.words)
        if not vector.indices:
            return True
        found = self._catalog.document_frequencies(vector.indices, query.day)
        if any(term in found for term in vector.indices):
            return True
        # The frequencies end with the last full month.
        this_month = ResolvedFilters(last_day=query.day)
        return query.day is not None and bool(self._vectors.search_sparse(BM25, vector, 1, this_month))

    def _find_sparse(
        self, name: str, vector: SparseVector | EngineVector, limit: int, filters: ResolvedFilters
    ) -> list[ScoredId]:
        check(*_BY_WORDS[name])
        return without_long_list(
            lambda most, passing: self._vectors.search_sparse(name, vector, most, passing), limit, filters
        )

    def count_dense(self, filters: ResolvedFilters) -> int:
        if filters is NO_FILTERS:
            return self._manifest.counts["dense_vectors"]
        return self._counted((DENSE, filters), filters, lambda: self._vectors.count(filters, vector=DENSE))

    def _counted(self, key: Hashable, filters: ResolvedFilters, count: Callable[[], int]) -> int:
        """A count, cached unless its key has long lists of ids, which rarely repeat and need much memory."""
        check(*_COUNTING)
        if len(filters.within or ()) + len(filters.exclude) > MAX_CACHED_IDS:
            return count()
        return self._counts.get(key, count)

    def _encode(self, query: Query) -> Encodings:
        """The query's vectors. A query is encoded alone, because a batch changes the last bits of its vector, and the
        same request must return the same bytes."""
        if self._encoder is None:  # _check_mode rejects this
            raise EncoderError("No query encoder is open: start with --encoder.")
        encode, text = self._encoder.encode_queries, _encoded_text(query)
        start = perf_counter()
        try:
            return self._encodings.get(text, lambda: encode([text]))
        finally:
            stages().append(("encode", start, perf_counter()))


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


def without_long_list(
    search: Callable[[int, ResolvedFilters], list[ScoredId]], limit: int, filters: ResolvedFilters
) -> list[ScoredId]:
    """The ``limit`` best papers. A long ``exclude`` is removed from a longer list of results, because an index skips a
    hundred thousand ids more slowly than it finds some hundreds of papers more. The result is the same."""
    excluded = filters.exclude
    if len(excluded) <= LONG_EXCLUSION:
        return search(limit, filters)
    others = replace(filters, exclude=frozenset())
    wanted = 2 * limit
    while wanted <= MOST_FETCHED:
        hits = search(wanted, others)
        kept = [hit for hit in hits if hit.id not in excluded]
        if len(kept) >= limit or len(hits) < wanted:
            return kept[:limit]
        wanted *= 4
    return search(limit, filters)


def _encoded_text(query: Query) -> str:
    """The text to encode: the query's words, without its syntax."""
    return " ".join(query_syntax.words(query.request.q)) if query.syntax else query.request.q


def free_text(q: str) -> str | None:
    count = len({word.casefold() for word in query_syntax.words(q)})
    if count > query_syntax.MAX_WORDS:
        raise InvalidRequest(
            f"q has {count} different words, and engine 'fts5' ranks up to {query_syntax.MAX_WORDS}: use engine "
            "'bm25', or a shorter text."
        )
    return query_syntax.free_text(q)
