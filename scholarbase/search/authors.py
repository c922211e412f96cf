"""The authors of a library: by name, by id, and their papers."""

from __future__ import annotations

from time import perf_counter

from scholarbase.indexes import author_names
from scholarbase.models.author_requests import (
    AuthorBatchBody,
    AuthorBody,
    AuthorPapersBody,
    AuthorSearchParameters,
)
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.checks import check_sort
from scholarbase.models.responses import (
    AuthorBatchResponse,
    AuthorPapersResponse,
    AuthorResponse,
    AuthorsResponse,
)
from scholarbase.search.lookup import name_expression
from scholarbase.search.opened import Opened, next_offset, runs
from scholarbase.timing import stages


class Authors(Opened):
    """The methods of a library that read authors."""

    @runs(AuthorSearchParameters)
    def run_author_search(self, request: AuthorSearchParameters) -> AuthorsResponse:
        """Run an :class:`AuthorSearchParameters`. Raises as ``search_authors``."""
        day, start = self._lookup.day(request.as_of), perf_counter()
        expression, same = name_expression(request.q, "q"), author_names.same_name(request.q)
        total, numbers = self._catalog.search_authors(expression, same, request.limit, request.offset, day)
        authors = self._catalog.authors(numbers, day)
        stages().append(("authors", start, perf_counter()))
        return AuthorsResponse(
            self.snapshot_id, total, next_offset(request.offset, len(authors), total), tuple(authors)
        )

    @runs(AuthorBody)
    def run_author(self, request: AuthorBody) -> AuthorResponse:
        """Run an :class:`AuthorBody`. Raises as ``author``."""
        number = self._lookup.author(request.author_id, request.as_of)
        [author] = self._catalog.authors([number], self._lookup.day(request.as_of))
        return AuthorResponse(self.snapshot_id, author)

    def _author(self, request: AuthorBody) -> AuthorProfile:
        return self.run_author(request).author

    @runs(AuthorBatchBody)
    def run_authors(self, request: AuthorBatchBody) -> AuthorBatchResponse:
        """Run an :class:`AuthorBatchBody`. Raises as ``authors``."""
        numbers = self._lookup.authors(request.ids, request.as_of)
        held = list({number for number in numbers if number is not None})
        authors = self._catalog.authors(held, self._lookup.day(request.as_of))
        by_number: dict[int | None, AuthorProfile] = dict(zip(held, authors, strict=True))
        return AuthorBatchResponse(self.snapshot_id, tuple(map(by_number.get, numbers)))

    def _authors(self, request: AuthorBatchBody) -> list[AuthorProfile | None]:
        return list(self.run_authors(request).results)

    @runs(AuthorPapersBody)
    def run_author_papers(self, request: AuthorPapersBody) -> AuthorPapersResponse:
        """Run an :class:`AuthorPapersBody`. Raises as ``author_papers``."""
        start = perf_counter()
        number = self._lookup.author(request.author_id, request.as_of)
        sort = check_sort(request.sort, request.as_of)
        total, ids = self._catalog.author_papers(
            number, request.limit, request.offset, sort, self._lookup.dates(request)
        )
        listed = perf_counter()
        papers = self._catalog.papers(ids, request.fields, counts=request.as_of is None)
        stages().extend((("authors", start, listed), ("hydrate", listed, perf_counter())))
        following = next_offset(request.offset, len(papers), total)
        return AuthorPapersResponse(self.snapshot_id, total, following, tuple(papers), request.fields)
