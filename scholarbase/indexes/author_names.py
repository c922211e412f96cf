"""Names of authors: the ids made of them, the words that they are found by, and the search for them.

An author is found by the words of a name in any order. A first name matches its initial, and an initial every name that
it begins, if the family name, which is the last word or that before a comma, is the same. Words have no accents and no
case. The index has a line of terms for each author (:func:`terms`), and :func:`expression` makes a query for it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from scholarbase.indexes.titles import UNDIVIDED, is_kept
from scholarbase.markup import plain
from scholarbase.models.authors import NAMED
from scholarbase.models.limits import MAX_NAME_LENGTH

MAX_INITIALS: Final = 10
"""Words of a name whose initials are compared. A query for more words finds only names that have all of them."""

# Marks of terms. No word contains one, and FTS5's tokenizer "ascii" splits no text at them.
_FAMILY: Final = "¶"
_INITIAL: Final = "·"
_SAME: Final = "§"
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_SUFFIXES: Final = frozenset(("jr", "sr", "ii", "iii", "iv"))
_UNDECOMPOSED: Final = str.maketrans("loid", "łøıđ")
"""Letters with marks that Unicode does not divide into a letter and a mark."""
_FIRST_IDEOGRAPH: Final = "\u2e80"
"""From here on, a character of a script is a word (https://www.unicode.org/charts/PDF/U2E80.pdf)."""


def name_id(name: str) -> str:
    """Return the id of an author without one: ``name:`` and the name in lower case, with single spaces, in the
    compatibility form of Unicode (NFKC)."""
    name = name[:MAX_NAME_LENGTH].casefold()
    if name.isascii():
        return NAMED + " ".join(name.split())
    # Case folding can undo a composition, and composition the folding of case.
    for _ in range(2):
        name = unicodedata.normalize("NFKC", name).casefold()
    return NAMED + " ".join(" ".join(name.split())[:MAX_NAME_LENGTH].split())


def canonical_id(author_id: str) -> str:
    """Return an author's id in the form of the catalogue: the name in a ``name:`` id is normalized."""
    author_id = author_id.strip()
    return name_id(author_id.removeprefix(NAMED)) if author_id.startswith(NAMED) else author_id


def words(name: str) -> list[str]:
    """Return the words of a name, in lower case and without accents: ``J.-P. Müller`` has ``j``, ``p``, ``muller``."""
    name = name[:MAX_NAME_LENGTH]  # Unicode's normalization takes quadratic time for a run of combining marks
    if "\\" in name or "&" in name:
        name = plain(name)
    if name.isascii():
        return _ASCII_WORD.findall(name.lower())
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", name).casefold())
    kept = [char if is_kept(char) else "" if unicodedata.combining(char) else " " for char in folded]
    return "".join(kept).translate(UNDIVIDED).split()


def terms(names: Iterable[str]) -> str:
    """Return the terms that an author with these names is found by, separated by spaces."""
    all_terms: list[str] = []
    for name in dict.fromkeys(names):
        parts = words(name)
        if parts:
            all_terms += parts
            all_terms += [_INITIAL + part[0] for part in parts]
            all_terms += (_FAMILY + _family(name, parts), _same(parts))
    return " ".join(all_terms)


def same_name(name: str) -> str:
    """Return the FTS5 expression for authors with a name of the same words. The name has a word."""
    return f'"{_same(words(name))}"'


def expression(name: str) -> str | None:
    """Return the FTS5 expression for authors with a name or its initials; None if there is no word but initials."""
    parts = list(dict.fromkeys(words(name)))
    whole = [part for part in parts if not _is_initial(part)]
    if not whole:
        return None
    ways = [" AND ".join(f'"{_INITIAL if _is_initial(part) else ""}{part}"' for part in parts)]
    if 1 < len(parts) <= MAX_INITIALS:
        # Any word may be the family name: the order of the words is free.
        for family in whole:
            others = (_initial_or_word(part) for part in parts if part != family)
            ways.append(" AND ".join((f'"{_FAMILY}{family}"', *others)))
    return " OR ".join(f"({way})" for way in ways)


def beginnings(name: str) -> list[str]:
    """Return FTS5 expressions for authors with words that begin as those of a name: with all, and with any of them.

    Compared is the first half of a word, at least three letters: what is after it may be misspelt.
    """
    parts = [part for part in dict.fromkeys(words(name.removeprefix(NAMED))) if len(part) > 2][:MAX_INITIALS]
    starts = [f'"{part[: max(3, len(part) // 2)]}"*' for part in parts]
    return [" AND ".join(starts), " OR ".join(starts)][: len(starts)]


def pattern_expression(patterns: Iterable[str]) -> str | None:
    """Return the FTS5 expression for authors whose name has all these words, in any order; None if one has no letter.

    A single letter is an initial, and ``*`` ends the beginning of a word.
    """
    expressions: list[str] = []
    for pattern in patterns:
        parts = words(pattern.rstrip("*"))
        if not parts:
            return None
        stars = [""] * (len(parts) - 1) + ["*" if pattern.endswith("*") else ""]
        expressions += map(_any_spelling, parts, stars)
    return " AND ".join(dict.fromkeys(expressions)) or None


def _any_spelling(word: str, star: str) -> str:
    """The expression for a word with or without the marks of :data:`_UNDECOMPOSED`: on one letter, or on all that are
    the same."""
    if _is_initial(word):
        return f'("{_INITIAL}{word}" OR "{_INITIAL}{word.translate(_UNDECOMPOSED)}")'
    spelled = [word]
    for at, letter in enumerate(word):
        if (marked := letter.translate(_UNDECOMPOSED)) != letter:
            spelled += (word[:at] + marked + word[at + 1 :], word.replace(letter, marked))
    quoted = (f'"{spelling}"{star}' for spelling in dict.fromkeys(spelled))
    return f"({' OR '.join(quoted)})"


def _initial_or_word(part: str) -> str:
    return f'"{_INITIAL}{part}"' if _is_initial(part) else f'("{part}" OR "{part[0]}")'


def _is_initial(word: str) -> bool:
    return len(word) == 1 and word < _FIRST_IDEOGRAPH


def _family(name: str, parts: list[str]) -> str:
    candidates = words(name.partition(",")[0]) if "," in name else parts
    for part in reversed(candidates):
        if part not in _SUFFIXES:
            return part
    return parts[-1]


def _same(parts: list[str]) -> str:
    return _SAME + _SAME.join(sorted(set(parts)))
