"""Titles within a longer text, such as a reference in plain text.

A title is a span of the text between two boundaries: punctuation, quotation marks or a year. Spans are compared by the
hash of their normalised form, like whole titles (:mod:`scholarbase.indexes.titles`).
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from itertools import accumulate
from typing import Final, NamedTuple

import orjson
from rapidfuzz import fuzz

from scholarbase.indexes.filters import ResolvedFilters, filter_sql
from scholarbase.indexes.titles import normalize_title, similarity, title_hash_of

_OPENING: Final = "\"'\u201c\u2018\u00ab([`"
_CLOSING: Final = ".,;:!?\"'\u201d\u2019\u00bb)]"
_YEAR: Final = re.compile(r"\W{0,2}(?:19|20)\d\d[a-z]?\W{0,3}", re.ASCII)
_NOT_TITLES: Final = re.compile(r"(?:in|proceedings|proc)\W{0,2}", re.IGNORECASE)
"""Words before the name of a venue, which can be the title of a paper too."""
_MAX_WORDS: Final = 50
"""Words of a title."""
_MAX_SPANS: Final = 5_000
_WINDOW_SCORE: Final = 0.9
"""The similarity below which the words of a title are looked for in another order."""
_WINDOW_WORDS: Final = 4
"""Words of such a title at least."""
_MIN_LENGTH: Final = 4
"""Letters of a title."""


class TitleSpan(NamedTuple):
    """A paper's title in a text: how similar the text is there, and between which characters it stands.

    ``is_bounded``: it begins and ends at a boundary of the text.
    """

    id: int
    score: float
    start: int
    end: int
    is_bounded: bool


class _Words(NamedTuple):
    """The words of a text in normal form, where each stands, and between which a title may begin and end."""

    text: str
    normal: list[str]
    starts: list[int]
    ends: list[int]
    begins: list[bool]
    closes: list[bool]


def _words(text: str) -> _Words:
    matches = list(re.finditer(r"\S+", text))
    begins, closes = [], []
    for position, match in enumerate(matches):
        before = matches[position - 1][0] if position else "."
        after = matches[position + 1][0] if position + 1 < len(matches) else "("
        begins.append(
            (
                before[-1] in _CLOSING
                or match[0][0] in _OPENING
                or before in "-\u2013\u2014"
                or _is_year(before)
            )
            and not _NOT_TITLES.fullmatch(before)
        )
        closes.append(
            match[0][-1] in _CLOSING or after[0] in _OPENING or after in "-\u2013\u2014" or _is_year(after)
        )
    return _Words(
        text,
        [normalize_title(match[0]) for match in matches],
        [match.start() for match in matches],
        [match.end() for match in matches],
        begins,
        closes,
    )


def _is_year(word: str) -> bool:
    return _YEAR.fullmatch(word) is not None


def exact_titles(connection: sqlite3.Connection, text: str, filters: ResolvedFilters) -> list[TitleSpan]:
    """The papers whose title is a span of the text, the longest first, then by id."""
    words = _words(text)
    spans: dict[int, tuple[str, int, int]] = {}
    for begin, may_begin in enumerate(words.begins):
        normal = ""
        for end in range(begin, min(begin + _MAX_WORDS, len(words.normal)) if may_begin else begin):
            normal += words.normal[end]
            if words.closes[end] and len(normal) >= _MIN_LENGTH and len(spans) < _MAX_SPANS:
                spans.setdefault(title_hash_of(normal), (normal, words.starts[begin], words.ends[end]))
    condition, params = filter_sql(filters, "p")
    rows = connection.execute(
        f"""
        SELECT p.id, p.title, p.title_hash FROM json_each(?) AS wanted
        CROSS JOIN papers AS p ON p.title_hash = wanted.value WHERE {condition} ORDER BY p.id
        """,
        [orjson.dumps(list(spans)).decode(), *params],
    ).fetchall()
    matches = [
        TitleSpan(paper_id, 1.0, *spans[key][1:], True)
        for paper_id, title, key in rows
        if normalize_title(title) == spans[key][0]
    ]
    return sorted(matches, key=lambda span: span.start - span.end)


def title_span(text: str, paper_id: int, title: str) -> TitleSpan | None:
    """The part of a text that is most similar to a paper's title, None if the text is shorter.

    The score is the normalised indel similarity of the title and the best part of its length. The ends of that part are
    moved to the nearest words.
    """
    words = _words(text)
    normal = "".join(words.normal)
    wanted = normalize_title(title)
    if not _MIN_LENGTH <= len(wanted) <= len(normal):
        return None
    alignment = fuzz.partial_ratio_alignment(wanted, normal)
    if alignment is None or alignment.score < 100 * _WINDOW_SCORE:
        window = _window(paper_id, title, words)
        if window is not None:
            return window
    if alignment is None:
        return None
    ends = list(accumulate(map(len, words.normal)))
    offsets = [end - len(word) for end, word in zip(ends, words.normal, strict=True)]
    positions = range(len(ends))
    first = min(positions, key=lambda position: abs(offsets[position] - alignment.dest_start))
    last = max(first, min(positions, key=lambda position: abs(ends[position] - alignment.dest_end)))
    bounded = any(words.begins[max(first - 1, 0) : first + 2]) and any(
        words.closes[max(last - 1, 0) : last + 2]
    )
    return TitleSpan(paper_id, alignment.score / 100, words.starts[first], words.ends[last], bounded)


def _window(paper_id: int, title: str, words: _Words) -> TitleSpan | None:
    """The part of a text that has all words of a title and no others, in any order."""
    wanted = Counter(filter(None, map(normalize_title, title.split())))
    size = wanted.total()
    if size < _WINDOW_WORDS:
        return None
    filled = [position for position, word in enumerate(words.normal) if word]
    for first in range(len(filled) - size + 1):
        window = filled[first : first + size]
        if (
            words.normal[window[0]] in wanted
            and Counter(words.normal[position] for position in window) == wanted
        ):
            start, end = window[0], window[-1]
            score = similarity(normalize_title(title), "".join(words.normal[position] for position in window))
            bounded = words.begins[start] and words.closes[end]
            return TitleSpan(
                paper_id, max(score, _WINDOW_SCORE), words.starts[start], words.ends[end], bounded
            )
    return None
