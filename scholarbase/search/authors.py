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
from scholarbase.models.paging import next_offset
from scholarbase.models.responses import (
    AuthorBatchResponse,
    AuthorPapersResponse,
    AuthorResponse,
    AuthorsResponse,
)
from scholarbase.search.lookup import name_expression
from scholarbase.search.opening import Part
from scholarbase.timing import stages


class Authors(Part):
    """Reads the authors of one library. Thread-safe. Its errors are those of the methods of a library."""

    def search(self, request: AuthorSearchParameters) -> AuthorsResponse:
        """The authors with a name."""
        day, start = self._lookup.day(request.as_of), perf_counter()
        expression, same = name_expression(request.q, "q"), author_names.same_name(request.q)
        total, numbers = self._catalog.search_authors(expression, same, request.limit, request.offset, day)
        authors = self._catalog.authors(numbers, day)
        stages().append(("authors", start, perf_counter()))
        return AuthorsResponse(
            self._snapshot, total, next_offset(request.offset, len(authors), total), tuple(authors)
        )

    def author(self, request: AuthorBody) -> AuthorResponse:
        """One author."""
        number = self._lookup.author(request.author_id, request.as_of)
        [author] = self._catalog.authors([number], self._lookup.day(request.as_of))
        return AuthorResponse(self._snapshot, author)

    def authors(self, request: AuthorBatchBody) -> AuthorBatchResponse:
        """Many authors."""
        numbers = self._lookup.authors(request.ids, request.as_of)
        known = list({number for number in numbers if number is not None})
        authors = self._catalog.authors(known, self._lookup.day(request.as_of))
        by_number: dict[int | None, AuthorProfile] = dict(zip(known, authors, strict=True))
        return AuthorBatchResponse(self._snapshot, tuple(map(by_number.get, numbers)))

    def papers(self, request: AuthorPapersBody) -> AuthorPapersResponse:
        """A page of an author's papers."""
        start = perf_counter()
        number = self._lookup.author(request.author_id, request.as_of)
        sort = check_sort(request.sort, request.as_of)
        total, ids = self._catalog.author_papers(
            number, request.limit, request.offset, sort, self._lookup.dates(request)
        )
        listed = perf_counter()
        papers = self._catalog.papers(ids, request.fields, as_of=request.as_of)
        stages().extend((("authors", start, listed), ("hydrate", listed, perf_counter())))
        following = next_offset(request.offset, len(papers), total)
        return AuthorPapersResponse(self._snapshot, total, following, tuple(papers), request.fields)
