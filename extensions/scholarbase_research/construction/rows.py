"""Rows of files with named fields: CSV, TSV or JSON lines. Fields that are not known are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.identifiers import parse
from scholarbase.models.checks import check_path, shown
from scholarbase_research.evaluation.formats import streams


def rows(
    path: Path, names: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row with its position in the file. A row has each of ``names``, and may have the ``optional`` fields.

    Raises:
        QueryFileError: the file cannot be read, or a row lacks a field or has an unknown one.
    """
    path = check_path(path, "path")
    if not path.is_file():
        raise QueryFileError(f"No file at {path}: give CSV or JSON lines with {', '.join(names)}.")
    shape = streams.shape_of(streams.start_of(path))
    if shape not in ("lines", "table"):
        raise QueryFileError(f"{path} is neither CSV nor JSON lines: it must have {', '.join(names)}.")
    known = frozenset((*names, *optional))
    described = ", ".join(names) + (f", and may have {', '.join(optional)}" if optional else "")
    for position, row in _of_lines(path) if shape == "lines" else table_of(path):
        where = f"{path}, {position}"
        for name in names:
            if row.get(name) is None:
                raise QueryFileError(f"{where} has no {name}: each line has {described}.")
        for name in row:
            if name not in known:
                raise QueryFileError(f"{where} has the unknown field {name!r}: each line has {described}.")
        yield where, row


def _of_lines(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for record in streams.json_lines(path):
        if record.problem is not None:
            raise QueryFileError(f"{path}, {record.where}: {record.problem}")
        yield record.where, record.fields


def table_of(path: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the rows of a CSV or TSV file, each with its position. Raises as :func:`rows`."""
    table = streams.table_rows(path)
    _, header = next(table)
    for position, cells in table:
        if len(cells) != len(header):
            raise QueryFileError(f"{path}, {position} has {len(cells)} cells, and the header {len(header)}.")
        yield position, dict(zip(header, cells, strict=True))


def text_field(row: Mapping[str, Any], name: str, where: str) -> str:
    """The text of a field, without white space around it. Raises QueryFileError: it is empty or no text."""
    value = row[name]
    if not isinstance(value, str) or not value.strip():
        raise QueryFileError(f"{where}: {name} is {shown(value, 80)}, and must be a text.")
    return value.strip()


def paper_field(row: Mapping[str, Any], name: str, where: str) -> str:
    """The canonical id of a paper. Raises QueryFileError: the field is not an id."""
    try:
        return str(parse(text_field(row, name, where)))
    except InvalidRequest as error:
        raise QueryFileError(f"{where}: {name}: {error}") from error
