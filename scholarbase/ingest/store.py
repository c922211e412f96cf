"""``records.sqlite``: the source records of a library, from which an update makes changed papers again.

=============  =======================================================================================
records        one row per record of a paper, author or venue: its dataset and key, the ids that it links, and its line
citations      one row per citation between corpus ids, those of papers that the library lacks too; the numbers of
               OpenAlex works are below zero, and their citations have the key of the citing work
own_entries    the entries of people's own files (:mod:`scholarbase.ingest.records`)
set_members    the ids of the papers of other sources that belong to named sets
state          the sums of the content's parts (:mod:`scholarbase.indexes.content_hash`), for the next update
=============  =======================================================================================

Searches never open this file. Rows are appended while sources are read; the indexes are created once they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.databases import open_for_writing, small_cache
from scholarbase.indexes.schema import BUILD_BUSY_SECONDS, BUILD_LOG
from scholarbase.ingest.checkpoint import transaction
from scholarbase.ingest.records import (
    AbstractRecord,
    AuthorRecord,
    CitationRecord,
    DeletedRecord,
    Member,
    OwnRow,
    PaperIdRecord,
    PaperRecord,
    Record,
    Reject,
    TldrRecord,
    VenueRecord,
    negative_work_id,
    own_rows,
    record_of,
)
from scholarbase.ingest.sources import PARSERS, Dataset
from scholarbase.progress import advancing

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, key NOT NULL, corpus_id INTEGER, arxiv_id TEXT, line BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS citations (
    id INTEGER PRIMARY KEY, key NOT NULL, citing INTEGER, cited INTEGER,
    is_influential INTEGER, contexts TEXT, intents TEXT
);
CREATE TABLE IF NOT EXISTS own_entries (
    file TEXT NOT NULL, place INTEGER NOT NULL, record TEXT NOT NULL, sets TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS set_members (
    name TEXT NOT NULL, scheme TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (scheme, value, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS state (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_INDEXES: Final = """
CREATE INDEX IF NOT EXISTS records_by_key ON records (dataset, key);
CREATE INDEX IF NOT EXISTS records_by_arxiv_id ON records (arxiv_id) WHERE arxiv_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS records_by_corpus_id ON records (corpus_id) WHERE corpus_id IS NOT NULL;
"""
_CITATION_INDEXES: Final = """
CREATE INDEX IF NOT EXISTS citations_by_key ON citations (key);
CREATE INDEX IF NOT EXISTS citations_by_citing ON citations (citing);
CREATE INDEX IF NOT EXISTS citations_by_cited ON citations (cited);
"""
_PRAGMAS: Final = f"""{BUILD_LOG}
PRAGMA cache_size = -65536;
PRAGMA temp_store = FILE;
"""
_LEVEL: Final = 1
"""zstd's: 8 microseconds for a line of arXiv's snapshot, where zlib's takes 55. Level 3 makes it 1% smaller."""

SCHEMES: Final[Mapping[Dataset, str]] = {
    Dataset.PAPERS: "CorpusId",
    Dataset.ARXIV: "arXiv",
    Dataset.BEIR: "Doc",
    Dataset.OPENALEX: "OpenAlex",
}
"""The scheme of paper ids that are the keys of a dataset's records."""

_KEYS: Final = 2_000

Key = int | str


_DATED: Final = frozenset({Dataset.ARXIV, Dataset.OPENALEX})
"""Datasets in parts, whose records move to a newer part when they change: a record says when that was."""


def dated(dataset: Dataset, line: bytes) -> str:
    """The time of a record's last change as a text that sorts, empty if it is unknown."""
    if dataset not in _DATED:
        return ""
    record = orjson.loads(line)
    stored = record.get("updated_date" if dataset is Dataset.OPENALEX else "update_date")
    return stored if isinstance(stored, str) else ""


def rank(dataset: Dataset, line: bytes) -> tuple[str, int, bytes]:
    """The order in which records with one key replace each other."""
    return dated(dataset, line), len(line), line


def is_older(dataset: Dataset, line: bytes, other: bytes) -> bool:
    """Whether a record changed last before another one with its key. Of records without dates this is unknown."""
    when = dated(dataset, line)
    return bool(when) and when < dated(dataset, other)


def cited_works(record: PaperRecord) -> list[CitationRecord]:
    """The citations of a work, each once."""
    return [
        CitationRecord(record.work, negative_work_id(cited)) for cited in dict.fromkeys(record.references)
    ]


class Links(NamedTuple):
    """A record's key in its dataset, and the ids by which it belongs to papers. The number of an OpenAlex work is a
    corpus id below zero."""

    key: Key
    corpus_id: int | None = None
    arxiv_id: str | None = None


def links_of(record: Record) -> Links:  # noqa: PLR0911  # one case for each kind
    """The key and links of a record."""
    match record:
        case PaperRecord(external_ids={"OpenAlex": work}, corpus_id=None):
            return Links(work, record.work, record.arxiv_id)
        case DeletedRecord(work=int(work)):
            return Links(f"W{work}", negative_work_id(work))
        case DeletedRecord():
            return Links(str(record.arxiv_id), None, record.arxiv_id)
        case PaperRecord(corpus_id=int(corpus_id)):
            return Links(corpus_id, corpus_id, record.arxiv_id)
        case PaperRecord(arxiv_id=str(arxiv_id)):
            return Links(arxiv_id, None, arxiv_id)
        case PaperRecord():
            return Links(record.external_ids["Doc"])
        case PaperIdRecord():
            return Links(record.sha, record.corpus_id)
        case AbstractRecord() | TldrRecord():
            return Links(record.corpus_id, record.corpus_id)
        case AuthorRecord():
            return Links(record.author_id)
        case VenueRecord():
            return Links(record.venue_id)
        case CitationRecord():
            return Links(_citation_key(record))


def _citation_key(record: CitationRecord) -> Key:
    if record.citing is not None and record.citing < 0:
        return f"W{-record.citing}"  # of all citations of a work, since they change together
    return f"{record.citing}>{record.cited}" if record.citation_id is None else record.citation_id


@dataclass(slots=True)
class About:
    """The ids of papers, authors and venues that some records are about."""

    corpus_ids: set[int] = field(default_factory=set)
    arxiv_ids: set[str] = field(default_factory=set)
    documents: set[str] = field(default_factory=set)
    authors: set[str] = field(default_factory=set)
    venues: set[str] = field(default_factory=set)
    arxiv_ids_of: dict[int, set[str]] = field(default_factory=dict)
    corpus_ids_of: dict[str, set[int]] = field(default_factory=dict)
    """Which corpus ids and arXiv ids the records of papers link, also those records that no longer exist."""

    def add(self, dataset: Dataset, links: Links) -> None:
        """Add a record."""
        if links.corpus_id is not None:
            self.corpus_ids.add(links.corpus_id)
        if links.arxiv_id is not None:
            self.arxiv_ids.add(links.arxiv_id)
            if links.corpus_id is not None:
                self.arxiv_ids_of.setdefault(links.corpus_id, set()).add(links.arxiv_id)
                self.corpus_ids_of.setdefault(links.arxiv_id, set()).add(links.corpus_id)
        keyed = {
            Dataset.BEIR: self.documents,
            Dataset.AUTHORS: self.authors,
            Dataset.PUBLICATION_VENUES: self.venues,
        }
        if dataset in keyed:
            keyed[dataset].add(str(links.key))

    def __len__(self) -> int:
        papers = len(self.corpus_ids) + len(self.arxiv_ids) + len(self.documents)
        return papers + len(self.authors) + len(self.venues)


class RecordStore:
    """The file, open for writing. The caller commits, with :meth:`transaction`."""

    def __init__(self, path: Path) -> None:
        import zstandard

        self.db = open_for_writing(path, busy_seconds=BUILD_BUSY_SECONDS)
        self.db.executescript(_PRAGMAS)
        self.db.executescript(_SCHEMA)
        self._compress = zstandard.ZstdCompressor(level=_LEVEL).compress
        self._decompress = zstandard.ZstdDecompressor().decompress

    def close(self) -> None:
        self.db.close()

    def line(self, stored: bytes) -> bytes:
        """A line from its stored form. Version 0.2.0 compressed it with zlib (RFC 1950), whose first byte is 0x78."""
        return zlib.decompress(stored) if stored[:1] == b"\x78" else self._decompress(stored)

    def transaction(self) -> AbstractContextManager[None]:
        """Commit the block's changes together, or none of them."""
        return transaction(self.db)

    # -- reading sources --------------------------------------------------------------------------------

    @property
    def ends(self) -> list[int]:
        """The last rows of both tables: the progress of a job that appends."""
        tables = ("records", "citations")
        return [self.db.execute(f"SELECT coalesce(max(id), 0) FROM {t}").fetchone()[0] for t in tables]

    def cut(self, ends: Sequence[int]) -> None:
        """Delete the rows after these, which a killed job wrote without committing its progress."""
        for table, end in zip(("records", "citations"), ends, strict=True):
            self.db.execute(f"DELETE FROM {table} WHERE id > ?", (end,))

    def append(self, dataset: Dataset, records: Sequence[Record], lines: Sequence[bytes]) -> None:
        """Append records of one dataset, with their lines; citations are stored without."""
        if dataset is Dataset.CITATIONS:
            self.db.executemany(
                """
                INSERT INTO citations (key, citing, cited, is_influential, contexts, intents)
                VALUES (?, ?, ?, ?, ?, ?)
                """,
                (self.citation_row(r) for r in records if isinstance(r, CitationRecord)),
            )
            return
        name = str(dataset)
        self.db.executemany(
            "INSERT INTO records (dataset, key, corpus_id, arxiv_id, line) VALUES (?, ?, ?, ?, ?)",
            ((name, *links_of(r), line) for r, line in zip(records, map(self._compress, lines), strict=True)),
        )

    @staticmethod
    def citation_row(record: CitationRecord) -> tuple[Any, ...]:
        """The columns of a citation, without its number."""
        return (
            _citation_key(record),
            record.citing,
            record.cited,
            None if record.is_influential is None else int(record.is_influential),
            orjson.dumps(record.contexts).decode() if record.contexts else None,
            orjson.dumps(record.intents).decode() if record.intents else None,
        )

    def index(self) -> None:
        """Create the indexes of the records, unless they exist."""
        self.db.executescript(_INDEXES)

    def index_citations(self) -> None:
        """Create the indexes of the citations, unless they exist."""
        self.db.executescript(_CITATION_INDEXES)

    def repeated(self) -> list[tuple[str, Key]]:
        """Each dataset and key with several records."""
        sql = "SELECT dataset, key FROM records GROUP BY dataset, key HAVING count(*) > 1"
        return self.db.execute(sql).fetchall()

    def settle(self, repeated: Iterable[tuple[str, Key]], advance: Callable[[int], None]) -> About:
        """Keep one of several records of a dataset with one key: the newest if they have dates, else the longest line,
        of equally long ones the last in the order of bytes.

        Returns what the others linked, where they differed, and the arXiv ids that several records share. ``advance``
        is called after each key.
        """
        about = About()
        for dataset, key in advancing(repeated, advance):
            rows = self.db.execute(
                "SELECT id, corpus_id, arxiv_id, line FROM records WHERE dataset = ? AND key = ?",
                (dataset, key),
            ).fetchall()
            lines = {row[0]: self.line(row[3]) for row in rows}
            best = max(lines, key=lambda number: (*rank(Dataset(dataset), lines[number]), -number))
            self.db.executemany(
                "DELETE FROM records WHERE id = ?", [(number,) for number in lines if number != best]
            )
            if len(set(lines.values())) > 1:
                for row in rows:
                    about.add(Dataset(dataset), Links(key, row[1], row[2]))
        about.arxiv_ids.update(self._shared_arxiv_ids())
        return about

    def _shared_arxiv_ids(self) -> list[str]:
        """The arXiv ids of several corpus ids, or of several works."""
        rows = self.db.execute(
            """
            SELECT DISTINCT arxiv_id FROM records WHERE arxiv_id IS NOT NULL AND dataset IN ('papers', 'openalex')
            GROUP BY dataset, arxiv_id HAVING count(*) > 1
            """
        )
        return [row[0] for row in rows]

    # -- people's own files and named sets --------------------------------------------------------------

    def set_own(self, entries: Iterable[OwnRow], members: Iterable[Member]) -> None:
        """Make these the entries and members."""
        with small_cache(self.db):
            self.db.execute("DELETE FROM own_entries")
            self.db.execute("DELETE FROM set_members")
            self.db.executemany("INSERT INTO own_entries VALUES (?, ?, ?, ?)", entries)
            self.db.executemany("INSERT OR IGNORE INTO set_members VALUES (?, ?, ?)", members)

    def own(self) -> tuple[Iterable[OwnRow], Iterable[Member]]:
        """All entries and members."""
        return (
            self.db.execute("SELECT * FROM own_entries"),
            self.db.execute("SELECT name, scheme, value FROM set_members"),
        )

    def replace_entries(
        self, file: str, records: Sequence[PaperRecord], sets: Collection[str] | None
    ) -> list[PaperRecord]:
        """Replace the entries of a file and return the earlier ones. They keep their sets if ``sets`` is None."""
        old = self.db.execute("SELECT record, sets FROM own_entries WHERE file = ?", (file,)).fetchall()
        if sets is None:
            sets = orjson.loads(old[0][1]) if old else ()
        self.db.execute("DELETE FROM own_entries WHERE file = ?", (file,))
        self.db.executemany("INSERT INTO own_entries VALUES (?, ?, ?, ?)", own_rows(records, sets, file))
        return [record_of(record) for record, _ in old]

    def join_sets(self, dataset: Dataset, keys: Iterable[Key], sets: Collection[str]) -> None:
        """Add the papers of these records to sets."""
        self.db.executemany(
            "INSERT OR IGNORE INTO set_members VALUES (?, ?, ?)",
            [(name, SCHEMES[dataset], str(key)) for key in keys for name in sets],
        )

    def leave_sets(self, dataset: Dataset, keys: Iterable[Key]) -> None:
        """Remove the papers of deleted records from all sets."""
        if dataset in SCHEMES:
            self.db.executemany(
                "DELETE FROM set_members WHERE scheme = ? AND value = ?",
                [(SCHEMES[dataset], str(key)) for key in keys],
            )

    # -- reading records --------------------------------------------------------------------------------

    def records(self, dataset: Dataset, column: str, values: Iterable[Key]) -> list[Any]:
        """The records of a dataset whose ``column`` (``key``, ``corpus_id``, ``arxiv_id``) is one of these, by key."""
        listed = orjson.dumps(list(values)).decode()
        where = f"dataset = ? AND {column} IN (SELECT value FROM json_each(?)) ORDER BY key"
        return [record for _, record in self._parsed(where, str(dataset), listed) if record is not None]

    def all_records(self, dataset: Dataset) -> Iterator[Any]:
        """All records of a dataset, by key."""
        rows = self._parsed("dataset = ? ORDER BY key", str(dataset))
        return (record for _, record in rows if record is not None)

    def works(self, after: int, limit: int) -> list[tuple[int, PaperRecord | None]]:
        """The next works behind a row, with the numbers of their rows; None for deleted ones."""
        # The + keeps SQLite from the other index, by which it would sort all works for each batch.
        return [*self._parsed("+dataset = 'openalex' AND id > ? ORDER BY id LIMIT ?", after, limit)]

    def _parsed(self, where: str, *params: Any) -> Iterator[tuple[int, Any]]:
        """The numbers of rows and their records, None for those that say that a record is deleted."""
        rows = self.db.execute(f"SELECT id, dataset, line FROM records WHERE {where}", params)
        for number, dataset, line in rows:
            record = PARSERS[Dataset(dataset)](self.line(line))
            yield number, None if isinstance(record, Reject | DeletedRecord) else record

    def keys(self, dataset: Dataset, *, only_arxiv: bool = False) -> Iterator[list[Key]]:
        """The keys of a dataset's records, some at a time. ``only_arxiv``: of those that have an arXiv id."""
        # The + keeps SQLite from the other index (https://sqlite.org/optoverview.html#uplus).
        where = "arxiv_id IS NOT NULL AND +dataset = ?" if only_arxiv else "dataset = ?"
        rows = self.db.execute(f"SELECT key FROM records WHERE {where}", (str(dataset),))
        while batch := rows.fetchmany(_KEYS):
            yield [row[0] for row in batch]

    def has(self, dataset: Dataset) -> bool:
        """Whether there is a record of a dataset."""
        sql = "SELECT 1 FROM records WHERE dataset = ? LIMIT 1"
        return self.db.execute(sql, (str(dataset),)).fetchone() is not None

    def closure(self, corpus_ids: set[int], arxiv_ids: set[str]) -> None:
        """Add the ids of all records that merge with those of these ids into one paper."""
        for _ in range(2):
            for column, values in (("corpus_id", sorted(corpus_ids)), ("arxiv_id", sorted(arxiv_ids))):
                rows = self.db.execute(
                    f"""
                    SELECT corpus_id, arxiv_id FROM records
                    WHERE dataset IN ('papers', 'openalex') AND {column} IN (SELECT value FROM json_each(?))
                    """,
                    (orjson.dumps(values).decode(),),
                ).fetchall()
                corpus_ids.update(row[0] for row in rows if row[0] is not None)
                arxiv_ids.update(row[1] for row in rows if row[1] is not None)

    def citations(self, column: str, corpus_ids: Iterable[int]) -> list[CitationRecord]:
        """The citations whose ``column`` (``citing`` or ``cited``) is one of these corpus ids."""
        rows = self.db.execute(
            f"""
            SELECT citing, cited, is_influential, contexts, intents FROM citations
            WHERE {column} IN (SELECT value FROM json_each(?))
            """,
            (orjson.dumps(list(corpus_ids)).decode(),),
        )
        return [
            CitationRecord(
                citing,
                cited,
                None if influential is None else bool(influential),
                orjson.loads(contexts) if contexts else [],
                orjson.loads(intents) if intents else [],
            )
            for citing, cited, influential, contexts, intents in rows.fetchall()
        ]

    # -- state ------------------------------------------------------------------------------------------

    def sums(self) -> dict[str, int]:
        """The sums of the parts of the content."""
        return {name: int(value, 16) for name, value in self.db.execute("SELECT key, value FROM state")}

    def set_sums(self, sums: Mapping[str, int]) -> None:
        self.db.execute("DELETE FROM state")
        self.db.executemany("INSERT INTO state VALUES (?, ?)", [(n, f"{s:x}") for n, s in sums.items()])

    def finish(self) -> None:
        """Turn the WAL off."""
        self.db.execute("PRAGMA journal_mode = DELETE")
