"""The words of questions and papers, as rules compare them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from scholarbase.indexes.stop_words import STOP_WORDS

_WORD: Final = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")
_ENDINGS: Final = ("ations", "ation", "ings", "ing", "ies", "ed", "es", "s", "y", "e")
_SHORTEST: Final = 4
"""Letters that remain of a word without its ending."""


def words(text: str) -> list[str]:
    """The words that are not stop words, as they are written."""
    return [word for word in _WORD.findall(text) if word.casefold() not in STOP_WORDS]


def stem(word: str) -> str:
    """A word in lower case without a common English ending, so that learn, learning and learned are equal."""
    word = word.casefold()
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word.removesuffix(ending)
    return word


def stems(text: str) -> frozenset[str]:
    """The stems of a text's words; of a compound such as text-infilling also those of its parts."""
    whole = words(text)
    parts = (part for word in whole if "-" in word for part in word.split("-") if part)
    return frozenset(map(stem, (*whole, *parts)))


def overlap(wanted: frozenset[str], text: frozenset[str]) -> float:
    """The share of the wanted stems that a text has, 0 to 1; 0 where none is wanted."""
    return len(wanted & text) / len(wanted) if wanted else 0.0


def unique(texts: Iterable[str]) -> list[str]:
    """The texts in order, each once, without regard to case and spaces, and without empty ones."""
    seen: dict[str, str] = {}
    for text in texts:
        cleaned = " ".join(text.split())
        if cleaned:
            seen.setdefault(cleaned.casefold(), cleaned)
    return list(seen.values())
