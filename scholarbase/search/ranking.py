"""From a request to a ranking: which legs run, what each of them finds, and how they are fused.

A search is sparse (by words), dense (by meaning) or hybrid (both, by reciprocal rank fusion). The sparse leg is one
of three engines. Filters come resolved and apply in every leg before its cut; ties break by id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

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
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import BM25, DENSE, LEARNED, ScoredId, SparseVector, VectorIndex
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.feedback import PAPERS, Feedback, follow
from scholarbase.manifest import Manifest
from scholarbase.models import (
    MAX_LIMIT,
    Engine,
    FailedLeg,
    LegExplanation,
    Mode,
    SearchRequest,
    TotalRelation,
)
from scholarbase.search.cache import Cache
from scholarbase.search.fusion import Fused, FusionTable, fuse
from scholarbase.settings import Settings

log = logging.getLogger("scholarbase.ranking")

MAX_WINDOW: Final = 10_000
"""How deep paging goes: ``offset + limit`` of a sparse or dense search."""
TIERS: Final = (100, 1000, MAX_WINDOW)
"""How many results a leg is asked for: the first of these that holds the page. All pages within a tier are cut
from one ranking, so that they neither overlap nor leave gaps where an index is approximate."""
MAX_SYNTAX_MATCHES: Final = 200_000
"""Papers that a boolean query may leave for the dense leg of a hybrid search to rank."""
CACHED_COUNTS: Final = 1024
CACHED_QUERIES: Final = 4096
"""Queries whose vectors a process keeps: a model takes far longer than the search, and the pages of a search, the
modes of an evaluation and agents ask the same again. 16 MB at 1,024 dimensions."""
FEEDBACK: Final = "feedback"
"""The name of the leg that BM25 is with feedback."""
WORD_LEGS: Final = (BM25, FEEDBACK, "fts5")
"""Legs that compare words, and so can say which: dense vectors have none, and learned weights are of a model's
tokens."""
LONG_EXCLUSION: Final = 1000
"""Ids from which on a search finds more than it needs and leaves these out itself."""
MOST_FETCHED: Final = 20_000
MAX_CACHED_IDS: Final = 100
THREADS: Final = 40
"""Sparse legs that run beside an encoder at once: as many as calls that a serving process answers in threads."""
MAX_FTS5_WORDS: Final = 256
"""Different words of a free text that FTS5 ranks, since it scores every paper that has one of them: a long abstract
has fewer. BM25 vectors take any text."""


@dataclass(frozen=True, slots=True)
class Query:
    """A request, resolved: what each leg needs to run."""

    request: SearchRequest
    mode: Mode
    engine: Engine | None
    filters: ResolvedFilters
    depth: int
    expression: str | None
    """What FTS5 is asked, where it is asked; None too for a text without a single word."""
    syntax: bool
    """Whether ``q`` was read as query syntax, and not as free text."""


class RankedPaper(NamedTuple):
    """A paper of the page: its catalogue id, its score, and where that comes from if that was asked."""

    id: int
    score: float
    explain: tuple[LegExplanation, ...] | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """One page of a ranking, and what is true of all of it."""

    page: list[RankedPaper]
    total: int
    relation: TotalRelation
    next_offset: int | None
    failed: tuple[FailedLeg, ...]


@dataclass(frozen=True, slots=True)
class _Leg:
    """One leg's ranking: its hits to some depth, and how many papers match in all."""

    name: str
    hits: list[ScoredId]
    total: int
    relation: TotalRelation


class Ranker:
    """Ranks the papers of one library. Safe to share between threads."""

    def __init__(
        self,
        manifest: Manifest,
        papers: Catalog,
        vectors: VectorIndex,
        encoder: Encoder | None,
        settings: Settings,
    ) -> None:
        self._manifest = manifest
        self._catalog = papers
        self._vectors = vectors
        self._encoder = encoder
        self._settings = settings
        self._bm25 = Bm25Text(Bm25Parameters.from_dict(manifest.bm25))
        self._feedback = Feedback(vectors, papers.last_id())
        self._counts: Cache[int] = Cache(CACHED_COUNTS)
        self._encodings: Cache[Encodings] = Cache(CACHED_QUERIES)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="sparse-leg")

    def close(self) -> None:
        """Let go of the threads. Whoever is still being answered is."""
        self._threads.shutdown(wait=False)

    @property
    def best_mode(self) -> Mode:
        """Hybrid where the library has dense vectors and an encoder for queries, else sparse."""
        return "hybrid" if self._manifest.encoder is not None and self._encoder is not None else "sparse"

    def resolve(self, request: SearchRequest, filters: ResolvedFilters) -> Query:
        """Decide how a request is answered.

        Raises:
            InvalidRequest: it reaches too deep, or its query syntax cannot be read; ``UnsupportedMode``: the
                library has no such index.
        """
        mode = request.mode or self.best_mode
        self._check_mode(mode, request.engine)
        engine: Engine | None = None
        expression: str | None = None
        syntax = False
        if mode != "dense":
            syntax = request.engine in (None, "fts5") and query_syntax.is_syntax(request.q)
            engine = request.engine or ("fts5" if syntax else "bm25")
            if engine == "fts5":
                expression = query_syntax.compile(request.q) if syntax else _free_text(request.q)
        depth = self._depth(request, mode)
        if mode == "hybrid" and syntax and expression is not None:
            filters = self._within_expression(expression, filters)
        return Query(request, mode, engine, filters, depth, expression, syntax)

    def is_brief(self, request: SearchRequest) -> bool:
        """Whether the answer takes one plain query of BM25 vectors: no encoder, no FTS5, no long lists, no count."""
        if (request.mode or self.best_mode) != "sparse" or request.engine not in (None, "bm25"):
            return False
        ids = len(request.filters.exclude_ids) + len(request.filters.within or ())
        if (
            request.exact
            or request.filters.exclude
            or ids > MAX_CACHED_IDS
            or request.offset + request.limit > MAX_LIMIT
        ):
            return False
        if request.engine is None and query_syntax.is_syntax(request.q):
            return False
        return bool(len(self._bm25.query(request.q).indices))

    def _check_mode(self, mode: Mode, engine: Engine | None) -> None:
        if mode != "sparse":
            if self._manifest.encoder is None:
                raise UnsupportedMode(
                    f"mode {mode!r} needs dense vectors, and this library was built without them: "
                    "use mode 'sparse', or ingest with --encoder."
                )
            if self._encoder is None:
                raise UnsupportedMode(
                    f"mode {mode!r} needs the query encoder {self._manifest.encoder.name}, and this process was "
                    "started without it: use mode 'sparse', or start it with --encoder."
                )
        if engine == "learned":
            if not self._manifest.vectors["learned"]:
                raise UnsupportedMode(
                    "engine 'learned' needs the term weights of a model such as BGE-M3, and this library has none: "
                    "use engine 'bm25' or 'fts5'."
                )
            if self._encoder is None:
                raise UnsupportedMode(
                    "engine 'learned' needs the query encoder, and this process was started without it: "
                    "use engine 'bm25' or 'fts5', or start it with --encoder."
                )

    def _depth(self, request: SearchRequest, mode: Mode) -> int:
        end = request.offset + request.limit
        deepest = self._settings.fusion_depth if mode == "hybrid" else MAX_WINDOW
        if request.offset >= deepest:
            raise InvalidRequest(
                f"offset {request.offset} is beyond result {deepest}, the last that a {mode} search goes to: narrow "
                "the search with filters"
                + (", or use mode 'sparse' or 'dense'." if mode == "hybrid" else ".")
            )
        # The last page ends where paging does, however long a page was asked for.
        return deepest if mode == "hybrid" else next(tier for tier in TIERS if min(end, deepest) <= tier)

    def _within_expression(self, expression: str, filters: ResolvedFilters) -> ResolvedFilters:
        """A boolean query says what must match, so in a hybrid search it holds for the dense leg too."""
        matches = self._catalog.matching_ids(expression, MAX_SYNTAX_MATCHES + 1, filters)
        if len(matches) > MAX_SYNTAX_MATCHES:
            raise InvalidRequest(
                f"The query matches more than {MAX_SYNTAX_MATCHES:,} papers, too many to rank by meaning as well: "
                "use mode 'sparse', or add words that must match."
            )
        return replace(filters, within=frozenset(matches))

    def rank(self, query: Query) -> Ranking:
        """Run the legs and cut the page.

        Raises:
            EncoderError, VectorIndexError, LibraryCorrupt: a leg failed, and a partial answer is not allowed or
                none is left.
        """
        request = query.request
        legs, failed = self._run_legs(query)
        span = slice(request.offset, min(request.offset + request.limit, query.depth))
        if query.mode == "hybrid":
            # A weight for a leg that this search does not have says nothing here.
            given = self._settings.fusion_weights or {}
            weights = {leg.name: given[leg.name] for leg in legs if leg.name in given}
            page, found = _fused(legs, span, self._settings.rrf_k, weights, explain=request.explain)
            total, relation = self._hybrid_total(legs, found)
            reachable = min(found, query.depth)
        else:
            [leg] = legs
            page = [
                RankedPaper(
                    hit.id, hit.score, _of_one(leg.name, rank, hit.score) if request.explain else None
                )
                for rank, hit in enumerate(leg.hits[span], request.offset + 1)
            ]
            total, relation = leg.total, leg.relation
            reachable = min(total, MAX_WINDOW) if relation == "eq" else MAX_WINDOW
        if request.explain:
            page = self._with_terms(query, page)
        end = request.offset + len(page)
        return Ranking(page, total, relation, end if page and end < reachable else None, tuple(failed))

    def _with_terms(self, query: Query, page: Sequence[RankedPaper]) -> list[RankedPaper]:
        """The page, with the words of the query that its papers hold in what the legs that compare words say."""
        own = query.engine if query.engine in WORD_LEGS else None
        ids = [ranked.id for ranked in page if any(leg.leg == own for leg in ranked.explain or ())]
        if not ids:
            return list(page)
        held = self._terms_held(query, ids)
        return [
            ranked._replace(
                explain=tuple(
                    replace(leg, terms=held[ranked.id]) if leg.leg == own else leg
                    for leg in ranked.explain or ()
                )
            )
            for ranked in page
        ]

    def _terms_held(self, query: Query, ids: Sequence[int]) -> dict[int, tuple[str, ...]]:
        q = query.request.q
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
        terms = query_syntax.terms(q, syntax=query.syntax)
        holding = self._catalog.holding([term.expression for term in terms], ids)
        return {
            paper_id: tuple(t.word for t, having in zip(terms, holding, strict=True) if paper_id in having)
            for paper_id in ids
        }

    def _run_legs(self, query: Query) -> tuple[list[_Leg], list[FailedLeg]]:
        """Every leg of the mode; those that fail make the call fail, unless a partial answer is allowed."""
        plans: list[tuple[str, Callable[[], _Leg]]] = []
        if query.mode != "sparse":
            plans.append((DENSE, partial(self._dense, query)))
        if query.engine is not None:
            legs_of = {
                "fts5": self._fts5,
                "bm25": self._bm25_leg,
                "feedback": self._feedback_leg,
                "learned": self._learned,
            }
            run: Callable[[], _Leg] = partial(legs_of[query.engine], query)
            if plans and query.engine != "learned" and _encoded_text(query) not in self._encodings:
                # While the model works, in another process or outside of Python's lock, a thread searches for the
                # words. Not the other way round: Qdrant Edge keeps the lock while it searches, and a query that a
                # thread were to send to the model would not leave before that. Learned words are the model's too.
                run = self._threads.submit(run).result
            plans.append((query.engine, run))
        legs: list[_Leg] = []
        failed: list[FailedLeg] = []
        last: Exception | None = None
        for name, leg in plans:
            try:
                legs.append(leg())
            except (EncoderError, VectorIndexError, LibraryCorrupt) as error:
                if not query.request.partial:
                    raise
                log.warning("leg %s failed: %s", name, error)
                failed.append(FailedLeg(name, str(error)))
                last = error
        if not legs and last is not None:
            raise last
        # Answers name the sparse leg first.
        return legs[::-1], failed[::-1]

    def _fts5(self, query: Query) -> _Leg:
        if query.expression is None:
            return _Leg("fts5", [], 0, "eq")
        expression = query.expression
        hits = self._catalog.search_text(
            expression, query.depth, query.filters, title_weight=self._settings.fts5_title_weight
        )
        total = len(hits)
        if total == query.depth:
            total = self._counted(
                ("fts5", expression, query.filters),
                query.filters,
                lambda: self._catalog.count_text(expression, query.filters),
            )
        return _Leg("fts5", hits, total, "eq")

    def _bm25_leg(self, query: Query) -> _Leg:
        vector = self._bm25.query(query.request.q)
        if len(vector.indices):
            return self._sparse(query, BM25, vector)
        # BM25's vectors leave stop words out, FTS5 keeps them: a query of nothing else is FTS5's.
        expression = _free_text(query.request.q)
        return replace(self._fts5(replace(query, expression=expression)), name=BM25)

    def _feedback_leg(self, query: Query) -> _Leg:
        """BM25, asked again with words of its first results. A query that matches no more papers than are looked at
        gets exactly those: it says well enough what it wants."""
        vector = self._bm25.query(query.request.q)
        if not len(vector.indices):
            return replace(self._bm25_leg(query), name=FEEDBACK)
        first = self._find_sparse(BM25, vector, PAPERS + 1, query.filters)
        if len(first) <= PAPERS:
            return _Leg(FEEDBACK, first, len(first), "eq")
        expanded = self._feedback.expand(vector, first)
        if expanded is None:
            return replace(self._sparse(query, BM25, vector), name=FEEDBACK)
        second = self._sparse(query, BM25, expanded)
        hits = follow(first, second.hits)
        return _Leg(FEEDBACK, hits[: query.depth], max(second.total, len(hits)), second.relation)

    def _learned(self, query: Query) -> _Leg:
        weights = self._encode(query).sparse
        if weights is None:
            raise EncoderError("The query encoder gave no learned weights, and engine 'learned' needs them.")
        return self._sparse(
            query, LEARNED, SparseVector(weights[0].indices.tolist(), weights[0].values.tolist())
        )

    def _sparse(self, query: Query, name: str, vector: SparseVector) -> _Leg:
        # One more than the page can need tells whether there is a next one.
        found = self._find_sparse(name, vector, query.depth + 1, query.filters)
        hits = found[: query.depth]
        if len(found) <= query.depth:
            return _Leg(name, hits, len(found), "eq")
        if not query.request.exact:
            return _Leg(name, hits, len(found), "gte")
        points = self._manifest.counts["points"]
        total = self._counted(
            (name, tuple(vector.indices), query.filters),
            query.filters,
            lambda: len(self._vectors.search_sparse(name, vector, points, query.filters)),
        )
        return _Leg(name, hits, total, "eq")

    def _dense(self, query: Query) -> _Leg:
        vector = self._encode(query).dense[0]
        exact = query.request.exact
        hits = _without_long_list(
            lambda limit, filters: self._vectors.search_dense(vector, limit, filters, exact=exact),
            query.depth,
            query.filters,
        )
        return _Leg(DENSE, hits, self._count_dense(query.filters), "eq")

    def _find_sparse(
        self, name: str, vector: SparseVector, limit: int, filters: ResolvedFilters
    ) -> list[ScoredId]:
        return _without_long_list(
            lambda most, passing: self._vectors.search_sparse(name, vector, most, passing), limit, filters
        )

    def _count_dense(self, filters: ResolvedFilters) -> int:
        if filters.is_empty:
            return self._manifest.counts["dense_vectors"]
        return self._counted((DENSE, filters), filters, lambda: self._vectors.count(filters, vector=DENSE))

    def _counted(self, key: Hashable, filters: ResolvedFilters, ask: Callable[[], int]) -> int:
        """A count, remembered unless its key is large: lists of ids come once, and would fill the memory."""
        if len(filters.within or ()) + len(filters.exclude) > MAX_CACHED_IDS:
            return ask()
        return self._counts.get(key, ask)

    def _encode(self, query: Query) -> Encodings:
        """The query's vectors. Queries are encoded alone, never in batches: in company a vector's last bits
        differ, and the same request must get the same bytes."""
        if self._encoder is None:  # _check_mode has seen to it
            raise EncoderError("No query encoder is open: start with --encoder.")
        encode, text = self._encoder.encode_queries, _encoded_text(query)
        return self._encodings.get(text, lambda: encode([text]))

    def _hybrid_total(self, legs: Sequence[_Leg], found: int) -> tuple[int, TotalRelation]:
        """Every paper with a vector that passes the filters is a match, and so is every sparse match."""
        dense = next((leg for leg in legs if leg.name == DENSE), None)
        if dense is None:
            return legs[0].total, legs[0].relation
        if self._manifest.counts["dense_vectors"] == self._manifest.counts["papers"]:
            return dense.total, "eq"
        exhausted = all(leg.relation == "eq" and len(leg.hits) == leg.total for leg in legs)
        return (found, "eq") if exhausted else (max(found, *(leg.total for leg in legs)), "gte")


def _without_long_list(
    search: Callable[[int, ResolvedFilters], list[ScoredId]], limit: int, filters: ResolvedFilters
) -> list[ScoredId]:
    """The ``limit`` best that pass the filters, where ``exclude`` is long, from more than are needed: an index takes
    longer to pass over a hundred thousand ids than to find some hundreds of papers more. What is left is the same."""
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
    """What the encoder reads: the words of a query, without the marks of its syntax."""
    return " ".join(query_syntax.words(query.request.q)) if query.syntax else query.request.q


def _free_text(q: str) -> str | None:
    count = len({word.casefold() for word in query_syntax.words(q)})
    if count > MAX_FTS5_WORDS:
        raise InvalidRequest(
            f"q has {count} different words, and engine 'fts5' ranks up to {MAX_FTS5_WORDS}: use engine 'bm25', "
            "or a shorter text."
        )
    return query_syntax.free_text(q)


def _fused(
    legs: Sequence[_Leg], span: slice, k: int, weights: dict[str, float], *, explain: bool
) -> tuple[list[RankedPaper], int]:
    """A page of the legs' fusion, and how many papers they hold together."""
    if len(legs) == 2 and not explain:
        # The shares of two thousand papers take longer than both legs do, and only an explanation shows them.
        first, second = legs
        depth = max(len(first.hits), len(second.hits))
        table = FusionTable([hit.id for hit in first.hits], [hit.id for hit in second.hits], depth)
        best = table.best_scored(
            span.stop, k=k, weights=(weights.get(first.name, 1.0), weights.get(second.name, 1.0))
        )
        return [RankedPaper(paper_id, score, None) for paper_id, score in best[span]], len(table.ids)
    fused = fuse({leg.name: leg.hits for leg in legs}, k=k, weights=weights)
    return [RankedPaper(f.id, f.score, _of_fused(f) if explain else None) for f in fused[span]], len(fused)


def _of_fused(fused: Fused) -> tuple[LegExplanation, ...]:
    return tuple(LegExplanation(name, s.rank, s.score, s.share) for name, s in fused.shares.items())


def _of_one(leg: str, rank: int, score: float) -> tuple[LegExplanation, ...]:
    return (LegExplanation(leg, rank, score, score),)
