"""Checks of single values. Each raises InvalidRequest with a message that names the value."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.identifiers import parse
from scholarbase.models.limits import (
    CITATION_SORTS,
    MAX_IDS,
    MAX_NAME_LENGTH,
    MAX_PAPERS,
    MAX_PHRASE_LENGTH,
    MAX_PHRASES,
    MAX_TITLE_LENGTH,
    MAX_TITLE_MATCHES,
    CitationSort,
)

_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)
_CATEGORY: Final = re.compile(r"""(?!.*[,;][a-z])[^\s'"\[\]]{1,50}""")
"""One name, not several. Papers also have names such as I.2.7; and 68T07, with a mark at the end."""
_MAX_INTEGER: Final = 2**63 - 1
"""SQLite's largest integer: https://sqlite.org/datatype3.html."""


def date_bounds(text: str, name: str = "date") -> tuple[int, int]:
    """The first and last day of a ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD`` as numbers ``yyyymmdd``.

    Raises:
        InvalidRequest: the date has another form or does not exist.
    """
    match = _DATE.fullmatch(text) if isinstance(text, str) else None
    invalid = InvalidRequest(
        f"{text!r} is not a valid date for {name}: use YYYY, YYYY-MM or YYYY-MM-DD, such as 2023-06."
    )
    if match is None:
        raise invalid
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None
    if year == 0 or (month is not None and not 1 <= month <= 12):
        raise invalid
    if month is None:
        return year * 10000 + 101, year * 10000 + 1231
    last = calendar.monthrange(year, month)[1]
    if day is None:
        return year * 10000 + month * 100 + 1, year * 10000 + month * 100 + last
    if not 1 <= day <= last:
        raise invalid
    exact = year * 10000 + month * 100 + day
    return exact, exact


def as_of_day(text: str) -> int:
    """The last day ``yyyymmdd`` of a point in time ``YYYY-MM`` or ``YYYY-MM-DD``.

    Raises:
        InvalidRequest: the date has another form, is only a year, or does not exist.
    """
    if isinstance(text, str) and re.fullmatch(r"[0-9]{4}", text):
        raise InvalidRequest(
            f"as_of {text!r} is a year, not a month or day: use YYYY-MM or YYYY-MM-DD, such as {text}-12."
        )
    try:
        return date_bounds(text, "as_of")[1]
    except InvalidRequest as error:
        raise InvalidRequest(
            f"{text!r} is not a valid date for as_of: use YYYY-MM or YYYY-MM-DD, such as 2023-06."
        ) from error


def check_whole(value: int, name: str, low: int, high: int = _MAX_INTEGER) -> int:
    """Require a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        open_ended = high == _MAX_INTEGER and not (isinstance(value, int) and value > high)
        span = f"of {low} or more" if open_ended else f"from {low} to {high}"
        raise InvalidRequest(f"{name} is {value!r}: it must be a whole number {span}.")
    return value


def check_text(text: str, name: str) -> None:
    """Reject half of a surrogate pair, which UTF-8 cannot encode."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                f"{name} contains {text[error.start]!r} at character {error.start + 1}, half of a surrogate pair: "
                "send whole characters."
            ) from error


def check_title(title: str) -> str:
    if not isinstance(title, str) or not title.strip():
        raise InvalidRequest("title is empty: send the title of a paper.")
    if len(title) > MAX_TITLE_LENGTH:
        raise InvalidRequest(f"title has {len(title):,} characters: the maximum is {MAX_TITLE_LENGTH:,}.")
    check_text(title, "title")
    return title


def check_title_match(limit: int, min_score: float) -> None:
    """Reject a ``limit`` outside 1..100, or a ``min_score`` that is not above 0 and at most 1."""
    check_whole(limit, "limit", 1, MAX_TITLE_MATCHES)
    if isinstance(min_score, bool) or not isinstance(min_score, int | float) or not 0 < min_score <= 1:
        raise InvalidRequest(f"min_score is {min_score!r}: it must be above 0 and at most 1.")


def check_sort(sort: CitationSort | None, as_of: str | None = None) -> CitationSort:
    """The order of citations: most cited first by default, or newest first with ``as_of``.

    Raises:
        InvalidRequest: ``sort`` is unknown, or is by citation count with ``as_of``.
    """
    if sort is None:
        return "-citation_count" if as_of is None else "-date"
    if sort not in CITATION_SORTS:
        raise InvalidRequest(f"Unknown sort {sort!r}: it is one of {', '.join(CITATION_SORTS)}.")
    if as_of is not None and sort.endswith("citation_count"):
        raise InvalidRequest(
            f"sort {sort!r} cannot be combined with as_of {as_of!r}: the snapshot has only its own, later "
            "citation counts. Sort by '-date' or 'date'."
        )
    return sort


def _listed_or_none(values: object) -> tuple[str, ...] | None:
    """The strings of a list, or the list of one string; None for anything else."""
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, Iterable) or isinstance(values, Mapping):
        return None
    listed = tuple(values)
    return listed if all(isinstance(value, str) for value in listed) else None


def _listed(values: object, name: str) -> tuple[str, ...]:
    listed = _listed_or_none(values)
    if listed is None:
        raise InvalidRequest(f"{name} is {repr(values)[:200]}: it must be a list of strings.")
    return listed


def check_names(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Categories or venues; a string is one value."""
    values = _listed(names, name)
    for value in values:
        if not value.strip():
            raise InvalidRequest(f"{name} contains an empty value: remove it, or use a name.")
        if len(value) > MAX_NAME_LENGTH:
            raise InvalidRequest(
                f"A value of {name} has {len(value):,} characters: the maximum is {MAX_NAME_LENGTH}."
            )
        check_text(value, name)
    return values


def check_json_format(arguments: Mapping[str, Any]) -> None:
    """Reject a tool's argument ``format`` where the response is always JSON."""
    if isinstance(arguments, Mapping) and arguments.get("format") not in (None, "json"):
        raise InvalidRequest(
            f"format is {arguments['format']!r}, and this method returns JSON: leave format out, and use the method "
            "ending in _as_text for text."
        )


def check_categories(values: Sequence[str] | str) -> tuple[str, ...]:
    """Categories and archives; a string has one, or several separated by commas."""
    listed = [name.strip() for name in values.split(",")] if isinstance(values, str) else values
    names = tuple(name.strip() for name in check_names(listed, "category"))
    for name in names:
        if not _CATEGORY.fullmatch(name):
            raise InvalidRequest(
                f"category contains {name!r}, which is not a category or an archive: use names such as cs.CL and cs, "
                "each by itself in a list."
            )
    return names


def check_papers(count: int, what: str) -> None:
    """Reject a batch whose limits are together more than ``MAX_PAPERS``."""
    if count > MAX_PAPERS:
        raise InvalidRequest(
            f"The limits of these {what} are together {count:,} papers, and the maximum in one response is "
            f"{MAX_PAPERS:,}: use smaller limits and page by offset, or several batches."
        )


def check_ids(ids: Sequence[str] | str, name: str) -> tuple[str, ...]:
    """Paper ids of any form, at most ``MAX_IDS``; a string is one id. The lookup checks their forms."""
    listed = _listed_or_none(ids)
    if listed is None:
        raise InvalidRequest(f"{name} must be a list of paper ids, such as ['arXiv:1706.03762'].")
    if len(listed) > MAX_IDS:
        raise InvalidRequest(f"{name} has {len(listed)} ids: the maximum in one request is {MAX_IDS}.")
    for paper_id in listed:
        check_text(paper_id, name)
    return listed


def check_phrases(phrases: Sequence[str], name: str) -> tuple[str, ...]:
    """Phrases to exclude; a string is one phrase. Paper ids are rejected."""
    values = _listed(phrases, name)
    if len(values) > MAX_PHRASES:
        raise InvalidRequest(
            f"{name} has {len(values)} phrases: the maximum in one request is {MAX_PHRASES}."
        )
    for phrase in values:
        check_text(phrase, name)
        if len(phrase) > MAX_PHRASE_LENGTH:
            raise InvalidRequest(
                f"A phrase of {name} has {len(phrase)} characters: the maximum is {MAX_PHRASE_LENGTH}."
            )
        if not any(map(str.isalnum, phrase)):
            raise InvalidRequest(
                f"{name} contains {phrase!r}, which has no words: remove it, or use a phrase with words."
            )
        if _is_id(phrase):
            raise InvalidRequest(
                f"{name} contains {phrase!r}, a paper id: send phrases here, and paper ids in {name}_ids."
            )
    return values


def _is_id(text: str) -> bool:
    try:
        parse(text)
    except InvalidRequest:
        return False
    return True


@contextmanager
def in_batch(kind: str, value: object) -> Iterator[None]:
    """Add the search or title of a batch to the messages of errors raised inside the block."""
    try:
        yield
    except ScholarBaseError as error:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else shown[:80] + "..."
        raise type(error)(f"In the {kind} {shown}: {error}") from error
