"""The full text of a paper as data: one text, and what its parts are, by offsets.

Every reader of a source returns a :class:`FullText`. Offsets count Unicode code points of :attr:`Document.text`, so
``text[start:end]`` is exactly the part. Parts refer to each other by their places in the document's lists.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import parse

ParagraphKind = Literal["paragraph", "list", "formula", "caption", "table"]
FigureKind = Literal["figure", "table"]
DocumentSource = Literal["jats", "latexml", "unarxive", "markdown", "s2orc", "text", "pdf"]

PRECEDENCE: Final[tuple[DocumentSource, ...]] = (
    "jats", "latexml", "unarxive", "markdown", "s2orc", "text", "pdf",
)  # fmt: skip
"""The sources of a text, the most faithful first. Of several texts of one version of a paper, the first is read and
searched; page images come from the PDF all the same."""
LINE_SOURCES: Final[frozenset[DocumentSource]] = frozenset({"unarxive", "s2orc"})
"""The sources with a document on each line. A file of JATS has one or several, those of the others are one each."""

BLOCK: Final = "\n\n"
"""What separates headings and paragraphs in a document's text."""
MIN_PAGE_CHARACTERS: Final = 20
"""Characters a page, on average, of a PDF with a text: a page of print has thousands, a stamp on the first page 50."""

LOST: Final = "\ufffd"
"""The character in place of those of a PDF whose font does not say which ones they are."""


class Section(NamedTuple):
    """A section: ``start`` is that of its heading, ``end`` that of its last subsection.

    ``parent`` is the place of the section that contains it, which comes earlier, and ``number`` as printed (``2.1``).
    """

    start: int
    end: int
    title: str
    number: str | None = None
    parent: int | None = None


class Paragraph(NamedTuple):
    """A block of text; ``section`` is the place of its innermost section, None before the first one."""

    start: int
    end: int
    section: int | None = None
    kind: ParagraphKind = "paragraph"


class InTextCitation(NamedTuple):
    """A citation mark in the text, such as ``[3]``, and the place of its entry in the bibliography."""

    start: int
    end: int
    entry: int


class BibliographyEntry(NamedTuple):
    """An entry of the bibliography: its text, and the ids of the paper where the source has them.

    ``ids`` are ids of any form that :func:`scholarbase.identifiers.parse` reads, the most reliable first.
    """

    text: str
    title: str | None = None
    year: int | None = None
    ids: tuple[str, ...] = ()


class Figure(NamedTuple):
    """A figure or table. ``start`` and ``end`` are those of its caption in the text, None if it is not there.

    ``page`` counts from 1, ``box`` is ``(x, y, width, height)`` in points from the page's top left corner: that of the
    caption in a PDF.
    """

    kind: FigureKind
    label: str
    caption: str
    start: int | None = None
    end: int | None = None
    page: int | None = None
    box: tuple[float, float, float, float] | None = None
    html: str | None = None


class Page(NamedTuple):
    """A page: its text from ``start`` to ``end``, and its size in points."""

    start: int
    end: int
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its parts, each list in the order of the text. Sections contain their subsections."""

    text: str
    sections: list[Section] = field(default_factory=list)
    paragraphs: list[Paragraph] = field(default_factory=list)
    citations: list[InTextCitation] = field(default_factory=list)
    bibliography: list[BibliographyEntry] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def section_at(self, position: int) -> int | None:
        """The place of the innermost section at a position of the text."""
        place: int | None = bisect_right(self.sections, position, key=attrgetter("start")) - 1
        if place == -1:
            return None
        while place is not None and self.sections[place].end <= position:
            place = self.sections[place].parent
        return place

    @property
    def has_text(self) -> bool:
        """Whether there is a text to search. A scan has none, or a few characters that were printed on its pages."""
        known = len(self.text) - self.text.count(LOST)
        return known >= max(1, MIN_PAGE_CHARACTERS * len(self.pages))

    @property
    def is_partly_lost(self) -> bool:
        """Whether characters are missing in a tenth of the words or more."""
        lost = self.text.count(LOST)
        return lost > 0 and lost * 10 >= len(self.text.split())


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a source says about its paper. ``arxiv`` is a line of arXiv's metadata snapshot, where the source has it.

    ``venue_name`` is the whole name of a ``venue`` that is an abbreviation, such as of ACL.
    """

    title: str | None = None
    abstract: str | None = None
    authors: tuple[str, ...] = ()
    date: str | None = None
    """YYYY, YYYY-MM or YYYY-MM-DD."""
    venue: str | None = None
    venue_name: str | None = None
    volume: str | None = None
    tldr: str | None = None
    keywords: tuple[str, ...] = ()
    url: str | None = None
    arxiv: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class FullText:
    """A document and the paper that it is the text of.

    ``ids`` are ids of the paper, of any form that :func:`scholarbase.identifiers.parse` reads; ``version`` counts
    from 1, None if unknown.
    """

    source: DocumentSource
    document: Document
    ids: tuple[str, ...] = ()
    version: int | None = None
    metadata: Metadata = Metadata()
    original: bytes | None = None
    """The PDF, from which pages are drawn."""


class BadDocument(Exception):
    """A document that cannot be read: a short reason for counts, and a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def arxiv_version(name: str) -> int | None:
    """The version in an arXiv id of any form, such as ``2212.11867v2`` or a link, None if it names none."""
    try:
        scheme, value = parse(name)
    except InvalidRequest:
        return None
    if scheme != "arXiv":
        return None
    number = re.escape(value.rpartition("/")[2])
    match = re.search(rf"{number}v(\d{{1,4}})(?!\d)", name, re.ASCII | re.IGNORECASE)
    return int(match[1]) if match else None
