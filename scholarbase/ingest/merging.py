"""Writes papers again from all of their records, in one order, so that the order of the sources does not matter."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from scholarbase.identifiers import Identifier
from scholarbase.ingest.batches import batched
from scholarbase.ingest.claims import divide_claims, doubtful_ids
from scholarbase.ingest.numbering import arxiv_number, corpus_number, document_number, openalex_number
from scholarbase.ingest.records import Conflict, PaperRecord
from scholarbase.ingest.sources import Dataset
from scholarbase.ingest.store import About, RecordStore
from scholarbase.ingest.writer import CatalogWriter

GROUPED: Final = 2_000
"""Papers that are written again at once: their records are in memory."""

_CLAIMING: Final = (Dataset.ARXIV, Dataset.PAPERS, Dataset.OPENALEX)
"""Datasets whose records have arXiv ids, the best first."""
_NOWHERE: Final[Mapping[str, tuple[str, int]]] = MappingProxyType({})


@dataclass(slots=True)
class PaperIds:
    """Ids of papers, those of one paper together: corpus ids (below zero the numbers of OpenAlex works), arXiv ids, and
    ids of a collection's documents."""

    corpus_ids: set[int] = field(default_factory=set)
    arxiv_ids: set[str] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)

    @property
    def numbers(self) -> list[int]:
        """The numbers that papers with these ids may have in the catalogue, ascending."""
        return sorted(
            {
                *(corpus_number(corpus_id) for corpus_id in self.corpus_ids if corpus_id > 0),
                *(openalex_number(-corpus_id) for corpus_id in self.corpus_ids if corpus_id < 0),
                *map(arxiv_number, self.arxiv_ids),
                *map(document_number, self.documents),
            }
        )


def groups(store: RecordStore, about: About) -> Iterator[PaperIds]:
    """The papers that some records are or were about, some at a time, with all ids of their records.

    Papers between which a record moved are in one group.
    """
    done = PaperIds()
    for corpus_ids in batched(sorted(about.corpus_ids), GROUPED):
        yield from _group(store, about, PaperIds(set(corpus_ids) - done.corpus_ids), done)
    for arxiv_ids in batched(sorted(about.arxiv_ids), GROUPED):
        yield from _group(store, about, PaperIds(arxiv_ids=set(arxiv_ids) - done.arxiv_ids), done)
    for documents in batched(sorted(about.documents), GROUPED):
        yield PaperIds(documents=set(documents))


def _group(store: RecordStore, about: About, ids: PaperIds, done: PaperIds) -> Iterator[PaperIds]:
    size = -1
    while size != (size := len(ids.corpus_ids) + len(ids.arxiv_ids)):
        for corpus_id in ids.corpus_ids:
            ids.arxiv_ids |= about.arxiv_ids_of.get(corpus_id, set())
        for arxiv_id in ids.arxiv_ids:
            ids.corpus_ids |= about.corpus_ids_of.get(arxiv_id, set())
        store.closure(ids.corpus_ids, ids.arxiv_ids)
    done.corpus_ids |= ids.corpus_ids
    done.arxiv_ids |= ids.arxiv_ids
    if size:
        yield ids


def write_papers(
    writer: CatalogWriter, store: RecordStore, ids: PaperIds, files: Mapping[str, tuple[str, int]] = _NOWHERE
) -> tuple[list[Conflict], Counter[str]]:
    """Replace these papers, without their citations, by what their records give, before the keep rule is applied.

    Returns the conflicts of their arXiv ids, at the places in ``files``, and what they change in the counts of an
    ingest.
    """
    writer.remove(ids.numbers)
    corpus, arxiv = sorted(ids.corpus_ids), sorted(ids.arxiv_ids)
    records: dict[Dataset, list[Any]] = {}
    for dataset, column, values in (
        (Dataset.PAPERS, "key", corpus),
        (Dataset.PAPER_IDS, "corpus_id", corpus),
        (Dataset.ABSTRACTS, "key", corpus),
        (Dataset.TLDRS, "key", corpus),
        (Dataset.ARXIV, "key", arxiv),
        (Dataset.OPENALEX, "corpus_id", corpus),
        (Dataset.BEIR, "key", sorted(ids.documents)),
    ):
        if values:
            records[dataset] = store.records(dataset, column, values)
    lost, counts = divide_claims(*(records.get(dataset, []) for dataset in _CLAIMING))
    for dataset, written in records.items():
        if written:
            writer.write(dataset, written)
    conflicts = [
        Conflict(
            *files.get(arxiv_id, (_dataset(loser), 0)),
            Identifier("arXiv", arxiv_id),
            (loser.title, kept.title),
        )
        for arxiv_id, loser, kept in lost
    ]
    return conflicts, counts


def _dataset(record: PaperRecord) -> str:
    """The dataset of a record that lost its arXiv id."""
    return str(Dataset.OPENALEX if record.corpus_id is None else Dataset.PAPERS)


def settle(
    db: sqlite3.Connection,
    writer: CatalogWriter,
    store: RecordStore,
    about: About,
    advance: Callable[[int], None],
) -> tuple[list[Conflict], Counter[str]]:
    """Write the papers, authors and venues again that several records of one kind are about, or records of different
    papers with one arXiv id. Returns the conflicts of arXiv ids, and what these change in the counts. ``advance`` is
    called with the number of papers written since the last call.

    They were written from the first record; the one that stays depends on the records alone.
    """
    files = doubtful_ids(db)
    about.arxiv_ids.update(files)
    conflicts: list[Conflict] = []
    counts: Counter[str] = Counter()
    for ids in groups(store, about):
        new_conflicts, changes = write_papers(writer, store, ids, files)
        conflicts += new_conflicts
        counts.update(changes)
        advance(len(ids.numbers))
    if about.venues:
        write_venues(db, writer, store)
    writer.remove_authors(sorted(about.authors))
    if about:
        write_missing_authors(db, writer, store)
    return conflicts, counts


def write_venues(db: sqlite3.Connection, writer: CatalogWriter, store: RecordStore) -> None:
    """Replace all venues, of which a release has some hundred thousand."""
    db.execute("DELETE FROM venues")
    db.execute("DELETE FROM venue_names")
    for records in batched(store.all_records(Dataset.PUBLICATION_VENUES), GROUPED):
        writer.write(Dataset.PUBLICATION_VENUES, records)


def write_missing_authors(db: sqlite3.Connection, writer: CatalogWriter, store: RecordStore) -> None:
    """Make the details of authors those of the papers' authors: remove the others, and add those that are missing."""
    with writer.wanted_authors():
        db.execute("DELETE FROM authors WHERE author_id NOT IN (SELECT author_id FROM wanted_authors)")
        missing = db.execute(
            "SELECT author_id FROM wanted_authors WHERE author_id NOT IN (SELECT author_id FROM authors)"
        ).fetchall()
        for authors in batched((row[0] for row in missing), GROUPED):
            writer.write(Dataset.AUTHORS, store.records(Dataset.AUTHORS, "key", authors))
