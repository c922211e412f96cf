"""A reference of a bibliography, as far as it can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict, TypeVar

from scholarbase.deadlines import check
from scholarbase.identifiers import Identifier
from scholarbase.markup import plain, read_abstract, read_text

T = TypeVar("T")

MAX_REFERENCE_LENGTH: Final = 20_000
"""Characters of one entry; abstracts and lists of hundreds of authors fit."""
MAX_LINE_LENGTH: Final = 4_000
"""Characters of a reference in plain text; those of large collaborations have about 2,000."""
MAX_AUTHORS: Final = 100
"""Authors of a reference that are read."""


class Purpose(NamedTuple):
    """What entries are read for: to be checked, or as papers of a library.

    ``own_ids``: only the ids of the paper itself, not those of other papers that a note mentions.
    """

    max_length: int
    max_authors: int
    own_ids: bool


CHECKING: Final = Purpose(MAX_REFERENCE_LENGTH, MAX_AUTHORS, own_ids=False)
PAPERS: Final = Purpose(1_000_000, 10_000, own_ids=True)
"""The authors of a collaboration and whole abstracts fit."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference.

    ``raw`` is its text in the input, which starts at ``line`` (from 1). ``problem`` is the reason why it cannot be
    read; the other fields are then empty. ``authors`` are names as they are written, in braces if the source marks them
    as groups; ``invalid_ids`` are the fields for DOIs and arXiv ids whose values are no ids;
    ``more_authors`` stands for those behind "et al.". ``inherited`` has the fields that other entries of
    BibTeX give this one. ``is_plain``: a line of text, in which ``title`` is a guess and ``authors`` are not separated.
    ``years`` are all that a line mentions. ``kind`` is the format's own word for the type of the entry, ``date`` a
    whole day, ``YYYY-MM-DD``. These and the fields behind them are empty in plain text.
    Texts have no markup; ``written_title`` and ``written_abstract`` are those with formulas as they were written.
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
    kind: str = ""
    date: str | None = None
    abstract: str | None = None
    keywords: tuple[str, ...] = ()
    url: str | None = None
    volume: str | None = None
    pages: str | None = None
    written_title: str | None = None
    written_abstract: str | None = None
    inherited: str = ""
    invalid_ids: tuple[str, ...] = ()

    @property
    def whole(self) -> str:
        """The text, which can be read without the entries that it inherits from."""
        raw = self.raw.rstrip()
        return (
            f"{raw[:-1].rstrip().removesuffix(',')}{self.inherited}{raw[-1]}" if self.inherited else self.raw
        )


def with_subtitle(title: str, subtitle: str) -> str:
    """A title with the subtitle that its source has apart."""
    title = title.rstrip()
    if not subtitle or not title or title.casefold().endswith(subtitle.strip().casefold()):
        return title or subtitle
    return f"{title}{'' if title[-1] in '?!:.' else ':'} {subtitle}"


class Texts(TypedDict):
    """The texts of a reference that may have markup."""

    title: str | None
    abstract: str | None
    venue: str | None
    written_title: str | None
    written_abstract: str | None


def plain_texts(title: str, abstract: str, venue: str, *, braces: bool = False) -> Texts:
    """Texts of an entry as plain text, and those with formulas as they were written too.

    Args:
        braces: every brace is markup, as in BibTeX.
    """
    plain_title, written_title = read_text(title, braces=braces)
    summary, written_abstract = read_abstract(abstract, braces=braces)
    return Texts(
        title=plain_title or None,
        abstract=summary or None,
        venue=plain(venue, braces=braces) or None,
        written_title=written_title,
        written_abstract=written_abstract,
    )


def timed(entries: Iterable[T]) -> Iterator[T]:
    """Entries to be read within the time limit of the request. Raises TimeLimit, Cancelled."""
    for entry in entries:
        check("Reading the bibliography", "send fewer entries at once")
        yield entry


def unreadable(raw: str, line: int, problem: str, key: str | None = None) -> Reference:
    """A reference that cannot be read, for the reason ``problem``, a sentence."""
    return Reference(raw, line, key, problem=problem)


def too_long(raw: str, line: int, most: int, key: str | None = None) -> Reference | None:
    """An unreadable reference if the text has more than ``most`` characters."""
    if len(raw) <= most:
        return None
    return unreadable(raw, line, f"It has {len(raw):,} characters: the maximum of one is {most:,}.", key)
