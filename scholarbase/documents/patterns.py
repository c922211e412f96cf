"""Finds words, phrases and regular expressions in a text.

Regular expressions are those of RE2 (https://github.com/google/re2/wiki/Syntax), which takes time linear in the text
for every pattern.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final, Literal

import re2

from scholarbase.errors import InvalidRequest

MAX_MATCHES: Final = 10_000
"""Matches that are counted."""
MAX_PROGRAM_BYTES: Final = 8 << 20
"""Memory of a compiled pattern. Larger ones are rejected."""


def find(
    text: str, q: str, syntax: Literal["words", "phrase", "regex"], offset: int, limit: int
) -> tuple[int, Literal["eq", "gte"], list[tuple[int, int]]]:
    """The number of matches, whether it is exact or a lower bound, and the start and end of those on a page.

    A phrase matches its words with any white space between them. Words match whole words. Case is ignored for both.
    Matches do not overlap, and empty ones do not count.

    Raises:
        InvalidRequest: the regular expression is invalid or too large.
    """
    spans = (match.span() for match in _compile(q, syntax).finditer(text))
    matching = (span for span in spans if span[0] < span[1] and (syntax != "words" or _is_whole(text, *span)))
    matches = list(islice(matching, MAX_MATCHES + 1))
    relation: Literal["eq", "gte"] = "eq" if len(matches) <= MAX_MATCHES else "gte"
    del matches[MAX_MATCHES:]
    return len(matches), relation, matches[offset : offset + limit]


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no letter or digit touches a word. RE2's own ``\\b`` knows ASCII words only."""
    return not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum())


def _compile(q: str, syntax: Literal["words", "phrase", "regex"]) -> Any:
    options = re2.Options()
    options.max_mem = MAX_PROGRAM_BYTES
    options.log_errors = False
    if syntax == "regex":
        pattern = q
    else:
        options.case_sensitive = False
        words = [re2.escape(word) for word in q.split()]
        pattern = (r"\s+" if syntax == "phrase" else "|").join(words)
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        what = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise InvalidRequest(
            f"q {q[:100]!r} is not a regular expression of RE2: {what}. Use syntax phrase for a text as it is."
        ) from error
