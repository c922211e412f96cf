"""Applies changed records to the catalogue: papers, their full text, citations, authors and venues.

Changed papers are removed and written again from all of their records, by the code that an ingest uses. The rows that
differ afterwards (:mod:`.row_changes`) decide what else must change: a paper whose row is the same again keeps its
words and its vectors.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import orjson

from scholarbase.encoders import document_text
from scholarbase.indexes import fulltext
from scholarbase.indexes.author_index import mentions
from scholarbase.indexes.content_hash import combined, sum_of_rows
from scholarbase.indexes.vectors.base import PAYLOAD_FIELDS
from scholarbase.ingest.batches import batched
from scholarbase.ingest.merging import GROUPED, groups, write_missing_authors, write_papers, write_venues
from scholarbase.ingest.records import CitationRecord, Conflict
from scholarbase.ingest.sources import Dataset
from scholarbase.ingest.store import About, RecordStore
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.updates.applying import Applied
from scholarbase.updates.own import OwnKeys, add_records, all_keys, joined_papers, own_counts
from scholarbase.updates.row_changes import Row, RowChanges

_OF_PAPERS: Final = {"papers": 0, "abstracts": 0, "aliases": 2, "written": 0}
"""The tables whose rows belong to one paper, and the column of its number."""
_PAYLOAD: Final = tuple({"venue": "venue_key"}.get(name, name) for name in PAYLOAD_FIELDS if name != "sets")
"""The columns of ``papers``, and ``types``, of which payloads are made; rows of ``sets`` are compared by themselves."""


@dataclass(slots=True)
class Changed:
    """The papers that changed, by their numbers. Memory: some hundred bytes for each."""

    removed: set[int] = field(default_factory=set)
    points: set[int] = field(default_factory=set)
    """New papers, and those whose text or filters changed."""
    texts: set[int] = field(default_factory=set)
    """New papers, and those whose text changed."""
    days: dict[int, int | None] = field(default_factory=dict)
    """The last day that a removed or changed paper had before."""
    old_texts: dict[bytes, int] = field(default_factory=dict)
    """The papers that had a text which another paper may have now, by its hash."""
    authors: set[int] = field(default_factory=set)
    """The papers whose authors or citation counts changed."""
    author_ids: set[str] = field(default_factory=set)
    """All authors of these papers, before and after, and those whose details changed."""
    conflicts: list[Conflict] = field(default_factory=list)
    """Those of the papers that were written again."""
    counts: Counter[str] = field(default_factory=Counter)


def text_key(title: str, abstract: str | None) -> bytes:
    """A hash of a paper's text."""
    return blake2b(document_text(title, abstract).encode(), digest_size=16).digest()


class CatalogChanges:
    """Applies changed records to a catalogue, in the caller's transaction, and keeps the sums of its tables."""

    def __init__(
        self,
        db: sqlite3.Connection,
        writer: CatalogWriter,
        store: RecordStore,
        sums: dict[str, int],
        advance: Callable[[int], None],
    ) -> None:
        self._db = db
        self._writer = writer
        self._store = store
        self._sums = sums
        self._advance = advance
        self._rows = RowChanges(db)
        self._places: dict[int, int | None] = {}
        self.changed = Changed()

    def apply(self, applied: Applied) -> Changed:
        """Apply changed records. Returns what changed in the catalogue."""
        about = applied.about
        keys = all_keys(self._store, applied.earlier_entries)
        if keys:
            self._remove_joined(about, keys)
        numbers: set[int] = set()
        for ids in groups(self._store, about):
            self._remember_places(ids.corpus_ids)
            self.changed.conflicts += write_papers(self._writer, self._store, ids)[0]
            numbers.update(ids.numbers)
            self._advance(len(ids.numbers))
        self._join_entries(numbers)
        ends = self._changed_places()
        self._edges_of_papers(sorted(ends))
        self._edges_of_pairs(applied.pairs, ends)
        self._authors(sorted(about.authors))
        if about.venues:
            write_venues(self._db, self._writer, self._store)
        self._compare()
        return self.changed

    # -- people's own files and named sets --------------------------------------------------------------

    def _remove_joined(self, about: About, keys: OwnKeys) -> None:
        """Remove all papers that entries may have joined, and have them written from their other records."""
        add_records(about, self._db, self._store, keys, self._writer.keep)
        numbers = joined_papers(self._db, keys)
        rows = self._db.execute(
            """
            SELECT 'arXiv', arxiv_id FROM papers
            WHERE arxiv_id IS NOT NULL AND id IN (SELECT value FROM json_each(?1))
            UNION SELECT scheme, value FROM aliases
            WHERE scheme IN ('arXiv', 'Doc') AND paper_id IN (SELECT value FROM json_each(?1))
            """,
            (orjson.dumps(numbers).decode(),),
        )
        for scheme, value in rows:
            (about.arxiv_ids if scheme == "arXiv" else about.documents).add(value)
        about.corpus_ids.update(self._corpus_ids(numbers))
        self._remember_places(about.corpus_ids)
        self._writer.remove(numbers)

    def _join_entries(self, written: set[int]) -> None:
        """Write the named sets and the entries again, and apply the keep rule to the papers that were written."""
        entries, members = self._store.own()
        self._db.execute("DELETE FROM sets")
        self._writer.store_own(entries, members)
        with self._writer.own_entries_written() as (counts, own_papers):
            for batch in batched(sorted(written | own_papers), GROUPED):
                self.changed.counts.update(self._writer.prune(batch))
            self._db.execute("DELETE FROM sets WHERE paper NOT IN (SELECT id FROM papers)")
        self.changed.counts.update(own_counts(counts, self._store))
        self.changed.conflicts += self._writer.conflicts

    # -- comparison -------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Change the sums and the words, and note what else must change."""
        papers: set[int] = set()
        members: set[int] = set()
        for table, old, new in self._rows:
            added, removed = (sum_of_rows([row] if row else (), table) for row in (new, old))
            self._sums[table] = combined(self._sums[table], added, without=removed)
            row = new or old or []
            if table in _OF_PAPERS:
                papers.add(row[_OF_PAPERS[table]])
            elif table == "sets":
                members.add(row[1])
            elif table == "authors":
                self.changed.author_ids.add(row[0])
            elif table == "edges" and None in (old, new):
                self.changed.counts["edges_removed" if new is None else "edges_added"] += 1
        for batch in batched(sorted(papers), GROUPED):
            versions = zip(
                *(self._rows.versions(table, batch) for table in ("papers", "abstracts")), strict=True
            )
            for paper, abstract in versions:
                self._note(*map(self._paper, paper, abstract))
        for batch in batched(sorted(members), GROUPED):
            for _, now in self._rows.versions("papers", batch):
                if (new_paper := self._paper(now, None)) is not None:
                    self.changed.points.add(new_paper["id"])
                    self.changed.days.setdefault(new_paper["id"], new_paper["last_day"])

    def _paper(self, row: Row | None, abstract: Row | None) -> dict[str, Any] | None:
        if row is None:
            return None
        named = dict(zip(self._rows.columns["papers"], row, strict=True))
        types = orjson.loads(named["details"] or "{}").get("publication_types")
        return {**named, "types": types, "abstract": abstract and abstract[1]}

    def _note(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        changed = self.changed
        paper = new or old
        if paper is None:
            return
        number = paper["id"]
        kind = "papers_added" if old is None else "papers_removed" if new is None else "papers_changed"
        changed.counts[kind] += 1
        same_text = old is not None and new is not None and _text(old) == _text(new)
        if not same_text:
            for version, remove in ((old, True), (new, False)):
                if version is not None:
                    fulltext.index(self._db, [(number, *_text(version))], remove=remove)
        if old is not None:
            changed.days[number] = old["last_day"]
            if not same_text:
                changed.old_texts.setdefault(text_key(*_text(old)), number)
        if new is None:
            changed.removed.add(number)
        elif old is None or not same_text or any(old[name] != new[name] for name in _PAYLOAD):
            changed.points.add(number)
            if not same_text:
                changed.texts.add(number)
        authorship = [
            None if version is None else (version["authors"], version["citation_count"])
            for version in (old, new)
        ]
        if authorship[0] != authorship[1]:
            changed.authors.add(number)
            for authors in (
                version["authors"] for version in (old, new) if version is not None and version["authors"]
            ):
                changed.author_ids.update(mentions(authors))

    # -- citations --------------------------------------------------------------------------------------

    def _remember_places(self, corpus_ids: Iterable[int]) -> None:
        """Keep the papers that these corpus ids name, unless they are known."""
        new = sorted(set(corpus_ids) - self._places.keys())
        for batch in batched(new, GROUPED):
            papers = self._writer.by_corpus_id(batch)
            self._places.update((corpus_id, papers.get(corpus_id)) for corpus_id in batch)

    def _changed_places(self) -> set[int]:
        """The papers that a corpus id named, and those that it names instead."""
        before, self._places = self._places, {}
        self._remember_places(before)
        changed = [(old, self._places[name]) for name, old in before.items() if old != self._places[name]]
        return {number for pair in changed for number in pair if number is not None}

    def _edges_of_papers(self, numbers: Sequence[int]) -> None:
        """Write all edges of these papers again."""
        for batch in batched(numbers, GROUPED):
            listed = orjson.dumps(batch).decode()
            corpus_ids = sorted(self._corpus_ids(batch).keys())
            citing, cited = (self._store.citations(end, corpus_ids) for end in ("citing", "cited"))
            where = (
                "citing IN (SELECT value FROM json_each(?1)) OR cited IN (SELECT value FROM json_each(?1))"
            )
            self._replace_edges(where, (listed,), [*citing, *cited])

    def _edges_of_pairs(self, pairs: Iterable[tuple[int, int]], done: set[int]) -> None:
        """Write the edges between these corpus ids again, except those of papers that are ``done``."""
        for batch in batched(sorted(pairs), GROUPED):
            numbers = self._writer.by_corpus_id(sorted({end for pair in batch for end in pair}))
            papers = {
                (numbers[citing], numbers[cited])
                for citing, cited in batch
                if {citing, cited} <= numbers.keys() and not {numbers[citing], numbers[cited]} & done
            }
            ends = self._corpus_ids(sorted({number for pair in papers for number in pair}))
            citing = {pair[0] for pair in papers}
            citing_ids = sorted(corpus_id for corpus_id, number in ends.items() if number in citing)
            records = [
                record
                for record in self._store.citations("citing", citing_ids)
                if (ends.get(record.citing or 0), ends.get(record.cited or 0)) in papers
            ]
            where = """
                (citing, cited) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
            """
            self._replace_edges(where, (orjson.dumps(sorted(papers)).decode(),), records)

    def _replace_edges(self, where: str, params: tuple[str], records: Sequence[CitationRecord]) -> None:
        self._db.execute(f"DELETE FROM edges WHERE {where}", params)
        self._writer.write(Dataset.CITATIONS, records)

    def _corpus_ids(self, numbers: Sequence[int]) -> dict[int, int]:
        """The corpus ids of papers, below zero the numbers of OpenAlex works, with their papers."""
        rows = self._db.execute(
            """
            SELECT corpus_id, id FROM papers WHERE corpus_id IS NOT NULL AND id IN (SELECT value FROM json_each(?1))
            UNION SELECT iif(scheme = 'CorpusId', 1, -1) * CAST(ltrim(value, 'W') AS INTEGER), paper_id FROM aliases
            WHERE scheme IN ('CorpusId', 'OpenAlex') AND paper_id IN (SELECT value FROM json_each(?1))
            """,
            (orjson.dumps(numbers).decode(),),
        )
        return dict(rows.fetchall())

    # -- authors ----------------------------------------------------------------------------------------

    def _authors(self, author_ids: Sequence[str]) -> None:
        """Make the details of authors those of the present papers and records."""
        if (
            not self._store.has(Dataset.AUTHORS)
            and not self._db.execute("SELECT 1 FROM authors LIMIT 1").fetchone()
        ):
            return
        self._writer.remove_authors(author_ids)
        write_missing_authors(self._db, self._writer, self._store)


def _text(paper: dict[str, Any]) -> tuple[str, str | None]:
    return paper["title"], paper["abstract"]
