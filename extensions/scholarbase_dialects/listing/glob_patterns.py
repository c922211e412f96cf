"""Patterns of SQLite's GLOB (https://sqlite.org/lang_expr.html#the_like_glob_regexp_match_and_extract_operators) for
words of names and comments, in any case and without accents."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import Final

_COMMENT_ENDS: Final = "[^0-9A-Za-z\u00c0-\u024f]"
"""What separates the words of a comment, as a class of GLOB."""
_ENDS: Final = "[ .,'-]"
"""What separates the words of a name, as a class of GLOB."""


def word_pattern(word: str) -> str:
    """A GLOB pattern for names between spaces that have a word, its beginning, or for one letter an initial."""
    stem = word.rstrip("*")
    is_open = word.endswith("*") or len(stem) == 1
    return f"*{_ENDS}{_classes(stem)}{'' if is_open else _ENDS}*"


def comment_pattern(word: str) -> str:
    """A GLOB pattern for comments between spaces that have a word or its beginning."""
    return f"*{_COMMENT_ENDS}{_classes(word.rstrip('*'))}{'' if word.endswith('*') else _COMMENT_ENDS}*"


def folded(word: str) -> str:
    """A word in lower case without accents and a star."""
    return "".join(
        c for c in unicodedata.normalize("NFD", word.lower().rstrip("*")) if not unicodedata.combining(c)
    )


def _classes(word: str) -> str:
    """A GLOB pattern for a word in any case, with and without accents."""
    return "".join(
        f"[{_variants().get(c, c + c.upper() if len(c.upper()) == 1 else c)}]" for c in folded(word)
    )


@cache
def _variants() -> dict[str, str]:
    """The Latin letters of each letter from a to z: itself, in upper case, and both with accents."""
    found = {letter: letter + letter.upper() for letter in map(chr, range(ord("a"), ord("z") + 1))}
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00)):
        base = unicodedata.normalize("NFD", chr(code))[0].lower()
        if base in found:
            found[base] += chr(code)
    for letter, special in (("l", "łŁ"), ("o", "øØ"), ("d", "đĐ"), ("i", "ı")):
        found[letter] += special
    return found
