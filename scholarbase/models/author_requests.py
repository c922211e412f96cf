"""Requests of authors."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from scholarbase.models.checks import check_authors
from scholarbase.models.limits import DEFAULT_RESULTS, MAX_AUTHORS
from scholarbase.models.requests import PaperPage, Timed
from scholarbase.models.values import AsOf, AuthorId, AuthorName, Limit, Offset, SomeStrings


class AuthorSearchParameters(Timed):
    """A page of the authors with a name."""

    q: AuthorName
    limit: Limit = DEFAULT_RESULTS
    offset: Offset = 0
    as_of: AsOf = None


class AuthorParameters(Timed):
    as_of: AsOf = None


class AuthorBody(AuthorParameters):
    """An author to look up."""

    author_id: AuthorId


class AuthorBatchBody(Timed):
    ids: Annotated[
        SomeStrings,
        BeforeValidator(lambda ids: check_authors(ids, "ids")),
        Field(description=f"Ids of authors, at most {MAX_AUTHORS}.", examples=[["name:washington taylor"]]),
    ]
    as_of: AsOf = None


class AuthorPapersParameters(PaperPage):
    """A page of an author's papers."""


class AuthorPapersBody(AuthorPapersParameters):
    """A page of the papers of an author."""

    author_id: AuthorId
