"""``Source``: what can be queried, an open library or a server through the client."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from scholarbase.models.arguments import (
    FilterArguments,
    TimedArguments,
    arguments_of,
    search_request,
    search_requests,
    takes,
)
from scholarbase.models.author_requests import (
    AuthorBatchBody,
    AuthorBody,
    AuthorPapersBody,
    AuthorSearchParameters,
)
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.checks import check_authors, check_ids
from scholarbase.models.document_source import DocumentSource
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.limits import (
    DEFAULT_EDGES,
    DEFAULT_FACET_VALUES,
    DEFAULT_MATCHES,
    DEFAULT_RESULTS,
    MIN_TITLE_SCORE,
    CitationSort,
    Direction,
    Engine,
    Fusion,
    Mode,
    Negation,
    Prefer,
    ReferenceFormat,
    Syntax,
)
from scholarbase.models.paging import Page, Paging
from scholarbase.models.papers import Paper
from scholarbase.models.requests import (
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    PaperBody,
    SearchRequest,
    SimilarBody,
    TitleBatchBody,
    TitleParameters,
)
from scholarbase.models.responses import (
    AuthorPapersResponse,
    AuthorsResponse,
    CheckResponse,
    Citation,
    CitationsResponse,
    ExpandResponse,
    FacetsResponse,
    Hit,
    SearchResponse,
    SimilarResponse,
    TitleMatchResponse,
)
from scholarbase.models.sql import DEFAULT_ROWS, SqlBody, SqlResponse

# -- arguments -----------------------------------------------------------------------------------------
# The keyword arguments of methods, which their docstrings describe. Defaults are those of the requests.


T = TypeVar("T")


class PageArguments(TimedArguments, total=False):
    """Those of a list of papers in an order."""

    sort: CitationSort | None
    from_: str | None
    to: str | None
    status: Sequence[str]
    fields: Sequence[str] | None


class EdgeArguments(PageArguments, total=False):
    """Those of citations and references."""

    author: Sequence[str]


class RankingArguments(FilterArguments, total=False):
    """How papers are ranked by a text."""

    syntax: Syntax
    negation: Negation
    mode: Mode | None
    engine: Engine | None
    fusion: Fusion | None
    graph_weight: float | None
    min_similarity: float | None
    exact: bool


class SearchArguments(RankingArguments, total=False):
    """Those of a search."""

    fields: Sequence[str] | None
    explain: bool
    prefer: Prefer
    rerank: str | None
    rerank_depth: int
    rerank_weight: float | None
    rerank_ms: int | None
    partial: bool


class SimilarArguments(FilterArguments, total=False):
    """Those of similar papers."""

    fields: Sequence[str] | None
    exact: bool
    explain: bool


class ExpandArguments(FilterArguments, total=False):
    """Those of an expansion."""

    direction: Direction
    hops: int
    citations_per_seed: int | None
    references_per_seed: int | None
    fields: Sequence[str] | None


class Source(DocumentSource):
    """The methods that ``Library`` and ``Client`` share: keyword arguments to requests.

    Subclasses run the requests.
    """

    @abstractmethod
    def run(self, request: SearchRequest) -> SearchResponse:
        """Run one :class:`SearchRequest`. Raises as ``search``."""

    @abstractmethod
    def run_searches(self, requests: Sequence[SearchRequest]) -> list[SearchResponse]: ...

    @abstractmethod
    def run_title(self, request: TitleParameters, /) -> TitleMatchResponse: ...

    @abstractmethod
    def _match_all(self, titles: Sequence[str], **options: Any) -> list[TitleMatchResponse]: ...

    @abstractmethod
    def _check_all(self, **arguments: Any) -> CheckResponse: ...

    @abstractmethod
    def _paper(self, request: PaperBody, /) -> Paper: ...

    @abstractmethod
    def _papers(self, request: PaperBatchBody, /) -> list[Paper | None]: ...

    @abstractmethod
    def run_similar(self, request: SimilarBody, /) -> SimilarResponse: ...

    @abstractmethod
    def run_citations(self, request: EdgeBody, /) -> CitationsResponse: ...

    @abstractmethod
    def run_references(self, request: EdgeBody, /) -> CitationsResponse: ...

    @abstractmethod
    def run_expand(self, request: ExpandBody, /) -> ExpandResponse: ...

    @abstractmethod
    def run_author_search(self, request: AuthorSearchParameters, /) -> AuthorsResponse: ...

    @abstractmethod
    def _author(self, request: AuthorBody, /) -> AuthorProfile: ...

    @abstractmethod
    def _authors(self, request: AuthorBatchBody, /) -> list[AuthorProfile | None]: ...

    @abstractmethod
    def run_author_papers(self, request: AuthorPapersBody, /) -> AuthorPapersResponse: ...

    @abstractmethod
    def run_facets(self, request: FacetsParameters, /) -> FacetsResponse: ...

    @abstractmethod
    def run_sql(self, request: SqlBody, /) -> SqlResponse: ...

    @abstractmethod
    def sql_schema(self) -> dict[str, Any]:
        """The views, functions and limits of SQL statements, for a model to read."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the ranking settings, the rerankers and the manifest."""

    @abstractmethod
    def close(self) -> None:
        """Release what is open. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pages(self, page: Callable[[int, int], Page[T]], limit: int | None, offset: int) -> Iterator[T]:
        paging = Paging(limit, offset)
        while (window := paging.next_page()) is not None:
            yield from paging.add(page(*window))

    # -- search -----------------------------------------------------------------------------------------

    @takes(SearchRequest, SearchArguments)
    def search(
        self, q: str, *, limit: int = DEFAULT_RESULTS, offset: int = 0, **arguments: Unpack[SearchArguments]
    ) -> SearchResponse:
        """Search for papers. For every list, one string is accepted too.

        Raises:
            InvalidRequest: an argument is invalid.
            UnsupportedMode: this library has no index for the mode or engine.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold a paper in ``within`` (as of ``as_of``).
            EncoderError, VectorIndexError, LibraryCorrupt, RerankerError: a leg or the reranker failed, and
                ``partial`` is off.
            TimeLimit: the search took longer than its time limit.
        """
        return self.run(search_request(q, limit=limit, offset=offset, **arguments))

    def search_batch(self, requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchResponse]:
        """Run many searches, in order. A client sends up to 100 in one HTTP request.

        Args:
            requests: each a :class:`SearchRequest` or the arguments of one ``search``.

        Raises: as ``search``, for the first request that fails. The message names it.
        """
        return self.run_searches(search_requests(requests))

    def iter_search(
        self, q: str, *, limit: int | None = None, offset: int = 0, **arguments: Unpack[SearchArguments]
    ) -> Iterator[Hit]:
        """The results of a search, page by page, each paper once.

        Args:
            q: a question, words or query syntax.
            limit: the number of results; None for all that paging reaches: 10,000, or ``fusion_depth`` in a hybrid
                search.
            offset: the number of results to skip.
            arguments: the other arguments of ``search``.

        Raises: as ``search``.
        """
        return self._pages(
            lambda size, start: self.search(q, limit=size, offset=start, **arguments), limit, offset
        )

    @takes(FacetsParameters, RankingArguments)
    def facets(
        self,
        q: str | None = None,
        *,
        limit: int = DEFAULT_FACET_VALUES,
        **arguments: Unpack[RankingArguments],
    ) -> FacetsResponse:
        """The number of papers by year, category and venue.

        Raises:
            InvalidRequest: an argument is invalid, or has no effect without ``q``.
            UnsupportedMode, NothingLeft, PaperNotFound, EncoderError, VectorIndexError, LibraryCorrupt: as in
                ``search``.
            TimeLimit: counting took longer than the time limit.
        """
        return self.run_facets(FacetsParameters.of(q=q, limit=limit, **arguments))

    # -- titles and papers ------------------------------------------------------------------------------

    @takes(TitleParameters)
    def match_title(
        self,
        title: str,
        *,
        limit: int = DEFAULT_MATCHES,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> TitleMatchResponse:
        """The papers with this title, then papers with similar titles, best match first.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            TimeLimit: the title match took longer than its time limit.
        """
        return self.run_title(TitleParameters.of(**arguments_of(locals())))

    @takes(TitleBatchBody)
    def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> list[TitleMatchResponse]:
        """Match many titles, in order.

        Raises: as ``match_title``. The message names the title.
        """
        options = {"limit": limit, "min_score": min_score, "as_of": as_of, "fields": fields}
        return self._match_all(titles, **options, timeout=timeout)

    @takes(CheckBody)
    def check_references(
        self,
        references: str,
        *,
        input_format: ReferenceFormat = "auto",
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> CheckResponse:
        """Find the paper that each reference of a bibliography means, and where the two differ.

        Raises:
            InvalidRequest: an argument is invalid, or the text has no references in this format. An entry that cannot
                be read is a result with the status ``unreadable``.
            NothingLeft: ``as_of`` is before every paper.
            TimeLimit: a reference took longer than the time limit.
        """
        return self._check_all(**arguments_of(locals()))

    @takes(PaperBody)
    def paper(
        self,
        paper_id: str,
        *,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> Paper:
        """The paper with an id of any form.

        Raises:
            InvalidRequest: the id or another argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper (as of ``as_of``).
        """
        return self._paper(PaperBody.of(**arguments_of(locals())))

    @takes(PaperBatchBody)
    def papers(
        self,
        ids: Sequence[str],
        *,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> list[Paper | None]:
        """Many papers, in order; None for a paper that the library does not hold (as of ``as_of``).

        Raises:
            InvalidRequest: an id is invalid.
            NothingLeft: ``as_of`` is before every paper.
        """
        listed = check_ids(ids, "ids")
        if not listed:
            return []
        return self._papers(PaperBatchBody.of(ids=listed, as_of=as_of, fields=fields, timeout=timeout))

    @takes(SimilarBody, SimilarArguments)
    def similar(
        self,
        paper_id: str,
        *,
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        **arguments: Unpack[SimilarArguments],
    ) -> SimilarResponse:
        """The papers similar to a paper, without the paper itself: those nearest to its dense vector, fused by
        reciprocal rank with those most often cited together with it.

        A library without dense vectors has only the latter, one without citations only the former.

        Raises:
            InvalidRequest: an argument is invalid.
            UnsupportedMode: the library has neither dense vectors nor citations.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper or one in ``within`` (as of ``as_of``).
            VectorIndexError, LibraryCorrupt: a leg failed.
            TimeLimit: the request took longer than its time limit.
        """
        return self.run_similar(SimilarBody.of(paper_id=paper_id, limit=limit, offset=offset, **arguments))

    def iter_similar(
        self,
        paper_id: str,
        *,
        limit: int | None = None,
        offset: int = 0,
        **arguments: Unpack[SimilarArguments],
    ) -> Iterator[Hit]:
        """All similar papers, page by page, up to ``limit`` or ``fusion_depth``. The other arguments are those of
        ``similar``."""
        return self._pages(
            lambda size, start: self.similar(paper_id, limit=size, offset=start, **arguments), limit, offset
        )

    # -- citations --------------------------------------------------------------------------------------

    @takes(EdgeBody, EdgeArguments)
    def citations(
        self,
        paper_id: str,
        *,
        limit: int = DEFAULT_EDGES,
        offset: int = 0,
        **arguments: Unpack[EdgeArguments],
    ) -> CitationsResponse:
        """The papers of this library that cite the paper.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper (as of ``as_of``).
            TimeLimit: the request took longer than its time limit.
        """
        return self.run_citations(EdgeBody.of(paper_id=paper_id, limit=limit, offset=offset, **arguments))

    @takes(EdgeBody, EdgeArguments)
    def references(
        self,
        paper_id: str,
        *,
        limit: int = DEFAULT_EDGES,
        offset: int = 0,
        **arguments: Unpack[EdgeArguments],
    ) -> CitationsResponse:
        """The papers of this library that the paper cites. Arguments and errors are those of ``citations``."""
        return self.run_references(EdgeBody.of(paper_id=paper_id, limit=limit, offset=offset, **arguments))

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, offset: int = 0, **arguments: Unpack[EdgeArguments]
    ) -> Iterator[Citation]:
        """All citations, page by page, up to ``limit``. The other arguments are those of ``citations``."""
        return self._pages(
            lambda size, start: self.citations(paper_id, limit=size, offset=start, **arguments), limit, offset
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, offset: int = 0, **arguments: Unpack[EdgeArguments]
    ) -> Iterator[Citation]:
        """All references, page by page, up to ``limit``. The other arguments are those of ``citations``."""
        return self._pages(
            lambda size, start: self.references(paper_id, limit=size, offset=start, **arguments),
            limit,
            offset,
        )

    @takes(ExpandBody, ExpandArguments)
    def expand(
        self,
        seeds: Sequence[str],
        *,
        limit: int = DEFAULT_EDGES,
        offset: int = 0,
        **arguments: Unpack[ExpandArguments],
    ) -> ExpandResponse:
        """The neighbours of a set of papers in the citation graph, each once, without the seeds.

        Papers that most seeds reach come first.

        Raises:
            TimeLimit: the expansion took longer than its time limit.
            InvalidRequest: an argument is invalid, or there are too many edges to follow.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold a seed or a paper in ``within`` (as of ``as_of``).
        """
        return self.run_expand(ExpandBody.of(seeds=seeds, limit=limit, offset=offset, **arguments))

    # -- authors ----------------------------------------------------------------------------------------

    @takes(AuthorSearchParameters)
    def search_authors(
        self,
        q: str,
        *,
        limit: int = DEFAULT_RESULTS,
        offset: int = 0,
        as_of: str | None = None,
        timeout: float | None = None,
    ) -> AuthorsResponse:
        """The authors with a name: those with exactly this name first, then those with the most papers.

        Raises:
            InvalidRequest: an argument is invalid, or ``q`` is only initials.
            NothingLeft: ``as_of`` is before every paper.
            TimeLimit: the search took longer than its time limit.
        """
        return self.run_author_search(AuthorSearchParameters.of(**arguments_of(locals())))

    @takes(AuthorBody)
    def author(
        self, author_id: str, *, as_of: str | None = None, timeout: float | None = None
    ) -> AuthorProfile:
        """The author with an id.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            AuthorNotFound: the library holds no paper of the author (by ``as_of``).
        """
        return self._author(AuthorBody.of(**arguments_of(locals())))

    @takes(AuthorBatchBody)
    def authors(
        self, ids: Sequence[str], *, as_of: str | None = None, timeout: float | None = None
    ) -> list[AuthorProfile | None]:
        """Many authors, in order; None for an author of whom the library holds no paper (by ``as_of``).

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
        """
        listed = check_authors(ids, "ids")
        if not listed:
            return []
        return self._authors(AuthorBatchBody.of(ids=listed, as_of=as_of, timeout=timeout))

    @takes(AuthorPapersBody, PageArguments)
    def author_papers(
        self,
        author_id: str,
        *,
        limit: int = DEFAULT_EDGES,
        offset: int = 0,
        **arguments: Unpack[PageArguments],
    ) -> AuthorPapersResponse:
        """The papers of this library by an author.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            AuthorNotFound: the library holds no paper of the author (by ``as_of``).
            TimeLimit: the request took longer than its time limit.
        """
        return self.run_author_papers(
            AuthorPapersBody.of(author_id=author_id, limit=limit, offset=offset, **arguments)
        )

    def iter_author_papers(
        self, author_id: str, *, limit: int | None = None, offset: int = 0, **arguments: Unpack[PageArguments]
    ) -> Iterator[Paper]:
        """All papers of an author, page by page, up to ``limit``. The other arguments are those of
        ``author_papers``."""
        return self._pages(
            lambda size, start: self.author_papers(author_id, limit=size, offset=start, **arguments),
            limit,
            offset,
        )

    # -- SQL --------------------------------------------------------------------------------------------

    @takes(SqlBody)
    def sql(
        self,
        query: str,
        *,
        limit: int = DEFAULT_ROWS,
        as_of: str | None = None,
        timeout: float | None = None,
    ) -> SqlResponse:
        """The rows of one SELECT over the views of ``sql_schema``, in SQLite's dialect.

        Raises:
            InvalidSql: the statement is malformed, not allowed, or needs too much memory.
            InvalidRequest: another argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            SqlOff: the server runs no SQL.
            TimeLimit: the statement took longer than its time limit.
            Busy: too many statements run.
        """
        return self.run_sql(SqlBody.of(**arguments_of(locals())))
