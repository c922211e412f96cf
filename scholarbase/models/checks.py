"""Checks of single values. Each raises InvalidRequest with a message that names the value."""

from __future__ import annotations

import calendar
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.identifiers import parse
from scholarbase.models.limits import (
    CITATION_SORTS,
    MAX_AUTHOR_ID_LENGTH,
    MAX_AUTHORS,
    MAX_IDS,
    MAX_NAME_LENGTH,
    MAX_PAPERS,
    MAX_PHRASE_LENGTH,
    MAX_PHRASES,
    MAX_TITLE_LENGTH,
    CitationSort,
)
from scholarbase.models.status import ACTIVE, EVERY_PAPER, STATUSES

_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", re.ASCII)
_CATEGORY: Final = re.compile(r"""(?!.*[,;][a-z])(?!.* .*\.|.*\..* )[^'"\[\]]{1,50}""")
"""One name, not several. Papers also have names such as I.2.7; and 68T07, with a mark at the end."""
_SPACED: Final = re.compile(r"[\w-]+\.[\w-]+(?: [\w-]+\.[\w-]+)+")
"""Several categories between spaces, as records of arXiv list them."""
MAX_INTEGER: Final = 2**63 - 1
"""SQLite's largest integer: https://sqlite.org/datatype3.html."""


def shown(value: object, most: int = 200) -> str:
    """A value as a message quotes it, of at most ``most`` characters."""
    try:
        text = repr(value)
    except Exception:  # such as an integer of more than 4,300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else text[:most] + "..."


def sent(value: object) -> str:
    """A value as a message quotes it, with JSON's names of booleans and null."""
    text = shown(value)
    return {"None": "null", "True": "true", "False": "false"}.get(text, text)


def check_type(value: object, kinds: type | tuple[type, ...], name: str, what: str) -> None:
    """Require an instance of ``kinds``; ``what`` is the expected value in words."""
    if not isinstance(value, kinds):
        raise InvalidRequest(f"{name} is {shown(value)}: it must be {what}.")


def check_path(path: object, name: str) -> Path:
    """Require a text or a path that the file system can have."""
    try:
        checked = Path(path)  # type: ignore[arg-type]
        is_valid = b"\0" not in os.fsencode(checked)
    except (TypeError, UnicodeEncodeError):
        is_valid = False
    if not is_valid:
        raise InvalidRequest(f"{name} is {shown(path)}: it must be the path of a file or a folder.")
    return checked


def date_bounds(text: str, name: str = "date") -> tuple[int, int]:
    """The first and last day of a ``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD`` as numbers ``yyyymmdd``.

    Raises:
        InvalidRequest: the date has another form or does not exist.
    """
    match = _DATE.fullmatch(text) if isinstance(text, str) else None
    year, month, day = (int(part) if part else None for part in match.groups()) if match else (0, None, None)
    if year and month is None:
        return year * 10000 + 101, year * 10000 + 1231
    if year and month and month <= 12:
        before, last = year * 10000 + month * 100, calendar.monthrange(year, month)[1]
        if day is None:
            return before + 1, before + last
        if 1 <= day <= last:
            return before + day, before + day
    raise InvalidRequest(
        f"{shown(text)} is not a valid date for {name}: use YYYY, YYYY-MM or YYYY-MM-DD, such as 2023-06."
    )


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
            f"{shown(text)} is not a valid date for as_of: use YYYY-MM or YYYY-MM-DD, such as 2023-06."
        ) from error


def check_whole(value: int, name: str, low: int, high: int = MAX_INTEGER) -> int:
    """Require a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        open_ended = high == MAX_INTEGER and not (isinstance(value, int) and value > high)
        span = f"of {low} or more" if open_ended else f"from {low} to {high}"
        raise InvalidRequest(f"{name} is {shown(value)}: it must be a whole number {span}.")
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


def check_filled(text: str, name: str, most: int, what: str) -> str:
    """Require a text that is not only white space, of at most ``most`` characters; ``what`` should be sent."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequest(f"{name} is empty: send {what}.")
    if len(text) > most:
        raise InvalidRequest(f"{name} has {len(text):,} characters: the maximum is {most:,}.")
    check_text(text, name)
    return text


def check_title(title: str) -> str:
    return check_filled(title, "title", MAX_TITLE_LENGTH, "the title of a paper")


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


def elements(values: object) -> tuple[Any, ...] | None:
    """The elements of a list or another iterable; None for anything else, a text and a mapping among them."""
    if isinstance(values, str | bytes | bytearray | Mapping) or not isinstance(values, Iterable):
        return None
    try:
        return tuple(values)
    except TypeError:  # numpy's arrays of no dimension
        return None


def check_list(values: object, name: str, what: str) -> tuple[Any, ...]:
    """The elements of a list; ``what`` are they in words."""
    items = elements(values)
    if items is None:
        raise InvalidRequest(f"{name} is {shown(values)}: it must be a list of {what}.")
    return items


def _listed_or_none(values: object) -> tuple[str, ...] | None:
    """The strings of a list, or the list of one string; None for anything else."""
    if isinstance(values, str):
        return (values,)
    items = elements(values)
    return items if items is not None and all(isinstance(value, str) for value in items) else None


def listed(values: object, name: str) -> tuple[str, ...]:
    """The strings of a list, or the list of one string."""
    strings = _listed_or_none(values)
    if strings is None:
        raise InvalidRequest(f"{name} is {shown(values)}: it must be a list of strings.")
    return strings


def check_names(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Categories or venues; a string is one value."""
    values = listed(names, name)
    for value in values:
        if not value.strip():
            raise InvalidRequest(f"{name} contains an empty value: remove it, or use a name.")
        if len(value) > MAX_NAME_LENGTH:
            raise InvalidRequest(
                f"A value of {name} has {len(value):,} characters: the maximum is {MAX_NAME_LENGTH}."
            )
        check_text(value, name)
    return values


def check_authors(names: Sequence[str], name: str) -> tuple[str, ...]:
    """Names and ids of authors; a string is one value."""
    values = listed(names, name)
    if len(values) > MAX_AUTHORS:
        raise InvalidRequest(f"{name} has {len(values):,} values: the maximum is {MAX_AUTHORS}.")
    for value in values:
        check_author_id(value, name)
    return values


def check_statuses(values: Any) -> tuple[str, ...]:
    """Return the statuses of the filter ``status``, each once, or raise InvalidRequest. A string may have several,
    separated by commas."""
    parts = values.split(",") if isinstance(values, str) else values
    statuses = tuple(dict.fromkeys(status.strip().lower() for status in check_names(parts, "status")))
    for status in statuses:
        if status not in STATUSES:
            raise InvalidRequest(f"status is {shown(status)}: use {', '.join(STATUSES)}.")
        if ACTIVE in statuses and status not in EVERY_PAPER:
            raise InvalidRequest(
                f"status {ACTIVE!r} cannot be combined with {status!r}, which papers have that are active too: leave "
                "one of them out."
            )
    return statuses


def check_status(statuses: Sequence[str], as_of: str | None) -> None:
    """Raise InvalidRequest for a filter by status at a point in time."""
    if statuses and as_of is not None:
        raise InvalidRequest(
            f"status {', '.join(statuses)} cannot be combined with as_of {as_of!r}: the snapshot has only its own, "
            "later status of papers. Leave one of them out."
        )


def check_author_id(value: str, name: str) -> str:
    """Return an author's name or id, unless it is empty, too long, or only punctuation."""
    check_filled(value, name, MAX_AUTHOR_ID_LENGTH, "the name or the id of an author")
    if not any(map(str.isalnum, value)):
        raise InvalidRequest(f"{name} is {shown(value)}, which has no letter or digit: send a name or an id.")
    return value


def check_json_format(arguments: Mapping[str, Any]) -> None:
    """Reject a tool's argument ``format`` where the response is always JSON."""
    if isinstance(arguments, Mapping) and arguments.get("format") not in (None, "json"):
        raise InvalidRequest(
            f"format is {shown(arguments['format'])}, and this method returns JSON: leave format out, and use the "
            "method ending in _as_text for text."
        )


def as_text_arguments(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments of a tool's call for text. The tool rejects anything but a mapping, which is returned unchanged."""
    return {**arguments, "format": "text"} if isinstance(arguments, Mapping) else arguments


def check_types(values: Sequence[str] | str) -> tuple[str, ...]:
    """Publication types; a string has one, or several separated by commas."""
    parts = values.split(",") if isinstance(values, str) else values
    return tuple(name.strip() for name in check_names(parts, "type"))


def check_categories(values: Sequence[str] | str) -> tuple[str, ...]:
    """Categories and archives; a string has one, or several separated by commas or as arXiv lists them."""
    parts = values.split(",") if isinstance(values, str) else values
    names: list[str] = []
    for value in check_names(parts, "category"):
        name = " ".join(value.split())
        names += name.split() if _SPACED.fullmatch(name) else [name]
    for name in names:
        if not _CATEGORY.fullmatch(name):
            raise InvalidRequest(
                f"category contains {name!r}, which is not a category or an archive: use names such as cs.CL and cs, "
                "each by itself in a list."
            )
    return tuple(names)


def check_papers(count: int, what: str) -> None:
    """Reject a batch whose limits are together more than ``MAX_PAPERS``."""
    if count > MAX_PAPERS:
        raise InvalidRequest(
            f"The limits of these {what} are together {count:,} papers, and the maximum in one response is "
            f"{MAX_PAPERS:,}: use smaller limits and page by offset, or several batches."
        )


def check_ids(ids: Sequence[str] | str, name: str) -> tuple[str, ...]:
    """Paper ids of any form, at most ``MAX_IDS``; a string is one id. The lookup checks their forms."""
    paper_ids = _listed_or_none(ids)
    if paper_ids is None:
        raise InvalidRequest(f"{name} must be a list of paper ids, such as ['arXiv:1706.03762'].")
    if len(paper_ids) > MAX_IDS:
        raise InvalidRequest(f"{name} has {len(paper_ids)} ids: the maximum in one request is {MAX_IDS}.")
    for paper_id in paper_ids:
        check_text(paper_id, name)
    return paper_ids


def check_phrases(phrases: Sequence[str], name: str) -> tuple[str, ...]:
    """Phrases to exclude; a string is one phrase. Paper ids are rejected."""
    values = listed(phrases, name)
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
        if is_id(phrase):
            raise InvalidRequest(
                f"{name} contains {phrase!r}, a paper id: send phrases here, and paper ids in {name}_ids."
            )
    return values


def is_id(text: str) -> bool:
    """Whether a text is a paper id of any form."""
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
        raise type(error)(f"In the {kind} {shown(value, 80)}: {error}") from error
