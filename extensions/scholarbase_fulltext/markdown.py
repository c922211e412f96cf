"""Reads Markdown with headings, and optional metadata in front; and plain text.

Headings are ATX (``## Title``) and setext (underlined), as in CommonMark, but not in fenced code. Metadata are lines
``key: value`` between two lines ``---``: ``title``, ``authors``, ``doi``, ``arxiv``, ``id``, ``version``, ``date``,
``venue`` and ``abstract``. Without a title there, the only heading of level 1 is the title.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from scholarbase.documents.model import BadDocument, Figure, FullText, ParagraphKind
from scholarbase_fulltext.building import DocumentBuilder, Inline, clean
from scholarbase_fulltext.captions import find_label
from scholarbase_fulltext.described import described, read_front_matter
from scholarbase_fulltext.headings import HeadingFinder, split_number

MAX_BYTES: Final = 80_000_000
_EMPTY_LINES: Final = re.compile(r"\n(?:[^\S\n]*\n)+")
_ATX: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_CLOSING: Final = re.compile(r"(?:^|(?<=[ \t]))#+[ \t]*$")
_SETEXT: Final = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])[ \t]+\S")
_TABLE_RULE: Final = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$")
_IMAGE: Final = re.compile(
    r"!\[((?:[^\[\]\n]|\[[^\[\]\n]{0,200}\]){0,2000})\]\([^()\s]{0,2000}(?:[ \t]+\"[^\"\n]{0,500}\")?\)"
)
_ATTRIBUTES: Final = re.compile(r"(?<![ \t])[ \t]*\{[#.][^{}\n]{0,200}\}[ \t]*$")
_EMPHASIS: Final = re.compile(r"[*_]{1,3}")
_MOST_LABEL: Final = 40


class _Block(NamedTuple):
    """``level`` is that of a heading, 0 for other blocks."""

    text: str
    level: int = 0
    kind: ParagraphKind = "paragraph"


def decoded(data: bytes) -> str:
    """The text of a file.

    Raises:
        BadDocument: it is too long or not UTF-8.
    """
    if len(data) > MAX_BYTES:
        raise BadDocument("too-long", f"The file has {len(data):,} bytes: the maximum is {MAX_BYTES:,}.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadDocument(
            "not-utf-8", f"The file is not valid UTF-8: byte {error.start:,} is {data[error.start]:#04x}."
        ) from error
    return clean(text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n"))


def read_markdown(data: bytes) -> FullText:
    """The full text of a Markdown file.

    Raises:
        BadDocument: it is too long or not UTF-8, or its metadata are invalid.
    """
    values, text = read_front_matter(decoded(data))
    paper = described(values)
    blocks = list(_blocks(text.split("\n")))
    tops = [block for block in blocks if block.level == 1]
    title = paper.metadata.title
    if len(tops) == 1 and blocks[0] is tops[0] and title in (None, tops[0].text):
        title = tops[0].text or None
        blocks = [block._replace(level=max(block.level - 1, 0)) for block in blocks[1:]]
    reader = _Reader()
    for block in blocks:
        reader.add(block)
    metadata = replace(paper.metadata, title=title)
    reader.end()
    return FullText("markdown", reader.builder.build(), paper.ids, paper.version, metadata)


def read_plain(data: bytes) -> FullText:
    """The full text of a file of plain text: empty lines separate paragraphs, numbered headings in sequence begin
    sections.

    Raises:
        BadDocument: it is too long or not UTF-8.
    """
    builder = DocumentBuilder()
    finder = HeadingFinder()
    for block in _EMPTY_LINES.split(decoded(data)):
        lines = block.strip("\n").split("\n")
        heading = finder.find(lines[0])
        if heading is not None:
            builder.heading(heading.title, level=heading.level, number=heading.number)
            lines = lines[1:]
        text = " ".join(" ".join(lines).split())
        label = find_label(text)
        if label is None or not label.is_separated:
            builder.paragraph(text)
        else:
            builder.captioned(label.kind, label.label, Inline(text[label.end :], []))
    return FullText("text", builder.build())


class _Reader:
    def __init__(self) -> None:
        self.builder = DocumentBuilder()
        self._levels: list[int] = []
        self._waiting: Figure | None = None
        """A caption whose table may follow, or an image without words whose caption may."""

    def add(self, block: _Block) -> None:
        waiting, caption = self._waiting, _caption_of(block)
        self._waiting = None
        if waiting is not None and not (
            (block.kind == "table" and waiting.kind == "table")
            or (caption is not None and not waiting.caption)
        ):
            self.builder.figure(waiting)
        if block.level:
            number, title = split_number(block.text)
            while self._levels and self._levels[-1] >= block.level:
                self._levels.pop()
            self._levels.append(block.level)
            self.builder.heading(title, level=len(self._levels), number=number)
        elif block.kind == "table":
            label = self.builder.label("table")
            table = waiting if waiting is not None and waiting.kind == "table" else Figure("table", label, "")
            self.builder.figure(table._replace(html=_html(block.text)))
            self.builder.paragraph(block.text, "table")
        elif caption is not None:
            _, end = self.builder.paragraph(block.text, "caption") or (0, 0)
            start = end - len(caption.caption) if caption.caption else None
            self._waiting = caption._replace(start=start, end=None if start is None else end)
        else:
            self._text(block)

    def end(self) -> None:
        """Add what still waits."""
        if self._waiting is not None:
            self.builder.figure(self._waiting)

    def _text(self, block: _Block) -> None:
        pieces: list[str] = []
        figures: list[tuple[int, int, str]] = []
        end = length = 0
        for image in _IMAGE.finditer(block.text):
            before, words = block.text[end : image.start()], image[1].strip()
            pieces += [before, words]
            length += len(before) + len(words)
            figures.append((length - len(words), length, words))
            end = image.end()
        text = "".join([*pieces, block.text[end:]])
        alone = bool(figures) and text.strip() == figures[0][2]
        span = self.builder.paragraph(text, "caption" if alone else block.kind)
        for start, stop, words in figures:
            label = self.builder.label("figure")
            known = find_label(words)
            skipped = 0
            if known is not None and known.is_separated:
                label, skipped = known.label, known.end
            caption = words[skipped:]
            if span is not None and caption:
                first = span[0]
                self.builder.figure(Figure("figure", label, caption, first + start + skipped, first + stop))
            elif len(figures) == 1:
                self._waiting = Figure("figure", label, caption)
            else:
                self.builder.figure(Figure("figure", label, caption))


def _caption_of(block: _Block) -> Figure | None:
    """The figure or table whose caption a paragraph is, None if it is none. The label may be in bold or italics."""
    text = _EMPHASIS.sub("", block.text[:_MOST_LABEL]) + block.text[_MOST_LABEL:]
    label = find_label(text) if block.kind == "paragraph" and not block.level else None
    if label is None or not label.is_separated or not block.text.endswith(text[label.end :]):
        return None
    return Figure(label.kind, label.label, text[label.end :])


def _blocks(lines: list[str]) -> Iterator[_Block]:  # noqa: PLR0912
    """The blocks of a text: headings, code, tables, lists and paragraphs."""
    pending: list[str] = []
    kind: ParagraphKind = "paragraph"
    position = 0
    while position < len(lines):
        line = lines[position]
        position += 1
        fence = _FENCE.match(line)
        atx = _ATX.match(line)
        if fence is not None:
            if pending:
                yield _Block(_paragraph(pending, kind), kind=kind)
            pending, kind = [], "paragraph"
            code = []
            while position < len(lines) and not _closes(lines[position], fence[1]):
                code.append(lines[position].rstrip())
                position += 1
            position += 1
            yield _Block("\n".join(part for part in code if part))
        elif not line.strip() or atx is not None:
            if pending:
                yield _Block(_paragraph(pending, kind), kind=kind)
            pending, kind = [], "paragraph"
            if atx is not None:
                yield _Block(_heading(_CLOSING.sub("", atx[2] or "")), len(atx[1]))
        elif pending and kind == "paragraph" and (underline := _SETEXT.match(line)):
            yield _Block(_heading(" ".join(pending)), 1 if underline[1][0] == "=" else 2)
            pending = []
        elif (
            pending and kind == "paragraph" and "|" in pending[-1] and "|" in line and _TABLE_RULE.match(line)
        ):
            if pending[:-1]:
                yield _Block(_paragraph(pending[:-1], kind))
            pending, kind = [pending[-1], line], "table"
        else:
            if not pending:
                kind = "list" if _ITEM.match(line) else "paragraph"
            pending.append(line)
    if pending:
        yield _Block(_paragraph(pending, kind), kind=kind)


def _closes(line: str, fence: str) -> bool:
    stripped = line.strip()
    return (
        len(stripped) >= len(fence) and not stripped.strip(fence[0]) and len(line) - len(line.lstrip(" ")) < 4
    )


def _heading(text: str) -> str:
    return _ATTRIBUTES.sub("", text).strip().strip("*_").strip()


def _paragraph(lines: list[str], kind: ParagraphKind) -> str:
    """Lines joined: those of a paragraph with spaces, those of tables as they are, those of a list by item."""
    if kind == "table":
        return "\n".join(line.strip() for line in lines)
    if kind == "paragraph":
        return " ".join(" ".join(lines).split())
    items: list[list[str]] = []
    for line in lines:
        if _ITEM.match(line) or line.lstrip()[:2] in ("- ", "* ", "+ ") or not items:
            items.append([])
        items[-1].append(line)
    return "\n".join(" ".join(" ".join(item).split()) for item in items)


def _html(table: str) -> str:
    """A table of Markdown as HTML."""
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in table.split("\n")]
    cells = [
        "<tr>" + "".join(f"<{tag}>{html.escape(cell.strip())}</{tag}>" for cell in row) + "</tr>"
        for number, (row, tag) in enumerate((row, "td" if index else "th") for index, row in enumerate(rows))
        if number != 1
    ]
    return f"<table>{''.join(cells)}</table>"
