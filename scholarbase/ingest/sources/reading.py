"""Reads a source file as records, from any entry on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from scholarbase.ingest.records import Record, Reject
from scholarbase.ingest.sources import arxiv, beir, own, s2ag
from scholarbase.ingest.sources.columns import Columns, csv_rows, json_rows
from scholarbase.ingest.sources.detect import Dataset
from scholarbase.ingest.sources.files import SourceFile, StoredBytes, open_lines, read_whole

PARSERS: Final[Mapping[Dataset, Callable[[bytes], Record | Reject]]] = {
    Dataset.PAPERS: s2ag.parse_papers,
    Dataset.PAPER_IDS: s2ag.parse_paper_ids,
    Dataset.ABSTRACTS: s2ag.parse_abstracts,
    Dataset.PUBLICATION_VENUES: s2ag.parse_publication_venues,
    Dataset.AUTHORS: s2ag.parse_authors,
    Dataset.TLDRS: s2ag.parse_tldrs,
    Dataset.ARXIV: arxiv.parse_arxiv,
    Dataset.BEIR: beir.parse_beir,
    Dataset.CITATIONS: s2ag.parse_citations,
}
"""The parser of each dataset whose records are lines: from one line to one record or reject."""


class Entry(NamedTuple):
    """One record of a file. ``number`` counts lines where records are lines, else entries; ``line`` is where it starts.

    ``size`` is in bytes of the decompressed file. ``content`` is the line, where records are lines of snapshots.
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
        for number, line in open_lines(file.path, read):
            if number > after:
                yield Entry(number, number, len(line), parse(line), line)
    elif file.dataset in (Dataset.CSV, Dataset.JSON_LINES):
        rows = csv_rows if file.dataset is Dataset.CSV else json_rows
        for number, row in enumerate(rows(open_lines(file.path, read), columns), 1):
            if number > after:
                content = row.content
                record = (
                    content if isinstance(content, Reject) else own.paper_of(content, repaired=row.repaired)
                )
                yield Entry(number, row.line, row.size, record)
    else:
        for number, entry in enumerate(own.read_entries(file.dataset, read_whole(file.path, read)), 1):
            if number > after:
                yield Entry(number, entry.line, len(entry.raw), own.paper_of(entry))
