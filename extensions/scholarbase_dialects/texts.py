"""Texts of requests as conditions on words. Every text can be read; odd ones as plain words."""

from __future__ import annotations

import re
from typing import Final, Literal

from scholarbase.errors import InvalidRequest
from scholarbase.indexes import query_syntax
from scholarbase.indexes.query_syntax import MAX_WORDS
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase_dialects.calls import plain_query
from scholarbase_dialects.listing.conditions import Text

Column = Literal["title", "abstract"]
_BOOLEAN: Final = re.compile('["\u201c-\u201f]|\\b(?:AND|OR|NOT)\\b')
_FOREIGN: Final = str.maketrans({":": " ", "*": " ", "?": " ", "~": " ", "^": " "})
"""Marks of other query languages, which are not searched for."""


def all_words(text: str, column: Column | None = None, most: int = MAX_WORDS) -> Text | None:
    """Papers with all words of a text; None for a text without words.

    ``AND``, ``OR`` and ``NOT``, parentheses and phrases in quotation marks are operators, unless they are malformed.

    Args:
        column: where the words must be; None for anywhere.
        most: words that are read. Further ones are left out.
    """
    text = plain_query(text)
    if _BOOLEAN.search(text) and len(query_syntax.words(text)) <= most:
        try:
            return _compiled(text.translate(_FOREIGN), column)
        except InvalidRequest:
            pass
    words = _words(text)[:most]
    return _compiled(" ".join(words), column) if words else None


def any_word(text: str, column: Column | None = None, most: int = MAX_WORDS) -> Text | None:
    """Papers with any word of a text; None for a text without words. Arguments as for :func:`all_words`."""
    words = _words(plain_query(text))
    kept = [word for word in words if word not in STOP_WORDS] or words
    return _compiled(" OR ".join(kept[:most]), column) if kept else None


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.casefold() for word in query_syntax.words(text)))


def _compiled(query: str, column: Column | None) -> Text:
    return Text(query_syntax.compile(query if column is None else f"{column}:({query})"))
