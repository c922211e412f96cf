"""A reference of a bibliography, as far as it can be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scholarbase.identifiers import Identifier

MAX_REFERENCE_LENGTH: Final = 20_000
"""Characters of one entry; abstracts and lists of hundreds of authors fit."""
MAX_LINE_LENGTH: Final = 4_000
"""Characters of a reference in plain text; those of large collaborations have about 2,000."""
MAX_AUTHORS: Final = 100
"""Authors of a reference that are read."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference.

    ``raw`` is its text in the input, which starts at ``line`` (from 1). ``problem`` is the reason why it cannot be
    read; the other fields are then empty. ``authors`` are names as they are written; ``more_authors`` stands for those
    behind "et al.". ``is_plain``: a line of text, in which ``title`` is a guess and ``authors`` are not separated.
    ``years`` are all that a line mentions.
    """

    raw: str
    line: int
    key: str | None = None
    ids: tuple[Identifier, ...] = ()
    title: str | None = None
    authors: tuple[str, ...] = ()
    more_authors: bool = False
    year: int | None = None
    years: tuple[int, ...] = ()
    venue: str | None = None
    is_plain: bool = False
    problem: str | None = None


def unreadable(raw: str, line: int, problem: str, key: str | None = None) -> Reference:
    """A reference that cannot be read, for the reason ``problem``, a sentence."""
    return Reference(raw, line, key, problem=problem)


def too_long(raw: str, line: int, most: int, key: str | None = None) -> Reference | None:
    """An unreadable reference if the text has more than ``most`` characters."""
    if len(raw) <= most:
        return None
    return unreadable(raw, line, f"It has {len(raw):,} characters: the maximum of one is {most:,}.", key)
