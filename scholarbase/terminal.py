"""Texts on a terminal, which obeys control characters: those of others, such as titles and names, are shown without."""

from __future__ import annotations

import json
from typing import Final

_CONTROL: Final = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), " ")
"""All control characters but tabs and ends of lines (ECMA-48)."""
_INVISIBLE: Final = (
    *(0xAD, 0x34F, 0x61C, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164),
    *(0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFC), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE0080)),
)
"""Characters that show nothing, hide text or reorder it, without the joiners and variants that scripts and emoji need
(Default_Ignorable_Code_Point, https://www.unicode.org/reports/tr44/)."""
_PRINTABLE: Final = {**_CONTROL, **dict.fromkeys(_INVISIBLE)}
_IN_JSON: Final = {code: json.dumps(chr(code))[1:-1] for code in (*range(0x80, 0xA0), *_INVISIBLE)}


def printable(text: object) -> str:
    """A text without control characters and without invisible ones."""
    return str(text).translate(_PRINTABLE)


def printable_json(text: str) -> str:
    """The same JSON, with those characters escaped."""
    return text if text.isascii() else text.translate(_IN_JSON)


def escape(text: object) -> str:
    """A text as it is shown, also if it has control characters or the markup of rich."""
    from rich import markup  # loads only for tables

    return markup.escape(printable(text))
