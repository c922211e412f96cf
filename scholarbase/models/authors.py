"""Authors and venues of a library."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from scholarbase.errors import AuthorNotFound

NAMED: Final = "name:"
"""How the id of an author begins whom the source gives none. The normalized name follows."""


def is_author_id(text: str) -> bool:
    """Whether a text has the form of an author's id, which no name has."""
    text = text.strip()
    digits = text[1:] if text[:1] == "A" else text  # OpenAlex's ids start with A
    return text.startswith(NAMED) or (digits.isascii() and digits.isdigit())


class AuthorProfile(msgspec.Struct, frozen=True):
    """An author with papers in this library.

    ``paper_count`` and ``citation_count`` are over the papers of this library. Those of the source, worldwide, are
    None where it has no details of the author. All counts but ``paper_count`` are None with ``as_of``.
    """

    id: Annotated[
        str,
        Meta(
            description="The source's id, or `name:` and the normalized name of an author without one.",
            examples=["name:washington taylor"],
        ),
    ]
    name: str
    aliases: Annotated[tuple[str, ...], Meta(description="Other names, from the source.")] = ()
    affiliations: tuple[str, ...] = ()
    homepage: str | None = None
    paper_count: Annotated[
        int, Meta(description="The papers of this library; with `as_of`, those by then.")
    ] = 0
    citation_count: Annotated[
        int | None,
        Meta(
            description="The sum of the `citation_count` of the papers of this library; null if all are unknown, and "
            "with `as_of`."
        ),
    ] = None
    source_paper_count: Annotated[
        int | None, Meta(description="All papers, from the source; null if unknown, or with `as_of`.")
    ] = None
    source_citation_count: Annotated[
        int | None, Meta(description="Worldwide, from the source; null if unknown, or with `as_of`.")
    ] = None
    h_index: Annotated[int | None, Meta(description="From the source; null if unknown, or with `as_of`.")] = (
        None
    )


def no_author(author_id: str, snapshot: str, as_of: str | None) -> AuthorNotFound:
    """The error for an author of whom a library holds no paper."""
    when = "" if as_of is None else f" as of {as_of}"
    return AuthorNotFound(
        f"No author {author_id!r} in this library (snapshot {snapshot}){when}: search for the name, whose "
        "results have ids (/v1/authors, scholarbase authors)."
    )
