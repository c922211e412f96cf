"""Applies changed records to the catalogue: papers, their full text, citations, authors and venues.

Changed papers are removed and written again from all of their records, by the code that an ingest uses. What differs
afterwards decides what else must change: a paper whose row is the same again keeps its words and its vectors. Papers
that entries of people's own files may join (:mod:`.own`) are compared last, when the entries have joined them again.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import orjson

from scholarbase.encoders import document_text
from scholarbase.identifiers import Identifier
from scholarbase.indexes.author_index import mentions
from scholarbase.indexes.content_hash import combined, sum_of_rows, table_sum
from scholarbase.ingest.checkpoint import batched
from scholarbase.ingest.merging import GROUPED, groups, write_missing_authors, write_papers, write_venues
from scholarbase.ingest.records import CitationRecord
from scholarbase.ingest.sources import Dataset
from scholarbase.ingest.store import About, RecordStore
from scholarbase.ingest.writer import CatalogWriter
from scholarbase.updates.applying import Applied
from scholarbase.updates.own import OwnKeys, SetChanges, add_records, all_keys, joined_papers, own_counts

_PAYLOAD: Final = ("first_day", "last_day", "categories", "venue_key", "citation_count", "status")


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
        self._columns = [row[1] for row in db.execute("PRAGMA table_info(papers)")]
        self._places: dict[int, int | None] = {}
        self.changed = Changed()

    def apply(self, applied: Applied) -> Changed:
        """Apply changed records. Returns what changed in the catalogue."""
        about = applied.about
        keys = all_keys(self._store, applied.earlier_entries)
        later = self._take_off_entries(about, keys)
        for ids in groups(self._store, about):
            numbers = ids.numbers
            before = self._rows(numbers)
            self._remember_places(ids.corpus_ids)
            write_papers(self._writer, self._store, ids)
            if keys:
                matching = [
                    n for n, one in self._rows(numbers).items() if keys.match(one.ids, one.title_hash)
                ]
                later.update((number, before.get(number)) for number in matching if number not in later)
                numbers = [number for number in numbers if number not in later]
            self._writer.prune(numbers)
            self._compare({n: before[n] for n in numbers if n in before}, self._rows(numbers))
            self._advance(len(numbers))
        self._join_entries(later)
        ends = self._changed_places()
        self._edges_of_papers(sorted(ends))
        self._edges_of_pairs(applied.pairs, ends)
        self._authors(sorted(about.authors))
        if about.venues:
            write_venues(self._db, self._writer, self._store)
            for table in ("venues", "venue_names"):
                self._sums[table] = table_sum(self._db, table)
        return self.changed

    # -- people's own files and named sets --------------------------------------------------------------

    def _take_off_entries(self, about: About, keys: OwnKeys) -> dict[int, _PaperRows | None]:
        """Remove all papers that entries may have joined, and have them written from their other records. Returns the
        rows that they had."""
        if not keys:
            return {}
        add_records(about, self._db, self._store, keys, self._writer.keep)
        numbers = joined_papers(self._db, keys)
        before = self._rows(numbers)
        for one in before.values():
            for scheme, value in one.ids:
                if scheme == "arXiv":
                    about.arxiv_ids.add(value)
                elif scheme == "Doc":
                    about.documents.add(value)
        about.corpus_ids.update(self._corpus_ids(numbers))
        self._remember_places(about.corpus_ids)
        self._writer.remove(numbers)
        return {**before}

    def _join_entries(self, later: Mapping[int, _PaperRows | None]) -> None:
        """Write the named sets and the entries again, and compare the papers that had to wait for this."""
        entries, members = self._store.own()
        sets = SetChanges(self._db)
        self._db.execute("DELETE FROM sets")
        self._writer.store_own(entries, members)
        with self._writer.joined() as (counts, own):
            numbers = sorted(later.keys() | own)
            self._writer.prune(numbers, own=True)
            self._db.execute("DELETE FROM sets WHERE paper NOT IN (SELECT id FROM papers)")
        for some in batched(numbers, GROUPED):
            before = {number: one for number in some if (one := later.get(number)) is not None}
            self._compare(before, self._rows(some))
        for number, day in sets.papers():
            self.changed.points.add(number)
            self.changed.days.setdefault(number, day)
        self._sums["sets"] = table_sum(self._db, "sets")
        self.changed.counts.update(own_counts(counts, self._store))

    # -- papers -----------------------------------------------------------------------------------------

    def _rows(self, numbers: Sequence[int]) -> dict[int, _PaperRows]:
        listed = orjson.dumps(numbers).decode()
        wanted = "IN (SELECT value FROM json_each(?))"
        papers = self._db.execute(f"SELECT * FROM papers WHERE id {wanted}", (listed,)).fetchall()
        found = {row[0]: _PaperRows(dict(zip(self._columns, row, strict=True)), row) for row in papers}
        for row in self._db.execute(f"SELECT * FROM abstracts WHERE paper_id {wanted}", (listed,)):
            found[row[0]].abstract = row
        for row in self._db.execute(
            f"SELECT * FROM aliases WHERE paper_id {wanted} ORDER BY scheme, value", (listed,)
        ):
            found[row[2]].aliases.append(row)
        return found

    def _compare(self, before: dict[int, _PaperRows], after: dict[int, _PaperRows]) -> None:
        changed = self.changed
        for number in sorted(before.keys() | after.keys()):
            old, new = before.get(number), after.get(number)
            if old == new:
                continue
            kind = "papers_added" if old is None else "papers_removed" if new is None else "papers_changed"
            changed.counts[kind] += 1
            for table in ("papers", "abstracts", "aliases"):
                self._sums[table] = combined(
                    self._sums[table],
                    sum_of_rows(new.table(table) if new else (), table),
                    without=sum_of_rows(old.table(table) if old else (), table),
                )
            if old is None or new is None or old.text != new.text:
                self._index_text(number, old, new)
            self._note(number, old, new)

    def _note(self, number: int, old: _PaperRows | None, new: _PaperRows | None) -> None:
        changed = self.changed
        same_text = old is not None and new is not None and old.text == new.text
        if old is not None:
            changed.days[number] = old.paper["last_day"]
            if not same_text:
                changed.old_texts.setdefault(text_key(*old.text), number)
        if new is None:
            changed.removed.add(number)
        elif old is None or not same_text or any(old.paper[name] != new.paper[name] for name in _PAYLOAD):
            changed.points.add(number)
            if not same_text:
                changed.texts.add(number)
        authorship = [
            None if one is None else (one.paper["authors"], one.paper["citation_count"]) for one in (old, new)
        ]
        if authorship[0] != authorship[1]:
            changed.authors.add(number)
            for one in (old, new):
                if one is not None and one.paper["authors"]:
                    changed.author_ids.update(mentions(one.paper["authors"]))

    def _index_text(self, number: int, old: _PaperRows | None, new: _PaperRows | None) -> None:
        """Replace a paper's words. FTS5 must be given the old ones, since it does not store texts
        (https://sqlite.org/fts5.html#the_delete_command)."""
        if old is not None:
            title, abstract = old.text
            self._db.execute(
                "INSERT INTO fulltext (fulltext, rowid, title, abstract) VALUES ('delete', ?, ?, ?)",
                (number, title, abstract),
            )
            self._db.execute(
                "INSERT INTO title_words (title_words, rowid, title) VALUES ('delete', ?, ?)", (number, title)
            )
        if new is not None:
            title, abstract = new.text
            self._db.execute(
                "INSERT INTO fulltext (rowid, title, abstract) VALUES (?, ?, ?)", (number, title, abstract)
            )
            self._db.execute("INSERT INTO title_words (rowid, title) VALUES (?, ?)", (number, title))

    # -- citations --------------------------------------------------------------------------------------

    def _remember_places(self, corpus_ids: Iterable[int]) -> None:
        """Keep the papers that these corpus ids name, unless they are known."""
        new = sorted(set(corpus_ids) - self._places.keys())
        for some in batched(new, GROUPED):
            found = self._writer.by_corpus_id(some)
            self._places.update((corpus_id, found.get(corpus_id)) for corpus_id in some)

    def _changed_places(self) -> set[int]:
        """The papers that a corpus id named, and those that it names instead."""
        before, self._places = self._places, {}
        self._remember_places(before)
        changed = [(old, self._places[name]) for name, old in before.items() if old != self._places[name]]
        return {number for pair in changed for number in pair if number is not None}

    def _edges_of_papers(self, numbers: Sequence[int]) -> None:
        """Write all edges of these papers again."""
        for some in batched(numbers, GROUPED):
            listed = orjson.dumps(some).decode()
            corpus_ids = sorted(self._corpus_ids(some).keys())
            citing, cited = (self._store.citations(end, corpus_ids) for end in ("citing", "cited"))
            where = (
                "citing IN (SELECT value FROM json_each(?1)) OR cited IN (SELECT value FROM json_each(?1))"
            )
            self._replace_edges(where, (listed,), [*citing, *cited])

    def _edges_of_pairs(self, pairs: Iterable[tuple[int, int]], done: set[int]) -> None:
        """Write the edges between these corpus ids again, except those of papers that are ``done``."""
        for some in batched(sorted(pairs), GROUPED):
            places = self._writer.by_corpus_id(sorted({end for pair in some for end in pair}))
            papers = {
                (places[citing], places[cited])
                for citing, cited in some
                if {citing, cited} <= places.keys() and not {places[citing], places[cited]} & done
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
        select = f"SELECT * FROM edges WHERE {where}"
        old = self._db.execute(select, params).fetchall()
        self._db.execute(f"DELETE FROM edges WHERE {where}", params)
        self._writer.write(Dataset.CITATIONS, records)
        new = self._db.execute(select, params).fetchall()
        self._sums["edges"] = combined(
            self._sums["edges"], sum_of_rows(new, "edges"), without=sum_of_rows(old, "edges")
        )
        both = {row[:2] for row in old} & {row[:2] for row in new}
        self.changed.counts["edges_added"] += len(new) - len(both)
        self.changed.counts["edges_removed"] += len(old) - len(both)

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
        self._sums["authors"] = table_sum(self._db, "authors")
        self.changed.author_ids.update(author_ids)


@dataclass(slots=True)
class _PaperRows:
    """The rows of one paper."""

    paper: dict[str, Any]
    row: tuple[Any, ...]
    abstract: tuple[int, str] | None = None
    aliases: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def ids(self) -> list[Identifier]:
        columns = (("CorpusId", self.paper["corpus_id"]), ("arXiv", self.paper["arxiv_id"]))
        return [
            *(Identifier(scheme, str(value)) for scheme, value in columns if value is not None),
            *(Identifier(scheme, value) for scheme, value, _ in self.aliases),
        ]

    @property
    def title_hash(self) -> int:
        found: int = self.paper["title_hash"]
        return found

    @property
    def text(self) -> tuple[str, str | None]:
        return self.paper["title"], self.abstract[1] if self.abstract else None

    def table(self, name: str) -> Sequence[tuple[Any, ...]]:
        return {
            "papers": [self.row],
            "abstracts": [self.abstract] if self.abstract else [],
            "aliases": self.aliases,
        }[name]
