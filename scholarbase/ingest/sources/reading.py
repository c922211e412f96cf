"""Reads a source file as records, from any entry on."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson

from scholarbase.bibliographies.references import Reference
from scholarbase.ingest.records import PaperRecord, Record, Reject, is_notice
from scholarbase.ingest.sources import added, oai, openalex, own, s2ag, tables
from scholarbase.ingest.sources.columns import Columns, Row, csv_rows, json_rows
from scholarbase.ingest.sources.detect import Dataset
from scholarbase.ingest.sources.files import (
    SourceFile,
    StoredBytes,
    open_lines,
    open_text,
    opened,
    read_whole,
)
from scholarbase.ingest.sources.json_records import json_records
from scholarbase.ingest.sources.parsing import PARSERS, parsed, worker_pays_off


class Entry(NamedTuple):
    """One record of a file. ``number`` counts records, from 1; ``line`` is where it starts.

    ``size`` is in bytes of the decompressed file. ``content`` is what is stored of a snapshot's record: its line, or a
    line that is made of it.
    """

    number: int
    line: int
    size: int
    record: Record | Reject
    content: bytes = b""


def read_records(file: SourceFile, read: StoredBytes, columns: Columns, after: int = 0) -> Generator[Entry]:
    """The records of a file whose number is greater than ``after``. ``read`` is updated as in :func:`.opened`.

    Raises:
        SourceError: the file cannot be read, is cut short or damaged, or is too large for its format.
    """
    if file.dataset in PARSERS:
        lines = islice(_contents(file, read), after, None)
        records = parsed(file.dataset, lines, in_worker=worker_pays_off(file.dataset, file.size))
        for number, (line, content, record) in enumerate(records, after + 1):
            yield Entry(number, line, len(content), _placed(record, file, number), content)
        return
    for number, row in enumerate(_rows(file, read, columns), 1):
        if number > after:
            entry = row.content
            record = own.paper_of(entry, repaired=row.repaired) if isinstance(entry, Reference) else entry
            if isinstance(entry, PaperRecord) and not (
                entry.arxiv_id or "DOI" in entry.external_ids or is_notice(entry)
            ):
                names = [name for name, _ in entry.authors]
                entry.external_ids["Doc"] = own.own_key(entry.title, names, entry.year)
            yield Entry(number, row.line, row.size, _placed(record, file, number))


def _placed(record: Record | Reject, file: SourceFile, number: int) -> Record | Reject:
    """A record, or a reject that says which record of a JSON document it is: many share a line."""
    if file.form == "document" and isinstance(record, Reject):
        return Reject(record.reason, f"Record {number}: {record.detail}")
    return record


def _rows(file: SourceFile, read: StoredBytes, columns: Columns) -> Iterator[Row]:
    """The entries of somebody's own file."""
    if file.dataset is Dataset.CSV:
        yield from csv_rows(open_lines(file.path, read), columns)
    elif file.dataset in (Dataset.JSON_LINES, Dataset.CSL_JSON):
        yield from json_rows(_json(file, read), columns)
    elif file.added is not None:
        with open_text(file.path, read) as text:
            yield from added.read_rows(file.added, text, file.path)
    else:
        for entry in own.read_entries(file.dataset, read_whole(file.path, read)):
            yield Row(entry.line, len(entry.raw), entry)


def _contents(file: SourceFile, read: StoredBytes) -> Iterator[tuple[int, bytes | Reject]]:
    """The lines where a snapshot's records start, and what is stored of them."""
    if file.form == "page":
        with opened(file.path, read) as stream:
            yield from oai.read_page(stream, str(file.path))
    elif file.form == "table":
        with opened(file.path, read):  # hashes it
            pass
        for number, row in enumerate(tables.read_rows(file.path, openalex.COLUMNS), 1):
            yield number, _work(row)
    elif file.form == "deleted":
        yield from openalex.deleted_lines(open_lines(file.path, read))
    elif file.dataset is Dataset.OPENALEX or file.form == "document":
        for line, text in _json(file, read):
            yield line, _line_of(text, file.dataset)
    else:
        yield from open_lines(file.path, read)


def _json(file: SourceFile, read: StoredBytes) -> Iterator[tuple[int, bytes]]:
    """The JSON objects of a file and the lines where they start."""
    if file.form == "lines":
        yield from open_lines(file.path, read)
    else:
        with opened(file.path, read) as stream:
            yield from json_records(stream)


def _line_of(text: bytes, dataset: Dataset) -> bytes | Reject:
    """What is stored of the JSON of a record: a line."""
    try:
        record = s2ag.load(text)
    except s2ag.BadRecord as bad:
        return bad.reject
    return _work(record) if dataset is Dataset.OPENALEX else orjson.dumps(record)


def _work(work: Mapping[str, Any]) -> bytes | Reject:
    try:
        return openalex.line_of(work)
    except s2ag.BadRecord as bad:
        return bad.reject
