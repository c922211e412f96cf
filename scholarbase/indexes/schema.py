"""The schema of ``catalog.sqlite``.

=============  =======================================================================================
papers         one row per paper; ``id`` is the integer that edges, full text and vectors refer to
abstracts      a table of its own, so that reading citations does not read them
written        titles and abstracts with formulas, as their author wrote them
aliases        all other ids of a paper: DOI, ACL, PMID, MAG, sha, ... (arXiv and corpus id are columns)
authors        details of authors from the S2AG ``authors`` dataset
venues         publication venues
venue_names    all names of the venues
edges          citations
author_names, author_papers, author_words  the index of authors (:mod:`scholarbase.indexes.author_index`)
document_frequencies  how many papers have each term of BM25, by month (:mod:`scholarbase.indexes.frequencies`)
sets           the papers of each named set
meta           facts about the file itself: the snapshot id
=============  =======================================================================================
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from sqlite_utils import Database

from scholarbase.databases import open_for_writing
from scholarbase.indexes import author_index, frequencies, fulltext
from scholarbase.indexes.filters import WITH_STATUS

COUNTED_TABLES: Final = ("papers", "abstracts", "aliases", "authors", "venues", "edges")
"""The tables whose row counts are in the manifest."""

BUILD_LOG: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 8000;
"""
"""With a write-ahead log a build can be killed at any time (https://sqlite.org/wal.html). It is copied to the database
after 32 MB, not 4 MB as by default: most pages have changed several times by then, and writing records takes an eighth
less processor time."""
BUILD_PRAGMAS: Final = f"""{BUILD_LOG}
PRAGMA cache_size = -262144;
PRAGMA temp_store = MEMORY;
"""
"""256 MB of cache hold the upper pages of the indexes of any library."""

BUILD_BUSY_SECONDS: Final = 3600.0
"""How long a connection waits for another one's transaction: merging a large full-text index takes minutes."""


_TABLES: Final[dict[str, tuple[str, dict[str, type]]]] = {
    "papers": (
        "id",
        {
            "id": int, "corpus_id": int, "arxiv_id": str, "title": str, "title_hash": int, "main_title_hash": int,
            "authors": str, "year": int, "publication_date": str, "first_day": int, "last_day": int, "venue": str,
            "venue_key": str, "venue_id": str, "categories": str, "citation_count": int, "reference_count": int,
            "external_ids": str, "url": str, "tldr": str, "details": str, "status": str,
        },
    ),
    "abstracts": ("paper_id", {"paper_id": int, "abstract": str}),
    "authors": (
        "author_id",
        {
            "author_id": str, "name": str, "aliases": str, "affiliations": str, "homepage": str, "paper_count": int,
            "citation_count": int, "h_index": int,
        },
    ),
    "venues": ("venue_id", {"venue_id": str, "name": str, "kind": str, "issn": str, "url": str}),
    "meta": ("key", {"key": str, "value": str}),
}  # fmt: skip
"""The primary key and the columns of each table that SQLite numbers by rows, or that is small."""
_SCHEMA: Final = f"""
CREATE INDEX IF NOT EXISTS papers_with_status ON papers (status) WHERE {WITH_STATUS};
CREATE UNIQUE INDEX IF NOT EXISTS papers_by_corpus_id ON papers (corpus_id);
CREATE UNIQUE INDEX IF NOT EXISTS papers_by_arxiv_id ON papers (arxiv_id);
CREATE INDEX IF NOT EXISTS papers_by_title ON papers (title_hash);
CREATE INDEX IF NOT EXISTS papers_by_main_title ON papers (main_title_hash) WHERE main_title_hash IS NOT NULL;
CREATE TABLE IF NOT EXISTS written (paper_id INTEGER PRIMARY KEY, title TEXT, abstract TEXT);
CREATE TABLE IF NOT EXISTS aliases (
    scheme TEXT NOT NULL, value TEXT NOT NULL, paper_id INTEGER NOT NULL, PRIMARY KEY (scheme, value, paper_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS aliases_by_paper ON aliases (paper_id);
CREATE TABLE IF NOT EXISTS venue_names (
    name_key TEXT NOT NULL, venue_key TEXT NOT NULL, PRIMARY KEY (name_key, venue_key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS edges (
    citing INTEGER NOT NULL, cited INTEGER NOT NULL, is_influential INTEGER, contexts TEXT, intents TEXT,
    PRIMARY KEY (citing, cited)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS edges_by_cited ON edges (cited, citing);
CREATE TABLE IF NOT EXISTS sets (name TEXT NOT NULL, paper INTEGER NOT NULL, PRIMARY KEY (name, paper)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sets_by_paper ON sets (paper);
"""
"""The other tables: their rows are their own index."""


def open_for_building(path: Path) -> sqlite3.Connection:
    """Open or create a catalogue that is being built.

    Several connections may write it: each waits for the others' transactions.
    """
    connection = open_for_writing(path, busy_seconds=BUILD_BUSY_SECONDS)
    connection.executescript(BUILD_PRAGMAS)
    for table, (key, columns) in _TABLES.items():
        Database(connection).table(table).create(
            columns, pk=key, not_null={"title", "abstract"} & columns.keys(), if_not_exists=True
        )
    for script in (_SCHEMA, fulltext.SCHEMA, frequencies.SCHEMA, author_index.SCHEMA):
        connection.executescript(script)
    return connection


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the rows of each of ``COUNTED_TABLES``."""
    return {
        table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in COUNTED_TABLES
    }
