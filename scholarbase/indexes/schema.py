"""The schema of ``catalog.sqlite``, as migrations, so that newer versions can open older libraries.

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

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from scholarbase.databases import open_for_writing
from scholarbase.indexes import author_index, frequencies, fulltext

COUNTED_TABLES: Final = ("papers", "abstracts", "aliases", "authors", "venues", "edges")
"""The tables whose row counts are in the manifest."""

migrations = Migrations("scholarbase-catalog")

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


@migrations()
def m001_catalog(db: Database) -> None:
    papers = db.table("papers")
    papers.create(
        {
            "id": int,
            "corpus_id": int,
            "arxiv_id": str,
            "title": str,
            "title_hash": int,
            "main_title_hash": int,
            "authors": str,
            "year": int,
            "publication_date": str,
            "first_day": int,
            "last_day": int,
            "venue": str,
            "venue_key": str,
            "venue_id": str,
            "categories": str,
            "citation_count": int,
            "reference_count": int,
            "external_ids": str,
            "url": str,
            "tldr": str,
            "details": str,
        },
        pk="id",
        not_null={"title"},
    )
    papers.create_index(["corpus_id"], index_name="papers_by_corpus_id", unique=True)
    papers.create_index(["arxiv_id"], index_name="papers_by_arxiv_id", unique=True)
    papers.create_index(["title_hash"], index_name="papers_by_title")
    db.execute(
        "CREATE INDEX papers_by_main_title ON papers (main_title_hash) WHERE main_title_hash IS NOT NULL"
    )
    db.table("abstracts").create({"paper_id": int, "abstract": str}, pk="paper_id", not_null={"abstract"})
    db.execute(
        """
        CREATE TABLE aliases (
            scheme TEXT NOT NULL, value TEXT NOT NULL, paper_id INTEGER NOT NULL,
            PRIMARY KEY (scheme, value, paper_id)
        ) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX aliases_by_paper ON aliases (paper_id)")
    db.table("authors").create(
        {
            "author_id": str,
            "name": str,
            "aliases": str,
            "affiliations": str,
            "homepage": str,
            "paper_count": int,
            "citation_count": int,
            "h_index": int,
        },
        pk="author_id",
    )
    db.table("venues").create(
        {"venue_id": str, "name": str, "kind": str, "issn": str, "url": str}, pk="venue_id"
    )
    db.execute(
        """
        CREATE TABLE venue_names (
            name_key TEXT NOT NULL, venue_key TEXT NOT NULL, PRIMARY KEY (name_key, venue_key)
        ) WITHOUT ROWID
        """
    )
    db.execute(
        """
        CREATE TABLE edges (
            citing INTEGER NOT NULL, cited INTEGER NOT NULL,
            is_influential INTEGER, contexts TEXT, intents TEXT,
            PRIMARY KEY (citing, cited)
        ) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX edges_by_cited ON edges (cited, citing)")
    db.table("meta").create({"key": str, "value": str}, pk="key")


@migrations()
def m002_fulltext(db: Database) -> None:
    fulltext.create(db.conn)


@migrations()
def m003_title_words(db: Database) -> None:
    fulltext.create_titles(db.conn)


@migrations()
def m004_document_frequencies(db: Database) -> None:
    db.execute(frequencies.CREATE)


@migrations()
def m005_authors(db: Database) -> None:
    for statement in author_index.CREATE:
        db.execute(statement)


@migrations()
def m006_sets(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE sets (
            name TEXT NOT NULL, paper INTEGER NOT NULL, PRIMARY KEY (name, paper)
        ) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX sets_by_paper ON sets (paper)")


@migrations()
def m007_status(db: Database) -> None:
    db.table("papers").add_column("status", str)


def open_for_building(path: Path) -> sqlite3.Connection:
    """Open or create a catalogue that is being built, and migrate it to the current schema.

    Several connections may write it: each waits for the others' transactions.
    """
    connection = open_for_writing(path, busy_seconds=BUILD_BUSY_SECONDS)
    connection.executescript(BUILD_PRAGMAS)
    migrations.apply(Database(connection))
    return connection


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Count the rows of each of ``COUNTED_TABLES``."""
    return {
        table: int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
        for table in COUNTED_TABLES
    }
