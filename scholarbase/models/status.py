"""The status of a paper, withdrawn, retracted or None, and the dated notices that journals published about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, Literal, get_args

import msgspec
from msgspec import Meta

PaperStatus = Literal["retracted", "withdrawn"]
"""``retracted``: by its publisher. ``withdrawn``: by its authors or by arXiv."""
Status = Literal["active", "withdrawn", "retracted", "correction", "expression_of_concern", "reinstatement"]
"""A value of the filter: ``active`` is a paper without a status; the last three are kinds of notices."""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
ACTIVE: Final = "active"
EVERY_PAPER: Final = frozenset(("active", "withdrawn", "retracted"))
"""The statuses of which each paper has one."""

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
    return tuple(status for status in STATUSES if status not in wanted)


NoticeKind = Literal["retraction", "correction", "expression_of_concern", "reinstatement"]


class Notice(msgspec.Struct, frozen=True):
    """What a journal has published about a paper. ``doi`` is that of the notice."""

    kind: NoticeKind
    date: Annotated[str | None, Meta(description="YYYY-MM-DD; null if the source has none.")] = None
    reasons: Annotated[tuple[str, ...], Meta(description="In the words of the source.")] = ()
    doi: Annotated[str | None, Meta(description="The DOI of the notice.")] = None
    source: str = "Retraction Watch"


def notices_until(notices: Iterable[Notice], day: int | None) -> tuple[Notice, ...]:
    """The notices up to a day ``yyyymmdd``, the earliest first; with a day, those without a date are left out."""
    known = [
        notice
        for notice in notices
        if day is None or (notice.date and int(notice.date.replace("-", "")) <= day)
    ]
    return tuple(
        sorted(known, key=lambda notice: (notice.date or "", notice.kind, notice.reasons, notice.doi or ""))
    )


def last_verdict(notices: Sequence[Notice]) -> Notice | None:
    """The last retraction or reinstatement of notices in the order of their dates."""
    return next(
        (notice for notice in reversed(notices) if notice.kind in {"retraction", "reinstatement"}), None
    )


def status_on(notices: Iterable[Notice], day: int | None) -> PaperStatus | None:
    """``retracted`` if the last retraction or reinstatement up to a day is a retraction, else None."""
    verdict = last_verdict(notices_until(notices, day))
    return "retracted" if verdict is not None and verdict.kind == "retraction" else None
