"""Texts on a terminal, which obeys control characters: those of others, such as titles and names, are shown without."""

from __future__ import annotations

import re
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All control characters but tabs and ends of lines (ECMA-48)."""


def printable(text: object) -> str:
    """A text without control characters."""
    return _CONTROL.sub(" ", str(text))


def escape(text: object) -> str:
    """A text as it is shown, also if it has control characters or the markup of rich."""
    from rich import markup  # loads only for tables

    return markup.escape(printable(text))
