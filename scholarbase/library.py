"""A library, open: the one place where search happens. Routes, tools and the command line only translate."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from scholarbase.encoders import Encoder, Encodings, open_encoder
from scholarbase.encoders.probe import check_probe, check_spec
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryCorrupt,
    LibraryError,
    PaperNotFound,
    UnsupportedMode,
    VectorIndexError,
)
from scholarbase.identifiers import parse
from scholarbase.indexes import catalog, citations, fulltext, query_syntax, titles
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.fusion import fuse
from scholarbase.indexes.vectors.base import BM25, DENSE, LEARNED, ScoredId, SparseVector, VectorIndex
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.models import (
    CITATION_SORTS,
    DIRECTIONS,
    PAPER_FIELDS,
    Citation,
    CitationSort,
    CitationsResponse,
    Direction,
    Engine,
    ExpandResponse,
    FailedLeg,
    Filters,
    Hit,
    LegExplanation,
    Mode,
    Neighbour,
    Paper,
    SearchRequest,
    SearchResponse,
    TitleMatch,
    TitleMatchResponse,
    TotalRelation,
    check_fields,
    check_ids,
    check_page,
    check_title,
    check_title_match,
    in_batch,
    search_request,
    search_requests,
)
from scholarbase.settings import Settings, load_settings

log = logging.getLogger("scholarbase.library")

MAX_WINDOW: Final = 10_000
"""How deep paging goes: ``offset + limit`` of a sparse or dense search."""
TIERS: Final = (100, 1000, MAX_WINDOW)
"""How many results a leg is asked for: the first of these that holds the page. All pages within a tier are cut
from one ranking, so that they neither overlap nor leave gaps where an index is approximate."""
MAX_SYNTAX_MATCHES: Final = 200_000
"""Papers that a boolean query may leave for the dense leg of a hybrid search to rank."""
CACHED_COUNTS: Final = 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Leg:
    """One leg's ranking: its hits to some depth, and how many papers match in all."""

    name: str
    hits: list[ScoredId]
    total: int
    relation: TotalRelation


@dataclass(frozen=True, slots=True)
class _Query:
    """A request, resolved: what each leg needs to run."""

    request: SearchRequest
    mode: Mode
    engine: Engine | None
    filters: ResolvedFilters
    depth: int
    expression: str | None
    syntax: bool
    """Whether ``q`` was read as query syntax, and not as free text."""


class Library:
    """A library open for searching. Safe to share between threads; ``close`` it, or use it in a ``with``.

    :class:`scholarbase.client.Client` has the same methods with the same types.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        snapshot: str,
        papers: Catalog,
        vectors: VectorIndex,
        encoder: Encoder | None,
        settings: Settings,
    ) -> None:
        """Use :meth:`open`."""
        self.path = path
        self.manifest = manifest
        self.snapshot_id = snapshot
        self.settings = settings
        self._catalog = papers
        self._vectors = vectors
        self._encoder = encoder
        self._bm25 = Bm25Text(Bm25Parameters.from_dict(manifest.bm25))
        self._counts = _Cache(CACHED_COUNTS)
        self._closed = False

    @classmethod
    def open(
        cls, path: str | Path, *, encoder: str | Encoder | None = None, settings: Settings | None = None
    ) -> Self:
        """Open the library at ``path``.

        Args:
            encoder: makes query vectors: an open encoder, or the name, path or URL of one. None opens what the
                library was built with; ``"none"`` opens no encoder, and dense and hybrid searches are refused.

        Raises:
            LibraryNotFound: no library there.
            LibraryCorrupt: files are missing or of another build.
            EncoderMismatch: the encoder is not the one that the library was built with.
            EncoderError: the encoder cannot be opened.
            VectorIndexError: the vectors cannot be opened, or their server not be reached.
        """
        path = Path(path)
        settings = settings or load_settings()
        manifest, snapshot = read_manifest(path)
        papers = Catalog(path / catalog.FILE_NAME, readers=settings.readers)
        opened: list[Any] = [papers]
        try:
            built_as = papers.meta("snapshot")
            if built_as != snapshot:
                raise LibraryCorrupt(
                    f"The manifest of {path} hashes to {snapshot}, and its catalogue was built as {built_as}: one of "
                    "them is another library's or was changed. Restore the copy, or ingest again."
                )
            vectors = _open_vectors(path, snapshot, settings)
            opened.append(vectors)
            model = _open_encoder(path, manifest, encoder, settings)
        except BaseException:
            for part in reversed(opened):
                part.close()
            raise
        return cls(path, manifest, snapshot, papers, vectors, model, settings)

    def close(self) -> None:
        """Let go of files, vectors and the model. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._vectors.close()
        self._catalog.close()
        if self._encoder is not None:
            self._encoder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- search -----------------------------------------------------------------------------------------

    def search(
        self,
        q: str,
        *,
        mode: Mode | None = None,
        engine: Engine | None = None,
        limit: int = 10,
        offset: int = 0,
        fields: Sequence[str] | None = None,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        min_citations: int | None = None,
        exclude: Sequence[str] = (),
        within: Sequence[str] | None = None,
        exact: bool = False,
        explain: bool = False,
        partial: bool = False,
    ) -> SearchResponse:
        """Search for papers. The arguments are those of :class:`SearchRequest` and :class:`Filters`.

        Raises:
            InvalidRequest: an argument cannot be right; ``UnsupportedMode``: this library has no such index.
            PaperNotFound: ``exclude`` or ``within`` names a paper that the library does not hold.
            EncoderError, VectorIndexError, LibraryCorrupt: a leg failed, and ``partial`` is off.
        """
        filters = Filters(
            from_,
            to,
            _texts(category),
            _texts(venue),
            min_citations,
            check_ids(exclude, "exclude") or (),
            check_ids(within, "within"),
        )
        return self.run(
            SearchRequest(
                q, mode, engine, limit, offset, check_fields(fields), filters, exact, explain, partial
            )
        )

    def search_batch(self, requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchResponse]:
        """Many searches, answered in order; a request is a :class:`SearchRequest` or the arguments of one
        ``search``. Queries are encoded together.

        Raises: as ``search``, for the first request that cannot be answered; the sentence says which it is.
        """
        queries = []
        for request in search_requests(requests):
            with in_batch("search", request.q):
                queries.append(self._resolve(request))
        texts = list(dict.fromkeys(_dense_text(q) for q in queries if self._needs_vectors(q)))
        encoded: dict[str, Encodings] = {}
        if len(texts) > 1 and self._encoder is not None:
            with suppress(
                EncoderError
            ):  # each search then meets the failure itself, and answers as it was asked to
                together = self._encoder.encode_queries(texts)
                encoded = {text: _row(together, i) for i, text in enumerate(texts)}
        answers = []
        for query in queries:
            with in_batch("search", query.request.q):
                answers.append(self._answer(query, encoded))
        return answers

    def run(self, request: SearchRequest) -> SearchResponse:
        """Answer one :class:`SearchRequest`. Raises as ``search``."""
        return self._answer(self._resolve(request), {})

    def iter_search(self, q: str, *, limit: int | None = None, **arguments: Any) -> Iterator[Hit]:
        """All results of a search, page after page, up to ``limit``. The arguments are those of ``search``."""
        yield from _pages(lambda size, offset: self.search(q, limit=size, offset=offset, **arguments), limit)

    def _resolve(self, request: SearchRequest) -> _Query:
        if self._closed:
            raise LibraryError(f"The library at {self.path} is closed: open it again.")
        mode = request.mode or self.best_mode
        self._check_mode(mode, request.engine)
        engine: Engine | None = None
        expression: str | None = None
        syntax = False
        if mode != "dense":
            syntax = request.engine in (None, "fts5") and query_syntax.is_syntax(request.q)
            engine = request.engine or ("fts5" if syntax else "bm25")
            if engine == "fts5":
                expression = query_syntax.compile(request.q) if syntax else query_syntax.free_text(request.q)
        filters = self._resolve_filters(request.filters)
        if mode == "hybrid" and syntax and expression is not None:
            filters = self._within_expression(expression, filters)
        return _Query(request, mode, engine, filters, self._depth(request, mode), expression, syntax)

    @property
    def best_mode(self) -> Mode:
        """Hybrid where the library has dense vectors and an encoder for queries, else sparse."""
        return "hybrid" if self.manifest.encoder is not None and self._encoder is not None else "sparse"

    def _check_mode(self, mode: Mode, engine: Engine | None) -> None:
        if mode != "sparse":
            if self.manifest.encoder is None:
                raise UnsupportedMode(
                    f"mode {mode!r} needs dense vectors, and this library was built without them: "
                    "use mode 'sparse', or ingest with --encoder."
                )
            if self._encoder is None:
                raise UnsupportedMode(
                    f"mode {mode!r} needs the query encoder {self.manifest.encoder.name}, and this process was "
                    "started without it: use mode 'sparse', or start it with --encoder."
                )
        if engine == "learned" and not self.manifest.vectors["learned"]:
            raise UnsupportedMode(
                "engine 'learned' needs the term weights of a model such as BGE-M3, and this library has none: "
                "use engine 'bm25' or 'fts5'."
            )

    def _depth(self, request: SearchRequest, mode: Mode) -> int:
        end = request.offset + request.limit
        deepest = self.settings.fusion_depth if mode == "hybrid" else MAX_WINDOW
        if end > deepest:
            raise InvalidRequest(
                f"offset {request.offset} and limit {request.limit} reach result {end}, and a {mode} search goes to "
                f"{deepest}: narrow the search with filters"
                + (", or use mode 'sparse' or 'dense'." if mode == "hybrid" else ".")
            )
        return deepest if mode == "hybrid" else next(tier for tier in TIERS if end <= tier)

    def _resolve_filters(self, filters: Filters) -> ResolvedFilters:
        if filters == _NO_REQUEST_FILTERS:
            return NO_FILTERS
        within = None if filters.within is None else frozenset(self._ids(filters.within))
        return ResolvedFilters(
            first_day=filters.first_day,
            last_day=filters.last_day,
            categories=filters.category,
            venues=self._catalog.venue_keys(filters.venue) if filters.venue else (),
            min_citations=filters.min_citations,
            within=within,
            exclude=frozenset(self._ids(filters.exclude)),
        )

    def _within_expression(self, expression: str, filters: ResolvedFilters) -> ResolvedFilters:
        """A boolean query says what must match, so in a hybrid search it holds for the dense leg too."""
        with self._catalog.connection() as connection:
            matches = fulltext.matching_ids(connection, expression, MAX_SYNTAX_MATCHES + 1)
        if len(matches) > MAX_SYNTAX_MATCHES:
            raise InvalidRequest(
                f"The query matches more than {MAX_SYNTAX_MATCHES:,} papers, too many to rank by meaning as well: "
                "use mode 'sparse', or add words that must match."
            )
        within = matches if filters.within is None else matches & filters.within
        return replace(filters, within=frozenset(within))

    def _answer(self, query: _Query, encoded: Mapping[str, Encodings]) -> SearchResponse:
        request = query.request
        legs, failed = self._run_legs(query, encoded)
        if query.mode == "hybrid":
            fused = fuse({leg.name: leg.hits for leg in legs}, k=self.settings.rrf_k)
            ranked = [(f.id, f.score) for f in fused]
            shares = {f.id: f.shares for f in fused} if request.explain else {}
            reachable = min(len(ranked), query.depth)
            total, relation = self._hybrid_total(query, legs, len(ranked))
        else:
            ranked = [(hit.id, hit.score) for hit in legs[0].hits]
            shares = {}
            reachable = min(legs[0].total, MAX_WINDOW) if legs[0].relation == "eq" else MAX_WINDOW
            total, relation = legs[0].total, legs[0].relation
        page = ranked[request.offset : request.offset + request.limit]
        papers = self._catalog.papers([paper_id for paper_id, _ in page], request.fields)
        hits = []
        for place, ((paper_id, score), paper) in enumerate(
            zip(page, papers, strict=True), request.offset + 1
        ):
            explain = None
            if request.explain:
                of_paper = shares.get(paper_id)
                explain = (
                    tuple(LegExplanation(name, s.rank, s.score, s.share) for name, s in of_paper.items())
                    if of_paper is not None
                    else (LegExplanation(legs[0].name, place, score, score),)
                )
            hits.append(Hit(score, paper, explain))
        end = request.offset + len(page)
        return SearchResponse(
            snapshot=self.snapshot_id,
            mode=query.mode,
            engine=query.engine,
            total=total,
            total_relation=relation,
            next_offset=end if page and end < reachable else None,
            results=tuple(hits),
            fields=request.fields,
            failed_legs=tuple(failed),
        )

    def _run_legs(
        self, query: _Query, encoded: Mapping[str, Encodings]
    ) -> tuple[list[_Leg], list[FailedLeg]]:
        """Every leg of the mode; those that fail make the call fail, unless a partial answer is allowed."""
        plans: list[tuple[str, Callable[[], _Leg]]] = []
        if query.engine is not None:
            plans.append((query.engine, lambda: self._sparse(query, encoded)))
        if query.mode != "sparse":
            plans.append((DENSE, lambda: self._dense(query, encoded)))
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
        return legs, failed

    def _sparse(self, query: _Query, encoded: Mapping[str, Encodings]) -> _Leg:
        if query.engine == "fts5":
            return self._sparse_fts5(query)
        if query.engine == "learned":
            vector = self._learned_query(query, encoded)
        else:
            vector = self._bm25.query(query.request.q)
            if not len(vector.indices):
                return self._stop_words_only(query)
        name = LEARNED if query.engine == "learned" else BM25
        # One more than the page can need tells whether there is a next one.
        found = self._vectors.search_sparse(name, vector, query.depth + 1, query.filters)
        hits = found[: query.depth]
        if len(found) <= query.depth:
            return _Leg(name, hits, len(found), "eq")
        if not query.request.exact:
            return _Leg(name, hits, len(found), "gte")
        key = ("sparse", name, tuple(vector.indices), query.filters)
        total = self._counts.get(
            key,
            lambda: len(
                self._vectors.search_sparse(name, vector, self.manifest.counts["points"], query.filters)
            ),
        )
        return _Leg(name, hits, total, "eq")

    def _sparse_fts5(self, query: _Query) -> _Leg:
        if query.expression is None:
            return _Leg("fts5", [], 0, "eq")
        with self._catalog.connection() as connection:
            hits = fulltext.search(connection, query.expression, query.depth, query.filters)
            total = len(hits)
            if total == query.depth:
                key = ("fts5", query.expression, query.filters)
                total = self._counts.get(
                    key, lambda: fulltext.count(connection, query.expression or "", query.filters)
                )
        return _Leg("fts5", hits, total, "eq")

    def _stop_words_only(self, query: _Query) -> _Leg:
        """BM25's vectors leave stop words out, FTS5 keeps them: a query of nothing else is FTS5's."""
        expression = query_syntax.free_text(query.request.q)
        leg = self._sparse_fts5(replace(query, expression=expression))
        return replace(leg, name=BM25)

    def _dense(self, query: _Query, encoded: Mapping[str, Encodings]) -> _Leg:
        vector = self._encode(query, encoded).dense[0]
        hits = self._vectors.search_dense(vector, query.depth, query.filters, exact=query.request.exact)
        return _Leg(DENSE, hits, self._count_dense(query.filters), "eq")

    def _count_dense(self, filters: ResolvedFilters) -> int:
        if filters.is_empty:
            return self.manifest.counts["dense_vectors"]
        return self._counts.get((DENSE, filters), lambda: self._vectors.count(filters, vector=DENSE))

    def _hybrid_total(self, query: _Query, legs: Sequence[_Leg], found: int) -> tuple[int, TotalRelation]:
        """Every paper with a vector that passes the filters is a match, and so is every sparse match."""
        dense = next((leg for leg in legs if leg.name == DENSE), None)
        if dense is None:
            return legs[0].total, legs[0].relation
        if self.manifest.counts["dense_vectors"] == self.manifest.counts["papers"]:
            return dense.total, "eq"
        exhausted = all(leg.relation == "eq" and len(leg.hits) == leg.total for leg in legs)
        return (found, "eq") if exhausted else (max(found, *(leg.total for leg in legs)), "gte")

    def _needs_vectors(self, query: _Query) -> bool:
        return query.mode != "sparse" or query.engine == "learned"

    def _encode(self, query: _Query, encoded: Mapping[str, Encodings]) -> Encodings:
        text = _dense_text(query)
        known = encoded.get(text)
        if known is not None:
            return known
        if self._encoder is None:  # _check_mode has seen to it
            raise EncoderError("No query encoder is open: start with --encoder.")
        return self._encoder.encode_queries([text])

    def _learned_query(self, query: _Query, encoded: Mapping[str, Encodings]) -> SparseVector:
        sparse = self._encode(query, encoded).sparse
        if sparse is None:
            raise EncoderError("The query encoder gave no learned weights, and engine 'learned' needs them.")
        return SparseVector(sparse[0].indices.tolist(), sparse[0].values.tolist())

    # -- titles -----------------------------------------------------------------------------------------

    def match_title(
        self,
        title: str,
        *,
        limit: int = 5,
        min_score: float = titles.MIN_SCORE,
        fields: Sequence[str] | None = None,
    ) -> TitleMatchResponse:
        """The papers whose title is this one, then those with titles like it, best first; none is empty.

        Raises:
            InvalidRequest: an empty title, or an argument out of range.
        """
        check_title_match(limit, min_score)
        check_title(title)
        wanted = check_fields(fields)
        with self._catalog.connection() as connection:
            matches = titles.match(connection, title, limit, min_score)
        papers = self._catalog.papers([match.id for match in matches], wanted)
        results = tuple(TitleMatch(m.score, p) for m, p in zip(matches, papers, strict=True))
        return TitleMatchResponse(self.snapshot_id, results, wanted)

    def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = titles.MIN_SCORE,
        fields: Sequence[str] | None = None,
    ) -> list[TitleMatchResponse]:
        """Many titles, answered in order. Raises as ``match_title``; the sentence says for which title."""
        check_title_match(limit, min_score)
        answers = []
        for title in titles:
            with in_batch("title", title):
                answers.append(self.match_title(title, limit=limit, min_score=min_score, fields=fields))
        return answers

    # -- papers -----------------------------------------------------------------------------------------

    def paper(self, paper_id: str, *, fields: Sequence[str] | None = None) -> Paper:
        """The paper that an id of any form names.

        Raises:
            InvalidRequest: no form of an id.
            PaperNotFound: the library does not hold it.
        """
        wanted = check_fields(fields)
        return self._catalog.papers([self._id(paper_id)], wanted)[0]

    def papers(self, ids: Sequence[str], *, fields: Sequence[str] | None = None) -> list[Paper | None]:
        """Many papers, in order, None in the place of one that the library does not hold.

        Raises:
            InvalidRequest: one of the ids has no form of an id.
        """
        wanted = check_fields(fields)
        found = self._catalog.resolve([parse(i) for i in check_ids(ids, "ids") or ()])
        held = [paper_id for paper_id in found if paper_id is not None]
        by_id = dict(zip(held, self._catalog.papers(held, wanted), strict=True))
        return [by_id[paper_id] if paper_id is not None else None for paper_id in found]

    def _id(self, paper_id: str) -> int:
        return self._ids([paper_id])[0]

    def _ids(self, ids: Sequence[str]) -> list[int]:
        found = self._catalog.resolve([parse(i) for i in ids])
        missing = [given for given, paper_id in zip(ids, found, strict=True) if paper_id is None]
        if missing:
            shown = ", ".join(repr(m) for m in missing[:5]) + (" ..." if len(missing) > 5 else "")
            raise PaperNotFound(
                f"No paper {shown} in this library (snapshot {self.snapshot_id}): "
                "try a title match or another id of the paper."
            )
        return [paper_id for paper_id in found if paper_id is not None]

    # -- citations --------------------------------------------------------------------------------------

    def citations(
        self,
        paper_id: str,
        *,
        limit: int = 100,
        offset: int = 0,
        sort: CitationSort = "-citation_count",
        from_: str | None = None,
        to: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> CitationsResponse:
        """The papers of this library that cite the paper, most cited first.

        Raises:
            InvalidRequest: an argument cannot be right.
            PaperNotFound: the library does not hold the paper.
        """
        return self._edges(paper_id, "citations", limit, offset, sort, Filters(from_=from_, to=to), fields)

    def references(
        self,
        paper_id: str,
        *,
        limit: int = 100,
        offset: int = 0,
        sort: CitationSort = "-citation_count",
        from_: str | None = None,
        to: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> CitationsResponse:
        """The papers of this library that the paper cites, most cited first. Raises as ``citations``."""
        return self._edges(paper_id, "references", limit, offset, sort, Filters(from_=from_, to=to), fields)

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All citations, page after page, up to ``limit``. The arguments are those of ``citations``."""
        yield from _pages(
            lambda size, offset: self.citations(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All references, page after page, up to ``limit``. The arguments are those of ``references``."""
        yield from _pages(
            lambda size, offset: self.references(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def _edges(
        self,
        paper_id: str,
        direction: Direction,
        limit: int,
        offset: int,
        sort: CitationSort,
        asked: Filters,
        fields: Sequence[str] | None,
    ) -> CitationsResponse:
        check_page(limit, offset)
        if sort not in CITATION_SORTS:
            raise InvalidRequest(f"Unknown sort {sort!r}: it is one of {', '.join(CITATION_SORTS)}.")
        wanted = check_fields(fields)
        filters = self._resolve_filters(asked)
        number = self._id(paper_id)
        with self._catalog.connection() as connection:
            total = citations.count(connection, number, direction, filters)
            edges = citations.page(connection, number, direction, limit, offset, sort, filters)
        papers = self._catalog.papers([edge.paper_id for edge in edges], wanted)
        results = tuple(
            Citation(paper, edge.is_influential, edge.contexts, edge.intents)
            for edge, paper in zip(edges, papers, strict=True)
        )
        return CitationsResponse(self.snapshot_id, total, _next(offset, len(results), total), results, wanted)

    def expand(
        self,
        seeds: Sequence[str],
        *,
        direction: Direction = "both",
        hops: int = 1,
        limit: int = 100,
        offset: int = 0,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        min_citations: int | None = None,
        exclude: Sequence[str] = (),
        within: Sequence[str] | None = None,
        fields: Sequence[str] | None = None,
    ) -> ExpandResponse:
        """The neighbours of a set of papers along citations, each once and no seed among them; those that
        most seeds reach come first.

        Raises:
            InvalidRequest: an argument cannot be right, or the walk takes too many edges.
            PaperNotFound: the library does not hold a seed.
        """
        check_page(limit, offset)
        if direction not in DIRECTIONS:
            raise InvalidRequest(f"Unknown direction {direction!r}: it is one of {', '.join(DIRECTIONS)}.")
        checked = check_ids(seeds, "seeds")
        if not checked:
            raise InvalidRequest("seeds is empty: give at least one paper id.")
        wanted = check_fields(fields)
        filters = self._resolve_filters(
            Filters(
                from_,
                to,
                _texts(category),
                _texts(venue),
                min_citations,
                check_ids(exclude, "exclude") or (),
                check_ids(within, "within"),
            )
        )
        starts = self._ids(checked)
        with self._catalog.connection() as connection:
            total, rows = citations.expand(connection, starts, direction, hops, filters, limit, offset)
        papers = self._catalog.papers([row.paper_id for row in rows], wanted)
        results = tuple(Neighbour(p, row.seeds, row.hops) for row, p in zip(rows, papers, strict=True))
        return ExpandResponse(self.snapshot_id, total, _next(offset, len(results), total), results, wanted)

    # -- about ------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The snapshot id and the manifest."""
        content: dict[str, Any] = orjson.loads(self.manifest.to_bytes())
        return {"snapshot": self.snapshot_id, "manifest": content}

    def ready(self) -> dict[str, str]:
        """Ask each part for something small: ``ok``, ``absent`` or a sentence of what is wrong."""
        state: dict[str, str] = {}
        checks: list[tuple[str, Callable[[], object]]] = [
            ("catalog", lambda: self._catalog.meta("snapshot")),
            ("vectors", lambda: self._vectors.search_sparse(BM25, SparseVector([1], [1.0]), 1, NO_FILTERS)),
        ]
        if self._encoder is not None:
            checks.append(("encoder", lambda: self._encoder and self._encoder.encode_queries(["ready"])))
        else:
            state["encoder"] = "absent"
        for name, check in checks:
            try:
                check()
                state[name] = "ok"
            except (EncoderError, VectorIndexError, LibraryCorrupt) as error:
                state[name] = str(error)
        return state


_NO_REQUEST_FILTERS: Final = Filters()


class _Cache:
    """The newest answers to questions whose answers cannot change: a library never does."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = Lock()
        self._known: OrderedDict[Hashable, int] = OrderedDict()

    def get(self, key: Hashable, ask: Callable[[], int]) -> int:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
        answer = ask()
        with self._lock:
            self._known[key] = answer
            if len(self._known) > self._size:
                self._known.popitem(last=False)
        return answer


def _open_vectors(path: Path, snapshot: str, settings: Settings) -> VectorIndex:
    if settings.qdrant_url is None:
        return EdgeIndex.open(path / "vectors", temporary=settings.runtime_dir)
    from scholarbase.indexes.vectors.server import ServerIndex, connect  # gRPC loads only where it serves

    key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
    return ServerIndex.open(connect(settings.qdrant_url, api_key=key), settings.qdrant_alias, snapshot)


def _open_encoder(
    path: Path, manifest: Manifest, encoder: str | Encoder | None, settings: Settings
) -> Encoder | None:
    """The query encoder, seen to be the library's own."""
    if manifest.encoder is None:
        return None
    stored = _stored_encoder(path)
    wanted = encoder or encoder_location(path, settings)
    if wanted is None or wanted == "none":
        return None
    if isinstance(wanted, str):
        key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
        wanted = open_encoder(wanted, device=settings.device, api_key=key)
    try:
        check_spec(manifest.encoder, wanted.spec)
        if "probe" in stored:
            check_probe(wanted, stored["probe"])
    except BaseException:
        wanted.close()
        raise
    return wanted


def _stored_encoder(path: Path) -> dict[str, Any]:
    """Where the encoder was when the library was built, and its vector of a known text."""
    about = path / "encoder.json"
    stored: dict[str, Any] = orjson.loads(about.read_bytes()) if about.is_file() else {}
    return stored


def encoder_location(path: Path, settings: Settings) -> str | None:
    """The name, path or URL by which the library's query encoder opens; None where it needs none."""
    manifest, _ = read_manifest(path)
    if manifest.encoder is None or settings.encoder == "none":
        return None
    return settings.encoder or _stored_encoder(path).get("location") or manifest.encoder.name


def _dense_text(query: _Query) -> str:
    """What the encoder reads: the words of a query, without the marks of its syntax."""
    return " ".join(query_syntax.words(query.request.q)) if query.syntax else query.request.q


def _row(encodings: Encodings, place: int) -> Encodings:
    dense: npt.NDArray[np.float32] = encodings.dense[place : place + 1]
    return Encodings(dense, encodings.sparse[place : place + 1] if encodings.sparse is not None else None)


def _texts(values: Sequence[str] | str) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


def _next(offset: int, count: int, total: int) -> int | None:
    end = offset + count
    return end if count and end < total else None


def _pages(page: Callable[[int, int], Any], limit: int | None) -> Iterator[Any]:
    """Items of one page after the other, until there are no more or ``limit`` are given."""
    offset: int | None = 0
    given = 0
    while offset is not None and (limit is None or given < limit):
        size = 100 if limit is None else min(100, limit - given)
        answer = page(size, offset)
        yield from answer.results
        given += len(answer.results)
        offset = answer.next_offset


__all__ = ["PAPER_FIELDS", "Library", "search_request"]
