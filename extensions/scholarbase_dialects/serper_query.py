"""The operators of Google's queries, and the limits of dates in ``tbs``, as Serper sends them on.

The operators: https://support.google.com/websearch/answer/2466433. ``tbs`` is a parameter of Google's URLs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import date_bounds, shown
from scholarbase_dialects.listing.conditions import Days

MAX_TBS: Final = 1000
"""Characters of ``tbs``."""
RANGES: Final[Mapping[str, int]] = {"h": 0, "d": 1, "w": 7, "m": 30, "y": 365}
"""Days of each range of ``qdr``. Papers have no hours."""
_FIRST, _LAST = date.min.toordinal(), date.max.toordinal()
_OPERATOR: Final = re.compile(
    r"""(?<![^\s"'(\[,;])["'(\[]?(?:"""
    r"""(?P<name>before|after):\s{0,10}["'(]?(?P<date>[0-9]{1,8}(?:[-/.][0-9]{1,4}){0,2})(?:T[0-9:.+Z-]{0,30})?"""
    r"""(?![-/.]?\w)"""
    r"""|site:["']?(?P<site>[^\s"')\],;]{1,100}))["')\].,;:!?]{0,5}""",
    re.IGNORECASE,
)
_DATE: Final = re.compile(
    r"(?P<year>[0-9]{4})(?:[-/.](?P<month>[0-9]{1,2})(?:[-/.](?P<day>[0-9]{1,2}))?)?"
    r"|(?P<year1>[0-9]{4})(?P<month1>[0-9]{2})(?P<day1>[0-9]{2})?"
    r"|(?P<month2>[0-9]{1,2})[-/.](?P<day2>[0-9]{1,2})[-/.](?P<year2>[0-9]{4})"
)
_RANGE: Final = re.compile(r"([hdwmy])([0-9]{0,4})")


@dataclass(slots=True)
class Query:
    """A query and its limits.

    Args:
        words: the text without operators.
        sites: the hosts of ``site:``.
        first, last: the first and last day, as ordinals of the calendar. Of several limits the strictest holds.
    """

    words: str
    sites: set[str] = field(default_factory=set)
    first: int = _FIRST
    last: int = _LAST

    def limit(self, first: int = _FIRST, last: int = _LAST) -> None:
        """Limit the days further."""
        self.first, self.last = max(self.first, first), min(self.last, last)

    @property
    def dates(self) -> dict[str, str]:
        """The arguments of a native search; no day is in their range if none is left."""
        if self.first > self.last:
            return {"from_": date.max.isoformat(), "to": date.min.isoformat()}
        return {
            **({"from_": date.fromordinal(self.first).isoformat()} if self.first > _FIRST else {}),
            **({"to": date.fromordinal(self.last).isoformat()} if self.last < _LAST else {}),
        }

    @property
    def days(self) -> Days:
        """The same as a condition on papers."""
        numbers = {name: int(day.replace("-", "")) for name, day in self.dates.items()}
        return Days(numbers.get("from_"), numbers.get("to"))


def read(q: str) -> Query:
    """The words of a query and its operators. An operator whose value is not a date is read as words."""
    query = Query("")

    def operator(match: re.Match[str]) -> str:
        if match["site"]:
            host = match["site"].lower().removeprefix("https://").removeprefix("http://").partition("/")[0]
            query.sites.add(host.rstrip(".:!?"))
            return " "
        if (days := _days(match["date"])) is None:
            return match[0]
        if match["name"].lower() == "before":  # the day itself is excluded
            query.limit(last=days[0] - 1)
        else:
            query.limit(first=days[1] + 1)
        return " "

    query.words = " ".join(_OPERATOR.sub(operator, q).split())
    return query


def limit_by(query: Query, tbs: str, today: int | None) -> list[str]:
    """Limit a query's days as ``tbs`` does, such as ``qdr:y`` or ``cdr:1,cd_min:1/31/2020,cd_max:12/1/2020``.

    Args:
        today: the day from which ranges are counted back; None if there is none.

    Returns:
        The parts without an effect.

    Raises:
        InvalidRequest: the text is too long, or a limit cannot be read.
    """
    if len(tbs) > MAX_TBS:
        raise InvalidRequest(f"tbs has {len(tbs):,} characters: send {MAX_TBS:,} at most.")
    ignored = []
    for part in tbs.split(","):
        name, _, value = (text.strip() for text in part.partition(":"))
        if name in ("cd_min", "cd_max"):
            if not value:
                continue
            if (days := _days(value)) is None:
                raise InvalidRequest(f"tbs has {name} {shown(value)}: it must be a day, such as 1/31/2020.")
            if name == "cd_min":
                query.limit(first=days[0])
            else:
                query.limit(last=days[1])
        elif name == "qdr":
            if (match := _RANGE.fullmatch(value)) is None:
                raise InvalidRequest(f"tbs has qdr {shown(value)}: it must be h, d, w, m or y.")
            if today is not None:
                query.limit(first=today - RANGES[match[1]] * int(match[2] or 1))
        elif name not in ("", "cdr"):
            ignored.append(part)
    return ignored


def _days(text: str) -> tuple[int, int] | None:
    """The first and last day of ``2020``, ``2020-1``, ``2020/1/31``, ``20200131`` or ``1/31/2020``; None for another
    text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (
        match[name] or match[f"{name}1"] or match[f"{name}2"] for name in ("year", "month", "day")
    )
    try:
        bounds = date_bounds("-".join([year, *(number.zfill(2) for number in (month, day) if number)]))
    except InvalidRequest:
        return None
    first, last = (date(bound // 10_000, bound // 100 % 100, bound % 100).toordinal() for bound in bounds)
    return first, last
