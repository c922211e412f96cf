"""Writes papers again from all of their records, in one order, so that the order of the sources does not matter."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, TypeVar

from scholarbase.ingest.numbering import arxiv_number, corpus_number, document_number
from scholarbase.ingest.sources import Dataset
from scholarbase.ingest.store import RecordStore
from scholarbase.ingest.writer import CatalogWriter

_T = TypeVar("_T")

GROUPED: Final = 2_000
"""Papers that are written again at once: their records are in memory."""


@dataclass(slots=True)
class PaperIds:
    """Ids of papers, those of one paper together: corpus ids, arXiv ids, and ids of a collection's documents."""

    corpus_ids: set[int] = field(default_factory=set)
    arxiv_ids: set[str] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)

    @property
    def numbers(self) -> list[int]:
        """The numbers that papers with these ids may have in the catalogue, ascending."""
        return sorted(
            {
                *map(corpus_number, self.corpus_ids),
                *map(arxiv_number, self.arxiv_ids),
                *map(document_number, self.documents),
            }
        )


def groups(
    store: RecordStore, corpus_ids: Iterable[int], arxiv_ids: Iterable[str], documents: Iterable[str]
) -> Iterator[PaperIds]:
    """The papers with these ids, some at a time, with all ids of their records."""
    for some_corpus in _batches(corpus_ids):
        ids = PaperIds(set(some_corpus))
        store.closure(ids.corpus_ids, ids.arxiv_ids)
        yield ids
    for some_arxiv in _batches(arxiv_ids):
        ids = PaperIds(arxiv_ids=set(some_arxiv))
        store.closure(ids.corpus_ids, ids.arxiv_ids)
        yield ids
    for some in _batches(documents):
        yield PaperIds(documents=set(some))


def write_papers(writer: CatalogWriter, store: RecordStore, ids: PaperIds) -> None:
    """Replace these papers, without their citations, by what their records give."""
    writer.remove(ids.numbers)
    corpus, arxiv = sorted(ids.corpus_ids), sorted(ids.arxiv_ids)
    for dataset, column, values in (
        (Dataset.PAPERS, "key", corpus),
        (Dataset.PAPER_IDS, "corpus_id", corpus),
        (Dataset.ABSTRACTS, "key", corpus),
        (Dataset.TLDRS, "key", corpus),
        (Dataset.ARXIV, "key", arxiv),
        (Dataset.BEIR, "key", sorted(ids.documents)),
    ):
        if values and (records := store.records(dataset, column, values)):
            writer.write(dataset, records)
    writer.prune(ids.numbers)


def settle(db: sqlite3.Connection, writer: CatalogWriter, store: RecordStore) -> int:
    """Write the papers, authors and venues again of which the sources have several records of one kind, and return the
    number of their ids.

    They were written from the first record; the one that stays depends on the records alone.
    """
    found = store.settle()
    arxiv_ids = sorted(found.arxiv_ids.union(store.shared_arxiv_ids()))
    for ids in groups(store, sorted(found.corpus_ids), arxiv_ids, sorted(found.documents)):
        write_papers(writer, store, ids)
    if found.venues:
        write_venues(db, writer, store)
    writer.remove_authors(sorted(found.authors))
    if found or arxiv_ids:
        write_missing_authors(db, writer, store)
    return len(found)


def write_venues(db: sqlite3.Connection, writer: CatalogWriter, store: RecordStore) -> None:
    """Replace all venues, of which a release has some hundred thousand."""
    db.execute("DELETE FROM venues")
    db.execute("DELETE FROM venue_names")
    for records in _batches(store.all_records(Dataset.PUBLICATION_VENUES)):
        writer.write(Dataset.PUBLICATION_VENUES, records)


def write_missing_authors(db: sqlite3.Connection, writer: CatalogWriter, store: RecordStore) -> None:
    """Make the details of authors those of the papers' authors: remove the others, and add those that are missing."""
    with writer.wanted_authors():
        db.execute("DELETE FROM authors WHERE author_id NOT IN (SELECT author_id FROM wanted_authors)")
        missing = db.execute(
            "SELECT author_id FROM wanted_authors WHERE author_id NOT IN (SELECT author_id FROM authors)"
        ).fetchall()
        for authors in _batches(row[0] for row in missing):
            writer.write(Dataset.AUTHORS, store.records(Dataset.AUTHORS, "key", authors))


def _batches(values: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(values)
    while batch := list(islice(rest, GROUPED)):
        yield batch
