"""Builds a document block by block, so that all offsets are those of its text; and what several readers share."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.documents.model import (
    BLOCK,
    BadDocument,
    BibliographyEntry,
    Document,
    Figure,
    FigureKind,
    InTextCitation,
    Page,
    Paragraph,
    ParagraphKind,
    Section,
)
from scholarbase.errors import InvalidRequest
from scholarbase.files import MAX_LINE
from scholarbase.identifiers import parse
from scholarbase_fulltext.captions import find_label

MAX_CHARACTERS: Final = 20_000_000
"""Characters of a document: a thesis has 1 million."""
MAX_PARTS: Final = 50_000
"""Sections of a document, and figures and tables, all of which an outline lists."""
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class Inline(NamedTuple):
    """A block's text, and the citation marks in it: start, end, and the position of the entry in the bibliography."""

    text: str
    citations: list[tuple[int, int, int]]

    def after(self, text: str) -> Inline:
        """The block with ``text`` before it."""
        size = len(text)
        return Inline(
            text + self.text, [(start + size, end + size, entry) for start, end, entry in self.citations]
        )


class InlineBuilder:
    """Joins pieces of text: each run of white space becomes one space, none at the ends.

    Raises:
        BadDocument: the text has more than ``MAX_CHARACTERS``.
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._space = False
        self._citations: list[tuple[int, int, int]] = []

    def add(self, text: str) -> None:
        """Add text as it is in running text."""
        text = clean(text)
        words = text.split()
        if not words:
            self._space |= bool(text)
            return
        self._space |= text[0].isspace()
        self._append(" ".join(words))
        self._space = text[-1].isspace()

    @property
    def ends_with_bracket(self) -> bool:
        """Whether an opening bracket is still open at the end, as in ``[1, ``."""
        end = "".join(self._pieces[-6:])[-40:]
        return end.rfind("[") > end.rfind("]")

    def cite(self, mark: str, *entries: int) -> None:
        """Add a citation mark, of entries of the bibliography."""
        mark = " ".join(clean(mark).split())
        if mark:
            self._append(mark)
            self._citations += [(self._length - len(mark), self._length, entry) for entry in entries]

    def line_break(self) -> None:
        """Begin a new line, unless this one is empty."""
        if self._pieces and self._pieces[-1] != "\n":
            self._space = False
            self._append("\n")

    def build(self) -> Inline:
        while self._pieces and self._pieces[-1] == "\n":
            self._pieces.pop()
        return Inline("".join(self._pieces), self._citations)

    def _append(self, text: str) -> None:
        if self._space and self._pieces and self._pieces[-1] != "\n":
            self._pieces.append(" ")
            self._length += 1
        self._space = False
        self._pieces.append(text)
        self._length += len(text)
        _check_length(self._length)


class DocumentBuilder:
    """Adds headings and paragraphs, separated by empty lines, and collects the parts.

    Raises:
        BadDocument: the text has more than ``MAX_CHARACTERS``, or more than ``MAX_PARTS`` sections or figures.
    """

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._length = 0
        self._open: list[tuple[int, int]] = []
        """The level and position of each section that has not ended."""
        self._sections: list[Section] = []
        self._paragraphs: list[Paragraph] = []
        self._citations: list[InTextCitation] = []
        self._figures: list[Figure] = []
        self._pages: list[Page] = []
        self._counts: dict[FigureKind, int] = {"figure": 0, "table": 0}
        self.bibliography: list[BibliographyEntry] = []
        self._labelled: dict[str, int] = {}
        """The first figure or table with each label, as a position in ``_figures``."""

    @property
    def end(self) -> int:
        """The length of the text so far."""
        return self._length

    def heading(
        self,
        title: str | Inline,
        *,
        level: int = 1,
        number: str | None = None,
    ) -> None:
        """Begin a section. ``level`` is 1 for a section, 2 for a subsection; a section ends the open ones of its level
        and below."""
        title, citations = title if isinstance(title, Inline) else (" ".join(clean(title).split()), [])
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
        content: str | Inline,
        kind: ParagraphKind = "paragraph",
    ) -> tuple[int, int] | None:
        """Add a paragraph of clean text (:func:`clean`), and return its start and end; None for one without text."""
        text, citations = content if isinstance(content, Inline) else (content, [])
        if not text.strip():
            return None
        start = self._block(text)
        section = self._open[-1][1] if self._open else None
        self._paragraphs.append(Paragraph(start, self._length, section, kind))
        self._citations += [InTextCitation(start + a, start + b, entry) for a, b, entry in citations]
        return start, self._length

    def label(self, kind: FigureKind) -> str:
        """The label of the next figure or table: ``Figure 1``."""
        self._counts[kind] += 1
        return f"{kind.capitalize()} {self._counts[kind]}"

    def captioned(
        self,
        kind: FigureKind,
        label: str,
        caption: Inline,
        html: str | None = None,
        page: int | None = None,
        box: tuple[float, float, float, float] | None = None,
    ) -> None:
        """Add a figure or table, with its label, in its usual form, and caption as a paragraph."""
        known = find_label(label)
        label = label if known is None or known.end < len(label) else known.label  # not of a part, 2(a)
        words = caption.text
        head = f"{label}: " if words else label
        span = self.paragraph(caption.after(head), "caption")
        start, end = (span[0] + len(head), span[1]) if span and words else (None, None)
        self.figure(Figure(kind, label, words, start, end, page, box, html))

    def figure(self, figure: Figure) -> None:
        _check_parts(len(self._figures), "figures and tables")
        self._figures.append(figure)
        self._labelled.setdefault(figure.label, len(self._figures) - 1)

    def set_page(self, label: str, page: int, box: tuple[float, float, float, float] | None) -> bool:
        """Say where the figure or table with this label is; False if there is none."""
        position = self._labelled.get(label)
        if position is not None:
            self._figures[position] = self._figures[position]._replace(page=page, box=box)
        return position is not None

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
        _check_length(start + len(text))
        self._blocks.append(text)
        self._length = start + len(text)
        return start

    def _close_section(self) -> None:
        _, position = self._open.pop()
        self._sections[position] = self._sections[position]._replace(end=self._length)


def _check_length(length: int) -> None:
    if length > MAX_CHARACTERS:
        raise BadDocument(
            "too-long",
            f"The text has more than {MAX_CHARACTERS:,} characters: split the document, or leave it out.",
        )


def _check_parts(count: int, name: str) -> None:
    if count >= MAX_PARTS:
        raise BadDocument(
            "too-many-parts",
            f"The document has more than {MAX_PARTS:,} {name}: split the document, or leave it out.",
        )


def clean(text: str) -> str:
    """The text without control characters and unpaired surrogates, which no database or terminal takes."""
    return _CONTROL.sub("", text)


def known_ids(names: Iterable[str]) -> list[str]:
    """The ids among ``names``, in their canonical form."""
    ids = []
    for name in names:
        try:
            ids.append(str(parse(name)))
        except InvalidRequest:
            continue
    return ids


def read_record(line: bytes) -> dict[str, Any]:
    """The JSON object in a line.

    Raises:
        BadDocument: it is too long, or not a JSON object.
    """
    if len(line) > MAX_LINE:
        raise BadDocument("too-long", f"The line has more than {MAX_LINE:,} bytes, the longest that is read.")
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadDocument("not-json", f"The line is not valid JSON: {error}.") from error
    if not isinstance(record, dict):
        raise BadDocument("not-an-object", "The line is not a JSON object.")
    return record
