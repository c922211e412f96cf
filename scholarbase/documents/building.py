"""Builds a document block by block, so that all offsets are those of its text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from scholarbase.documents.model import (
    BLOCK,
    BadDocument,
    BibliographyEntry,
    Document,
    Figure,
    InTextCitation,
    Page,
    Paragraph,
    ParagraphKind,
    Section,
)

MAX_CHARACTERS: Final = 20_000_000
"""Characters of a document: a thesis has 1 million."""
MAX_PARTS: Final = 50_000
"""Sections of a document, and figures and tables, all of which an outline lists."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class DocumentBuilder:
    """Adds headings and paragraphs, separated by empty lines, and collects the parts.

    Raises:
        BadDocument: the text has more than ``MAX_CHARACTERS``, or more than ``MAX_PARTS`` sections or figures.
    """

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._length = 0
        self._open: list[tuple[int, int]] = []
        """The level and place of each section that has not ended."""
        self._sections: list[Section] = []
        self._paragraphs: list[Paragraph] = []
        self._citations: list[InTextCitation] = []
        self._figures: list[Figure] = []
        self._pages: list[Page] = []
        self.bibliography: list[BibliographyEntry] = []

    @property
    def end(self) -> int:
        """The length of the text so far."""
        return self._length

    def heading(
        self,
        title: str,
        *,
        level: int = 1,
        number: str | None = None,
        citations: Iterable[tuple[int, int, int]] = (),
    ) -> None:
        """Begin a section. ``level`` is 1 for a section, 2 for a subsection; a section ends the open ones of its level
        and below. ``citations`` are marks in the title, as in :meth:`paragraph`; the title is then clean text without
        double spaces."""
        title = " ".join(clean(title).split())
        number = " ".join(clean(number).split()) or None if number is not None else None
        while self._open and self._open[-1][0] >= level:
            self._close_section()
        before = f"{number} " if number else ""
        start = self._block(f"{before}{title}".strip())
        inner = start + len(before)
        self._citations += [InTextCitation(inner + a, inner + b, entry) for a, b, entry in citations]
        parent = self._open[-1][1] if self._open else None
        self._open.append((level, len(self._sections)))
        _check_parts(len(self._sections), "sections")
        self._sections.append(Section(start, start, title, number, parent))

    def paragraph(
        self,
        text: str,
        kind: ParagraphKind = "paragraph",
        citations: Iterable[tuple[int, int, int]] = (),
    ) -> tuple[int, int] | None:
        """Add a paragraph, and return its start and end; None for one without text.

        ``text`` must be clean (:func:`clean`). ``citations`` are marks in it: start, end, and the entry's place in the
        bibliography.
        """
        if not text.strip():
            return None
        start = self._block(text)
        section = self._open[-1][1] if self._open else None
        self._paragraphs.append(Paragraph(start, self._length, section, kind))
        self._citations += [InTextCitation(start + a, start + b, entry) for a, b, entry in citations]
        return start, self._length

    def figure(self, figure: Figure) -> None:
        _check_parts(len(self._figures), "figures and tables")
        self._figures.append(figure)

    def page(self, page: Page) -> None:
        self._pages.append(page)

    def build(self) -> Document:
        while self._open:
            self._close_section()
        return Document(
            BLOCK.join(self._blocks),
            self._sections,
            self._paragraphs,
            self._citations,
            self.bibliography,
            self._figures,
            self._pages,
        )

    def _block(self, text: str) -> int:
        start = self._length + (len(BLOCK) if self._blocks else 0)
        if start + len(text) > MAX_CHARACTERS:
            raise BadDocument(
                "too-long",
                f"The text has more than {MAX_CHARACTERS:,} characters: split the document, or leave it out.",
            )
        self._blocks.append(text)
        self._length = start + len(text)
        return start

    def _close_section(self) -> None:
        _, place = self._open.pop()
        self._sections[place] = self._sections[place]._replace(end=self._length)


def _check_parts(count: int, name: str) -> None:
    if count >= MAX_PARTS:
        raise BadDocument(
            "too-many-parts",
            f"The document has more than {MAX_PARTS:,} {name}: split the document, or leave it out.",
        )


def clean(text: str) -> str:
    """The text without control characters and unpaired surrogates, which no database or terminal takes."""
    return _CONTROL.sub("", text)
