"""``Source``: what can be queried, an open library or a server through the client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from scholarbase.models.limits import MIN_TITLE_SCORE, CitationSort, Direction, Engine, Mode
from scholarbase.models.paging import Paging
from scholarbase.models.papers import Paper
from scholarbase.models.requests import (
    EdgeBody,
    ExpandBody,
    PaperBatchBody,
    PaperBody,
    SearchRequest,
    TitleParameters,
    search_request,
    search_requests,
)
from scholarbase.models.responses import (
    Citation,
    CitationsResponse,
    ExpandResponse,
    Hit,
    SearchResponse,
    TitleMatchResponse,
)


class Source(ABC):
    """The methods that ``Library`` and ``Client`` share: keyword arguments to requests.

    Subclasses run the requests.
    """

    @abstractmethod
    def run(self, request: SearchRequest) -> SearchResponse:
        """Run one :class:`SearchRequest`. Raises as ``search``."""

    @abstractmethod
    def run_searches(self, requests: Sequence[SearchRequest]) -> list[SearchResponse]: ...

    @abstractmethod
    def run_title(self, request: TitleParameters) -> TitleMatchResponse: ...

    @abstractmethod
    def _match_all(self, titles: Sequence[str], **options: Any) -> list[TitleMatchResponse]: ...

    @abstractmethod
    def _paper(self, request: PaperBody) -> Paper: ...

    @abstractmethod
    def _papers(self, request: PaperBatchBody) -> list[Paper | None]: ...

    @abstractmethod
    def run_citations(self, request: EdgeBody) -> CitationsResponse: ...

    @abstractmethod
    def run_references(self, request: EdgeBody) -> CitationsResponse: ...

    @abstractmethod
    def run_expand(self, request: ExpandBody) -> ExpandResponse: ...

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The snapshot id, the settings that decide rankings too, and the manifest."""

    @abstractmethod
    def close(self) -> None:
        """Release what is open. A second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pages(self, page: Callable[[int, int], Any], limit: int | None) -> Iterator[Any]:
        paging = Paging(limit)
        while (window := paging.next_page()) is not None:
            yield from paging.add(page(*window))

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
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        exact: bool = False,
        explain: bool = False,
        partial: bool = False,
    ) -> SearchResponse:
        """Search for papers. The arguments are those of :class:`SearchRequest`.

        Raises:
            InvalidRequest: an argument is invalid.
            UnsupportedMode: this library has no index for the mode or engine.
            NothingLeft: ``as_of`` is before every paper, or all matching papers contain a phrase of ``exclude``.
            PaperNotFound: the library does not hold a paper in ``exclude_ids`` or ``within`` (as of ``as_of``).
            EncoderError, VectorIndexError, LibraryCorrupt: a leg failed, and ``partial`` is off.
        """
        return self.run(search_request(**_arguments(locals())))

    def search_batch(self, requests: Sequence[SearchRequest | Mapping[str, Any]]) -> list[SearchResponse]:
        """Run many searches, in order; a request is a :class:`SearchRequest` or the arguments of one ``search``. A
        client sends up to 100 in one HTTP request.

        Raises: as ``search``, for the first request that fails. The message names it.
        """
        return self.run_searches(search_requests(requests))

    def iter_search(self, q: str, *, limit: int | None = None, **arguments: Any) -> Iterator[Hit]:
        """The results of a search, page by page, each paper once. The arguments are those of ``search``.

        Ends at ``limit`` or at the last page: after 10,000 results, or ``fusion_depth`` in a hybrid search.
        """
        return self._pages(lambda size, offset: self.search(q, limit=size, offset=offset, **arguments), limit)

    def match_title(
        self,
        title: str,
        *,
        limit: int = 5,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> TitleMatchResponse:
        """The papers with this title, then papers with similar titles, best match first.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
        """
        return self.run_title(TitleParameters.of(**_arguments(locals())))

    def match_titles(
        self,
        titles: Sequence[str],
        *,
        limit: int = 1,
        min_score: float = MIN_TITLE_SCORE,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> list[TitleMatchResponse]:
        """Match many titles, in order. Raises as ``match_title``. The message names the title."""
        return self._match_all(titles, limit=limit, min_score=min_score, as_of=as_of, fields=fields)

    def paper(self, paper_id: str, *, as_of: str | None = None, fields: Sequence[str] | None = None) -> Paper:
        """The paper with an id of any form.

        Raises:
            InvalidRequest: the id or another argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper (as of ``as_of``).
        """
        return self._paper(PaperBody.of(paper_id=paper_id, as_of=as_of, fields=fields))

    def papers(
        self, ids: Sequence[str], *, as_of: str | None = None, fields: Sequence[str] | None = None
    ) -> list[Paper | None]:
        """Many papers, in order; None for a paper that the library does not hold (as of ``as_of``).

        Raises:
            InvalidRequest: an id is invalid.
            NothingLeft: ``as_of`` is before every paper.
        """
        if not ids:
            return []
        return self._papers(PaperBatchBody.of(ids=ids, as_of=as_of, fields=fields))

    def citations(
        self,
        paper_id: str,
        *,
        limit: int = 100,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> CitationsResponse:
        """The papers of this library that cite the paper: most cited first, or newest first with ``as_of``.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold the paper (as of ``as_of``).
        """
        return self.run_citations(EdgeBody.of(**_arguments(locals())))

    def references(
        self,
        paper_id: str,
        *,
        limit: int = 100,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> CitationsResponse:
        """The papers of this library that the paper cites. Sorts and raises as ``citations``."""
        return self.run_references(EdgeBody.of(**_arguments(locals())))

    def iter_citations(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All citations, page by page, up to ``limit``. The arguments are those of ``citations``."""
        return self._pages(
            lambda size, offset: self.citations(paper_id, limit=size, offset=offset, **arguments), limit
        )

    def iter_references(
        self, paper_id: str, *, limit: int | None = None, **arguments: Any
    ) -> Iterator[Citation]:
        """All references, page by page, up to ``limit``. The arguments are those of ``references``."""
        return self._pages(
            lambda size, offset: self.references(paper_id, limit=size, offset=offset, **arguments), limit
        )

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
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
    ) -> ExpandResponse:
        """The neighbours of a set of papers in the citation graph, each once, without the seeds.

        Papers that most seeds reach come first.

        Raises:
            InvalidRequest: an argument is invalid, or there are too many edges to follow.
            NothingLeft: ``as_of`` is before every paper.
            PaperNotFound: the library does not hold a paper in the request (as of ``as_of``).
        """
        return self.run_expand(ExpandBody.of(**_arguments(locals())))


def _arguments(method: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a request, from the local variables of a method that has nothing else."""
    return {name: value for name, value in method.items() if name != "self"}


class ToolServer(Protocol):
    """A server that answers tool calls by name: what ``Client`` has besides the methods of a library."""

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        session: str | None = None,
        parent: int | None = None,
        round: int | None = None,
    ) -> dict[str, Any] | str: ...
