"""The records in a JSON document: an array, the page of an API, objects over several lines, or one after the other.

A document may be larger than the memory: only the record that is read is held.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from scholarbase.bibliographies.json_items import LISTS, WRAPPERS
from scholarbase.files import MAX_LINE, ByteStream

_BETWEEN: Final = re.compile(r"(?:\xef\xbb\xbf)?+[\s,]*+")
_COLON: Final = re.compile(r"\s*+:\s*+")
_NEXT: Final = re.compile(r"\}\s*+,\s*+(?=\{)")
_CHUNK: Final = 1 << 18
_CUT: Final = 16
"""Characters at the end of the text that may be the start of a word, a number or an escaped character."""
_MAX_RESTARTS: Final = 100


class _Broken(ValueError):
    """The text at the position is not JSON."""


def json_records(stream: ByteStream) -> Iterator[tuple[int, bytes]]:
    """The line on which each record starts, from 1, and its text, which is no valid JSON where a record is broken.

    The next record after a broken one is looked for in the lines that start as it does, then behind the next ``},``.
    Reading ends with a record of more than ``MAX_LINE`` bytes, of which only the start comes.
    """
    return _Document(stream).records()


class _Document:
    """The text, whose characters are bytes, from the start of the record or value that is read."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._scan = json.JSONDecoder(strict=False).raw_decode
        self._text = ""
        self._is_end = False
        self._position = 0
        self._kept = 0
        """What is before this position is dropped when more is read."""
        self._line = 1
        self._counted = 0
        """Lines are counted up to this position."""
        self._around: list[str] = []
        """The open lists and pages."""

    def records(self) -> Iterator[tuple[int, bytes]]:
        restarts = 0
        while char := self._peek():
            self._kept = start = self._position
            if char in "]}":
                self._position += 1
                if self._around:
                    self._around.pop()
                continue
            try:
                if char == '"' and self._around[-1:] == ["{"]:
                    self._pairs()
                    continue
                if char == "[":
                    self._position += 1
                    self._around.append("[")
                    continue
                if char == "{":
                    self._position += 1
                    if not self._pairs():
                        continue
                    self._position += 1
                else:
                    self._value()
                    if self._around[-1:] != ["["]:
                        continue
            except _Broken:
                restarts += 1
                self._restart(is_last=restarts > _MAX_RESTARTS)
            start = self._kept
            self._line += self._text.count("\n", self._counted, start)
            self._counted = start
            yield self._line, self._text[start : min(self._position, start + MAX_LINE + 1)].encode("latin-1")

    def _pairs(self) -> bool:
        """Go past the keys and values of an object, up to its end. Returns whether it is a record: False where the list
        of a page begins, and for a page without records."""
        is_empty = False
        while (char := self._peek()) != "}":
            if char != '"':
                raise _Broken
            key = self._value()
            self._position = self._match(_COLON)
            first = self._peek()
            if first == "{" and key in WRAPPERS:
                self._around.append("{")
                return False
            if first == "[" and key in LISTS:
                begin = self._position
                self._position += 1
                inner = self._peek()
                if inner == "{":
                    self._around += ["{", "["]
                    return False
                is_empty |= inner == "]"
                self._position = begin
            is_empty &= key != "title"
            self._value()
        return not is_empty

    # -- text ---------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        """The first character of the next value, to which the position moves; empty at the end."""
        while True:
            self._position = self._match(_BETWEEN)
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read():
                return ""

    def _match(self, pattern: re.Pattern[str]) -> int:
        while True:
            match = pattern.match(self._text, self._position)
            if match is not None and (match.end() < len(self._text) or self._is_end):
                return match.end()
            if match is None and self._position + _CUT < len(self._text):
                raise _Broken
            if not self._read():
                if match is None:
                    raise _Broken
                return match.end()

    def _value(self) -> object:
        """Go past a value."""
        while True:
            try:
                value, end = self._scan(self._text, self._position)
            except RecursionError:
                raise _Broken from None
            except json.JSONDecodeError as error:
                is_cut = error.msg.startswith("Unterminated") or error.pos + _CUT > len(self._text)
                if not is_cut or not self._read():
                    raise _Broken from None
                continue
            if end < len(self._text) or not self._read():
                self._position = end
                return value

    def _read(self) -> bool:
        """Read as much again as is kept, and drop what is before. False at the end, or if too much would be kept."""
        if self._is_end or len(self._text) - self._kept > MAX_LINE:
            return False
        self._line += self._text.count("\n", self._counted, self._kept)
        begin = max(self._text.rfind("\n", 0, self._kept) + 1, self._kept - _CHUNK)
        pieces, size = [self._text[begin:]], 0
        while size < max(_CHUNK, len(pieces[0])) and (chunk := self._stream.read1(_CHUNK)):
            pieces.append(chunk.decode("latin-1"))
            size += len(chunk)
        self._text = "".join(pieces)
        self._is_end = not size
        self._position -= begin
        self._kept -= begin
        self._counted = self._kept
        return size > 0

    def _restart(self, *, is_last: bool) -> None:
        """Move the position to the next record, or to the end."""
        self._read()
        begin = self._text.rfind("\n", 0, self._kept) + 1
        indent = self._text[begin : self._kept]
        position = -1 if indent.strip() else self._text.find(f"\n{indent}{{", self._kept)
        if position < 0 and (match := _NEXT.search(self._text, self._position)) is not None:
            position = match.end()
        if position < 0 or is_last:
            self._position = position = len(self._text)
            self._is_end = True
        self._position = position
