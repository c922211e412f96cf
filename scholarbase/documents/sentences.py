"""Divides paragraphs into sentences: sentencex, and a few rules for papers (``docs/passages.md``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import sentencex

LONGEST: Final = 5_000
"""Characters of a sentence. What is longer, such as data printed in a paper, is divided at white space."""

_AT_ONCE: Final = 10_000
"""Characters that sentencex reads at once: its time grows with the square of their number for some texts."""
_LANGUAGE: Final = "en"
_MARK: Final = re.compile(r"[.!?](?:[\"')\]}]|\[\d[\d, -]*\])*\s+(?=\S)")
"""Where a sentence may end: a mark, with what closes after it, and white space."""
_MISSED: Final = re.compile(r"(?:(?<=\s)\.|(?<!al)(?<!etc)[.!?]\)|(?<=[^.\w][a-oq-uw-z])\.)\s+(?=[A-Z(])")
"""Ends that sentencex does not see: a full stop after a space, as after formulas; one in brackets; and one after a
variable or unit of one letter, which it takes for an initial."""
_ABBREVIATION: Final = re.compile(
    r"(?:\b(?i:alg|app|av|ch|chap|cor|def|eqn?s?|ex|figs?|lem|prof|prop|refs?|resp|secs?|sect|suppl|tab|thm|vol|vs"
    r"|i\.\s?e|e\.\s?g)|-[A-Z])\.$"
)
"""A full stop that ends no sentence, though sentencex says so."""
_LABEL: Final = re.compile(r"[(\[]?(?:\d{1,3}|[A-Za-z])[.)\]]+\s+")
"""The label of an item of a list, which begins its sentence."""


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence of a paragraph, in code points, without the white space around it.

    Together they have all other characters. None has more than ``LONGEST``.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for end in [*_bounds(text.translate(_ASCII)), len(text)]:
        spans += _cut(text, start, end)
        start = end
    return spans


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space around it; empty if it has nothing else."""
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, max(start, end - len(part) + len(part.rstrip()))


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence, in pieces if it is too long."""
    start, end = trim(text, start, end)
    while end - start > LONGEST:
        space = max(text.rfind(mark, start + LONGEST // 2, start + LONGEST + 1) for mark in " \n\t")
        cut = space if space > 0 else start + LONGEST
        yield trim(text, start, cut)
        start, _ = trim(text, cut, end)
    if end > start:
        yield start, end


class _Ascii(dict[int, str]):
    """Characters to ASCII ones of their kind, and white space to spaces.

    sentencex ends the process's thread at some others, such as a no-break space after an initial, and its offsets are
    then those of the text.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character.isspace():
            character = " "
        elif code >= 128:
            letter = "A" if character.isupper() else "a"
            character = letter if character.isalnum() else _PUNCTUATION.get(character, "-")
        self[code] = character
        return character


_PUNCTUATION: Final = {"“": '"', "”": '"', "‘": "'", "’": "'", "…": ".", "»": '"', "«": '"'}
_ASCII: Final = _Ascii()


def _bounds(text: str) -> Iterator[int]:
    """Where the sentences after the first one start, in a text of ASCII."""
    start = 0
    while start < len(text):
        end = start + _AT_ONCE
        bounds = [start + bound for bound in _bounds_in(text[start:end])]
        yield from bounds
        # The sentence that is cut at the end is read again, unless that would be more than half of what was read.
        start = bounds[-1] if end < len(text) and bounds and start + _AT_ONCE // 2 < bounds[-1] else end


def _bounds_in(text: str) -> Iterator[int]:
    starts = [bound["start_index"] for bound in sentencex.get_sentence_boundaries(_LANGUAGE, text)]
    start = number = 0
    for match in _MARK.finditer(text):
        while number < len(starts) and starts[number] < match.start():
            number += 1
        is_bound = number < len(starts) and starts[number] <= match.end()
        if _MISSED.match(text, match.start()) or (is_bound and not _goes_on(text, start, match)):
            start = match.end()
            yield start


def _goes_on(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether the sentence from ``start`` goes on after a mark that sentencex ends it at."""
    closed = len(match[0].rstrip()) > 1
    return (
        (closed and text[match.end()].islower())
        or _ABBREVIATION.search(text, max(start, match.start() - 8), match.start() + 1) is not None
        or _LABEL.fullmatch(text, start, match.end()) is not None
    )
