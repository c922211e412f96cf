"""``/v1/authors``: authors by name or id, and their papers."""

from __future__ import annotations

from scholarbase.api.responding import Call
from scholarbase.api.routes import add, resource
from scholarbase.errors import AuthorNotFound, LibraryError
from scholarbase.models.author_requests import (
    AuthorBatchBody,
    AuthorBody,
    AuthorPapersBody,
    AuthorPapersParameters,
    AuthorParameters,
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

add(
    router,
    "GET",
    "",
    Call(None, AuthorSearchParameters, Library.run_author_search),
    name="search_authors",
    response=AuthorsResponse,
    summary="Search authors by name",
    description="The words of the name may be in any order. Initials match first names, and first names initials. "
    "Authors with exactly this name come first, then those with the most papers.",
)
add(
    router,
    "POST",
    "/batch",
    Call(None, AuthorBatchBody, Library.run_authors, is_short=Library.is_short_author_batch),
    name="authors",
    response=AuthorBatchResponse,
    summary="Look up many authors",
    description="Many authors, in order; `null` for an id of which the library holds no paper.",
)
# An id may contain slashes, since a name may, so the look-up matches any path and comes last.
add(
    router,
    "GET",
    "/{author_id:path}/papers",
    Call(None, AuthorPapersBody, Library.run_author_papers),
    name="author_papers",
    response=AuthorPapersResponse,
    summary="Papers of an author",
    description="The papers of this library by an author. `total` is the number of results on all pages.",
    query=AuthorPapersParameters,
    errors=(AuthorNotFound,),
)
add(
    router,
    "GET",
    "/{author_id:path}",
    Call(None, AuthorBody, Library.run_author, is_short=lambda library, body: body.as_of is None),
    name="author",
    response=AuthorResponse,
    summary="Look up an author",
    description="The author with this id: the source's, or `name:` and the name of an author without one.",
    query=AuthorParameters,
    errors=(AuthorNotFound,),
)
