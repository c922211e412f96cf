"""Recognises captions by their form (``Figure 3:``, ``TABLE II``), and in PDFs by their position on the page too."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from scholarbase.documents.model import FigureKind

_LABEL: Final = re.compile(
    r"(?P<before>(?:supplementa(?:ry|l)|supporting|appendix|extended\s{1,9}data)\s{1,9})?"
    r"(?P<word>f\s?igure|fig\.?|t\s?able|tab\.|algorithm|listing|scheme)(?P<space>\s{0,9})"
    r"(?P<number>(?:[a-z]{1,2}[.-]?)?\d{1,3}(?:[.-]\d{1,3}){0,3}[a-z]?|[ivxl]{1,6}|[a-h])(?![^\W_])",
    re.IGNORECASE,
)
_SEPARATOR: Final = re.compile(
    r"\s{0,9}(?:[:|\u2013\u2014]|\.(?!\w))\s{0,9}|\s{0,9}$|\s{0,9}[.:]?\s{0,9}(?=\(?continued)", re.IGNORECASE
)
_CONTINUED: Final = re.compile(r"\W*cont(?:inued|'d|d|\.)", re.IGNORECASE)
_LEADERS: Final = re.compile(r"(?:\.\s*){4,}\w*$|\s\.\s*\d+$")
"""How a line of a list of figures ends."""
_MOST_LEADERS: Final = 200
_MOST_JOINED: Final = 2000
"""Characters of a line to which others are joined."""
_ENDS: Final = tuple(".:!?)]\u201d")
_MOST_LINES: Final = 60
_PITCH: Final = 1.7
"""The most between the baselines of a block's lines, as a multiple of their height."""
_SPACE: Final = 0.15
"""The least space between words, as a multiple of the height."""
_CELL: Final = 1.5
"""Gaps above this multiple of a line's height separate cells of a table."""


class Line(NamedTuple):
    """A line of a page. Coordinates are in points, and those of the page turned so that the line is upright.

    ``turns`` are the quarter turns, clockwise, that put it back on the page. ``gap`` is the widest space between its
    words, and ``is_set_off`` whether it begins with a label in another font; both only near labels.
    """

    text: str
    left: float
    bottom: float
    right: float
    top: float
    turns: int = 0
    gap: float = 0.0
    is_set_off: bool = False

    @property
    def height(self) -> float:
        return self.top - self.bottom

    @property
    def width(self) -> float:
        return self.right - self.left


def without_breaks(lines: Sequence[Line]) -> list[Line]:
    """Lines of a page, with those joined that PDFium breaks at a superscript or subscript."""
    whole: list[Line] = []
    for line in lines:
        last = whole[-1] if whole else None
        if last is not None and _goes_on_beside(last, line):
            space = " " if line.left - last.right > last.height * _SPACE else ""
            whole[-1] = last._replace(
                text=f"{last.text.rstrip()}{space}{line.text}",
                right=max(last.right, line.right),
                gap=max(last.gap, line.gap),
            )
        else:
            whole.append(line)
    return whole


def _goes_on_beside(last: Line, line: Line) -> bool:
    overlap = min(last.top, line.top) - max(last.bottom, line.bottom)
    return (
        last.turns == line.turns
        and len(last.text) < _MOST_JOINED
        and overlap > min(last.height, line.height) * 0.4
        and -1 < line.left - last.right < last.height * 0.6
    )


class Label(NamedTuple):
    """The label of a caption: ``label`` has one form (``Fig. 3`` is ``Figure 3``), ``end`` is where the caption
    begins. ``is_separated`` says that a colon, a full stop or the end of the line follows it."""

    kind: FigureKind
    label: str
    end: int
    is_separated: bool


def find_label(text: str) -> Label | None:
    """The label that a text begins with, None if it begins otherwise."""
    match = _LABEL.match(text)
    if match is None or not match["word"][0].isupper() or (match["before"] and not text[0].isupper()):
        return None
    word = re.sub(r"\s", "", match["word"]).lower()
    number = match["number"]
    if number.isalpha() and not number.isupper():
        return None
    kind: FigureKind = "table" if word.startswith("tab") else "figure"
    name = kind if word.startswith(("fig", "tab")) else word
    before = " ".join((match["before"] or "").split()).title()
    separator = _SEPARATOR.match(text, match.end())
    if not match["space"] and word[-1] != "." and (separator is None or not separator[0].strip()):
        return None  # "Fig1", as programs name pictures
    end = match.end() if separator is None else separator.end()
    label = " ".join(filter(None, (before, name.capitalize(), number)))
    return Label(kind, label, end, separator is not None)


def starts_caption(lines: Sequence[Line], position: int) -> Label | None:
    """The label of the caption that begins with a line, None if none does.

    Running text goes on from the line above it, and a sentence about a figure has no separator after the label.
    """
    line = lines[position]
    label = find_label(line.text)
    if label is None or _LEADERS.search(line.text[-_MOST_LEADERS:]):
        return None
    if position and _is_continued(lines[position - 1], line):
        return None
    rest = line.text[label.end :].lstrip()
    return label if label.is_separated or line.is_set_off or rest[:1].isupper() else None


def _is_continued(before: Line, line: Line) -> bool:
    """Whether ``line`` continues the sentence of the line above it."""
    pitch = before.bottom - line.bottom
    return (
        before.turns == line.turns
        and 0 < pitch < line.height * _PITCH
        and abs(before.height - line.height) < 1
        and before.left < line.right
        and line.left < before.right
        and before.gap < line.height * _CELL
        and not before.text.rstrip().endswith(_ENDS)
    )


def caption_end(lines: Sequence[Line], position: int, label: Label, usual: float) -> int:
    """Where the caption that begins at ``position`` ends, as a position in ``lines``. ``usual`` is the page's usual
    distance between baselines."""
    first = lines[position]
    end = position + 1
    pitch = max(first.height * _PITCH, usual * 1.1)
    while (
        end < min(len(lines), position + _MOST_LINES)
        and _goes_on(lines[position:end], lines[end], pitch)
        and starts_caption(lines, end) is None
    ):
        if end == position + 1:
            pitch = (lines[position].bottom - lines[end].bottom) + 1.5
        end += 1
    widest = max(line.width for line in lines[position:end])
    for index in range(position, end - 1):
        is_label_alone = index == position and len(first.text.rstrip()) <= label.end
        line, after = lines[index], lines[index + 1]
        word = len(after.text.split(maxsplit=1)[0]) + 1
        is_short = line.width + after.width * word / len(after.text) < widest - 1
        is_full = after.width > widest - 1 and abs(after.left - line.left) < 1
        if is_short and not is_label_alone and not is_full:
            return index + 1
    return end


def carried_over(caption: Sequence[Line], following: Sequence[Line], label: Label, usual: float) -> int:
    """How many lines at the start of the next page go on with a caption at the end of a page."""
    last = caption[-1]
    if (
        not following
        or last.text.rstrip().endswith(_ENDS)
        or not following[0].text[:1].islower()
        or abs(following[0].height - last.height) > 1
        or abs(following[0].left - last.left) > 3
        or last.width < following[0].width - 3
    ):
        return 0
    return caption_end(following, 0, label._replace(end=0), usual)


def _goes_on(caption: Sequence[Line], line: Line, pitch: float) -> bool:
    first, last = caption[0], caption[-1]
    is_second = len(caption) == 1
    is_justified = abs(line.left - last.left) < 2 and abs(line.right - last.right) < 2
    is_centred = abs((line.left + line.right) - (first.left + first.right)) < 6
    return (
        line.turns == last.turns
        and 1 < last.bottom - line.bottom <= max(pitch, is_second * line.height * _PITCH)
        and (abs(line.height - last.height) < 2 or (is_second and first.is_set_off))
        and (is_second or is_centred or abs(line.left - caption[1].left) < 3)
        and (not is_second or re.search(r"[^\W\d]", line.text) is not None)
        and line.left < first.right
        and first.left < line.right + 40
        and (is_justified or line.gap < line.height * _CELL)
    )


def is_continuation(caption: str) -> bool:
    """Whether a caption says that its table or figure began on an earlier page."""
    return _CONTINUED.match(caption) is not None


def box_of(lines: Sequence[Line], width: float, height: float) -> tuple[float, float, float, float] | None:
    """The box of lines of one direction on a page of this size: x, y, width and height from its top left corner."""
    box = (
        min(line.left for line in lines),
        min(line.bottom for line in lines),
        max(line.right for line in lines),
        max(line.top for line in lines),
    )
    left, bottom, right, top = turned(box, lines[0].turns)
    left, right = max(0.0, left), min(width, right)
    bottom, top = max(0.0, bottom), min(height, top)
    if left >= right or bottom >= top:
        return None
    x, y, wide, high = (round(value, 1) for value in (left, height - top, right - left, top - bottom))
    return x, y, wide, high


def turned(box: tuple[float, float, float, float], turns: int) -> tuple[float, float, float, float]:
    """A box (left, bottom, right, top) after quarter turns of the plane, clockwise around the origin."""
    for _ in range(turns % 4):
        left, bottom, right, top = box
        box = bottom, -right, top, -left
    return box
