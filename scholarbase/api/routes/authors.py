"""``/v1/authors``: authors by name or id, and their papers."""

from __future__ import annotations

from scholarbase.api.responding import Call
from scholarbase.api.routes import problems, resource, route
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

route(
    router,
    "GET",
    Call(Library.run_author_search, AuthorSearchParameters, AuthorsResponse),
    name="search_authors",
    summary="Search authors by name",
    description="The words of the name may be in any order. Initials match first names, and first names initials. "
    "Authors with exactly this name come first, then those with the most papers.",
)

route(
    router,
    "POST /batch",
    Call(Library.run_authors, AuthorBatchBody, AuthorBatchResponse),
    name="authors",
    summary="Look up many authors",
    description="Many authors, in order; `null` for an id of which the library holds no paper.",
)


# An id may contain slashes, since a name may, so the look-up matches any path and comes last.
route(
    router,
    "GET /{author_id:path}/papers",
    Call(Library.run_author_papers, AuthorPapersBody, AuthorPapersResponse),
    name="author_papers",
    summary="Papers of an author",
    description="The papers of this library by an author. `total` is the number of results on all pages.",
    responses=UNKNOWN,
)

route(
    router,
    "GET /{author_id:path}",
    Call(Library.run_author, AuthorBody, AuthorResponse),
    name="author",
    summary="Look up an author",
    description="The author with this id: the source's, or `name:` and the name of an author without one.",
    responses=UNKNOWN,
)
