"""Reads a source file as records, from any entry on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from scholarbase.ingest.records import Record, Reject
from scholarbase.ingest.sources import added, arxiv, beir, openalex, own, s2ag
from scholarbase.ingest.sources.columns import Columns, Row, csv_rows, json_rows
from scholarbase.ingest.sources.detect import Dataset
from scholarbase.ingest.sources.files import (
    SourceFile,
    StoredBytes,
    open_lines,
    open_page,
    open_table,
    open_text,
    read_whole,
)

PARSERS: Final[Mapping[Dataset, Callable[[bytes], Record | Reject]]] = {
    Dataset.PAPERS: s2ag.parse_papers,
    Dataset.PAPER_IDS: s2ag.parse_paper_ids,
    Dataset.ABSTRACTS: s2ag.parse_abstracts,
    Dataset.PUBLICATION_VENUES: s2ag.parse_publication_venues,
    Dataset.AUTHORS: s2ag.parse_authors,
    Dataset.TLDRS: s2ag.parse_tldrs,
    Dataset.ARXIV: arxiv.parse_arxiv,
    Dataset.OPENALEX: openalex.parse_works,
    Dataset.BEIR: beir.parse_beir,
    Dataset.CITATIONS: s2ag.parse_citations,
}
"""The parser of each dataset whose records are lines: from one line to one record or reject."""


class Entry(NamedTuple):
    """One record of a file. ``number`` counts lines where records are lines, else entries; ``line`` is where it starts.

    ``size`` is in bytes of the decompressed file. ``content`` is what is stored of a snapshot's record: its line, or a
    line that is made of it.
    """

    number: int
    line: int
    size: int
    record: Record | Reject
    content: bytes = b""


def read_records(file: SourceFile, read: StoredBytes, columns: Columns, after: int = 0) -> Iterator[Entry]:
    """The records of a file whose number is greater than ``after``. ``read`` is updated as in :func:`.open_lines`.

    Raises:
        SourceError: the file cannot be read, is cut short or damaged, or is too large for its format.
    """
    if file.dataset in PARSERS:
        parse = PARSERS[file.dataset]
        for number, line, content in _contents(file, read, after):
            if isinstance(content, Reject):
                yield Entry(number, line, 0, content)
            else:
                yield Entry(number, line, len(content), parse(content), content)
    elif file.dataset in (Dataset.CSV, Dataset.JSON_LINES):
        rows = csv_rows if file.dataset is Dataset.CSV else json_rows
        yield from _entries(rows(open_lines(file.path, read), columns), after)
    elif file.added is not None:
        with open_text(file.path, read) as text:
            yield from _entries(added.read_rows(file.added, text, file.path), after)
    else:
        for number, one in enumerate(own.read_entries(file.dataset, read_whole(file.path, read)), 1):
            if number > after:
                yield Entry(number, one.line, len(one.raw), own.paper_of(one))


def _entries(rows: Iterator[Row], after: int) -> Iterator[Entry]:
    for number, row in enumerate(rows, 1):
        if number > after:
            entry = row.content
            record = entry if isinstance(entry, Reject) else own.paper_of(entry, repaired=row.repaired)
            yield Entry(number, row.line, row.size, record)


def _contents(file: SourceFile, read: StoredBytes, after: int) -> Iterator[tuple[int, int, bytes | Reject]]:
    """The numbers of a snapshot's records, the lines where they start, and what is stored of them."""
    if file.form == "page":
        for number, found in enumerate(open_page(file.path, read), 1):
            if number > after:
                yield number, found.line, found.content
    elif file.form == "table":
        for number, row in enumerate(open_table(file.path, openalex.COLUMNS, read), 1):
            if number > after:
                yield number, number, _work(row)
    elif file.form == "deleted":
        for number, line in openalex.deleted_lines(open_lines(file.path, read)):
            if number > after:
                yield number, number, line
    else:
        is_work = file.dataset is Dataset.OPENALEX
        for number, line in open_lines(file.path, read):
            if number > after:
                yield number, number, _line_of_work(line) if is_work else line


def _line_of_work(line: bytes) -> bytes | Reject:
    """What is stored of a line of a work."""
    try:
        return _work(s2ag.load(line))
    except s2ag.BadRecord as bad:
        return bad.reject


def _work(work: Mapping[str, Any]) -> bytes | Reject:
    try:
        return openalex.line_of(work)
    except s2ag.BadRecord as bad:
        return bad.reject
