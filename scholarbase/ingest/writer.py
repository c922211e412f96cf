"""Writes records as catalogue rows: merges the sources' records of one paper, and counts what was done.

Each method takes one batch and is called inside a transaction. A paper's number is that of its id
(:mod:`scholarbase.ingest.numbering`), so the order of the records does not change it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import orjson

from scholarbase.bibliographies.names import surname
from scholarbase.identifiers import Identifier
from scholarbase.indexes import citation_keys, citations
from scholarbase.indexes.catalog import find
from scholarbase.indexes.citations import EdgeRow
from scholarbase.indexes.filters import venue_key
from scholarbase.indexes.titles import normalize_title, title_hash
from scholarbase.ingest.claims import agreed_papers, contested_ids, note_doubtful
from scholarbase.ingest.keeping import drop_table, left_out, papers_in_parts
from scholarbase.ingest.notices import INDEX_ENTRIES, add_notice, entries
from scholarbase.ingest.numbering import arxiv_number, paper_number
from scholarbase.ingest.paper_rows import (
    FILL_PAPER,
    INSERT_PAPER,
    INSERT_WRITTEN,
    filling,
    inserted,
    with_formulas,
)
from scholarbase.ingest.records import (
    AbstractRecord,
    AuthorRecord,
    CitationRecord,
    Conflict,
    DeletedRecord,
    Member,
    OwnRow,
    PaperIdRecord,
    PaperRecord,
    TldrRecord,
    VenueRecord,
    ids_of,
    is_notice,
    own_rows,
    record_of,
)
from scholarbase.ingest.sources import OWN, WITH_PAPERS, Dataset
from scholarbase.models.limits import KeepRule
from scholarbase.models.status import is_withdrawn

_WORKING_TABLES: Final = {
    "own_entries": "file TEXT NOT NULL, place INTEGER NOT NULL, record TEXT NOT NULL, sets TEXT NOT NULL",
    "own_papers": "paper INTEGER PRIMARY KEY, is_new INTEGER NOT NULL",
    "papers_with_text": "paper INTEGER PRIMARY KEY",
    "set_members": "id INTEGER PRIMARY KEY, name TEXT NOT NULL, scheme TEXT NOT NULL, value TEXT NOT NULL",
}
"""Entries of people's own files, in the order of ``place`` and record; their papers, of which ``is_new`` says that no
other source has them; the papers of full texts; and the ids of the papers of named sets. They last until the keep rule
is applied."""
_AT_ONCE: Final = 5_000
_OF_PAPERS: Final = (
    ("papers", "id"),
    ("abstracts", "paper_id"),
    ("written", "paper_id"),
    ("aliases", "paper_id"),
)
"""The tables with what a paper is, and their columns of its number."""
_NUMBERED: Final = (*_OF_PAPERS, ("sets", "paper"), ("own_papers", "paper"))
"""Tables with numbers of papers, before citations are read."""
_MOST_TITLED: Final = 20
"""Papers with one title; more have a title that says nothing, such as *Introduction*."""
_YEARS_BETWEEN: Final = 3
"""Years between a preprint and its publication."""


class CatalogWriter:
    """Writes batches of records to a catalogue under construction."""

    def __init__(self, connection: sqlite3.Connection, keep: KeepRule) -> None:
        self._db = connection
        self.keep = keep
        alias = connection.execute("SELECT 1 FROM aliases WHERE scheme = 'CorpusId' LIMIT 1").fetchone()
        self._has_corpus_aliases = alias is not None
        """Whether any paper has a second corpus id. Few do, so most look-ups skip the aliases."""
        self._file = ""
        self._contested: dict[Identifier, Conflict] = {}
        self._conflicts: dict[Identifier, Conflict] = {}
        self._by_dataset: dict[Dataset, Callable[[Any], Counter[str]]] = {
            Dataset.PAPERS: self._s2ag_papers,
            Dataset.PAPER_IDS: self._paper_ids,
            Dataset.ABSTRACTS: self._abstracts,
            Dataset.PUBLICATION_VENUES: self._venues,
            Dataset.AUTHORS: self._authors,
            Dataset.TLDRS: self._tldrs,
            Dataset.ARXIV: self._arxiv_papers,
            Dataset.OPENALEX: self._openalex_works,
            Dataset.BEIR: self._beir_documents,
            Dataset.CITATIONS: self._citations,
        }

    def write(
        self, dataset: Dataset, records: Sequence[Any], sets: Collection[str] = (), file: str = ""
    ) -> Counter[str]:
        """Write one batch of one dataset's records, whose papers belong to ``sets``. Returns counts by name.

        ``file`` is the file name for reports of ids that different papers have (:func:`.claims.doubtful_ids`); it is
        empty for records that have been compared.
        Entries of people's own files, and sets, are only stored: :meth:`complete` writes them.
        """
        if dataset in OWN:
            self.store_own(own_rows(records, sets, file), ())
            counts = Counter(own_entries=len(records))
        else:
            kept = [record for record in records if not isinstance(record, DeletedRecord)]
            self._file = file
            counts = self._by_dataset[dataset](kept)
            self._store_members(kept, sets)
            if len(kept) < len(records):
                counts[f"{dataset}_deleted"] = len(records) - len(kept)
                records = kept
        if dataset in WITH_PAPERS and (repaired := sum(record.repaired for record in records)):
            counts["arxiv_ids_repaired"] = repaired
        return counts

    def _s2ag_papers(self, records: Sequence[PaperRecord]) -> Counter[str]:
        counts: Counter[str] = Counter(s2ag_papers=len(records))
        # Two corpus ids of one arXiv paper are merged into one paper.
        new, duplicates = self._divide(records, lambda r: r.corpus_id or 0, counts, "arxiv_ids_repeated")
        self._insert(new)
        self._has_corpus_aliases |= bool(duplicates)
        self._db.executemany(
            "INSERT OR IGNORE INTO aliases VALUES ('CorpusId', ?, ?)",
            [(str(record.corpus_id), paper_id) for paper_id, record in duplicates],
        )
        self._insert_names(duplicates)
        return counts

    def _divide(
        self,
        records: Sequence[PaperRecord],
        key: Callable[[PaperRecord], int],
        counts: Counter[str],
        joined_name: str,
    ) -> tuple[list[PaperRecord], list[tuple[int, PaperRecord]]]:
        """Divide records into those of new papers and, with their numbers, those that have the arXiv ids of others.

        Of several with one ``key``, a corpus id or the number of a work, the first stays. ``joined_name`` is the name
        of the count of those with arXiv ids of others.
        """
        seen = set(self.by_corpus_id([key(record) for record in records]))
        numbers = self._ids_of("arxiv_id", [r.arxiv_id for r in records if r.arxiv_id is not None])
        new: list[PaperRecord] = []
        joined: list[tuple[int, PaperRecord]] = []
        for record in records:
            if key(record) in seen:
                counts["papers_repeated"] += 1
                continue
            seen.add(key(record))
            if record.arxiv_id in numbers:
                counts[joined_name] += 1
                joined.append((numbers[record.arxiv_id], record))
            elif self.keep == "arxiv" and record.arxiv_id is None:
                counts["papers_without_arxiv_id"] += 1
            else:
                if record.arxiv_id is not None:
                    numbers[record.arxiv_id] = arxiv_number(record.arxiv_id)
                new.append(record)
        return new, joined

    def _arxiv_papers(self, records: Sequence[PaperRecord]) -> Counter[str]:
        counts: Counter[str] = Counter(arxiv_papers=len(records))
        known = self._ids_of("arxiv_id", [r.arxiv_id for r in records])
        joined = [(known[r.arxiv_id], r) for r in records if r.arxiv_id in known]
        from_s2ag = self._compare(joined)
        new: dict[str | None, PaperRecord] = {}
        for record in records:
            if record.arxiv_id not in known:
                new.setdefault(record.arxiv_id, record)
        counts["arxiv_joined"] = from_s2ag
        counts["papers_repeated"] = len(records) - from_s2ag - len(new)
        self._fill(joined)
        self._insert(list(new.values()))
        return counts

    def _compare(self, joined: Sequence[tuple[int, PaperRecord]]) -> int:
        """Note the records of a file that are of other papers than those with their arXiv ids, and return how many of
        these papers only Semantic Scholar has."""
        rows = self._db.execute(
            """
            SELECT id, title_hash, corpus_id IS NOT NULL AND categories IS NULL FROM papers
            WHERE id IN (SELECT value FROM json_each(?))
            """,
            (orjson.dumps([number for number, _ in joined]).decode(),),
        ).fetchall()
        if self._file:
            hashes = {number: stored for number, stored, _ in rows}
            note_doubtful(self._db, [(n, hashes[n], record) for n, record in joined], self._file)
        return sum(only_s2ag for *_, only_s2ag in rows)

    def _openalex_works(self, records: Sequence[PaperRecord]) -> Counter[str]:
        counts: Counter[str] = Counter(openalex_works=len(records))
        new, joined = self._divide(records, lambda r: r.work, counts, "openalex_joined")
        self._insert(new)
        self._compare(joined)
        self._fill(joined)
        return counts

    def _beir_documents(self, records: Sequence[PaperRecord]) -> Counter[str]:
        counts: Counter[str] = Counter(beir_documents=len(records))
        names = orjson.dumps([r.external_ids["Doc"] for r in records]).decode()
        sql = "SELECT value FROM aliases WHERE scheme = 'Doc' AND value IN (SELECT value FROM json_each(?))"
        seen = {row[0] for row in self._db.execute(sql, (names,))}
        new: dict[str, PaperRecord] = {}
        for record in records:
            name = record.external_ids["Doc"]
            if name not in seen:
                new.setdefault(name, record)
        counts["papers_repeated"] = len(records) - len(new)
        self._insert(list(new.values()))
        return counts

    def _store_members(self, records: Sequence[PaperRecord], sets: Collection[str]) -> None:
        if sets:
            ids = [ids_of(record)[0] for record in records]
            self.store_own((), ((name, *identifier) for name in sets for identifier in ids))

    def store_own(self, entries: Iterable[OwnRow], members: Iterable[Member]) -> None:
        """Store entries of people's own files, and the ids of papers of named sets."""
        self._create_working_tables()
        self._db.executemany("INSERT INTO own_entries VALUES (?, ?, ?, ?)", entries)
        self._db.executemany("INSERT INTO set_members (name, scheme, value) VALUES (?, ?, ?)", members)

    def stored_own(self) -> tuple[Iterable[OwnRow], Iterable[Member]]:
        """What :meth:`store_own` stored."""
        self._create_working_tables()
        return (
            self._db.execute("SELECT * FROM own_entries"),
            self._db.execute("SELECT name, scheme, value FROM set_members"),
        )

    def _create_working_tables(self) -> None:
        for table, columns in _WORKING_TABLES.items():
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        self._db.execute(INDEX_ENTRIES)

    def complete(
        self, with_text: Callable[[], Iterable[int]], advance: Callable[[int], None]
    ) -> Counter[str]:
        """Write the named sets and the entries of people's own files, after the records of all other sources of papers,
        and apply the keep rule. Returns counts by name.

        ``with_text`` gives the papers of full texts, when all papers are written. ``advance`` is called with the number
        of papers to which the rule was applied since the last call.

        Entries are written in an order of their own: in any order of the files and their entries, papers, ids and
        numbers are the same.
        """
        dropped: Counter[str] = Counter()
        with self.own_entries_written() as (counts, _):
            if self.keep == "text":
                self._db.executemany(
                    "INSERT OR IGNORE INTO papers_with_text VALUES (?)", ((paper,) for paper in with_text())
                )
            for papers in papers_in_parts(self._db, _AT_ONCE):
                dropped += self.prune(papers)
                advance(len(papers))
            if dropped:
                self._db.execute("DELETE FROM sets WHERE paper NOT IN (SELECT id FROM papers)")
                if self._db.execute("SELECT 1 FROM authors LIMIT 1").fetchone():
                    with self.wanted_authors():
                        self._db.execute(
                            "DELETE FROM authors WHERE author_id NOT IN (SELECT author_id FROM wanted_authors)"
                        )
            self._db.execute("DROP TABLE IF EXISTS wanted_authors")
        return counts + dropped

    @contextmanager
    def own_entries_written(self) -> Iterator[tuple[Counter[str], set[int]]]:
        """Write the stored sets and entries, which are deleted at the end. Gives counts by name and the numbers of the
        entries' papers; :attr:`conflicts` are those of entries. The caller applies the keep rule meanwhile."""
        self._create_working_tables()
        self._write_sets()
        self._contested = contested_ids(self._db)
        self._conflicts = dict(self._contested)
        counts: Counter[str] = Counter()
        for file, record, sets in entries(self._db):
            counts += self._own_paper(record_of(record), orjson.loads(sets), file)
        citation_keys.qualify(self._db)
        yield counts, {row[0] for row in self._db.execute("SELECT paper FROM own_papers")}
        for table in _WORKING_TABLES:
            drop_table(self._db, table, _AT_ONCE)

    def _write_sets(self) -> None:
        last = 0
        sql = "SELECT id, name, scheme, value FROM set_members WHERE id > ? ORDER BY id LIMIT ?"
        while rows := self._db.execute(sql, (last, _AT_ONCE)).fetchall():
            known = find(self._db, (Identifier(*row[2:]) for row in rows))
            self._db.executemany(
                "INSERT OR IGNORE INTO sets VALUES (?, ?)",
                [(row[1], known[Identifier(*row[2:])]) for row in rows if Identifier(*row[2:]) in known],
            )
            last = rows[-1][0]

    @property
    def conflicts(self) -> list[Conflict]:
        """The ids of entries of people's own files that are those of other papers, in the order of the ids."""
        return [self._conflicts[name] for name in sorted(self._conflicts)]

    def _own_paper(self, record: PaperRecord, sets: Sequence[str], file: str) -> Counter[str]:
        if is_notice(record):
            return add_notice(self._db, record)
        counts: Counter[str] = Counter()
        known, conflicts = agreed_papers(self._db, record, self._contested)
        for name, title in conflicts:
            self._conflicts.setdefault(name, Conflict(file, record.line, name, (record.title, title)))
        number = next((known[identifier] for identifier in ids_of(record) if identifier in known), None)
        if number is not None and record.arxiv_id is not None and self._arxiv_id(number) is not None:
            number = known.get(Identifier("arXiv", record.arxiv_id))  # not a paper with another arXiv id
        if number is None:
            number = self._same_work(record)
        # An id of two papers stays with the first.
        record.external_ids = {
            scheme: value
            for scheme, value in record.external_ids.items()
            if known.get(Identifier(scheme, value), number) == number
        }
        record.further_dois = [
            doi for doi in record.further_dois if known.get(Identifier("DOI", doi), number) == number
        ]
        is_new = number is None or self._is_own(number)
        if number is None:
            number = paper_number(record.arxiv_id, record.corpus_id, record.external_ids)
            self._insert([record])
        else:
            counts["own_joined"] += 1
            if is_new and (record.arxiv_id or "DOI" in record.external_ids):
                # An id that others know takes the place of the one made here, which stays an alias.
                self._db.execute(
                    "UPDATE papers SET external_ids = json_remove(external_ids, '$.Doc') WHERE id = ?",
                    (number,),
                )
            self._fill([(number, record)])
            number = self._renumbered(number)
        if record.tldr is not None:
            self._changes("UPDATE papers SET tldr = ? WHERE id = ? AND tldr IS NULL", [(record.tldr, number)])
        self._has_corpus_aliases |= "CorpusId" in record.external_ids
        self._db.execute("INSERT OR IGNORE INTO own_papers VALUES (?, ?)", (number, is_new))
        self._db.executemany("INSERT OR IGNORE INTO sets VALUES (?, ?)", [(name, number) for name in sets])
        if "Key" in record.external_ids:
            citation_keys.add(self._db, number, f"{file}/{record.external_ids['Key']}")
        return counts

    def _renumbered(self, number: int) -> int:
        """The number that a paper's ids give, which becomes its number: it may have got a better id."""
        arxiv_id, corpus_id, external_ids = self._db.execute(
            "SELECT arxiv_id, corpus_id, external_ids FROM papers WHERE id = ?", (number,)
        ).fetchone()
        new = paper_number(arxiv_id, corpus_id, orjson.loads(external_ids or "{}"))
        if new != number:
            for table, column in _NUMBERED:
                self._db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, number))
        return new

    def _arxiv_id(self, number: int) -> str | None:
        arxiv_id: str | None = self._db.execute(
            "SELECT arxiv_id FROM papers WHERE id = ?", (number,)
        ).fetchone()[0]
        return arxiv_id

    def _same_work(self, record: PaperRecord) -> int | None:
        """The one paper with the record's title and first author, no other id, and a year near it: most often the
        preprint of a published paper, or the other way round."""
        if not record.authors:
            return None
        name = normalize_title(surname(record.authors[0][0]))
        rows = self._db.execute(
            """
            SELECT id, arxiv_id, external_ids ->> 'DOI', year, authors ->> '$[0][0]' FROM papers
            WHERE title_hash = ? ORDER BY id LIMIT ?
            """,
            (title_hash(record.title), _MOST_TITLED + 1),
        ).fetchall()
        matches = []
        for number, *ids, year, author in rows:
            others = (record.arxiv_id, record.external_ids.get("DOI"))
            differs = any(
                a is not None and b is not None and a != b for a, b in zip(ids, others, strict=True)
            )
            near = year is None or record.year is None or abs(year - record.year) <= _YEARS_BETWEEN
            if near and not differs and author is not None and normalize_title(surname(author)) == name:
                matches.append(number)
        return matches[0] if len(matches) == 1 and len(rows) <= _MOST_TITLED else None

    def _is_own(self, number: int) -> bool:
        row = self._db.execute("SELECT is_new FROM own_papers WHERE paper = ?", (number,)).fetchone()
        return row is not None and bool(row[0])

    def _fill(self, joined: Sequence[tuple[int, PaperRecord]]) -> None:
        """Fill the missing values of papers from other records of them."""
        self._db.executemany(FILL_PAPER, [filling(number, record) for number, record in joined])
        self._insert_names(joined)

    def _insert(self, records: Sequence[PaperRecord]) -> None:
        numbered = [(paper_number(r.arxiv_id, r.corpus_id, r.external_ids), r) for r in records]
        self._db.executemany(INSERT_PAPER, [inserted(number, record) for number, record in numbered])
        self._insert_names(numbered)

    def _insert_names(self, papers: Sequence[tuple[int, PaperRecord]]) -> None:
        """Insert abstracts, texts with formulas, and aliases."""
        self._db.executemany(
            "INSERT OR IGNORE INTO abstracts VALUES (?, ?)",
            [(paper_id, r.abstract) for paper_id, r in papers if r.abstract],
        )
        self._db.executemany(
            INSERT_WRITTEN,
            [
                with_formulas(paper_id, (r.title, r.written_title), (r.abstract, r.written_abstract))
                for paper_id, r in papers
                if r.written_title or r.written_abstract
            ],
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO aliases VALUES (?, ?, ?)",
            sorted(
                (scheme, value, paper_id)
                for paper_id, r in papers
                for scheme, value in (*r.external_ids.items(), *(("DOI", doi) for doi in r.further_dois))
            ),
        )

    def _abstracts(self, records: Sequence[AbstractRecord]) -> Counter[str]:
        ids = self.by_corpus_id([r.corpus_id for r in records])
        written = self._changes(
            "INSERT OR IGNORE INTO abstracts VALUES (?, ?)",
            [(ids[r.corpus_id], r.abstract) for r in records if r.corpus_id in ids],
        )
        self._db.executemany(
            INSERT_WRITTEN,
            [
                with_formulas(ids[r.corpus_id], (None, None), (r.abstract, r.written))
                for r in records
                if r.written and r.corpus_id in ids
            ],
        )
        self._db.executemany(
            "UPDATE papers SET status = coalesce(status, 'withdrawn') WHERE id = ?",
            [(ids[r.corpus_id],) for r in records if r.corpus_id in ids and is_withdrawn(r.abstract)],
        )
        return Counter(s2ag_abstracts=len(records), s2ag_abstracts_used=written)

    def _paper_ids(self, records: Sequence[PaperIdRecord]) -> Counter[str]:
        ids = self.by_corpus_id([r.corpus_id for r in records])
        written = self._changes(
            "INSERT OR IGNORE INTO aliases VALUES ('sha', ?, ?)",
            [(r.sha, ids[r.corpus_id]) for r in records if r.corpus_id in ids],
        )
        return Counter(s2ag_paper_ids=len(records), s2ag_paper_ids_used=written)

    def _tldrs(self, records: Sequence[TldrRecord]) -> Counter[str]:
        ids = self.by_corpus_id([r.corpus_id for r in records])
        written = self._changes(
            "UPDATE papers SET tldr = ? WHERE id = ? AND tldr IS NULL",
            [(r.text, ids[r.corpus_id]) for r in records if r.corpus_id in ids],
        )
        return Counter(s2ag_tldrs=len(records), s2ag_tldrs_used=written)

    def _venues(self, records: Sequence[VenueRecord]) -> Counter[str]:
        written = self._changes(
            "INSERT OR IGNORE INTO venues VALUES (?, ?, ?, ?, ?)",
            [(r.venue_id, r.name, r.kind, r.issn, r.url) for r in records],
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO venue_names VALUES (?, ?)",
            [(venue_key(n), venue_key(r.name)) for r in records for n in (r.name, *r.alternate_names)],
        )
        return Counter(s2ag_venues=len(records), s2ag_venues_used=written)

    def _authors(self, records: Sequence[AuthorRecord]) -> Counter[str]:
        # Of a release's 80 million authors, only those of kept papers are stored.
        if not self._db.execute("SELECT 1 FROM sqlite_master WHERE name = 'wanted_authors'").fetchone():
            self._list_wanted_authors()
        written = self._changes(
            """
            INSERT OR IGNORE INTO authors SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
            WHERE EXISTS (SELECT 1 FROM wanted_authors WHERE author_id = ?1)
            """,
            [
                (
                    r.author_id,
                    r.name,
                    orjson.dumps(r.aliases).decode(),
                    orjson.dumps(r.affiliations).decode(),
                    r.homepage,
                    r.paper_count,
                    r.citation_count,
                    r.h_index,
                )
                for r in records
            ],
        )
        return Counter(s2ag_authors=len(records), s2ag_authors_used=written)

    @contextmanager
    def wanted_authors(self) -> Iterator[None]:
        """List the authors of all papers in the table ``wanted_authors`` meanwhile."""
        self._db.execute("DROP TABLE IF EXISTS wanted_authors")
        self._list_wanted_authors()
        yield
        self._db.execute("DROP TABLE wanted_authors")

    def _list_wanted_authors(self) -> None:
        self._db.execute("CREATE TABLE wanted_authors (author_id TEXT PRIMARY KEY) WITHOUT ROWID")
        self._db.execute(
            """
            INSERT OR IGNORE INTO wanted_authors
            SELECT json_extract(author.value, '$[1]') FROM papers, json_each(papers.authors) AS author
            WHERE json_extract(author.value, '$[1]') IS NOT NULL
            """
        )

    def _citations(self, records: Sequence[CitationRecord]) -> Counter[str]:
        counts: Counter[str] = Counter(s2ag_citations=len(records))
        ends = self.by_corpus_id([e for r in records for e in (r.citing, r.cited) if e is not None])
        rows = []
        for r in records:
            if r.citing is None or r.cited is None:
                counts["citations_with_an_unknown_end"] += 1
            elif r.citing == r.cited:
                counts["self_citations"] += 1
            elif r.citing not in ends or r.cited not in ends:
                counts["citations_outside_the_library"] += 1
            elif ends[r.citing] == ends[r.cited]:
                counts["self_citations"] += 1
            else:
                rows.append(EdgeRow(ends[r.citing], ends[r.cited], r.is_influential, r.contexts, r.intents))
        citations.insert_edges(self._db, rows)
        counts["citations_used"] = len(rows)
        return counts

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove papers with their abstracts and aliases. Their citations stay."""
        listed = orjson.dumps(numbers).decode()
        for table, column in _OF_PAPERS:
            self._db.execute(
                f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (listed,)
            )

    def remove_authors(self, author_ids: Sequence[str]) -> None:
        """Remove the details of authors."""
        self._db.executemany(
            "DELETE FROM authors WHERE author_id = ?", [(author_id,) for author_id in author_ids]
        )

    def prune(self, among: Sequence[int]) -> Counter[str]:
        """Apply the keep rule to these papers, inside :meth:`joined`. Returns counts of those that it leaves out."""
        counts: Counter[str] = Counter()
        for name, numbers in left_out(self._db, self.keep, among):
            self.remove(numbers)
            counts[name] += len(numbers)
        return +counts

    def _ids_of(self, column: str, values: Sequence[Any]) -> dict[Any, int]:
        sql = f"SELECT {column}, id FROM papers WHERE {column} IN (SELECT value FROM json_each(?))"
        return dict(self._db.execute(sql, (orjson.dumps(values).decode(),)).fetchall())

    def by_corpus_id(self, corpus_ids: Sequence[int]) -> dict[int, int]:
        """Catalogue ids by corpus id, second corpus ids included; by the numbers of OpenAlex works below zero."""
        works = [f"W{-number}" for number in corpus_ids if number < 0]
        corpus_ids = [number for number in corpus_ids if number > 0]
        paper_ids = self._ids_of("corpus_id", corpus_ids)
        if works:
            paper_ids.update((-int(work[1:]), paper) for work, paper in self._aliases("OpenAlex", works))
        if self._has_corpus_aliases:
            others = self._aliases("CorpusId", [str(number) for number in corpus_ids])
            paper_ids.update((int(number), paper) for number, paper in others)
        return paper_ids

    def _aliases(self, scheme: str, values: Sequence[str]) -> Iterator[tuple[str, int]]:
        """The papers with these ids of a scheme; of several with one id, that with the lowest number last."""
        sql = """
            SELECT value, paper_id FROM aliases
            WHERE scheme = ? AND value IN (SELECT value FROM json_each(?)) ORDER BY paper_id DESC
        """
        return self._db.execute(sql, (scheme, orjson.dumps(values).decode()))

    def _changes(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        before = self._db.total_changes
        self._db.executemany(sql, rows)
        return self._db.total_changes - before
