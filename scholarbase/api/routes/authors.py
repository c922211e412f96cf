"""``/v1/authors``: authors by name or id, and their papers."""

from __future__ import annotations

from scholarbase.api.routes import call, problems, resource
from scholarbase.errors import AuthorNotFound, LibraryError
from scholarbase.models.author_requests import (
    AuthorBatchBody,
    AuthorBody,
    AuthorPapersBody,
    AuthorSearchParameters,
)
from scholarbase.models.responses import (
    AuthorBatchResponse,
    AuthorPapersResponse,
    AuthorResponse,
    AuthorsResponse,
)
from scholarbase.search.library import Library

router = resource("/v1/authors", "authors", LibraryError)
UNKNOWN = problems(AuthorNotFound)


@router.get("", summary="Search authors by name")
@call()
def search_authors(library: Library, request: AuthorSearchParameters) -> AuthorsResponse:
    """The words of the name may be in any order. Initials match first names, and first names initials. Authors with
    exactly this name come first, then those with the most papers."""
    return library.run_author_search(request)


@router.post("/batch", summary="Look up many authors")
@call()
def authors(library: Library, request: AuthorBatchBody) -> AuthorBatchResponse:
    """Many authors, in order; `null` for an id of which the library holds no paper."""
    return library.run_authors(request)


# An id may contain slashes, since a name may, so the look-up matches any path and comes last.
@router.get("/{author_id:path}/papers", summary="Papers of an author", responses=UNKNOWN)
@call()
def author_papers(library: Library, request: AuthorPapersBody) -> AuthorPapersResponse:
    """The papers of this library by an author. `total` is the number of results on all pages."""
    return library.run_author_papers(request)


@router.get("/{author_id:path}", summary="Look up an author", responses=UNKNOWN)
@call()
def author(library: Library, request: AuthorBody) -> AuthorResponse:
    """The author with this id: the source's, or `name:` and the name of an author without one."""
    return library.run_author(request)
