"""Ranking: running the legs of a search and fusing their results.

A search is sparse (by words), dense (by meaning) or hybrid (both, by reciprocal rank fusion). The sparse leg has four
engines. Every leg applies the filters before it takes its first results; ties break by id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from time import perf_counter
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from scholarbase.deadlines import check
from scholarbase.encoders import Encoder, Encodings
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryCorrupt,
    UnsupportedMode,
    VectorIndexError,
)
from scholarbase.indexes import query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import BM25, DENSE, LEARNED, EngineVector, ScoredId, SparseVector
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Queries, Bm25Text
from scholarbase.indexes.vectors.feedback import PAPERS, Feedback, follow
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.manifest import Manifest
from scholarbase.models.checks import as_of_day
from scholarbase.models.encoders import STATIC
from scholarbase.models.limits import MAX_DEPTH, Engine, Mode, TotalRelation
from scholarbase.models.requests import SearchRequest
from scholarbase.models.responses import FailedLeg, LegExplanation
from scholarbase.rerankers import Reranker
from scholarbase.search import dense_feedback
from scholarbase.search.cache import Cache
from scholarbase.search.fusion import FusionTable, fuse
from scholarbase.search.known_items import (
    MAY_BE_ID,
    MOST_SHARING,
    KnownItem,
    KnownItems,
    explain_known,
    put_first,
)
from scholarbase.search.reading import read
from scholarbase.search.reranking import Reranked, Reranking, check_reranker
from scholarbase.search.score_fusion import Combined, combine, leg_weights, stands_out
from scholarbase.settings import Settings
from scholarbase.timing import stages

log = logging.getLogger("scholarbase.ranking")

TIERS: Final = (100, 1000, MAX_DEPTH)
"""The numbers of results that a leg can fetch; the smallest that includes the page is used. All pages within a tier
come from one ranking, so they have no overlaps or gaps if an index is approximate."""
CACHED_COUNTS: Final = 1024
CACHED_QUERIES: Final = 4096
"""Queries whose vectors are cached. Encoding takes far longer than searching, and paging, evaluations and agents repeat
queries. 16 MB at 1,024 dimensions."""
FEEDBACK: Final = "feedback"
"""The name of the leg of BM25 with feedback."""
_SEARCH: Final = ("The search", "use fewer words, filters and ids, or a smaller limit")
"""Activity and advice for the error at the time limit."""
WORD_LEGS: Final = (BM25, FEEDBACK, "fts5")
"""Legs that compare words, so that explanations can name them. Learned weights are of a model's tokens."""
LONG_EXCLUSION: Final = 1000
"""Above this many excluded ids, a search fetches more results and removes them itself."""
MOST_FETCHED: Final = 20_000
MOST_COUNTED: Final = 200_000
"""Matches of BM25 that an exact search counts. Each takes a hundred bytes of memory."""
MAX_CACHED_IDS: Final = 100
THREADS: Final = 40
"""Threads for sparse legs that run while queries are encoded: as many as a worker has for requests."""

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


class Ranker:
    """Ranks the papers of one library. Thread-safe."""

    def __init__(
        self,
        manifest: Manifest,
        papers: Catalog,
        vectors: VectorIndex,
        encoder: Encoder | None,
        settings: Settings,
        rerankers: Mapping[str, Reranker] = MappingProxyType({}),
    ) -> None:
        self._manifest = manifest
        self._catalog = papers
        self._vectors = vectors
        self._encoder = encoder
        self._settings = settings
        self._bm25 = Bm25Text(Bm25Parameters.from_dict(manifest.bm25))
        self._bm25_queries = Bm25Queries(self._bm25, papers.document_frequencies)
        self._feedback = Feedback(vectors, self._bm25_queries)
        self._known_items = KnownItems(papers)
        self._rerankers = rerankers
        self._reranking = Reranking(papers, rerankers)
        self._counts: Cache[int] = Cache(CACHED_COUNTS)
        self._encodings: Cache[Encodings] = Cache(CACHED_QUERIES)
        self._known_words: Cache[bool] = Cache(CACHED_QUERIES)
        has_dense = manifest.vectors["dimensions"] is not None and encoder is not None
        self.best_mode: Final[Mode] = "hybrid" if has_dense else "sparse"
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sparse-leg")

    def close(self) -> None:
        """Shut down the thread pool. Running searches finish."""
        self._threads.shutdown(wait=False)

    def forget_queries(self) -> None:
        """Empty the caches of query vectors, of known words and of rerankers' scores."""
        self._encodings.clear()
        self._known_words.clear()
        self._reranking.forget()

    def resolve(self, request: SearchRequest, filters: ResolvedFilters) -> Query:
        """Decide which legs run, and how many results they fetch.

        Raises:
            InvalidRequest: the page is too deep, the query syntax is malformed, or the reranker is unknown.
            UnsupportedMode: the library has no index for the mode or engine.
        """
        mode = request.mode or self.best_mode
        self._check_mode(mode, request.engine)
        if request.rerank is not None:
            check_reranker(request.rerank, self._rerankers)
        q = request.q
        depth = self._depth(request, mode)
        words = query_syntax.without_shortened(q) if query_syntax.SHORTENED.search(q) else q
        engine = None if mode == "dense" else request.engine or self._default_engine(mode)
        if request.min_similarity is not None and mode == "sparse":
            raise InvalidRequest(
                f"min_similarity {request.min_similarity:g} applies to dense vectors, which mode 'sparse' does not "
                "use: leave it out, or use mode 'hybrid' or 'dense'."
            )
        expression: str | None = None
        syntax = False
        warnings: tuple[str, ...] = ()
        if self._may_be_syntax(request, mode):
            reading = read(q, request.syntax, filters, self._catalog, hybrid=mode == "hybrid")
            warnings = reading.warnings
            if reading.expression is not None:
                engine, expression, syntax = "fts5", reading.expression, True
                filters = filters if reading.matches is None else replace(filters, within=reading.matches)
        if engine == "fts5" and not syntax:
            expression = _free_text(words)
        known: tuple[KnownItem, ...] = ()
        if self._settings.known_items and request.syntax != "query":
            titled = self._catalog.titled(q, filters, MOST_SHARING)
            if titled or MAY_BE_ID.fullmatch(q):
                known = self._known_items.find(q, titled, filters)
            if known and expression is not None and syntax:
                [matching] = self._catalog.holding([expression], [item.id for item in known])
                known = tuple(item for item in known if item.id in matching)
        # The other pages are the same with and without the reranker.
        has_reranked = request.rerank is not None and request.offset < request.rerank_depth
        reranked = min(request.rerank_depth, depth) if has_reranked else 0
        return Query(
            request, mode, engine, filters, depth, expression, syntax, words, known, warnings, reranked
        )

    def _default_engine(self, mode: Mode) -> Engine:
        if self._settings.engine is not None:
            return self._settings.engine
        return "feedback" if mode == "hybrid" and self._settings.fusion == "scores" else "bm25"

    def has_bm25_terms(self, q: str) -> bool:
        """Whether ``q`` has words besides stop words, so that BM25 vectors can rank it."""
        return len(self._bm25.query(query_syntax.without_shortened(q)).indices) > 0

    def _may_be_syntax(self, request: SearchRequest, mode: Mode) -> bool:
        if mode == "dense" or request.syntax == "plain" or request.engine not in (None, "fts5"):
            return False
        return request.syntax == "query" or query_syntax.MARKS.search(request.q) is not None

    def _check_mode(self, mode: Mode, engine: Engine | None) -> None:
        if mode != "sparse":
            if self._manifest.encoder is None:
                raise UnsupportedMode(
                    f"mode {mode!r} requires dense vectors, and this library was built without them: "
                    "use mode 'sparse', or ingest again with an --encoder other than none."
                )
            if self._manifest.vectors["dimensions"] is None:
                raise UnsupportedMode(
                    f"mode {mode!r} requires dense vectors, and {self._manifest.encoder.name}, the encoder of this "
                    "library, has learned term weights only: use mode 'sparse', with engine 'learned'."
                )
            if self._encoder is None:
                raise UnsupportedMode(
                    f"mode {mode!r} requires the query encoder {self._manifest.encoder.for_queries.name}, and this "
                    "process was started without it: use mode 'sparse', or start it with --encoder."
                )
        if engine == "learned":
            if not self._manifest.vectors["learned"]:
                raise UnsupportedMode(
                    "engine 'learned' requires term weights of a model such as BGE-M3, and this library has none: "
                    "use engine 'bm25' or 'fts5'."
                )
            if self._encoder is None:
                raise UnsupportedMode(
                    "engine 'learned' requires the query encoder, and this process was started without it: "
                    "use engine 'bm25' or 'fts5', or start it with --encoder."
                )

    def _depth(self, request: SearchRequest, mode: Mode) -> int:
        end = request.offset + request.limit
        if request.rerank is not None:
            end = max(end, request.rerank_depth)
        deepest = self._settings.fusion_depth if mode == "hybrid" else MAX_DEPTH
        if request.offset >= deepest:
            raise InvalidRequest(
                f"offset {request.offset} is beyond result {deepest}, the last of a {mode} search: narrow the search "
                "with filters" + (", or use mode 'sparse' or 'dense'." if mode == "hybrid" else ".")
            )
        # A page that extends beyond the last result ends there.
        return deepest if mode == "hybrid" else next(tier for tier in TIERS if min(end, deepest) <= tier)

    def rank(self, query: Query) -> Ranking:
        """Run the legs, fuse them, rerank the first papers, and cut the page.

        Raises:
            EncoderError, VectorIndexError, LibraryCorrupt: all legs failed, or one failed without ``partial``.
            RerankerError: the reranker failed without ``partial``.
        """
        request = query.request
        legs, failed = self._run_legs(query)
        end = min(request.offset + request.limit, query.depth)
        explanations: dict[int, tuple[LegExplanation, ...]] = {}
        if query.mode == "hybrid":
            start = perf_counter()
            # A known item may be the last of either leg.
            most = 2 * query.depth if query.known else max(end, query.reranked)
            hits, found, explanations = self._fuse(query, legs, most)
            stages().append(("fusion", start, perf_counter()))
            total, relation = self._hybrid_total(legs, found)
        else:
            [leg] = legs.values()
            hits, total, relation = leg.hits, leg.total, leg.relation
            found = total if relation == "eq" else MAX_DEPTH
        own = hits
        if query.known:
            hits = put_first(query.known, own)
            absent = len(hits) - len(own)
            found += absent
            total += self._uncounted(query, legs) if absent and relation == "eq" else 0
        reachable = min(found, query.depth if query.mode == "hybrid" else MAX_DEPTH)
        reranked = self._rerank(query, hits)
        if isinstance(reranked, Reranked):
            hits = reranked.hits
        elif reranked is not None:
            failed.append(reranked)
            reranked = None
        hits = hits[request.offset : end]
        if request.explain:
            if query.mode != "hybrid":
                explanations = _explained(legs, {hit.id for hit in hits})
            explanations = explain_known(query.known, hits, own, explanations)
            explanations = self._with_terms(query, explanations, [hit.id for hit in hits])
            for number, entry in reranked.explanations.items() if reranked else ():
                if number in explanations:
                    explanations[number] += (entry,)
        reached = request.offset + len(hits)
        next_offset = reached if hits and reached < reachable else None
        name = request.rerank if reranked else None
        return Ranking(hits, total, relation, next_offset, explanations, tuple(failed), name)

    def _rerank(self, query: Query, hits: list[ScoredId]) -> Reranked | FailedLeg | None:
        """The hits with the first ones reranked, behind the known items; None if there are none to rerank."""
        request, known = query.request, len(query.known)
        if request.rerank is None or len(hits[known : query.reranked]) == 0:
            return None
        text = request.q
        if query.syntax:  # without operators, columns and what follows NOT
            text = " ".join(term.word for term in query_syntax.terms(text, syntax=True)) or text
        return self._reranking.rerank(
            request.rerank, text, hits, known, query.reranked, partial=request.partial
        )

    def _fuse(
        self, query: Query, legs: Mapping[str, Ranking], end: int
    ) -> tuple[list[ScoredId], int, dict[int, tuple[LegExplanation, ...]]]:
        """The best papers of the fusion, the number of papers in all legs together, and explanations."""
        lists = {name: leg.hits for name, leg in legs.items()}
        weights = {k: v for k, v in (self._settings.fusion_weights or {}).items() if k in lists}
        if self._settings.fusion == "scores":
            least = {DENSE: self._floor(query) or 0.0}
            fused = combine(lists, leg_weights(lists, weights), least, depth=query.depth, limit=end)
            explained = _shares(lists, fused) if query.request.explain else {}
            return fused.hits, fused.found, explained
        return self._fuse_ranks(lists, weights, end, explain=query.request.explain)

    def _fuse_ranks(
        self, lists: Mapping[str, list[ScoredId]], weights: Mapping[str, float], end: int, *, explain: bool
    ) -> tuple[list[ScoredId], int, dict[int, tuple[LegExplanation, ...]]]:
        k = self._settings.rrf_k
        if len(lists) == 2 and not explain:
            # Only explanations need the shares; computing those of two thousand papers takes longer than both legs.
            (first, one), (second, other) = lists.items()
            depth = max(len(one), len(other))
            table = FusionTable([hit.id for hit in one], [hit.id for hit in other], depth)
            both = weights.get(first, 1.0), weights.get(second, 1.0)
            return table.best_scored(end, k=k, weights=both), len(table.ids), {}
        fused = fuse(lists, k=k, weights=weights)
        explanations = {
            paper.id: tuple(
                LegExplanation(name, share.rank, share.score, share.share)
                for name, share in paper.shares.items()
            )
            for paper in fused[:end]
        }
        return [ScoredId(paper.id, paper.score) for paper in fused[:end]], len(fused), explanations

    def _with_terms(
        self, query: Query, explanations: Mapping[int, tuple[LegExplanation, ...]], page: Sequence[int]
    ) -> dict[int, tuple[LegExplanation, ...]]:
        """The explanations of a page, with the words of the query that each paper contains."""
        own = query.engine if query.engine in WORD_LEGS else None
        ids = [paper_id for paper_id in page if any(leg.leg == own for leg in explanations[paper_id])]
        terms = self._matching_terms(query, ids) if ids else {}
        return {
            paper_id: tuple(
                msgspec.structs.replace(leg, terms=terms[paper_id]) if leg.leg == own else leg
                for leg in explanations[paper_id]
            )
            for paper_id in page
        }

    def _matching_terms(self, query: Query, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        q = query.words
        if query.engine != "fts5" and len(self._bm25.query(q).indices):
            numbers = {
                word: set(self._bm25.query(word).indices)
                for word in dict.fromkeys(word.lower() for word in query_syntax.words(q))
            }
            vectors = {
                paper_id: set(vector.indices)
                for paper_id, vector in self._vectors.sparse_vectors(BM25, ids).items()
            }
            return {
                paper_id: tuple(
                    word for word, own in numbers.items() if own and own <= vectors.get(paper_id, set())
                )
                for paper_id in ids
            }
        terms = query_syntax.terms(query.request.q if query.syntax else q, syntax=query.syntax)
        holding = self._catalog.holding([term.expression for term in terms], ids)
        return {
            paper_id: tuple(t.word for t, having in zip(terms, holding, strict=True) if paper_id in having)
            for paper_id in ids
        }

    def _run_legs(self, query: Query) -> tuple[dict[str, Ranking], list[FailedLeg]]:
        """Run the legs. The sparse leg comes first; errors raise, unless the request accepts partial results."""
        plans: dict[str, Callable[[], Ranking]] = {}
        sparse = None if query.engine is None else self._sparse_leg(query, query.engine)
        if query.mode != "sparse":
            plans[DENSE] = partial(self._dense, query, sparse)
        if sparse is not None and query.engine is not None:
            plans[query.engine] = sparse
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
                failed.append(FailedLeg(name, str(error)))
                last = error
        if not legs and last is not None:
            raise last
        return dict(reversed(legs.items())), failed[::-1]

    def _sparse_leg(self, query: Query, engine: Engine) -> Callable[[], Ranking]:
        """The sparse leg, which runs once: the dense leg may need its results first."""
        legs_of = {
            "fts5": self._fts5,
            "bm25": self._bm25_leg,
            "feedback": self._feedback_leg,
            "learned": self._learned,
        }
        run: Callable[[], Ranking] = partial(legs_of[engine], query)
        if engine != "learned":  # which times its search without the encoder
            run = partial(_timed, engine, run)
        if query.mode != "sparse" and engine != "learned" and not self._encodes_at_once(query):
            # Run it in a thread while the model encodes the query. Not the encoder in a thread: Qdrant Edge holds
            # Python's lock while it searches, so the thread could not send the query to the model. The learned leg
            # needs the model itself.
            return self._threads.submit(copy_context().run, run).result
        return once(run)

    def _encodes_at_once(self, query: Query) -> bool:
        """Whether the query's vector is cached, or made in less time than it takes to start a thread."""
        is_static = self._encoder is not None and self._encoder.spec.kind == STATIC
        return is_static or _encoded_text(query) in self._encodings

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
        return self._fts5(replace(query, expression=_free_text(query.words)))

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
            # A static encoder knows no token of the query, so no paper is nearer than another.
            return Ranking([], 0, "eq")
        near = self._first_sparse(query, sparse)

        def search() -> Ranking:
            expanded = vector if not near or stands_out(near) else self._expanded(vector, near, query)
            return self._nearest(expanded, query)

        return _timed(DENSE, search)

    def _first_sparse(self, query: Query, sparse: Callable[[], Ranking] | None) -> list[ScoredId]:
        """The results of the sparse leg, with which the dense leg is expanded; none where it is not."""
        if sparse is None or self._settings.fusion != "scores":
            return []
        try:
            return sparse().hits
        except (EncoderError, VectorIndexError, LibraryCorrupt):
            return []  # the sparse leg itself raises or reports it

    def _nearest(self, vector: npt.NDArray[np.float32], query: Query) -> Ranking:
        """The papers nearest to a vector, above the floor of similarity."""
        floor = self._floor(query)
        hits = self._search_dense(vector, query.depth, query)
        above = hits if floor is None else _above(hits, floor)
        if not above and hits and not self._is_exact(query):
            # So that no results means that there are none.
            above = _above(self._search_dense(vector, 1, query, exact=True), floor or -1.0)
        if floor is None:
            return Ranking(above, self._count_dense(query.filters), "eq")
        if len(above) < query.depth:
            complete = self._is_exact(query) or not above or len(above) == len(hits)
            return Ranking(above, len(above), "eq" if complete else "gte")
        if not query.request.exact:
            return Ranking(above, len(above), "gte")
        most = min(self._manifest.counts["dense_vectors"], MOST_COUNTED)
        total = self._counted(
            (DENSE, vector.tobytes(), floor, query.filters),
            query.filters,
            lambda: len(_above(self._search_dense(vector, most, query, exact=True), floor)),
        )
        return Ranking(above, total, "gte" if total == MOST_COUNTED else "eq")

    def _search_dense(
        self, vector: npt.NDArray[np.float32], limit: int, query: Query, *, exact: bool = False
    ) -> list[ScoredId]:
        exact = exact or self._is_exact(query)
        return without_long_list(
            lambda most, filters: self._vectors.search_dense(vector, most, filters, exact=exact),
            limit,
            query.filters,
        )

    def _is_exact(self, query: Query) -> bool:
        return query.request.exact or self._settings.exact

    def _expanded(
        self, vector: npt.NDArray[np.float32], near: Sequence[ScoredId], query: Query
    ) -> npt.NDArray[np.float32]:
        """The query's vector with those of the first papers of both legs (:mod:`.dense_feedback`)."""
        nearest = self._search_dense(vector, dense_feedback.CONSIDERED, query)
        first = dense_feedback.first_papers(near, nearest)
        return dense_feedback.expand(vector, list(self._vectors.dense_vectors(first).values()))

    def _floor(self, query: Query) -> float | None:
        """The least cosine of a result; None without such a limit."""
        if query.request.min_similarity is not None:
            return query.request.min_similarity
        random = self._manifest.vectors["random_similarity"]
        if not self._settings.similarity_floor or random is None:
            return None
        floor: float = random["p75" if self._has_known_words(query) else "p999"]
        return floor

    def _is_nonsense(self, query: Query) -> bool:
        """Whether a static encoder has only words that no paper has, whose pieces are near to other strange words."""
        return (
            self._settings.similarity_floor
            and self._encoder is not None
            and self._encoder.spec.kind == STATIC
            and not self._has_known_words(query)
        )

    def _has_known_words(self, query: Query) -> bool:
        """Whether a paper of the library, as of the query's day, has a word of the query, or all are stop words."""
        return self._known_words.get((query.words, query.day), lambda: self._find_known_words(query))

    def _find_known_words(self, query: Query) -> bool:
        terms = self._bm25.query(query.words).indices
        found = self._catalog.document_frequencies(terms, query.day) if terms else {}
        return not terms or any(term in found for term in terms)

    def _find_sparse(
        self, name: str, vector: SparseVector | EngineVector, limit: int, filters: ResolvedFilters
    ) -> list[ScoredId]:
        return without_long_list(
            lambda most, passing: self._vectors.search_sparse(name, vector, most, passing), limit, filters
        )

    def _count_dense(self, filters: ResolvedFilters) -> int:
        if filters is NO_FILTERS:
            return self._manifest.counts["dense_vectors"]
        return self._counted((DENSE, filters), filters, lambda: self._vectors.count(filters, vector=DENSE))

    def _counted(self, key: Hashable, filters: ResolvedFilters, count: Callable[[], int]) -> int:
        """A count, cached unless its key has long lists of ids, which rarely repeat and need much memory."""
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

    def _uncounted(self, query: Query, legs: Mapping[str, Ranking]) -> int:
        """The number of known items that no leg matches, so that the total lacks them."""
        ranked = {hit.id for leg in legs.values() for hit in leg.hits}
        absent = {item.id for item in query.known} - ranked
        if all(len(leg.hits) == leg.total for leg in legs.values()):
            return len(absent)
        among = replace(query.filters, within=frozenset(absent))
        again, _ = self._run_legs(replace(query, filters=among))
        return len(absent - {hit.id for leg in again.values() for hit in leg.hits})

    def _hybrid_total(self, legs: Mapping[str, Ranking], found: int) -> tuple[int, TotalRelation]:
        """The matches of a hybrid search: the papers of either leg. Without a floor of similarity, all papers with
        dense vectors that pass the filters are matches."""
        dense = legs.get(DENSE)
        sparse = next((leg for name, leg in legs.items() if name != DENSE), None)
        if sparse is not None and (dense is None or dense.total == 0):
            return sparse.total, sparse.relation
        assert dense is not None
        if (
            dense.relation == "eq"
            and dense.total >= self._count_dense(NO_FILTERS) == self._manifest.counts["papers"]
        ):
            return dense.total, "eq"
        exhausted = all(leg.relation == "eq" and len(leg.hits) == leg.total for leg in legs.values())
        return (found, "eq") if exhausted else (max(found, *(leg.total for leg in legs.values())), "gte")


def _explained(legs: Mapping[str, Ranking], page: Collection[int]) -> dict[int, tuple[LegExplanation, ...]]:
    """The explanations of a page of a search with one leg."""
    [(name, leg)] = legs.items()
    return {
        hit.id: (LegExplanation(name, rank, hit.score, hit.score),)
        for rank, hit in enumerate(leg.hits, 1)
        if hit.id in page
    }


def _shares(
    lists: Mapping[str, Sequence[ScoredId]], fused: Combined
) -> dict[int, tuple[LegExplanation, ...]]:
    """The explanations of the papers of a fusion of scores."""
    explanations: dict[int, tuple[LegExplanation, ...]] = {hit.id: () for hit in fused.hits}
    for name, hits in lists.items():
        for rank, (hit, share) in enumerate(zip(hits, fused.shares[name].tolist(), strict=True), 1):
            if hit.id in explanations:
                explanations[hit.id] += (LegExplanation(name, rank, hit.score, share),)
    return explanations


def _above(hits: Sequence[ScoredId], floor: float) -> list[ScoredId]:
    """The hits, best first, with at least this score."""
    return list(takewhile(lambda hit: hit.score >= floor, hits))


def once(run: Callable[[], T]) -> Callable[[], T]:
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


def _free_text(q: str) -> str | None:
    count = len({word.casefold() for word in query_syntax.words(q)})
    if count > query_syntax.MAX_WORDS:
        raise InvalidRequest(
            f"q has {count} different words, and engine 'fts5' ranks up to {query_syntax.MAX_WORDS}: use engine "
            "'bm25', or a shorter text."
        )
    return query_syntax.free_text(q)
