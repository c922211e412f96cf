"""Named sets of papers: ``set:NAME`` in the filter ``within`` stands for the papers of a source file."""

from __future__ import annotations

import re
from typing import Final

from scholarbase.errors import InvalidRequest

PREFIX: Final = "set:"
MAX_NAME: Final = 64
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAME - 1}}}", re.ASCII)


def is_set(text: str) -> bool:
    """Whether a value of ``within`` is a set instead of a paper's id."""
    return text.strip()[: len(PREFIX)].lower() == PREFIX


def check_set_name(name: str) -> str:
    """Return the name of a set. Raises InvalidRequest: it is empty, too long or has other characters."""
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name[: 2 * MAX_NAME]!r} is not a valid name of a set: use 1 to {MAX_NAME} letters, digits, '.', '_' and "
            "'-', the first one a letter or a digit."
        )
    return name
