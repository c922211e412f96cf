"""Fields of responses on one line of text."""

from __future__ import annotations

import re
from typing import Any, Final

INDENT: Final = "   "
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


def plain(value: Any) -> str:
    """A field on one line: white space and control characters collapsed to single spaces."""
    if value is None:
        return ""
    text = " ".join(str(value).split())
    return text if text.isprintable() else " ".join(_CONTROL.sub(" ", text).split())
