"""Reads PDFs through pypdfium2: the text by page, and the pages' sizes.

Lines become paragraphs by the space between them. A line that is a numbered heading in sequence, or has a usual name
such as ``References``, begins a section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from statistics import median
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.documents.model import LOST, BadDocument, FullText, Metadata, Page
from scholarbase.identifiers import arxiv_id
from scholarbase.workers import WorkerEnded
from scholarbase_fulltext.building import MAX_CHARACTERS, DocumentBuilder, Inline, clean
from scholarbase_fulltext.captions import (
    Label,
    Line,
    box_of,
    caption_end,
    carried_over,
    find_label,
    is_continuation,
    starts_caption,
    without_breaks,
)
from scholarbase_fulltext.headings import Heading, HeadingFinder
from scholarbase_fulltext.pdfium import PdfWorker, shared_worker

MAX_BYTES: Final = 200_000_000
MAX_PAGES: Final = 2000
"""Pages of a PDF: a long thesis has 500."""
SECONDS: Final = 120.0
"""For one PDF: 10 pages take 0.1 s."""
_GAP: Final = 1.35
"""Line distances above this multiple of a page's usual one separate paragraphs."""
_INDENT: Final = 6.0
_MOST_INDENT: Final = 40.0
_HYPHENS: Final = "\x02\ufffe\u00ad"
"""What PDFium gives for a hyphen that splits a word at the end of a line."""
_CODES: Final = {
    **{code: LOST for code in range(32) if chr(code) not in "\t\n\r\x02"},
    **dict(zip((0x0B, 0x0C, 0x0E, 0x0F), ("ff", "fi", "ffi", "ffl"), strict=True)),
    **dict(zip(range(0x1B, 0x20), ("ff", "fi", "fl", "ffi", "ffl"), strict=True)),
    0x15: "\u2013",
    0x16: "\u2014",
}
"""PDFium gives the codes of characters whose font does not name them: often ligatures and dashes in TeX's bitmap fonts
(encodings OT1 and T1)."""
_LOST: Final = re.compile(f"{LOST}(?:\\s*{LOST})+")

_LETTER: Final = re.compile(r"[^\W\d_]")
_STAMP: Final = re.compile(r"arXiv:(\S{9,30}?)v([1-9]\d{0,3})\s+\[[a-zA-Z.-]+\]", re.ASCII)
"""What arXiv prints on the margin of the first page."""
_PROGRAM_TITLE: Final = re.compile(
    r"untitled.{0,20}|microsoft word.*|.{0,200}\.(?:docx?|tex|dvi|indd|pdf|ps|rtf|odt)", re.IGNORECASE
)
"""Titles that programs write: names of files."""


class _Caption(NamedTuple):
    """A caption: its lines on its page, and those at the start of the next one."""

    label: Label
    lines: list[Line]
    more: list[Line]


def read_pdf(data: bytes, worker: PdfWorker | None = None, seconds: float = SECONDS) -> FullText:
    """The full text of a PDF.

    Raises:
        BadDocument: it is encrypted, broken, too long, or takes more than ``seconds``.
        MissingExtra: pypdfium2 is not installed.
    """
    if len(data) > MAX_BYTES:
        raise BadDocument("too-long", f"The PDF has {len(data):,} bytes: the maximum is {MAX_BYTES:,}.")
    try:
        answer, content = (worker or shared_worker()).request(
            "text", data, seconds, max_pages=MAX_PAGES, max_characters=MAX_CHARACTERS
        )
    except TimeoutError as error:
        raise BadDocument("too-slow", f"The PDF was not read within {seconds:g} s.") from error
    except WorkerEnded as error:
        raise BadDocument("broken-pdf", "The PDF makes PDFium crash: it is broken.") from error
    if "refused" in answer:
        raise _refused(answer)
    builder = DocumentBuilder()
    finder = HeadingFinder()
    pages = orjson.loads(content)
    ids, version = _stamp([line[0] for _, _, lines in pages[:1] for line in lines])
    lines_of = [without_breaks([_line(line) for line in lines]) for _, _, lines in pages]
    for number, (width, height, _) in enumerate(pages, 1):
        start: int | None = None
        for block in _blocks(lines_of[number - 1], finder, lines_of[number] if number < len(pages) else []):
            length = builder.end
            if isinstance(block, Heading):
                builder.heading(block.title, level=block.level, number=block.number)
            elif isinstance(block, _Caption):
                _add_caption(builder, block, number, box_of(block.lines, width, height))
            else:
                builder.paragraph(block.removesuffix("\u00ad"))
            if start is None and builder.end > length:
                start = length + (2 if length else 0)
        start = builder.end if start is None else start
        builder.page(Page(start, builder.end, max(width, 1.0), max(height, 1.0)))
    title = " ".join(clean(answer.get("title") or "").split())
    known = Metadata(title=None if _PROGRAM_TITLE.fullmatch(title) else title or None)
    return FullText("pdf", builder.build(), ids, version, known, data)


def _line(fields: list[Any]) -> Line:
    text, *rest = fields
    return Line(_LOST.sub(LOST, text.translate(_CODES)), *rest)


def _stamp(lines: list[str]) -> tuple[tuple[str, ...], int | None]:
    """The arXiv id and version that are printed on the first page."""
    for line in lines:
        match = _STAMP.match(line.strip())
        if match is not None and (name := arxiv_id(match[1])) is not None:
            return (f"arXiv:{name}",), int(match[2])
    return (), None


def _refused(answer: dict[str, object]) -> BadDocument:
    match answer["refused"]:
        case "encrypted":
            return BadDocument("encrypted-pdf", "The PDF is encrypted with a password: store it without one.")
        case "pages":
            return BadDocument(
                "too-many-pages",
                f"The PDF has {answer['pages']:,} pages: the maximum is {MAX_PAGES:,}. Split it.",
            )
        case "characters":
            return BadDocument("too-long", f"The PDF has more than {MAX_CHARACTERS:,} characters. Split it.")
        case "memory":
            return BadDocument("too-long", "The PDF needs too much memory.")
    return BadDocument("broken-pdf", "The PDF is broken: no reader of PDFs can open it. Get it again.")


def _blocks(
    lines: list[Line], finder: HeadingFinder, following: list[Line]
) -> Iterator[str | Heading | _Caption]:
    """The paragraphs, headings and captions of a page. A caption at its end takes its last lines from those of the
    ``following`` page."""
    gaps = [before.bottom - after.bottom for before, after in pairwise(lines)]
    downward = [gap for gap in gaps if gap > 1]
    usual = median(downward) if downward else 0.0
    left = min((line.left for line in lines), default=0.0)
    paragraph = ""
    after_caption = 0
    for position, line in enumerate(lines):
        if position < after_caption:
            continue
        if position and _begins(lines[position - 1], line, gaps[position - 1], usual, left):
            if paragraph:
                yield paragraph
            paragraph = ""
        label = starts_caption(lines, position)
        block: Heading | _Caption | None
        if label is None:
            block = finder.find(clean(line.text))
        else:
            after_caption = caption_end(lines, position, label, usual)
            caption = lines[position:after_caption]
            is_last = not any(_LETTER.search(after.text) for after in lines[after_caption:])
            carried = carried_over(caption, following, label, usual) if is_last else 0
            block = _Caption(label, caption, following[:carried])
            del following[:carried]
        if block is None:
            paragraph = _joined(paragraph, line.text)
            continue
        if paragraph:
            yield paragraph
        paragraph = ""
        yield block
    if paragraph:
        yield paragraph


def _add_caption(
    builder: DocumentBuilder, block: _Caption, page: int, box: tuple[float, float, float, float] | None
) -> None:
    """Add a figure or table with its caption. Later parts of one that goes on over pages are no tables of their own. A
    label alone is below a figure whose caption stands in a list."""
    label, lines, rest = block
    text = reduce(_joined, [line.text for line in [*lines, *rest]], "").removesuffix("\u00ad")
    begin = find_label(text)
    caption = text if begin is None else text[begin.end :].lstrip()
    if is_continuation(caption) or (not caption and builder.set_page(label.label, page, box)):
        builder.paragraph(text, "caption")
    else:
        builder.captioned(label.kind, label.label, Inline(caption, []), page=page, box=box)


def _begins(before: Line, line: Line, gap: float, usual: float, left: float) -> bool:
    """Whether a line begins a paragraph: after a large distance, in another font size, or indented after a full
    stop. A line further up begins a column, and a paragraph if the sentence before has ended."""
    ended = before.text.rstrip()[-1:] in ".:!?\u201d)]"
    if gap < -1:
        return ended
    if usual and gap > usual * _GAP:
        return True
    taller = abs((line.top - line.bottom) - (before.top - before.bottom)) > 2.5
    return taller or (ended and _INDENT < line.left - before.left < _MOST_INDENT and line.left > left)


def _joined(paragraph: str, line: str) -> str:
    """A paragraph and its next line. PDFium marks each hyphen at the end of a line; it stays in words that have
    another, and before capital letters and digits."""
    words = line.rstrip()
    text = " ".join(clean(words).replace("\ufffe", "").replace("\u00ad", "").split())
    if words[-1:] and words[-1] in _HYPHENS:
        text += "\u00ad"
    if paragraph.endswith("\u00ad"):
        word = paragraph.rpartition(" ")[2]
        return paragraph[:-1] + ("-" if "-" in word or not text[:1].islower() else "") + text
    if paragraph.endswith("-") and text[:1].islower():
        return paragraph + text
    return f"{paragraph} {text}".strip()
