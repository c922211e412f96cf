"""Query files as bytes, lines and records; compressed files are unpacked."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import orjson

from scholarbase.errors import QueryFileError
from scholarbase.extras import missing
from scholarbase.files import opened, read_whole

Shape = Literal["lines", "array", "table", "markup", "parquet", "empty"]

_PARQUET: Final = b"PAR1"
"""https://parquet.apache.org/docs/file-format/"""
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_START: Final = 1 << 16
_LONGEST_CELL: Final = 1 << 26


class Record(NamedTuple):
    """One record of a file, with its place (``line 3``) and its number, counted from 0.

    A record that could not be parsed has empty ``fields`` and a ``problem``, a sentence.
    """

    where: str
    number: int
    fields: dict[str, Any]
    problem: str | None = None


def plain_or_packed(path: Path) -> Path | None:
    """The file itself, or its gzip or xz version, or None."""
    candidates = (path.with_name(path.name + suffix) for suffix in ("", ".gz", ".xz"))
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def start_of(path: Path) -> bytes:
    """The first 64 KiB of a file, unpacked. Raises QueryFileError: unreadable, or UTF-16."""
    with opened(path) as stream:
        start = stream.read(_START)
    if start.startswith(_UTF16):
        raise QueryFileError(f"{path} is UTF-16 text: save it as UTF-8.")
    return start


def shape_of(start: bytes) -> Shape:
    """The kind of a file by its first bytes: JSON lines, a JSON array, markup, Parquet, or else a table."""
    if start.startswith(_PARQUET):
        return "parquet"
    text = start.lstrip()
    if not text:
        return "empty"
    shapes: dict[bytes, Shape] = {b"{": "lines", b"[": "array", b"<": "markup"}
    return shapes.get(text[:1], "table")


def json_lines(path: Path) -> Iterator[Record]:
    """Yield the records of a file of JSON lines; blank lines are skipped. Raises QueryFileError: unreadable."""
    with opened(path) as stream:
        number = 0
        for line_number, line in enumerate(stream, 1):
            if not line.isspace():
                yield _from_json(line, f"line {line_number}", number)
                number += 1


def _from_json(line: bytes, where: str, number: int) -> Record:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        problem = f"it is not valid JSON ({error.msg} at character {error.colno})."
        return Record(where, number, {}, problem)
    return _from_value(value, where, number)


def _from_value(value: Any, where: str, number: int) -> Record:
    if isinstance(value, dict):
        return Record(where, number, value)
    kind = {list: "a list", str: "a text", type(None): "null"}.get(type(value), "a number or truth value")
    return Record(where, number, {}, f"it is {kind}, and must be a JSON object, such as {{...}}.")


def json_array(path: Path) -> Iterator[Record]:
    """Yield the items of a JSON array. Raises QueryFileError: unreadable, or not valid JSON."""
    try:
        values = orjson.loads(read_whole(path))
    except orjson.JSONDecodeError as error:
        raise QueryFileError(
            f"{path} begins like a JSON array and is not valid JSON ({error.msg} at line {error.lineno}, character "
            f"{error.colno}): correct it, or write one JSON object per line."
        ) from error
    for number, value in enumerate(values):
        yield _from_value(value, f"item {number + 1}", number)


def parquet_rows(path: Path) -> Iterator[Record]:
    """Yield the rows of a Parquet file.

    Raises:
        MissingExtra: pyarrow is not installed.
        QueryFileError: the file cannot be read.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise missing("pyarrow", "parquet", "Reading Parquet") from error
    number = 0
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches():
                for fields in batch.to_pylist():
                    yield Record(f"row {number + 1}", number, fields)
                    number += 1
    except (ArrowException, OSError) as error:
        raise QueryFileError(
            f"{path} is not a complete Parquet file ({str(error).splitlines()[0]}). Download it again."
        ) from error


def delimiter_of(header: str) -> str:
    """The separator of a table's columns: a tab, else a comma, else a semicolon."""
    return next((mark for mark in "\t,;" if mark in header), ",")


def table_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of a CSV or TSV file (RFC 4180), the header first, each with its place.

    Raises:
        QueryFileError: unreadable, not UTF-8, or with an unclosed quote.
    """
    limit = csv.field_size_limit(_LONGEST_CELL)
    try:
        with opened(path) as stream:
            text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
            header = text.readline()
            rows = csv.reader(_after(header, text), delimiter=delimiter_of(header), strict=True)
            last = 0
            for cells in rows:
                if cells:
                    yield f"line {last + 1}", cells
                last = rows.line_num
    except UnicodeDecodeError as error:
        raise QueryFileError(
            f"{path} is not UTF-8 text ({error.reason} in byte {error.start}): save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise QueryFileError(
            f"{path} is not valid CSV or TSV after line {last} ({error}): close every double quote, and double "
            "those inside a text."
        ) from error
    finally:
        csv.field_size_limit(limit)


def _after(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
