"""The fields of a record: query texts, ids, titles, grades and dates, each checked and in its canonical form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.evaluation.formats.reading import Broken, Reading
from scholarbase.identifiers import arxiv_id_from_number, parse
from scholarbase.models import MAX_QUERY_LENGTH, date_bounds
from scholarbase.models.queries import Answer

BY_TITLE: Final = "Answers whose id has no known form, to be found by their title"
MENDED: Final = "arXiv ids that had become numbers, with their zeros put back"

MAX_GRADE: Final = 1_000_000
"""trec_eval makes room for every grade up to the greatest, and takes one beyond 64 bits for another number."""
_DAY: Final = re.compile(r"(\d{4})(\d{2})(\d{2})", re.ASCII)


def required(fields: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of the names that the record has. Raises Broken: it has none."""
    for name in names:
        if fields.get(name) is not None:
            return fields[name]
    raise Broken(f"it has no {' or '.join(names)}.")


def query_id(value: Any, name: str) -> str:
    """Raises Broken: no text and no whole number, or an empty one."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise Broken(f"{name} is {shown(value)}, and must be a text or a whole number.")
    text = str(value).strip()
    if not text:
        raise Broken(f"{name} is empty: give each query an id.")
    return text


def query_text(fields: Mapping[str, Any], *names: str) -> str:
    """The query's text. Raises Broken: missing, empty, no text, or longer than a search takes."""
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
        raise Broken(f"{name} has {len(text):,} characters: {MAX_QUERY_LENGTH:,} is the most.")
    return text


def optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    """A text such as an intent; None where it is missing or empty. Raises Broken: no text."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Broken(f"{name} is {shown(value)}, and must be a text.")
    return value.strip() or None


def date(value: Any, name: str) -> str | None:
    """``YYYY``, ``YYYY-MM`` or ``YYYY-MM-DD``, from these or from ``YYYYMMDD``. Raises Broken: another form."""
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
    """A list, None where it is missing. Raises Broken: no list."""
    value = fields.get(name)
    if value is not None and not isinstance(value, list):
        raise Broken(f"{name} is {shown(value)}, and must be a list.")
    return value


def paper_id(value: Any, name: str) -> str | None:
    """The canonical form of an id, None for an empty one. Raises Broken: no text, or no form of an id."""
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise Broken(f"{name} holds {shown(value)}, and must hold texts, such as 'arXiv:1706.03762'.")
    if not value.strip():
        return None
    try:
        return str(parse(value))
    except InvalidRequest as error:
        mended = arxiv_id_from_number(value.strip())
        hint = f" Is it arXiv:{mended}?" if mended else ""
        if value.rstrip().endswith(","):
            hint = " Separate ids by ; or | or white space alone."
        raise Broken(f"{name}: {error}{hint}") from error


def arxiv_paper_id(value: Any, name: str, reading: Reading) -> str | None:
    """As ``paper_id``, for a column of arXiv ids: one that became a number on its way is mended, and counted."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    try:
        return paper_id(value, name)
    except Broken:
        mended = arxiv_id_from_number(value.strip()) if isinstance(value, str) else None
        if mended is None:
            raise
        reading.count(MENDED)
        return f"arXiv:{mended}"


def title(value: Any, name: str) -> str | None:
    """A title, None for an empty one. Raises Broken: no text."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise Broken(f"{name} holds {shown(value)}, and must hold texts.")
    return " ".join(value.split()) or None


def answer(
    given: Any, its_title: str | None, grade: int, name: str, reading: Reading, *, arxiv: bool
) -> Answer:
    """An answer by its id, its title, or both. Raises Broken: neither, or an id of no form without a title."""
    try:
        found = arxiv_paper_id(given, name, reading) if arxiv else paper_id(given, name)
    except Broken:
        if its_title is None:
            raise
        reading.count(BY_TITLE)
        found = None
    if found is None and its_title is None:
        raise Broken(f"{name} holds an empty answer: give an id or a title.")
    return Answer(found, its_title, grade)


def some(answers: Sequence[Answer], name: str) -> tuple[Answer, ...]:
    """Raises Broken: there are no answers."""
    if not answers:
        raise Broken(f"{name} is empty: a query without an answer cannot be judged.")
    return tuple(answers)


def grade(value: Any, name: str) -> int:
    """A whole number, also as a text. Raises Broken: another value, or one beyond a million."""
    found = value
    if isinstance(value, str):
        with suppress(ValueError):
            found = int(value)
    if isinstance(found, bool) or not isinstance(found, int):
        raise Broken(f"{name} holds {shown(value)}, and must hold whole numbers.")
    if abs(found) > MAX_GRADE:
        raise Broken(f"{name} holds {shown(value)}: a grade is from -{MAX_GRADE:,} to {MAX_GRADE:,}.")
    return found


def shown(value: Any) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
