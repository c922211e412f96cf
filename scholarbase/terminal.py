"""Texts on a terminal, which obeys control characters: those of others, such as titles and names, are shown without."""

from __future__ import annotations

from typing import Final

_CONTROL: Final = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), " ")
"""All control characters but tabs and ends of lines (ECMA-48)."""
_DIRECTIONS: Final = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Invisible characters that reorder the text after them (https://www.unicode.org/reports/tr9/, 2)."""
_PRINTABLE: Final = {**_CONTROL, **dict.fromkeys(_DIRECTIONS)}
_IN_JSON: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_DIRECTIONS)}


def printable(text: object) -> str:
    """A text without control characters and without those that change its direction."""
    return str(text).translate(_PRINTABLE)


def printable_json(text: str) -> str:
    """The same JSON, with those characters escaped."""
    return text if text.isascii() else text.translate(_IN_JSON)


def escape(text: object) -> str:
    """A text as it is shown, also if it has control characters or the markup of rich."""
    from rich import markup  # loads only for tables

    return markup.escape(printable(text))
