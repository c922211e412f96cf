"""An open library, which runs all searches.

Routes, tools and the command line only translate requests and responses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from time import perf_counter
from types import MappingProxyType, NoneType
from typing import Any, Final, Self

import orjson

from scholarbase.deadlines import time_limit
from scholarbase.encoders import Encoder
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryCorrupt,
    TimeLimit,
    VectorIndexError,
)
from scholarbase.identifiers import parse
from scholarbase.indexes import catalog
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.citations import Most
from scholarbase.indexes.contents import OpenedFiles
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.passages import Documents
from scholarbase.indexes.vectors.base import BM25, SparseVector
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.models.checks import (
    as_of_day,
    check_list,
    check_path,
    check_sort,
    check_type,
    in_batch,
    shown,
)
from scholarbase.models.encoders import STATIC
from scholarbase.models.limits import (
    MODES,
    Direction,
    Mode,
)
from scholarbase.models.papers import Paper
from scholarbase.models.requests import (
    FILTER_NAMES,
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    PaperBody,
    Request,
    SearchBatchBody,
    SearchRequest,
    SimilarBody,
    TitleBatchBody,
    TitleParameters,
    check_request,
    title_batches,
)
from scholarbase.models.responses import (
    Citation,
    CitationsResponse,
    ExpandResponse,
    Hit,
    Neighbour,
    PaperBatchResponse,
    PaperResponse,
    SearchBatchResponse,
    SearchResponse,
    SimilarResponse,
    TitleBatchResponse,
    TitleMatch,
    TitleMatchResponse,
    Unfinished,
)
from scholarbase.rerankers import Reranker
from scholarbase.search.authors import Authors
from scholarbase.search.cache import Cache
from scholarbase.search.checks import Checks
from scholarbase.search.facets import Facets, facet_cache
from scholarbase.search.lookup import CACHED_IDS, Lookup
from scholarbase.search.opened import finished, next_offset, runs
from scholarbase.search.opening import (
    check_files,
    open_passages,
    open_query_encoder,
    open_rerankers,
    open_vectors,
)
from scholarbase.search.passages import CACHED_CHARACTERS, Cut, PassageIndex, Passages
from scholarbase.search.plan import Plan
from scholarbase.search.profiles import with_profile
from scholarbase.search.ranking import Ranker
from scholarbase.search.similarity import NOT_COMPARABLE, Similarity
from scholarbase.search.sql import Sql, SqlRunner
from scholarbase.settings import Settings, load_settings
from scholarbase.timing import stages

log = logging.getLogger("scholarbase.library")

_NO_MATCH: Final = "No paper matches q as query syntax: use syntax=plain to rank papers by its words."


class Library(Authors, Checks, Passages, Sql, Facets):
    """A library that is open for searching. Thread-safe. ``close`` it, or use it as a context manager.

    Its methods for keyword arguments are those of :class:`Source`; ``run`` methods take requests.
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
        files: OpenedFiles,
        rerankers: Mapping[str, Reranker] = MappingProxyType({}),
        passages: PassageIndex | None = None,
    ) -> None:
        """Use :meth:`open`."""
        self.path = path
        self.manifest = manifest
        self.snapshot_id = snapshot
        self.settings = settings
        self._catalog = papers
        self._vectors = vectors
        self._encoder = encoder
        self._rerankers = rerankers
        self._ranker = Ranker(manifest, papers, vectors, encoder, settings, rerankers)
        self._similarity = Similarity(manifest, papers, vectors, settings)
        sizes = {name: one["papers"] for name, one in manifest.sets.items()}
        self._lookup = Lookup(papers, snapshot, sizes)
        self.best_mode: Final = self._ranker.best_mode
        """Hybrid if the library has dense vectors and an encoder for queries, else sparse."""
        self.modes: Final[tuple[Mode, ...]] = MODES if self.best_mode == "hybrid" else ("sparse",)
        """The modes of search that the library has."""
        self._few_edges: Cache[int | None] = Cache(CACHED_IDS)
        self._facets = facet_cache()
        self._sql = SqlRunner(path, snapshot, max(1, settings.readers // 4), settings.runtime_dir)
        self._files = files
        self._passages = passages
        self._documents = None if passages is None else passages.documents
        self._cut_texts: Cache[Cut] = Cache(CACHED_CHARACTERS, lambda cut: len(cut.document.text) + 1)
        self._drawing = Lock()
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        encoder: str | Encoder | None = None,
        rerankers: Mapping[str, str | Reranker] | None = None,
        settings: Settings | None = None,
        full: bool = False,
    ) -> Self:
        """Open the library at ``path``.

        Args:
            full: compare all blocks of all files with ``files.json``, instead of a random sample.
            encoder: an open encoder for queries, or the name, path or URL of one. None opens the encoder that the
                library was built with; ``"none"`` opens none, and dense and hybrid searches are rejected.
            rerankers: by their names in requests, open rerankers, or the folder, hub name or URL of each. None opens
                those of the settings.

        Raises:
            InvalidRequest: an argument has another type.
            LibraryNotFound: there is no library at ``path``.
            LibraryCorrupt: files are missing, have changed or belong to another build.
            EncoderMismatch: the encoder is not the one that the library was built with.
            EncoderError: the encoder cannot be opened.
            RerankerError: a reranker cannot be opened.
            VectorIndexError: the vectors cannot be opened, or their server cannot be reached.
        """
        path = check_path(path, "path")
        check_type(settings, (Settings, NoneType), "settings", "a scholarbase.settings.Settings or None")
        if not isinstance(encoder, str | NoneType) and not hasattr(encoder, "encode_queries"):
            raise InvalidRequest(
                f"encoder is {shown(encoder)}: it must be an open encoder, or the name, path or URL of one."
            )
        check_type(rerankers, (Mapping, NoneType), "rerankers", "a mapping from names to rerankers, or None")
        for name, one in (rerankers or {}).items():
            if not isinstance(one, str) and not hasattr(one, "score"):
                raise InvalidRequest(
                    f"The reranker {shown(name)} is {shown(one)}: it must be an open reranker, or the folder, hub name "
                    "or URL of one."
                )
        manifest, snapshot = read_manifest(path)
        settings = with_profile(settings or load_settings(), manifest.profile)
        files = check_files(path, snapshot, settings, full=full)
        # Two for each thread, since a sparse leg may have a thread of its own, and two for the event loop and the
        # readiness check.
        papers = Catalog(path / catalog.FILE_NAME, readers=2 * settings.readers + 2)
        opened: list[Any] = [papers]
        try:
            built_as = papers.snapshot
            if built_as != snapshot:
                raise LibraryCorrupt(
                    f"The manifest of {path} hashes to {snapshot}, but its catalogue was built as {built_as}: one of "
                    "them was changed or belongs to another library. Restore a backup, or ingest again."
                )
            vectors = open_vectors(path, snapshot, settings)
            opened.append(vectors)
            passages: PassageIndex | None = None
            if manifest.documents is not None:
                documents = Documents(path, snapshot, readers=settings.readers + 2)
                opened.append(documents)
                shard = open_passages(path, settings)
                opened.append(shard)
                passages = PassageIndex.of(manifest, documents, shard)
            model = open_query_encoder(path, manifest, encoder, settings)
            if model is not None:
                opened.append(model)
            last = open_rerankers(rerankers, settings)
        except BaseException:
            for part in reversed(opened):
                part.close()
            raise
        return cls(path, manifest, snapshot, papers, vectors, model, settings, files, last, passages)

    def close(self) -> None:
        """Close files, vectors, the encoder and the rerankers. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._sql.close()
        self._ranker.close()
        if self._renderer is not None:
            self._renderer.close()
        if self._passages is not None:
            self._passages.vectors.close()
            self._passages.documents.close()
        self._vectors.close()
        self._catalog.close()
        if self._encoder is not None:
            self._encoder.close()
        for reranker in self._rerankers.values():
            reranker.close()

    # -- search -----------------------------------------------------------------------------------------

    def run(self, request: SearchRequest) -> SearchResponse:
        """Run one :class:`SearchRequest`. Raises as ``search``."""
        _check(request, SearchRequest)
        if request.timeout is None:
            return self._respond(*self._plan(request))
        with time_limit(request.timeout):
            return self._respond(*self._plan(request))

    @runs(SearchBatchBody)
    def run_batch(self, request: SearchBatchBody) -> SearchBatchResponse:
        """Run the searches of a batch. Raises as ``search_batch``; but a search that takes longer than the time limit
        is :class:`Unfinished`."""
        results = [finished(partial(self.run, search), "search", search.q) for search in request.searches]
        return SearchBatchResponse(self.snapshot_id, tuple(results))

    def run_searches(self, requests: Sequence[SearchRequest]) -> list[SearchResponse]:
        """Run many searches. Raises as ``search_batch``."""
        responses = []
        for request in check_list(requests, "requests", "searches"):
            with in_batch("search", getattr(request, "q", request)):
                responses.append(self.run(request))
        return responses

    def _plan(self, request: SearchRequest) -> tuple[Plan, tuple[str, ...]]:
        """The plan of a request, and warnings."""
        if self._closed:
            self._check_open()  # raises
        filters = NO_FILTERS
        warnings: tuple[str, ...] = ()
        if not request.model_fields_set.isdisjoint(FILTER_NAMES):
            start = perf_counter()
            filters, warnings = self._lookup.filters(request)
            stages().append(("filters", start, perf_counter()))
        plan, others = self._ranker.plan(request, filters)
        return plan, warnings + others

    def _respond(self, plan: Plan, warnings: tuple[str, ...]) -> SearchResponse:
        request, ranking = plan.request, self._ranker.rank(plan)
        if not ranking.total and request.exclude and not plan.matches_nothing:
            warnings += self._exclude_warning(plan)
        if not ranking.total and plan.is_syntax and request.syntax == "auto":
            warnings += (_NO_MATCH,)
        hits, explanations = ranking.hits, ranking.explanations
        start = perf_counter()
        papers = self._catalog.papers([hit.id for hit in hits], request.fields, counts=request.as_of is None)
        stages().append(("hydrate", start, perf_counter()))
        return SearchResponse(
            self.snapshot_id,
            plan.mode,
            plan.engine,
            ranking.total,
            ranking.relation,
            ranking.next_offset,
            tuple(
                [
                    Hit(hit.score, paper, explanations.get(hit.id))
                    for hit, paper in zip(hits, papers, strict=True)
                ]
            ),
            ranking.failed_legs,
            warnings,
            ranking.rerank,
            request.fields,
        )

    def _exclude_warning(self, plan: Plan) -> tuple[str, ...]:
        """A warning if papers match and all of them contain a phrase of ``exclude``."""
        request = plan.request
        exact = request.exact or plan.mode == "sparse"
        changes = {"exclude": (), "limit": 1, "offset": 0, "exact": exact, "rerank": None}
        ranking = self._ranker.rank(self._plan(request.model_copy(update=changes))[0])
        if not ranking.total:
            return ()
        least = "at least " if ranking.relation == "gte" else ""
        return (f"exclude removes every result: {least}{ranking.total:,} without it.",)

    # -- titles -----------------------------------------------------------------------------------------

    @runs(TitleParameters)
    def run_title(self, request: TitleParameters) -> TitleMatchResponse:
        """Run a :class:`TitleParameters`. Raises as ``match_title``."""
        results = self._match(request.title, request, self._lookup.day(request.as_of))
        return TitleMatchResponse(self.snapshot_id, results, request.fields)

    @runs(TitleBatchBody)
    def run_titles(self, request: TitleBatchBody) -> TitleBatchResponse:
        """Run a :class:`TitleBatchBody`. Raises as ``match_titles``; but a title that takes longer than the time limit
        is :class:`Unfinished`."""
        day = self._lookup.day(request.as_of)
        results = [
            finished(partial(self._match, title, request, day), "title", title) for title in request.titles
        ]
        return TitleBatchResponse(self.snapshot_id, tuple(results), request.fields)

    def _match_all(self, titles: Sequence[str], **options: Any) -> list[TitleMatchResponse]:
        responses = []
        for request in title_batches(titles, **options):
            for matches in self.run_titles(request).results:
                if isinstance(matches, Unfinished):
                    raise TimeLimit(matches.error)
                responses.append(TitleMatchResponse(self.snapshot_id, matches, request.fields))
        return responses

    def _match(
        self, title: str, request: TitleParameters | TitleBatchBody, day: int | None
    ) -> tuple[TitleMatch, ...]:
        filters = NO_FILTERS if day is None else ResolvedFilters(last_day=day)
        start = perf_counter()
        matches = self._catalog.match_title(title, request.limit, request.min_score, filters)
        matched = perf_counter()
        papers = self._catalog.papers([match.id for match in matches], request.fields, counts=day is None)
        stages().extend((("titles", start, matched), ("hydrate", matched, perf_counter())))
        return tuple(TitleMatch(m.score, paper) for m, paper in zip(matches, papers, strict=True))

    # -- papers -----------------------------------------------------------------------------------------

    @runs(PaperBody)
    def run_paper(self, request: PaperBody) -> PaperResponse:
        """Run a :class:`PaperBody`. Raises as ``paper``."""
        number = self._lookup.id(request.paper_id, request.as_of)
        start = perf_counter()
        [paper] = self._catalog.papers([number], request.fields, counts=request.as_of is None)
        stages().append(("hydrate", start, perf_counter()))
        return PaperResponse(self.snapshot_id, paper, request.fields)

    def _paper(self, request: PaperBody) -> Paper:
        return self.run_paper(request).paper

    def _papers(self, request: PaperBatchBody) -> list[Paper | None]:
        return list(self.run_papers(request).results)

    @runs(PaperBatchBody)
    def run_papers(self, request: PaperBatchBody) -> PaperBatchResponse:
        """Run a :class:`PaperBatchBody`. Raises as ``papers``, and PaperNotFound if the request needs all papers."""
        day = self._lookup.day(request.as_of)
        found = self._catalog.resolve([parse(paper_id) for paper_id in request.ids])
        held = {paper_id for paper_id in found if paper_id is not None}
        if day is not None:
            held = self._catalog.existing(list(held), day)
        if request.needs_all:
            for paper_id, number in zip(request.ids, found, strict=True):
                if number not in held:
                    self._lookup.id(paper_id, request.as_of)  # raises
        start = perf_counter()
        papers = self._catalog.papers(list(held), request.fields, counts=day is None)
        stages().append(("hydrate", start, perf_counter()))
        by_id: dict[int | None, Paper] = dict(zip(held, papers, strict=True))
        return PaperBatchResponse(self.snapshot_id, tuple(map(by_id.get, found)), request.fields)

    @runs(SimilarBody)
    def run_similar(self, request: SimilarBody) -> SimilarResponse:
        """Run a :class:`SimilarBody`. Raises as ``similar``."""
        self._check_open()
        start = perf_counter()
        filters, warnings = self._lookup.filters(request)
        number = self._lookup.id(request.paper_id, request.as_of)
        stages().append(("filters", start, perf_counter()))
        ranking = self._similarity.rank(number, request, filters)
        if not ranking.total and not self._similarity.is_comparable(number, request.as_of):
            warnings += (NOT_COMPARABLE.format(request.paper_id),)
        hits, explanations = ranking.hits, ranking.explanations
        start = perf_counter()
        papers = self._catalog.papers([hit.id for hit in hits], request.fields, counts=request.as_of is None)
        stages().append(("hydrate", start, perf_counter()))
        return SimilarResponse(
            self.snapshot_id,
            ranking.total,
            ranking.relation,
            ranking.next_offset,
            tuple(Hit(h.score, paper, explanations.get(h.id)) for h, paper in zip(hits, papers, strict=True)),
            warnings,
            request.fields,
        )

    # -- citations --------------------------------------------------------------------------------------

    @runs(EdgeBody)
    def run_citations(self, request: EdgeBody) -> CitationsResponse:
        """Run an :class:`EdgeBody`. Raises as ``citations``."""
        return self._edges(request, "citations")

    @runs(EdgeBody)
    def run_references(self, request: EdgeBody) -> CitationsResponse:
        """Run an :class:`EdgeBody`. Raises as ``citations``."""
        return self._edges(request, "references")

    def _edges(self, request: EdgeBody, direction: Direction) -> CitationsResponse:
        start = perf_counter()
        filters, warnings = self._lookup.filters(request)
        number = self._lookup.id(request.paper_id, request.as_of)
        limit, offset = request.limit, request.offset
        edges = self._catalog.edges(
            number,
            direction,
            limit,
            offset,
            check_sort(request.sort, request.as_of),
            filters,
            fields=request.fields,
            counts=request.as_of is None,
            at_most=self.few_edges(number, direction),
        )
        # A first page that is not full has all the edges.
        whole = offset == 0 and len(edges) < limit
        total = len(edges) if whole else self._catalog.count_edges(number, direction, filters)
        following = next_offset(offset, len(edges), total)
        stages().append((direction, start, perf_counter()))
        results = tuple([Citation(e.paper, e.is_influential, e.contexts, e.intents) for e in edges])
        return CitationsResponse(self.snapshot_id, total, following, results, warnings, request.fields)

    @runs(ExpandBody)
    def run_expand(self, request: ExpandBody) -> ExpandResponse:
        """Run an :class:`ExpandBody`. Raises as ``expand``."""
        start = perf_counter()
        filters, warnings = self._lookup.filters(request)
        resolved = perf_counter()
        total, rows = self._catalog.expand(
            self._lookup.ids(request.seeds, request.as_of),
            request.direction,
            request.hops,
            filters,
            request.limit,
            request.offset,
            as_of=None if request.as_of is None else as_of_day(request.as_of),
            most=Most(request.citations_per_seed, request.references_per_seed),
        )
        expanded = perf_counter()
        papers = self._catalog.papers(
            [row.paper_id for row in rows], request.fields, counts=request.as_of is None
        )
        ends = (
            ("filters", start, resolved),
            ("expand", resolved, expanded),
            ("hydrate", expanded, perf_counter()),
        )
        stages().extend(ends)
        results = tuple(Neighbour(p, row.seeds, row.hops) for row, p in zip(rows, papers, strict=True))
        following = next_offset(request.offset, len(results), total)
        return ExpandResponse(self.snapshot_id, total, following, results, warnings, request.fields)

    # -- cost -------------------------------------------------------------------------------------------

    @property
    def encodes_at_once(self) -> bool:
        """Whether queries need no encoder, or a static one, which takes less than a millisecond."""
        return self._encoder is None or self._encoder.spec.kind == STATIC

    def has_bm25_terms(self, q: str) -> bool:
        """Whether ``q`` has words besides stop words, so that BM25 vectors can rank it."""
        return self._ranker.has_bm25_terms(q)

    def few_edges(self, number: int, direction: Direction) -> int | None:
        """The number of citations or references of a paper (by its catalogue id), None if it has many."""
        return self._few_edges.get((number, direction), lambda: self._catalog.few_edges(number, direction))

    # -- about ------------------------------------------------------------------------------------------

    def forget_queries(self) -> None:
        """Forget the vectors and the rerankers' scores of earlier queries, so that the next searches take as long as if
        they were the first."""
        self._ranker.forget_queries()

    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the settings that decide rankings, the rerankers, and the manifest."""
        content: dict[str, Any] = orjson.loads(self.manifest.to_bytes())
        rerankers = {
            name: {"name": one.name, "fingerprint": one.fingerprint} for name, one in self._rerankers.items()
        }
        return {
            "snapshot": self.snapshot_id,
            "ranking": self.settings.ranking,
            "rerankers": rerankers,
            "manifest": content,
        }

    def check_files(self) -> None:
        """Raises LibraryCorrupt: a file was written while it is open. Searches may then return wrong results, or end
        the process (SIGBUS)."""
        self._files.check()

    def ready(self) -> dict[str, str]:
        """Test each part with a small request: ``ok``, ``absent`` or the error message."""
        state: dict[str, str] = {}
        checks: list[tuple[str, Callable[[], object]]] = [
            ("catalog", lambda: self._catalog.meta("snapshot")),
            ("vectors", lambda: self._vectors.search_sparse(BM25, SparseVector([1], [1.0]), 1, NO_FILTERS)),
        ]
        if self._encoder is not None:
            checks.append(("encoder", lambda: self._encoder and self._encoder.encode_queries(["ready"])))
        else:
            state["encoder"] = "absent"
        if self._passages is not None:
            passages = self._passages
            checks.append(("documents", lambda: passages.documents.frequencies([], None)))
            checks.append(
                (
                    "passages",
                    lambda: passages.vectors.search_sparse(BM25, SparseVector([1], [1.0]), 1, NO_FILTERS),
                )
            )
        for name, check in checks:
            try:
                check()
                state[name] = "ok"
            except (EncoderError, VectorIndexError, LibraryCorrupt) as error:
                state[name] = error.for_clients
        return state


def _check(request: object, kind: type[Request]) -> None:
    if not isinstance(request, kind):
        check_request(request, kind)
