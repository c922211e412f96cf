"""An open library, which runs all searches.

Routes, tools and the command line only translate requests and responses.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from time import perf_counter
from types import NoneType
from typing import Any, Final, Self, TypeVar

import orjson

from scholarbase import __version__
from scholarbase.bibliographies.reading import check_requests, placed
from scholarbase.deadlines import time_limit
from scholarbase.encoders import Encoder
from scholarbase.errors import (
    EncoderError,
    InvalidRequest,
    LibraryCorrupt,
    LibraryError,
    TimeLimit,
    VectorIndexError,
)
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, SparseVector
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.models.arguments import title_batches
from scholarbase.models.author_requests import (
    AuthorBatchBody,
    AuthorBody,
    AuthorPapersBody,
    AuthorSearchParameters,
)
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.checks import (
    check_list,
    check_path,
    check_type,
    in_batch,
    shown,
)
from scholarbase.models.document_requests import (
    ContextBody,
    FindBody,
    PageBody,
    PaperPassagesBody,
    PassageSearch,
    ReadBody,
    TextBody,
)
from scholarbase.models.document_responses import (
    FindResponse,
    PassagesResponse,
    TextResponse,
)
from scholarbase.models.encoders import STATIC
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.limits import MODES, Mode
from scholarbase.models.papers import Paper
from scholarbase.models.requests import (
    FILTER_NAMES,
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    PaperBody,
    SearchBatchBody,
    SearchRequest,
    SimilarBody,
    Timed,
    TitleBatchBody,
    TitleParameters,
    check_request,
)
from scholarbase.models.responses import (
    CheckedReference,
    CheckResponse,
    Hit,
    SearchBatchResponse,
    SearchResponse,
    TitleMatchResponse,
    Unfinished,
    finished,
)
from scholarbase.models.source import Source
from scholarbase.models.sql import SqlBody
from scholarbase.rerankers import Reranker
from scholarbase.search.authors import Authors
from scholarbase.search.browsing import ALL, Browsing
from scholarbase.search.checking import References
from scholarbase.search.documents import Texts
from scholarbase.search.facets import Facets
from scholarbase.search.graph import Graph
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened
from scholarbase.search.papers import Papers
from scholarbase.search.passages import Passages
from scholarbase.search.plan import Plan, Planner
from scholarbase.search.ranking import Ranker
from scholarbase.search.similarity import Similarity
from scholarbase.search.sql import Statements
from scholarbase.settings import Settings
from scholarbase.timing import stages

log = logging.getLogger("scholarbase.library")

_SEED_BYTES: Final = 16
_NO_MATCH: Final = "No paper matches q as query syntax: use syntax=plain to rank papers by its words."


R = TypeVar("R", bound=Timed)
T = TypeVar("T")


def _part(kind: type[R], method: Callable[[Library], Callable[[R], T]]) -> Callable[[Library, R], T]:
    """A method of a library that runs requests of a kind, within the time limit of each, with one of its parts."""

    def run(self: Library, request: R) -> T:
        check_request(request, kind)
        self._check_open()
        with time_limit(request.timeout):
            return method(self)(request)

    run.__doc__ = f"Run a :class:`.{kind.__name__}`."
    return run


class Library(Source):
    """A library that is open for searching. Thread-safe. ``close`` it, or use it as a context manager.

    Its methods for keyword arguments are those of :class:`Source`; ``run`` methods take requests.
    """

    def __init__(self, opened: Opened) -> None:
        """Use :meth:`open`."""
        self._opened = opened
        self.path = opened.path
        self.manifest = manifest = opened.manifest
        self.snapshot_id = opened.snapshot
        self.settings = settings = opened.settings
        self._catalog, self._vectors = opened.catalog, opened.vectors
        self.encoder: Final = opened.encoder
        """The encoder of queries; None if the library has no dense vectors or was opened without one."""
        sizes = {name: entry["papers"] for name, entry in manifest.sets.items()}
        self._lookup = lookup = Lookup(opened.catalog, opened.vectors, opened.snapshot, sizes)
        self._bm25 = bm25 = Bm25Text(Bm25Parameters.from_dict(manifest.bm25))
        self._planner = Planner(opened, lookup, bm25)
        self._ranker = Ranker(opened, bm25)
        self.by_name: Final = Papers(opened, lookup)
        self.graph: Final = Graph(opened, lookup)
        self.similarity: Final = Similarity(opened, lookup)
        self.author_index: Final = Authors(opened, lookup)
        self.counts: Final = Facets(opened, lookup, self._planner, self._ranker)
        self._browsing = Browsing(opened, lookup)
        self.bibliography: Final = References(opened, lookup, self._planner, self._ranker)
        self.texts: Final = Texts(opened, lookup)
        self.passage_index: Final = Passages(opened, lookup, self.texts)
        self._sql = Statements(opened, lookup)
        self.best_mode: Final = self._planner.best_mode
        """Hybrid if the library has dense vectors and an encoder for queries, else sparse."""
        self.engines: Final = self._planner.engines
        """The sparse leg of free text, by mode, in searches that name none."""
        self.modes: Final[tuple[Mode, ...]] = MODES if self.best_mode == "hybrid" else ("sparse",)
        """The modes of search that the library has."""
        self.has_graph: Final = (
            self.best_mode == "hybrid" and settings.fusion == "scores" and self._planner.graph_weight > 0
        )
        """Whether searches use the citation graph by default."""
        self.encodes_at_once: Final = opened.encoder is None or opened.encoder.spec.kind == STATIC
        """Whether queries need no encoder, or a static one, which takes less than a millisecond."""
        self.has_own_vectors: Final = settings.has_own_vectors
        """Whether the vectors are in the library's folder."""
        self.has_full_texts: Final = opened.documents is not None
        """Whether the library was built with full texts."""
        about = self.snapshot()
        facts = [about["snapshot"], about["ranking"], about["rerankers"], self.modes, __version__]
        seed = orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)
        self.response_fingerprint: Final = blake2b(seed, digest_size=_SEED_BYTES).digest()
        """What responses depend on besides the request, as a hash for keys of caches and entity tags."""
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
        for name, reranker in (rerankers or {}).items():
            if not isinstance(reranker, str) and not hasattr(reranker, "score"):
                raise InvalidRequest(
                    f"The reranker {shown(name)} is {shown(reranker)}: it must be an open reranker, or the folder, hub "
                    "name or URL of one."
                )
        opened = Opened.at(path, settings, encoder, rerankers, full=full)
        try:
            return cls(opened)
        except BaseException:
            opened.close()
            raise

    def close(self) -> None:
        """Close files, vectors, the encoder and the rerankers. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self._sql.close()
        self._ranker.close()
        self.texts.close()
        self._opened.close()

    @property
    def catalog(self) -> Catalog:
        """The catalogue, for statements of other packages. Raises LibraryError: the library is closed."""
        self._check_open()
        return self._catalog

    @property
    def lookup(self) -> Lookup:
        """Ids, dates and filters of requests to those of the catalogue. Raises LibraryError: the library is closed."""
        self._check_open()
        return self._lookup

    def _check_open(self) -> None:
        if self._closed:
            raise LibraryError(f"The library at {self.path} is closed: open it again.")

    # -- search -----------------------------------------------------------------------------------------

    def run(self, request: SearchRequest) -> SearchResponse:
        """Run one :class:`SearchRequest`. Raises as ``search``."""
        if not isinstance(request, SearchRequest):
            check_request(request, SearchRequest)
        if self._closed:
            self._check_open()  # raises
        run = self._browsing.all if request.q.strip() == ALL else self._searched
        if request.timeout is None:
            return run(request)
        with time_limit(request.timeout):
            return run(request)

    def _searched(self, request: SearchRequest) -> SearchResponse:
        return self._respond(*self._plan(request))

    def _run_batch(self, request: SearchBatchBody) -> SearchBatchResponse:
        results = [finished(partial(self.run, search), "search", search.q) for search in request.searches]
        return SearchBatchResponse(self.snapshot_id, tuple(results))

    run_batch = _part(SearchBatchBody, lambda library: library._run_batch)
    """Run the searches of a batch. Raises as ``search_batch``; but a search that takes longer than the time limit is
    :class:`.Unfinished`."""

    def run_searches(self, requests: Sequence[SearchRequest]) -> list[SearchResponse]:
        """Run many searches. Raises as ``search_batch``."""
        responses = []
        for request in check_list(requests, "requests", "searches"):
            with in_batch("search", getattr(request, "q", request)):
                responses.append(self.run(request))
        return responses

    def _plan(self, request: SearchRequest) -> tuple[Plan, tuple[str, ...]]:
        """The plan of a request, and warnings."""
        filters = NO_FILTERS
        warnings: tuple[str, ...] = ()
        if not request.model_fields_set.isdisjoint(FILTER_NAMES):
            start = perf_counter()
            filters, warnings = self._lookup.filters(request)
            stages().append(("filters", start, perf_counter()))
        plan, others = self._planner.plan(request, filters)
        return plan, warnings + others

    def _respond(self, plan: Plan, warnings: tuple[str, ...]) -> SearchResponse:
        request, ranking = plan.request, self._ranker.rank(plan)
        is_excluding = request.exclude or (plan.understood is not None and plan.understood.excluded)
        if not ranking.total and is_excluding and not plan.matches_nothing:
            warnings += self._exclude_warning(plan)
        if not ranking.total and plan.is_syntax and request.syntax == "auto":
            warnings += (_NO_MATCH,)
        hits, explanations = ranking.hits, ranking.explanations
        start = perf_counter()
        papers = self._catalog.papers([hit.id for hit in hits], request.fields, as_of=request.as_of)
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
            ranking.reranked,
            plan.understood,
            request.fields,
        )

    def _exclude_warning(self, plan: Plan) -> tuple[str, ...]:
        """A warning if papers match and all of them contain a phrase that is excluded."""
        request = plan.request
        exact = request.exact or plan.mode == "sparse"
        changes = {"exclude": (), "negation": "off", "limit": 1, "offset": 0, "exact": exact, "rerank": None}
        ranking = self._ranker.rank(self._plan(request.model_copy(update=changes))[0])
        if not ranking.total:
            return ()
        least = "at least " if ranking.relation == "gte" else ""
        what = "exclude removes" if plan.understood is None else "What q excludes removes"
        return (f"{what} every result: {least}{ranking.total:,} without it.",)

    # -- parts ------------------------------------------------------------------------------------------

    run_title = _part(TitleParameters, lambda library: library.by_name.title)
    run_titles = _part(TitleBatchBody, lambda library: library.by_name.titles)
    run_paper = _part(PaperBody, lambda library: library.by_name.paper)
    run_papers = _part(PaperBatchBody, lambda library: library.by_name.papers)
    run_similar = _part(SimilarBody, lambda library: library.similarity.similar)
    run_citations = _part(EdgeBody, lambda library: library.graph.citations)
    run_references = _part(EdgeBody, lambda library: library.graph.references)
    run_expand = _part(ExpandBody, lambda library: library.graph.expand)
    run_author_search = _part(AuthorSearchParameters, lambda library: library.author_index.search)
    run_author = _part(AuthorBody, lambda library: library.author_index.author)
    run_authors = _part(AuthorBatchBody, lambda library: library.author_index.authors)
    run_author_papers = _part(AuthorPapersBody, lambda library: library.author_index.papers)
    run_facets = _part(FacetsParameters, lambda library: library.counts.count)
    run_check = _part(CheckBody, lambda library: library.bibliography.check)
    run_text = _part(TextBody, lambda library: library.texts.text)
    run_find = _part(FindBody, lambda library: library.texts.find)
    run_contexts = _part(ContextBody, lambda library: library.texts.contexts)
    run_page = _part(PageBody, lambda library: library.texts.page)
    run_passage_search = _part(PassageSearch, lambda library: library.passage_index.search)
    run_paper_passages = _part(PaperPassagesBody, lambda library: library.passage_index.in_paper)
    run_sql = _part(SqlBody, lambda library: library._sql.runner().run)

    def run_read(self, request: ReadBody) -> TextResponse | FindResponse | PassagesResponse:
        """Run a :class:`.ReadBody`. Raises as ``text``, ``find`` and ``passages``."""
        check_request(request, ReadBody)
        part = request.part
        if isinstance(part, FindBody):
            try:
                return self.run_find(part)
            except InvalidRequest as error:  # the pattern's name is q in other requests
                raise InvalidRequest(re.sub("^q ", "find ", str(error))) from error
        return self.run_text(part) if isinstance(part, TextBody) else self.run_paper_passages(part)

    def sql_schema(self) -> dict[str, Any]:
        """The views, functions and limits of SQL statements, for a model to read."""
        return self._sql.runner().schema()

    def _paper(self, request: PaperBody) -> Paper:
        return self.run_paper(request).paper

    def _papers(self, request: PaperBatchBody) -> list[Paper | None]:
        return list(self.run_papers(request).results)

    def _author(self, request: AuthorBody) -> AuthorProfile:
        return self.run_author(request).author

    def _authors(self, request: AuthorBatchBody) -> list[AuthorProfile | None]:
        return list(self.run_authors(request).results)

    def _match_all(self, titles: Sequence[str], **options: Any) -> list[TitleMatchResponse]:
        responses = []
        for request in title_batches(titles, **options):
            for matches in self.run_titles(request).results:
                if isinstance(matches, Unfinished):
                    raise TimeLimit(matches.error)
                responses.append(TitleMatchResponse(self.snapshot_id, matches, request.fields))
        return responses

    def _check_all(self, **arguments: Any) -> CheckResponse:
        requests = check_requests(**arguments)
        results: list[CheckedReference] = []
        for part in requests.parts:
            for position, result in zip(part, self.run_check(requests.body_of(part)).results, strict=True):
                if isinstance(result, Unfinished):
                    raise TimeLimit(result.error)
                results.append(placed(result, position))
        return requests.response(self.snapshot_id, results)

    # -- about ------------------------------------------------------------------------------------------

    def forget_queries(self) -> None:
        """Forget the vectors and the rerankers' scores of earlier queries, so that the next searches take as long as if
        they were the first."""
        self._ranker.forget_queries()

    def has_bm25_terms(self, q: str) -> bool:
        """Whether ``q`` has words besides stop words, so that BM25 vectors can rank it."""
        return len(self._bm25.query(q).indices) > 0

    @property
    def rerankers(self) -> Mapping[str, Reranker]:
        """The open rerankers, by their names in requests."""
        return self._opened.rerankers

    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the settings that decide rankings, the rerankers, and the manifest."""
        content: dict[str, Any] = orjson.loads(self.manifest.to_bytes())
        rerankers = {
            name: {"name": reranker.name, "fingerprint": reranker.fingerprint}
            for name, reranker in self._opened.rerankers.items()
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
        self._opened.files.check()

    def ready(self) -> dict[str, str]:
        """Test each part with a small request: ``ok``, ``absent`` or the error message."""
        state: dict[str, str] = {}
        checks: list[tuple[str, Callable[[], object]]] = [
            ("catalog", lambda: self._catalog.meta("snapshot")),
            ("vectors", lambda: self._vectors.search_sparse(BM25, SparseVector([1], [1.0]), 1, NO_FILTERS)),
        ]
        if (encoder := self.encoder) is not None:
            checks.append(("encoder", lambda: encoder.encode_queries(["ready"])))
        else:
            state["encoder"] = "absent"
        checks += self.passage_index.checks()
        for name, check in checks:
            try:
                check()
                state[name] = "ok"
            except (EncoderError, VectorIndexError, LibraryCorrupt) as error:
                state[name] = error.for_clients
        return state
