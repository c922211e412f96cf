"""Recognises headings in text without markup."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_NUMBERED: Final = re.compile(r"((?:\d{1,2}|[A-Z])(?:\.\d{1,2}){0,3})\.?[ \t]+(\S.{1,118})")
_NUMBER: Final = re.compile(r"((?:\d{1,3}|[A-Z]|[IVX]{1,6})(?:\.\d{1,3}){0,5})[.)]?\s+(?=\S)")
_NAMED: Final = re.compile(
    r"abstract|introduction|related work|background|methods?|materials and methods|results|discussion"
    r"|results and discussion|conclusions?|acknowledge?ments?|references|bibliography|appendix",
    re.IGNORECASE,
)
_MOST_WORDS: Final = 14


class Heading(NamedTuple):
    title: str
    number: str | None
    level: int


def split_number(title: str) -> tuple[str | None, str]:
    """The number at the start of a heading's text, such as ``2.1``, and the rest. Years are no numbers."""
    match = _NUMBER.match(title)
    if match is None or (match[1].isalpha() and title[match.end(1)] not in ".)"):
        return None, title
    return match[1], title[match.end() :]


class HeadingFinder:
    """Finds the headings of a text among its lines: ``2.1 Data`` where section 2 or 2.0 came before, and the usual
    names of sections on a line of their own."""

    def __init__(self) -> None:
        self._last: tuple[str, ...] = ()

    def find(self, line: str) -> Heading | None:
        """The heading that a line is, None if it is none. Lines must come in order."""
        line = " ".join(line.split())
        if _NAMED.fullmatch(line.rstrip(":.")):
            return Heading(line.rstrip(":."), None, 1)
        match = _NUMBERED.fullmatch(line)
        if match is None or not _is_title(match[2]):
            return None
        parts = tuple(match[1].split("."))
        if not self._follows(parts):
            return None
        self._last = parts
        return Heading(match[2], match[1], len(parts))

    def _follows(self, parts: tuple[str, ...]) -> bool:
        last = self._last
        if not last:
            return parts in (("1",), ("0",))
        if parts == ("A",) and last[0].isdigit():
            return True
        if len(parts) == len(last) + 1 and parts[:-1] == last:
            return parts[-1] in ("0", "1")
        depth = len(parts)
        if depth > len(last) or parts[:-1] != last[: depth - 1]:
            return False
        before, current = last[depth - 1], parts[-1]
        if before.isdigit() != current.isdigit():
            return False
        return int(current) == int(before) + 1 if current.isdigit() else ord(current) == ord(before) + 1


def _is_title(text: str) -> bool:
    words = text.split()
    return (
        text[0].isupper()
        and text[-1] not in ".,;:="
        and len(words) <= _MOST_WORDS
        and re.search(r"[^\W\d_]{3}", text) is not None
        and "=" not in text
    )
