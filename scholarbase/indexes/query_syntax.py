"""What people type, as FTS5 expressions: free text as an OR of its words, query syntax as what it says.

Query syntax is ``"a phrase"``, ``AND``, ``OR``, ``NOT`` in upper case between words, ``prefix*``, ``title:`` and
``abstract:`` before a word, a phrase or parentheses, and parentheses around operators. Everything else is free
text. Every word goes to FTS5 inside quotation marks, so that nothing of the text is taken for FTS5's own
language (https://sqlite.org/fts5.html#full_text_query_syntax).
"""

from __future__ import annotations

import unicodedata

from scholarbase.indexes.stop_words import STOP_WORDS


def words(text: str) -> list[str]:
    """The words of a text, in order: runs of letters and digits of any script, with their combining marks.

    Underscores, hyphens and apostrophes stand between words, as they do for FTS5.
    """
    spaced = "".join(char if _is_of_word(char) else " " for char in text)
    return [word for word in spaced.split() if any(map(str.isalnum, word))]


def free_text(text: str) -> str | None:
    """An expression for papers with any of the text's words, but for stop words; None for a text without words.

    A text of nothing but stop words keeps them: *the who* is a question too.
    """
    each = list(dict.fromkeys(word.casefold() for word in words(text)))
    kept = [word for word in each if word not in STOP_WORDS] or each
    return " OR ".join(f'"{word}"' for word in kept) or None


def _is_of_word(char: str) -> bool:
    return char.isalnum() or unicodedata.category(char)[0] == "M"
