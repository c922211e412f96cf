"""Years in dates and lines."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

_YEAR: Final = re.compile(r"(?<![\w.:/])(1[89]\d\d|20\d\d)(?:[a-z](?![a-z]))?(?![\w/])(?!\.\d)", re.ASCII)
_IN_PARENTHESES: Final = re.compile(r"\(\D{0,20}\b(1[89]\d\d|20\d\d)[a-z]?\b[^()]{0,20}\)", re.ASCII)


def first_year(text: str) -> int | None:
    """The first year of a date, None if it has none."""
    match = re.search(r"(?<!\d)(1[4-9]\d\d|20\d\d)(?!\d)", text)
    return int(match[1]) if match else None


_DAY: Final = re.compile(r"(1[4-9]\d\d|20\d\d)[-/](\d{1,2})[-/](\d{1,2})(?!\d)", re.ASCII)


def whole_day(text: str) -> str | None:
    """The day ``YYYY-MM-DD`` that a date starts with, as in ``2017-06-12`` or ``2017/6/12/``; None without one."""
    match = _DAY.match(text.strip())
    try:
        return date(*map(int, match.groups())).isoformat() if match else None
    except ValueError:
        return None


_NUMBERS: Final = re.compile(r"\d+", re.ASCII)
MONTHS: Final = {
    "jan": "January", "feb": "February", "mar": "March", "apr": "April", "may": "May", "jun": "June", "jul": "July",
    "aug": "August", "sep": "September", "oct": "October", "nov": "November", "dec": "December",
}  # fmt: skip
"""The abbreviations of months that BibTeX's styles define."""


def day_of_parts(year: int | None, month: str, day: str) -> str | None:
    """The day ``YYYY-MM-DD`` of a year, a month in words or as a number, and a day, which the month may have, as in
    ``January 1``; None if a part is missing or the month has several days."""
    numbers = _NUMBERS.findall(f"{month} {day}")
    names = [
        number for number, short in enumerate(MONTHS, 1) if re.search(rf"\b{short}", month, re.IGNORECASE)
    ]
    if len(names) == 1 and len(numbers) == 1:
        numbers = [str(names[0]), *numbers]
    elif names or len(numbers) != 2 or not day.strip():
        return None
    return whole_day("-".join((str(year), *numbers))) if year is not None else None


def years_in(text: str) -> tuple[int | None, tuple[int, ...]]:
    """The year of a reference in plain text, and all years that the text mentions.

    A year in parentheses is the reference's, else the last one: pages and volumes come before it in most styles.
    """
    years = tuple(dict.fromkeys(int(match[1]) for match in _YEAR.finditer(text)))
    inner = _IN_PARENTHESES.search(text)
    if inner is not None:
        year = int(inner[1])
        return year, tuple(dict.fromkeys((year, *years)))
    return (years[-1] if years else None), years
