"""Citation keys."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from itertools import count
from typing import Final

from scholarbase.models.papers import Paper

_MAX_WORDS: Final = 4
"""Words of the title in the key."""


def citation_key(paper: Paper) -> str:
    """The family name of the first author, the year, the first word of the title, and initials of the next."""
    family = paper.authors[0].name.split()[-1:] if paper.authors else []
    words = [_letters(word) for word in (paper.title or "").split()]
    words = [word for word in words if word][:_MAX_WORDS]
    head = words[0].capitalize() if words else ""
    initials = "".join(word[0].upper() for word in words[1:])
    return _letters("".join(family)) + str(paper.year or "") + head + initials or "paper"


def citation_keys(papers: Sequence[Paper]) -> list[str]:
    """The keys of several papers, of which equal ones get a letter: ``Gross1993TwoDQ``, ``Gross1993TwoDQa``."""
    used: set[str] = set()
    keys = []
    for paper in papers:
        key = own = citation_key(paper)
        for number in count():
            if key.lower() not in used:
                break
            key = own + _suffix(number)
        used.add(key.lower())
        keys.append(key)
    return keys


def _suffix(number: int) -> str:
    """``a`` to ``z``, then ``aa`` and so on."""
    text = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, 26)
        text = chr(ord("a") + letter) + text
    return text


def _letters(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text[:100])
    return "".join(char for char in decomposed if char.isascii() and char.isalnum())
