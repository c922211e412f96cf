"""The status of a paper: withdrawn or retracted; None for one that nobody took back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal, get_args

PaperStatus = Literal["retracted", "withdrawn"]
"""``retracted``: by its publisher. ``withdrawn``: by its authors or by arXiv."""
Status = Literal["active", "withdrawn", "retracted"]
"""A value of the filter: ``active`` is a paper without a status."""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
ACTIVE: Final = "active"

_PAPER: Final = r"(?:paper|article|submission|manuscript|preprint|work|note|version)"
_WITHDRAWN: Final = re.compile(
    rf"\b(?:this|the)\s+(?:version\s+of\s+(?:this|the)\s+)?{_PAPER}\s+(?:has\s+been|had\s+been|is|was)"
    r"\s+(?:\w+\s+)?withdrawn(?!\s+from\s+submission)"
    rf"|\A\W*(?:admin\s+note:\s+)?(?:{_PAPER}\s+)?(?:(?:has\s+been|is|was)\s+)?withdrawn\b"
    rf"|\b(?:update|note):\s+{_PAPER}\s+withdrawn",
    re.IGNORECASE,
)


def is_withdrawn(text: str | None) -> bool:
    """Whether an abstract or a comment says that its paper has been withdrawn, as on arXiv."""
    return text is not None and "withdrawn" in text.lower() and _WITHDRAWN.search(text) is not None


def other_statuses(wanted: Sequence[str]) -> tuple[Status, ...]:
    """The statuses of papers that a filter leaves out: those of ``active`` papers are None."""
    return tuple(one for one in STATUSES if one not in wanted)
