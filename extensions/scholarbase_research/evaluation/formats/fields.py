"""Fields of a record: query texts, ids, titles, grades and dates, checked and in canonical form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import arxiv_id_from_number, parse, stored_arxiv_id
from scholarbase.models.checks import date_bounds, shown
from scholarbase.models.limits import MAX_QUERY_LENGTH
from scholarbase_research.evaluation.formats.reading import Broken, Reading
from scholarbase_research.evaluation.formats.streams import Record
from scholarbase_research.evaluation.queries import Answer
from scholarbase_research.evaluation.run_data import MAX_GRADE

_BY_TITLE: Final = "Answers whose id has no known form, to be found by their title"
_REPAIRED: Final = "arXiv ids that had become numbers, with their zeros put back"
_NUMBERED: Final = "Queries without a qid, named after their place in the file"
_DAY: Final = re.compile(r"(\d{4})(\d{2})(\d{2})", re.ASCII)


def required(fields: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of these fields that is present. Raises Broken: all are missing."""
    for name in names:
        if fields.get(name) is not None:
            return fields[name]
    raise Broken(f"it has no {' or '.join(names)}.")


def query_id(value: Any, name: str) -> str:
    """A text, or a whole number as a text. Raises Broken: another type, or empty."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Broken(f"{name} is {shown(value)}, and must be a text or a whole number.")
    text = str(value).strip()
    if not text:
        raise Broken(f"{name} is empty: give each query an id.")
    return text


def qid(value: Any, record: Record, reading: Reading) -> str:
    """The query id in ``value``; without one, a name from the record's number, which is counted in a note."""
    if value is None:
        reading.count(_NUMBERED)
        value = f"query-{record.number}"
    return query_id(value, "qid")


def query_text(fields: Mapping[str, Any], *names: str) -> str:
    """The text of the query. Raises Broken: missing, empty, not a text, or longer than a search accepts."""
    name = next((name for name in names if fields.get(name) is not None), names[0])
    value = fields.get(name)
    if value is None:
        raise Broken(f"it has no {' or '.join(names)}: give the text of the query.")
    if not isinstance(value, str):
        raise Broken(f"{name} is {shown(value)}, and must be a text.")
    text = value.strip()
    if not text:
        raise Broken(f"{name} is empty: give the text of the query.")
    if len(text) > MAX_QUERY_LENGTH:
        raise Broken(f"{name} has {len(text):,} characters: the maximum is {MAX_QUERY_LENGTH:,}.")
    return text


def optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    """A text such as an intent; None if missing or empty. Raises Broken: not a text."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Broken(f"{name} is {shown(value)}, and must be a text.")
    return value.strip() or None


def date(value: Any, name: str) -> str | None:
    """``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``, read from these or from ``YYYYMMDD``. Raises Broken: another form."""
    if value is None or value == "":
        return None
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    day = _DAY.fullmatch(text)
    if day is not None:
        text = "-".join(day.groups())
    try:
        date_bounds(text, name)
    except InvalidRequest as error:
        raise Broken(
            f"{name} is {shown(value)}, and must be a date: YYYY, YYYY-MM, YYYY-MM-DD or YYYYMMDD."
        ) from error
    return text


def items(fields: Mapping[str, Any], name: str) -> list[Any] | None:
    """A list, None if missing. Raises Broken: not a list."""
    value = fields.get(name)
    if value is not None and not isinstance(value, list):
        raise Broken(f"{name} is {shown(value)}, and must be a list.")
    return value


def paper_id(value: Any, name: str) -> str | None:
    """The canonical form of an id, None if empty. Raises Broken: not a text, or not a known form of id."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Broken(f"{name} contains {shown(value)}, and must contain texts such as 'arXiv:1706.03762'.")
    if not value.strip():
        return None
    try:
        return str(parse(value))
    except InvalidRequest as error:
        hint = ""
        if value.rstrip().endswith(","):
            hint = " Separate ids by ;, | or white space, without commas."
        elif repaired := arxiv_id_from_number(value.strip()):
            hint = f" Perhaps arXiv:{repaired} is meant."
        raise Broken(f"{name}: {error}{hint}") from error


def _arxiv_paper_id(value: Any, name: str, reading: Reading) -> str | None:
    """Like ``paper_id``, for arXiv ids: an id stored as a number (806.1945) is repaired and counted."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    arxiv_id, repaired = stored_arxiv_id(value)
    if not repaired:
        return paper_id(value, name)
    reading.count(_REPAIRED)
    return f"arXiv:{arxiv_id}"


def title(value: Any, name: str) -> str | None:
    """A title, None if empty. Raises Broken: not a text."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise Broken(f"{name} contains {shown(value)}, and must contain texts.")
    return " ".join(value.split()) or None


def answer(
    value: Any, its_title: str | None, grade: int, name: str, reading: Reading, *, arxiv: bool
) -> Answer:
    """An answer with an id, a title, or both. Raises Broken: neither, or an unknown form of id without a title."""
    try:
        answer_id = _arxiv_paper_id(value, name, reading) if arxiv else paper_id(value, name)
    except Broken:
        if its_title is None:
            raise
        reading.count(_BY_TITLE)
        answer_id = None
    if answer_id is None and its_title is None:
        raise Broken(f"{name} contains an empty answer: give an id or a title.")
    return Answer(answer_id, its_title, grade)


def non_empty(answers: Sequence[Answer], name: str) -> tuple[Answer, ...]:
    """The answers as a tuple. Raises Broken: there are none."""
    if not answers:
        raise Broken(f"{name} is empty: a query without an answer cannot be judged.")
    return tuple(answers)


def grade(value: Any, name: str) -> int:
    """A whole number, or one written as a text. Raises Broken: another value, or beyond a million."""
    number = value
    if isinstance(value, str):
        with suppress(ValueError):
            number = int(value)
    if isinstance(number, bool) or not isinstance(number, int):
        raise Broken(f"{name} contains {shown(value)}, and must contain whole numbers.")
    if abs(number) > MAX_GRADE:
        raise Broken(f"{name} contains {shown(value)}: a grade is from -{MAX_GRADE:,} to {MAX_GRADE:,}.")
    return number
