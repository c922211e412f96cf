"""Rows of entries of people's own files, and of papers of named sets, stored until all other papers are read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict

import orjson

from scholarbase.identifiers import Identifier
from scholarbase.ingest.records import PaperRecord

OwnRow = tuple[str, int, str, str]
"""An entry: the name of its file, its place among all entries, the record and the names of its sets (JSON)."""
Member = tuple[str, str, str]
"""A paper of a named set: the set's name, and the scheme and value of an id."""


def own_rows(records: Sequence[PaperRecord], sets: Collection[str], file: str) -> Iterator[OwnRow]:
    """The rows of a file's entries."""
    listed = orjson.dumps(sorted(sets)).decode()
    return ((file, _place(r), orjson.dumps(asdict(r)).decode(), listed) for r in records)


def record_of(stored: str) -> PaperRecord:
    """The record of a row."""
    return PaperRecord(**orjson.loads(stored))


def ids_of(record: PaperRecord) -> list[Identifier]:
    """The ids of a record, that of its source first."""
    own = (("CorpusId", record.corpus_id), ("OpenAlex", record.external_ids.get("OpenAlex")))
    names = (*own, ("arXiv", record.arxiv_id), *record.external_ids.items())
    return [Identifier(scheme, str(value)) for scheme, value in names if value is not None]


def _place(record: PaperRecord) -> int:
    """Entries with ids that others know come first."""
    return 2 * (record.arxiv_id is None) + ("DOI" not in record.external_ids)
