"""Multiple-choice answers in boxes: ``The correct answer is boxed {AC}`` or ``\\boxed{AC}``."""

from __future__ import annotations

import re
from typing import Any, Final

_BOX: Final = re.compile(r"\\?\b(?:f?boxed)\s*\{", re.I)
_STYLE: Final = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|mathsf|bf|rm)\b")
_BETWEEN: Final = re.compile(r"\band\b|[^\w]+", re.I)
_WITH_TEXT: Final = re.compile(r"\(?([A-Za-z])[.:)]+\s+\S{2}", re.S)
"""One option with its text: ``B. The second``."""
_MOST: Final = 10
"""Options of a question."""
_LONGEST: Final = 2_000
"""Characters of a box that are read."""


def boxed(text: str) -> str | None:
    """What is in the last box of a text, with its braces balanced; None without a complete box."""
    last = None
    for match in _BOX.finditer(text):
        last = match
    if last is None:
        return None
    depth = 1
    for position in range(last.end(), min(len(text), last.end() + _LONGEST)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if not depth:
            return text[last.end() : position]
    return None


def options_of(text: str) -> frozenset[str] | None:
    """The options that a text such as ``AC``, ``A, C`` or ``(A) and (C)`` names; None for anything else."""
    plain = _STYLE.sub(" ", text).strip()
    words = [word for word in _BETWEEN.split(plain) if word]
    if len(words) == 1 and words[0].isupper():
        words = list(words[0])
    if any(len(word) != 1 for word in words) and (option := _WITH_TEXT.match(plain)):
        words = [option[1]]
    letters = [word.upper() for word in words]
    is_list = all(len(letter) == 1 and letter.isascii() and letter.isalpha() for letter in letters)
    if not is_list or not 1 <= len(letters) <= _MOST or len(set(letters)) < len(letters):
        return None
    return frozenset(letters)


def chosen(answer: Any) -> frozenset[str] | None:
    """The options of an answer: those of its last box, of a text of options alone, or of a list; None if unreadable.

    An answer with a box is never read beyond the box.
    """
    if isinstance(answer, list):
        return (
            options_of(",".join(answer)) if answer and all(isinstance(item, str) for item in answer) else None
        )
    if not isinstance(answer, str):
        return None
    if not _BOX.search(answer):
        return options_of(answer)
    inside = boxed(answer)
    return None if inside is None else options_of(inside)


def is_right(answer: Any, gold: frozenset[str]) -> bool | None:
    """Strict accuracy (ElaipBench, appendix A.5): exactly the right options. None if the answer is unreadable."""
    options = chosen(answer)
    return None if options is None else options == gold
