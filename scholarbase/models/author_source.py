"""The methods for authors that ``Library`` and ``Client`` share, and paging."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from scholarbase.models.author_requests import (
    AuthorBatchBody,
    AuthorBody,
    AuthorPapersBody,
    AuthorSearchParameters,
)
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.checks import check_authors
from scholarbase.models.limits import DEFAULT_EDGES, DEFAULT_RESULTS, CitationSort
from scholarbase.models.paging import Paging
from scholarbase.models.papers import Paper
from scholarbase.models.responses import AuthorPapersResponse, AuthorsResponse

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Page(Protocol[T_co]):
    """A page of results."""

    @property
    def snapshot(self) -> str: ...

    @property
    def next_offset(self) -> int | None: ...

    @property
    def results(self) -> tuple[T_co, ...]: ...


class PageArguments(TypedDict, total=False):
    """The arguments of ``iter_author_papers`` that it passes to ``author_papers``."""

    sort: CitationSort | None
    from_: str | None
    to: str | None
    status: Sequence[str]
    as_of: str | None
    fields: Sequence[str] | None
    timeout: float | None


class AuthorSource(ABC):
    """Authors of a library: keyword arguments to requests. Subclasses run the requests."""

    @abstractmethod
    def run_author_search(self, request: AuthorSearchParameters) -> AuthorsResponse: ...

    @abstractmethod
    def _author(self, request: AuthorBody) -> AuthorProfile: ...

    @abstractmethod
    def _authors(self, request: AuthorBatchBody) -> list[AuthorProfile | None]: ...

    @abstractmethod
    def run_author_papers(self, request: AuthorPapersBody) -> AuthorPapersResponse: ...

    def _pages(self, page: Callable[[int, int], _Page[T]], limit: int | None, offset: int) -> Iterator[T]:
        paging = Paging(limit, offset)
        while (window := paging.next_page()) is not None:
            yield from paging.add(page(*window))

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

        Args:
            q: a name, in any order of its words. Initials match first names, and first names initials: ``J. Smith``
                finds John Smith, and ``Smith, John`` finds J. Smith.
            limit: the number of results, 1 to 1000.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            as_of: only authors with a paper by this day (YYYY-MM-DD) or month (YYYY-MM).
            timeout: seconds that the search may take.

        Raises:
            InvalidRequest: an argument is invalid, or ``q`` is only initials.
            NothingLeft: ``as_of`` is before every paper.
            TimeLimit: the search took longer than its time limit.
        """
        return self.run_author_search(AuthorSearchParameters.of(**arguments_of(locals())))

    def author(
        self, author_id: str, *, as_of: str | None = None, timeout: float | None = None
    ) -> AuthorProfile:
        """The author with an id.

        Args:
            author_id: the source's id, or ``name:`` and the name of an author without one.
            as_of: as if on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM).
            timeout: seconds that the look-up may take.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            AuthorNotFound: the library holds no paper of the author (by ``as_of``).
        """
        return self._author(AuthorBody.of(**arguments_of(locals())))

    def authors(
        self, ids: Sequence[str], *, as_of: str | None = None, timeout: float | None = None
    ) -> list[AuthorProfile | None]:
        """Many authors, in order; None for an author of whom the library holds no paper (by ``as_of``).

        Args:
            ids: up to 500 ids.
            as_of, timeout: as in ``author``.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
        """
        listed = check_authors(ids, "ids")
        if not listed:
            return []
        return self._authors(AuthorBatchBody.of(ids=listed, as_of=as_of, timeout=timeout))

    def author_papers(
        self,
        author_id: str,
        *,
        limit: int = DEFAULT_EDGES,
        offset: int = 0,
        sort: CitationSort | None = None,
        from_: str | None = None,
        to: str | None = None,
        status: Sequence[str] = (),
        as_of: str | None = None,
        fields: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> AuthorPapersResponse:
        """The papers of this library by an author.

        Args:
            author_id: the source's id, or ``name:`` and the name of an author without one.
            limit: the number of results, 1 to 1000.
            offset: the number of results to skip: the ``next_offset`` of the previous page.
            sort: ``-citation_count`` (most cited first), ``-date`` (newest first), ``citation_count`` or ``date``.
                None: most cited first, or newest first with ``as_of``.
            from_: only papers from this date on: YYYY, YYYY-MM or YYYY-MM-DD.
            to: only papers up to this date.
            status: only papers with one of these statuses, as in ``search``.
            as_of: as if on this day (YYYY-MM-DD) or at the end of this month (YYYY-MM).
            fields: the fields of each paper; None returns all.
            timeout: seconds that the request may take.

        Raises:
            InvalidRequest: an argument is invalid.
            NothingLeft: ``as_of`` is before every paper.
            AuthorNotFound: the library holds no paper of the author (by ``as_of``).
            TimeLimit: the request took longer than its time limit.
        """
        return self.run_author_papers(AuthorPapersBody.of(**arguments_of(locals())))

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


def arguments_of(method: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a request, from the local variables of a method that has nothing else."""
    return {name: value for name, value in method.items() if name != "self"}
