"""The authors of Semantic Scholar's Academic Graph: by name, by id, and of a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from scholarbase.errors import AuthorNotFound, InvalidRequest
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.checks import MAX_INTEGER
from scholarbase.models.limits import MAX_LIMIT, MAX_NAME_LENGTH
from scholarbase_dialects.base import Answer, DialectRequest
from scholarbase_dialects.calls import Calls, plain_query
from scholarbase_dialects.describing import author_id_of
from scholarbase_dialects.semantic_scholar import parameters
from scholarbase_dialects.semantic_scholar.fields import AuthorFields, author_fields, paper_fields, requested
from scholarbase_dialects.semantic_scholar.filters import dates_of
from scholarbase_dialects.semantic_scholar.papers import Writer
from scholarbase_dialects.semantic_scholar.parameters import ids_of, number, paper_of

DEFAULT_LIMIT: Final = 100
MAX_IDS: Final = 1000
"""Authors in a batch."""


def search(request: DialectRequest, calls: Calls) -> Answer:
    """Authors with a name."""
    fields = author_fields(requested(request))
    limit, offset = _page(request)
    name = plain_query(parameters.query_of(request))[:MAX_NAME_LENGTH]
    response = calls.search_authors(name, limit=limit, offset=offset)
    answer: dict[str, Any] = {"total": response.total, "offset": offset}
    if response.next_offset is not None:
        answer["next"] = response.next_offset
    recorded = {"q": name, "limit": limit, "offset": offset}
    return {**answer, "data": _written(calls, response.results, fields, recorded)}


def author(request: DialectRequest, calls: Calls) -> Answer:
    """One author."""
    fields, profile = author_fields(requested(request)), _author_of(request, calls)
    return _written(calls, [profile], fields, {"author": [profile.id]})[0]


def batch(request: DialectRequest, calls: Calls) -> Answer:
    """Many authors, in order; null for one that is unknown."""
    fields = author_fields(requested(request))
    profiles = calls.authors(ids_of(request, MAX_IDS))
    known = {profile.id: profile for profile in profiles if profile is not None}
    if not known:
        raise InvalidRequest("No valid author ids given")
    contents = _written(calls, list(known.values()), fields, {"author": list(known)})
    written = dict(zip(known, contents, strict=True))
    return [None if profile is None else written[profile.id] for profile in profiles]


def papers(request: DialectRequest, calls: Calls) -> Answer:
    """A page of an author's papers, the most cited first."""
    fields = paper_fields(requested(request))
    limit, offset = _page(request)
    author_id = _author_of(request, calls).id
    response = calls.author_papers(
        author_id, limit=limit, offset=offset, fields=fields.native(), **dates_of(request)
    )
    answer: dict[str, Any] = {"offset": offset}
    if response.next_offset is not None:
        answer["next"] = response.next_offset
    return {**answer, "data": Writer(calls).papers(response.results, fields)}


def of_paper(request: DialectRequest, calls: Calls) -> Answer:
    """A page of the authors of a paper, in its order."""
    fields = author_fields(requested(request))
    limit, offset = _page(request)
    paper = paper_of(request, calls, ("authors",))
    page = paper.authors[offset : offset + limit]
    known = calls.authors([author_id_of(author) for author in page])
    profiles = [
        profile or AuthorProfile(author_id_of(author), author.name)
        for author, profile in zip(page, known, strict=True)
    ]
    answer: dict[str, Any] = {"offset": offset}
    if offset + limit < len(paper.authors):
        answer["next"] = offset + limit
    return {**answer, "data": _written(calls, profiles, fields)}


def _page(request: DialectRequest) -> tuple[int, int]:
    """The limit and the offset. Raises InvalidRequest."""
    limit = number(request, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT)
    return limit, number(request, "offset", 0, 0, MAX_INTEGER)


def _author_of(request: DialectRequest, calls: Calls) -> AuthorProfile:
    """The author in the path.

    Raises:
        AuthorNotFound: the library does not have them, in the original's words.
    """
    author_id = request.path["author_id"]
    [profile] = calls.authors([author_id])
    if profile is None:
        raise AuthorNotFound(f"Author with id {author_id[:600]} not found")
    return profile


def shows_papers(request: DialectRequest) -> bool:
    """Whether the answer about authors shows their papers; not if its fields are malformed."""
    try:
        return author_fields(requested(request)).papers is not None
    except InvalidRequest:
        return False


def _written(
    calls: Calls,
    authors: Sequence[AuthorProfile],
    fields: AuthorFields,
    recorded: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Authors with their papers, which a session records.

    Args:
        recorded: the arguments; None if those of an earlier call are recorded.
    """
    if recorded is not None:
        calls.begun.append((recorded, [], []))
    writer = Writer(calls)
    written = [writer.profile(author, fields.names) for author in authors]
    if fields.papers is not None:
        for author, content in zip(authors, written, strict=True):
            response = calls.author_papers(author.id, limit=MAX_LIMIT, fields=fields.papers.native())
            writer.count(len(response.results), "/author/{author_id}/papers")
            content["papers"] = writer.papers(response.results, fields.papers)
    return written
