"""Parsers of user input take linear time, measured in CPU time as a ratio of two sizes.

A word of 9,990 letters took half a second in the query syntax, and 20,000 combining marks half a minute in a title.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from scholarbase.errors import ScholarBaseError
from scholarbase.identifiers import parse
from scholarbase.indexes import query_syntax
from scholarbase.indexes.titles import main_title, normalize_title
from scholarbase.responses.sentences import sentence_ends
from scholarbase.search.known_items import MAY_BE_ID
from scholarbase.tools.definitions import tool_named

SMALL = 5_000
FACTOR = 8
MOST = 4 * FACTOR
"""The larger text may take this many times longer: quadratic time would be 64."""
FLOOR = 0.001
"""Seconds below which times are not compared."""

TEXTS: dict[str, Callable[[int], str]] = {
    "a word": lambda n: "a" * n,
    "a prefix": lambda n: "a" * n + "*",
    "an inner star": lambda n: "a" * n + "*a",
    "another script": lambda n: "é" * n,
    "combining marks": lambda n: "a" + "\u0315\u0300" * (n // 2),
    "dots": lambda n: "." * n,
    "dots and quotes": lambda n: "." * (n // 2) + "'" * (n // 2),
    "ideographic stops": lambda n: "。" * n,
    "quotation marks": lambda n: '"' * n,
    "columns": lambda n: "title:" * (n // 6),
    "prefixes": lambda n: "ab* " * (n // 4),
    "operators": lambda n: "a AND " * (n // 6),
    "hyphens": lambda n: "-" * n,
    "tags": lambda n: "<i " * (n // 3),
    "commands": lambda n: "\\a" * (n // 2),
    "a DOI": lambda n: "10.1234/" + "a." * (n // 2),
    "a link": lambda n: "https://a.org/" + "/" * n,
    "capitals": lambda n: "aA" * (n // 2),
    "spaces": lambda n: "a." + " " * n,
    "spaces in front": lambda n: " " * n + "a b",
    "links of Markdown": lambda n: "[" + "](" * (n // 2) + ") " * (n // 2) + "a",
    "digits": lambda n: "2021-" * (n // 5),
}
PARSERS: dict[str, Callable[[str], Any]] = {
    "is_prose": query_syntax.is_prose,
    "without_shortened": query_syntax.without_shortened,
    "is_syntax": query_syntax.is_syntax,
    "compile": query_syntax.compile,
    "free_text": query_syntax.free_text,
    "normalize_title": normalize_title,
    "main_title": main_title,
    "sentence_ends": lambda text: list(sentence_ends(text)),
    "parse": parse,
    "MAY_BE_ID": MAY_BE_ID.fullmatch,
    "arguments": lambda text: tool_named("search_papers").canonical({"q": text, text: text, "from": text}),
}


def seconds(parser: Callable[[str], Any], text: str) -> float:
    """The least CPU time of three calls."""
    times = []
    for _ in range(3):
        began = time.process_time()
        with contextlib.suppress(ScholarBaseError):
            parser(text)
        times.append(time.process_time() - began)
    return min(times)


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_text_eight_times_as_long_takes_linear_time(
    parser: Callable[[str], Any], text: Callable[[int], str]
) -> None:
    short = max(seconds(parser, text(SMALL)), FLOOR)
    assert seconds(parser, text(SMALL * FACTOR)) <= MOST * short
