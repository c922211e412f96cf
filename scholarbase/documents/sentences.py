"""Divides paragraphs into sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

LONGEST: Final = 5_000
"""Characters of a sentence. What is longer, such as data printed in a paper, is divided at white space."""
_END: Final = re.compile(r"[.!?][\"')\]]*\s+(?=[\"'(\[]?[A-Z{])")


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence of a paragraph, in code points, without the white space around it.

    Together they have all other characters. None has more than ``LONGEST``.
    """
    spans: list[tuple[int, int]] = []
    start = 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
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
