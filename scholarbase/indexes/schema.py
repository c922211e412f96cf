"""The schema of ``catalog.sqlite``.

=============  =======================================================================================
papers         one row per paper; ``id`` is the integer that edges, full text and vectors refer to
abstracts      a table of its own, so that reading citations does not read them
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

from scholarbase.databases import open_for_writing
from scholarbase.indexes import author_index, frequencies, fulltext

COUNTED_TABLES: Final = ("papers", "abstracts", "aliases", "authors", "venues", "edges")
"""The tables whose row counts are in the manifest."""

BUILD_PRAGMAS = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -262144;
PRAGMA temp_store = MEMORY;
"""
"""With a write-ahead log a build can be killed at any time (https://sqlite.org/wal.html). 256 MB of cache hold the
upper pages of the indexes of any library."""

BUILD_BUSY_SECONDS: Final = 3600.0
"""How long a connection waits for another one's transaction: merging a large full-text index takes minutes."""


_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS papers (
    id INTEGER PRIMARY KEY, corpus_id INTEGER, arxiv_id TEXT, title TEXT NOT NULL, title_hash INTEGER,
    main_title_hash INTEGER, authors TEXT, year INTEGER, publication_date TEXT, first_day INTEGER, last_day INTEGER,
    venue TEXT, venue_key TEXT, venue_id TEXT, categories TEXT, citation_count INTEGER, reference_count INTEGER,
    external_ids TEXT, url TEXT, tldr TEXT, details TEXT, status TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS papers_by_corpus_id ON papers (corpus_id);
CREATE UNIQUE INDEX IF NOT EXISTS papers_by_arxiv_id ON papers (arxiv_id);
CREATE INDEX IF NOT EXISTS papers_by_title ON papers (title_hash);
CREATE INDEX IF NOT EXISTS papers_by_main_title ON papers (main_title_hash) WHERE main_title_hash IS NOT NULL;
CREATE TABLE IF NOT EXISTS abstracts (paper_id INTEGER PRIMARY KEY, abstract TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS aliases (
    scheme TEXT NOT NULL, value TEXT NOT NULL, paper_id INTEGER NOT NULL, PRIMARY KEY (scheme, value, paper_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS aliases_by_paper ON aliases (paper_id);
CREATE TABLE IF NOT EXISTS authors (
    author_id TEXT PRIMARY KEY, name TEXT, aliases TEXT, affiliations TEXT, homepage TEXT, paper_count INTEGER,
    citation_count INTEGER, h_index INTEGER
);
CREATE TABLE IF NOT EXISTS venues (venue_id TEXT PRIMARY KEY, name TEXT, kind TEXT, issn TEXT, url TEXT);
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
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
"""


def open_for_building(path: Path) -> sqlite3.Connection:
    """Open or create a catalogue that is being built.

    Several connections may write it: each waits for the others' transactions.
    """
    connection = open_for_writing(path, busy_seconds=BUILD_BUSY_SECONDS)
    for script in (BUILD_PRAGMAS, _SCHEMA, fulltext.SCHEMA, frequencies.SCHEMA, author_index.SCHEMA):
        connection.executescript(script)
    return connection


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the rows of each of ``COUNTED_TABLES``."""
    return {
        table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in COUNTED_TABLES
    }
