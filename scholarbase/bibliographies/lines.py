"""References in plain text: one a line, or numbered ones that go over several lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from scholarbase.bibliographies.ids import find_ids, whole_id
from scholarbase.bibliographies.references import MAX_LINE_LENGTH, Reference, too_long
from scholarbase.bibliographies.years import years_in
from scholarbase.markup import plain

_BIBITEM: Final = r"\\bibitem(?:[ \t]?\[[^\]\n]{0,2000}\])?[ \t]*\{"
_MARKER: Final = re.compile(
    rf"[ \t]*(?:\[[\w+.:-]{{1,20}}\]|\(\d{{1,4}}\)|\d{{1,4}}[.)](?=[ \t])|{_BIBITEM}[^}}\n]{{0,100}}\}})[ \t]*"
)
"""A number or a key at the start of a reference: ``[12]``, ``(12)``, ``12.``, ``\\bibitem{key}``."""
_ITEM: Final = re.compile(r"\\bibitem(?![A-Za-z])")
_LINE_COMMENT: Final = re.compile(r"%[ \t]*$", re.MULTILINE)
_HEADING: Final = re.compile(r"[\W\d]*(?:references|bibliography|(?:works|literature) cited)\W*", re.I)
_BULLET: Final = re.compile(r"[ \t]*[-*\u2022][ \t]+")
_KEY: Final = re.compile(rf"{_BIBITEM}([^}}\n]{{0,100}})\}}|\[([\w+.:-]{{1,20}})\]")
_QUOTED: Final = re.compile(
    r"[\u201c\"]([^\u201c\u201d\"]{8,400})[\u201d\"]|\u2018([^\u2018\u2019]{15,400})\u2019"
)
_PIECES: Final = re.compile(r"[.?!,;:]\s+|[()\[\]]|\s[-\u2013\u2014]\s")
_DIGITS: Final = re.compile(r"\d")
_VENUE_WORDS: Final = re.compile(
    r"\b(?:proc|proceedings|journal|conference|trans|transactions|lett|letters|rev|review|phys|press|university|"
    r"springer|vol|volume|pages|pp|eds?|editors?|workshop|symposium|lecture|notes|arxiv|preprint|international|"
    r"advances|annals|thesis|report|ieee|acm)\b",
    re.IGNORECASE,
)
MIN_TITLE_WORDS: Final = 4
"""Words of a part of a line that is guessed to be a title."""


def read_lines(text: str) -> list[Reference]:
    """The references of a text."""
    return [_reference(raw, line) for raw, line in _split(text)]


def _split(text: str) -> Iterator[tuple[str, int]]:
    """The text of each reference and its first line.

    Those of a LaTeX file are the items of its ``thebibliography``. Else, if the first line is numbered, lines without a
    number continue the one before them, unless they are an id.
    """
    start = text.find("\\begin{thebibliography}")
    if start >= 0 and (items := [item.start() for item in _ITEM.finditer(text, start)]):
        end = text.find("\\end{thebibliography}", items[0])
        number, last = 1, 0
        for begin, stop in pairwise((*items, end if end >= 0 else len(text))):
            number, last = number + text.count("\n", last, begin), begin
            yield " ".join(_LINE_COMMENT.sub("", text[begin:stop]).split()), number
        return
    lines = ["" if _HEADING.fullmatch(line) else line for line in text.split("\n")]
    first = next((line for line in lines if line.strip()), "")
    if not _MARKER.match(first):
        yield from ((line.strip(), number) for number, line in enumerate(lines, 1) if line.strip())
        return
    group: list[str] = []
    begin = 1
    for number, line in enumerate(lines, 1):
        if group and (_MARKER.match(line) or not line.strip() or whole_id(line.strip())):
            yield " ".join(group), begin
            group = []
        if line.strip():
            begin = begin if group else number
            group.append(line.strip())
    if group:
        yield " ".join(group), begin


def _reference(raw: str, line: int) -> Reference:
    if (refused := too_long(raw, line, MAX_LINE_LENGTH)) is not None:
        return refused
    marker = _MARKER.match(raw) or _BULLET.match(raw)
    body = raw[marker.end() :] if marker else raw
    key = _KEY.match(raw.strip())
    name = (key[1] or key[2]) if key else None
    if (whole := whole_id(body.strip())) is not None:
        return Reference(raw, line, name, (whole,), is_plain=True)
    text = plain(body, braces=True)
    matches = find_ids(text)
    bare = without(text, [(match.start, match.end) for match in matches])
    year, years = years_in(bare)
    ids = tuple(dict.fromkeys(match.id for match in matches))
    return Reference(raw, line, name, ids, guessed_title(bare), year=year, years=years, is_plain=True)


def line_text(reference: Reference) -> str:
    """The text of a plain reference, without LaTeX, its number and its ids."""
    marker = _MARKER.match(reference.raw) or _BULLET.match(reference.raw)
    text = plain(reference.raw[marker.end() :] if marker else reference.raw, braces=True)
    return without(text, [(match.start, match.end) for match in find_ids(text)])


def without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text with spaces in place of some spans."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def guessed_title(text: str) -> str | None:
    """The part of a line that looks most like a title, None if no part does.

    It is quoted, or else the longest one in words without digits, initials and the words of venues.
    """
    if (quoted := _QUOTED.search(text)) is not None:
        return (quoted[1] or quoted[2]).strip(" .,;")
    best: str | None = None
    length = 0
    for piece in _PIECES.split(text):
        words = piece.split()
        if len(words) < MIN_TITLE_WORDS or _DIGITS.search(piece) or _VENUE_WORDS.search(piece):
            continue
        lower = sum(word[:1].islower() and len(word) > 3 for word in words)
        initials = sum(len(word.strip(".,")) <= 1 for word in words)
        if initials > len(words) // 3 or (initials and len(words) < 6):
            continue
        if (score := len(words) + 2 * lower) > length:
            best, length = piece.strip(), score
    return best
