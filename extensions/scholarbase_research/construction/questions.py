"""Reads questions: query files of any known format, or questions without answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.errors import QueryFileError
from scholarbase.files import text_lines
from scholarbase.models.checks import check_path
from scholarbase_research.evaluation.formats import fields, read_queries
from scholarbase_research.evaluation.formats.reading import Broken
from scholarbase_research.evaluation.queries import Query, QuerySet

_TEXT_KEYS: Final = ("final_query", "query", "question", "text")
_ID_KEYS: Final = ("query_id", "id", "_id", "qid")
_OTHER_KEYS: Final = ("date", "category", "intent", "domain", "topic_seed")
MAX_QUESTIONS: Final = 100_000


def read_questions(path: Path, *, metadata: Path | None = None, skip_broken: bool = False) -> QuerySet:
    """Read questions, with their known answers where the file has some.

    A file of JSON lines with a text (``final_query``, ``query``, ``question`` or ``text``) and no answers is read as
    questions without answers, and so is a file ``*.txt`` with one question on each line. Others are query files.

    Raises:
        QueryFileError: the file cannot be read, a line is broken, or an id occurs twice.
    """
    path = check_path(path, "path")
    if path.suffix == ".txt" and path.is_file():
        questions = [
            Query(f"q{number}", _text(line, f"{path}, line {number}"), ())
            for number, line in text_lines(path)
            if line.strip()
        ]
        return _set(path, questions)
    if not _without_answers(path):
        return read_queries(path, metadata=metadata, skip_broken=skip_broken)
    questions = [
        _question(_row(line, f"{path}, line {number}"), number, f"{path}, line {number}")
        for number, line in text_lines(path)
        if line.strip()
    ]
    return _set(path, questions)


def _without_answers(path: Path) -> bool:
    """Whether the first line is a JSON object of nothing but a question and facts of it."""
    if not path.is_file() or path.suffix == ".parquet":
        return False
    for _, line in text_lines(path):
        if not line.strip():
            continue
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            return False
        known = {*_TEXT_KEYS, *_ID_KEYS, *_OTHER_KEYS}
        return isinstance(record, dict) and bool(record.keys() & set(_TEXT_KEYS)) and record.keys() <= known
    return False


def _row(line: str, where: str) -> dict[str, Any]:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise QueryFileError(f"{where} is not valid JSON ({error}): fix or remove the line.") from error
    if not isinstance(record, dict):
        raise QueryFileError(f"{where} is not a JSON object: fix or remove the line.")
    return record


def _question(record: dict[str, Any], number: int, where: str) -> Query:
    text = next((record[key] for key in _TEXT_KEYS if record.get(key)), None)
    query_id = next((record[key] for key in _ID_KEYS if record.get(key) is not None), f"q{number}")
    try:
        return Query(
            fields.query_id(query_id, "query_id"),
            _text(text, where),
            (),
            intent=fields.optional_text(record, "category") or fields.optional_text(record, "intent"),
            category=fields.optional_text(record, "domain"),
            date=fields.date(record.get("date"), "date"),
        )
    except Broken as problem:
        raise QueryFileError(f"{where}: {problem}") from problem


def _text(text: Any, where: str) -> str:
    try:
        return fields.query_text({"the question": text}, "the question")
    except Broken as problem:
        raise QueryFileError(f"{where}: {problem}") from problem


def _set(path: Path, questions: list[Query]) -> QuerySet:
    if not questions:
        raise QueryFileError(f"{path} has no questions: write one on each line.")
    if len(questions) > MAX_QUESTIONS:
        raise QueryFileError(
            f"{path} has {len(questions):,} questions: the most are {MAX_QUESTIONS:,}, so split it."
        )
    ids = [query.id for query in questions]
    twice = (
        next((query_id for query_id in ids if ids.count(query_id) > 1), None)
        if len(set(ids)) < len(ids)
        else None
    )
    if twice is not None:
        raise QueryFileError(
            f"{path} has the query id {twice!r} twice: give every question an id of its own."
        )
    return QuerySet(path.name.partition(".")[0] or "questions", "questions", tuple(questions))
