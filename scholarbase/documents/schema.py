"""The schema of ``documents.sqlite``.

====================  ================================================================================
documents             a full text: its ``paper`` in the catalogue, ``version``, ``source`` and compressed ``text``
sections              its sections: ``parent`` is the ``place`` of the section that contains it
paragraphs            its paragraphs, lists, formulas, captions and tables
bibliography          the entries of its bibliography; ``paper`` is the cited paper, if the library holds it
citations             the citation marks in its text; ``entry`` is the ``place`` of an entry of the bibliography
figures               its figures and tables
pages                 its pages, of a PDF
originals             the PDF itself
passages              the passages of the documents that are searched
passage_words         FTS5 over the texts of the passages; a contentless table, ``rowid`` is the passage
document_frequencies  how many passages have a term in their BM25 vector, by month of their papers
meta                  facts about the file: the snapshot id
====================  ================================================================================

``start`` and ``end`` are offsets in the document's text, in code points. ``place`` counts the parts of a document from
0, ``number`` its pages from 1.
"""

from __future__ import annotations

import sqlite3
import zlib
from pathlib import Path
from typing import Final

from scholarbase.databases import open_for_writing
from scholarbase.errors import LibraryCorrupt

FILE_NAME: Final = "documents.sqlite"
TOKENIZER: Final = "porter unicode61 remove_diacritics 2"
COMPRESSION: Final = 6
MOST_BYTES: Final = 80_000_001
"""More bytes than any stored text has: a few kilobytes may decompress to a gigabyte."""

_PRAGMAS: Final = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA cache_size = -65536;
PRAGMA temp_store = MEMORY;
"""

_TABLES: Final = f"""
CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY, paper INTEGER NOT NULL, version INTEGER, source TEXT NOT NULL,
    is_main INTEGER NOT NULL, characters INTEGER NOT NULL, tokens INTEGER NOT NULL, text BLOB NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS documents_by_paper ON documents (paper, coalesce(version, 0), source);
CREATE TABLE IF NOT EXISTS sections (
    document INTEGER NOT NULL, place INTEGER NOT NULL, parent INTEGER, number TEXT, title TEXT NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, tokens INTEGER NOT NULL, PRIMARY KEY (document, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS paragraphs (
    document INTEGER NOT NULL, place INTEGER NOT NULL, section INTEGER, kind TEXT NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, PRIMARY KEY (document, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bibliography (
    document INTEGER NOT NULL, place INTEGER NOT NULL, text TEXT NOT NULL, title TEXT, year INTEGER,
    ids TEXT NOT NULL, paper INTEGER, PRIMARY KEY (document, place)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS bibliography_by_paper ON bibliography (paper) WHERE paper IS NOT NULL;
CREATE TABLE IF NOT EXISTS citations (
    document INTEGER NOT NULL, place INTEGER NOT NULL, entry INTEGER NOT NULL,
    start INTEGER NOT NULL, end INTEGER NOT NULL, PRIMARY KEY (document, place)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS citations_by_entry ON citations (document, entry);
CREATE TABLE IF NOT EXISTS figures (
    document INTEGER NOT NULL, place INTEGER NOT NULL, kind TEXT NOT NULL, label TEXT NOT NULL, caption TEXT NOT NULL,
    start INTEGER, end INTEGER, page INTEGER, x REAL, y REAL, width REAL, height REAL, html TEXT,
    PRIMARY KEY (document, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS pages (
    document INTEGER NOT NULL, number INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,
    width REAL NOT NULL, height REAL NOT NULL, PRIMARY KEY (document, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS originals (document INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY, document INTEGER NOT NULL, section INTEGER,
    start INTEGER NOT NULL, end INTEGER NOT NULL, tokens INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS passages_by_document ON passages (document);
CREATE VIRTUAL TABLE IF NOT EXISTS passage_words USING fts5(text, content = '', tokenize = '{TOKENIZER}');
CREATE TABLE IF NOT EXISTS document_frequencies (
    term INTEGER NOT NULL, month INTEGER NOT NULL, papers INTEGER NOT NULL, PRIMARY KEY (term, month)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


def open_for_building(path: Path) -> sqlite3.Connection:
    """Open a database for building, and create its tables unless they exist."""
    db = open_for_writing(path)
    try:
        db.executescript(_PRAGMAS)
        db.executescript(_TABLES)
    except BaseException:
        db.close()
        raise
    return db


def compress(text: str) -> bytes:
    """A text as it is stored."""
    return zlib.compress(text.encode(), COMPRESSION)


def decompress(data: bytes) -> str:
    """A stored text. Raises LibraryCorrupt: it is damaged, or longer than any."""
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(data, MOST_BYTES).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise LibraryCorrupt(f"A full text of the library is damaged ({error}): restore the copy.") from error
    if not stream.eof:
        raise LibraryCorrupt(
            f"A full text of the library is cut short, or has more than {MOST_BYTES:,} bytes: restore the copy."
        )
    return text
