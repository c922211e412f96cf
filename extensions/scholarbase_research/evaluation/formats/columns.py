"""Plain columns: CSV, TSV or JSON lines with named columns.

    query_id,query,answers
    q1,serving large language models,2309.06180;2205.14135

In JSON ``answers``, ``titles``, ``grades`` and ``pool`` are lists. In a table they are separated by ``;`` or ``|``, ids
and grades also by white space. Titles and grades are in the order of the answers, one for each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from scholarbase.errors import QueryFileError
from scholarbase_research.evaluation.formats import fields
from scholarbase_research.evaluation.formats.reading import Broken, Format, Reading
from scholarbase_research.evaluation.formats.streams import Record, table_rows
from scholarbase_research.evaluation.queries import Answer, Query

NAMES: Final = (
    "query_id", "id", "query", "text", "answers", "titles", "intent", "category", "date", "pool", "grades",
)  # fmt: skip
_LISTS: Final = ("answers", "titles", "pool", "grades")


def _check_names(path: Path, names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        near = get_close_matches(unknown[0].lower(), NAMES, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise QueryFileError(
            f"{path} has the unknown column {unknown[0]!r}: known columns are {', '.join(NAMES)}.{hint}"
        )
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise QueryFileError(f"{path} has two columns {twice[0]!r}: keep one of them.")
    for pair in (("query_id", "id"), ("query", "text")):
        if set(pair) <= set(names):
            raise QueryFileError(f"{path} has both {pair[0]!r} and {pair[1]!r}: keep one of them.")


def table(path: Path) -> Iterator[Record]:
    """Yield the records of a CSV or TSV file with a header.

    Raises:
        QueryFileError: unreadable, or a column is unknown or repeated.
    """
    rows = table_rows(path)
    header = [cell.strip() for cell in next(rows)[1]]
    _check_names(path, header)
    for number, (where, cells) in enumerate(rows):
        if len(cells) != len(header):
            problem = (
                f"it has {len(cells)} columns, and the header has {len(header)}: put a text that contains the "
                "separator in double quotes."
            )
            yield Record(where, number, {}, problem)
            continue
        filled = {name: cell.strip() for name, cell in zip(header, cells, strict=True) if cell.strip()}
        yield Record(where, number, {name: _split(name, cell) for name, cell in filled.items()})


def _split(name: str, cell: str) -> Any:
    if name not in _LISTS:
        return cell
    if name == "titles":
        # Titles sometimes contain semicolons, and hardly ever bars.
        return [part.strip() for part in cell.split("|" if "|" in cell else ";")]
    return [part for part in re.split(r"[;|\s]+", cell) if part]


def _recognises(names: Collection[str]) -> bool:
    return "query" in names or "text" in names


def _query(record: Record, reading: Reading) -> Query:
    _check_names(reading.path, list(record.fields))
    pool = fields.items(record.fields, "pool")
    return Query(
        fields.query_id(fields.required(record.fields, "query_id", "id"), "query_id"),
        fields.query_text(record.fields, "query", "text"),
        _answers(record, reading),
        intent=fields.optional_text(record.fields, "intent"),
        category=fields.optional_text(record.fields, "category"),
        date=fields.date(record.fields.get("date"), "date"),
        pool=None if pool is None else _pool(pool),
    )


def _answers(record: Record, reading: Reading) -> tuple[Answer, ...]:
    ids, titles, grades = (fields.items(record.fields, name) for name in ("answers", "titles", "grades"))
    if not ids and not titles:
        raise Broken("it has no answers: give their ids in answers, their titles in titles, or both.")
    count = len(ids or titles or ())
    for name, values in (("titles", titles), ("grades", grades)):
        if values and len(values) != count:
            raise Broken(f"{name} has {len(values)} values for {count} answers: give one for each.")
    answers = []
    for number in range(count):
        title = fields.title(titles[number], "titles") if titles else None
        grade = fields.grade(grades[number], "grades") if grades else 1
        paper_id = ids[number] if ids else None
        answers.append(fields.answer(paper_id, title, grade, "answers", reading, arxiv=False))
    if not any(answer.grade > 0 for answer in answers):
        raise Broken("it has no answer with a grade above 0: a query needs a relevant answer.")
    return tuple(answers)


def _pool(values: Sequence[Any]) -> tuple[str, ...]:
    ids = tuple(fields.paper_id(value, "pool") for value in values)
    if not ids or None in ids:
        problem = "has an empty id" if ids else "is empty"
        raise Broken(f"pool {problem}: list the candidates, or leave pool out to search the whole library.")
    return tuple(paper_id for paper_id in ids if paper_id is not None)


COLUMNS: Final = Format(
    "columns", frozenset(NAMES), _recognises, _query, "CSV, TSV or JSON with query_id, query and answers"
)
