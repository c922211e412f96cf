"""Writes full texts to ``documents.sqlite``, and reads them back as data."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import orjson

from scholarbase.documents.model import (
    PRECEDENCE,
    BibliographyEntry,
    Document,
    Figure,
    FullText,
    InTextCitation,
    Page,
    Paragraph,
    Section,
)
from scholarbase.documents.schema import compress, decompress

MAIN_ORDER = "coalesce(version, 0) DESC, " + (
    "CASE source "
    + " ".join(f"WHEN '{source}' THEN {rank}" for rank, source in enumerate(PRECEDENCE))
    + " END"
)
"""The SQL that orders the documents of a paper: its latest version first, then the most faithful source."""

_COLUMNS: Final = {
    "sections": ("place", "start, end, title, number, parent, tokens"),
    "paragraphs": ("place", "start, end, section, kind"),
    "bibliography": ("place", "text, title, year, ids"),
    "citations": ("place", "start, end, entry"),
    "figures": ("place", "kind, label, caption, start, end, page, x, y, width, height, html"),
    "pages": ("number", "start, end, width, height"),
}
"""For each table of parts, the column of their order, and those of a part in the order of its fields."""


def write_document(
    db: sqlite3.Connection, full: FullText, tokens: int, section_tokens: Sequence[int], paper: int
) -> int:
    """Write a full text, and return its number. The caller commits.

    ``tokens`` are those of the text, ``section_tokens`` those of each section. ``paper`` may be a placeholder that
    :func:`set_paper` replaces.
    """
    document = full.document
    cursor = db.execute(
        """
        INSERT INTO documents (paper, version, source, is_main, characters, tokens, text)
        VALUES (?, ?, ?, 0, ?, ?, ?)
        """,
        (paper, full.version, full.source, len(document.text), tokens, compress(document.text)),
    )
    number = int(cursor.lastrowid or 0)
    rows: dict[str, Iterable[tuple[Any, ...]]] = {
        "sections": [
            (*section, count) for section, count in zip(document.sections, section_tokens, strict=True)
        ],
        "paragraphs": document.paragraphs,
        "bibliography": [(*entry[:3], orjson.dumps(entry.ids).decode()) for entry in document.bibliography],
        "citations": document.citations,
        "figures": [(*figure[:6], *(figure.box or (None,) * 4), figure.html) for figure in document.figures],
        "pages": document.pages,
    }
    for table, (position, columns) in _COLUMNS.items():
        values = ", ".join("?" * (columns.count(",") + 3))
        db.executemany(
            f"INSERT INTO {table} (document, {position}, {columns}) VALUES ({values})",
            ((number, ordinal, *row) for ordinal, row in enumerate(rows[table], position == "number")),
        )
    if full.original is not None:
        db.execute("INSERT INTO originals VALUES (?, ?)", (number, full.original))
    return number


def delete_documents(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Delete documents with their parts. The caller commits."""
    listed = orjson.dumps(list(numbers)).decode()
    for table in (*_COLUMNS, "originals"):
        db.execute(f"DELETE FROM {table} WHERE document IN (SELECT value FROM json_each(?))", (listed,))
    db.execute("DELETE FROM documents WHERE id IN (SELECT value FROM json_each(?))", (listed,))


def mark_main(db: sqlite3.Connection) -> None:
    """Mark the document of each paper that is read and searched by default. The caller commits."""
    db.execute(
        f"""
        UPDATE documents SET is_main = id IN (
            SELECT id FROM (
                SELECT id, row_number() OVER (PARTITION BY paper ORDER BY {MAIN_ORDER}) AS place FROM documents
            ) WHERE place = 1
        )
        """
    )


def read_text(db: sqlite3.Connection, number: int) -> str:
    """The text of a document."""
    return decompress(db.execute("SELECT text FROM documents WHERE id = ?", (number,)).fetchone()[0])


def read_document(db: sqlite3.Connection, number: int) -> Document:
    """A document with its parts."""

    def rows(table: str) -> list[tuple[Any, ...]]:
        position, columns = _COLUMNS[table]
        return db.execute(
            f"SELECT {columns} FROM {table} WHERE document = ? ORDER BY {position}", (number,)
        ).fetchall()

    return Document(
        read_text(db, number),
        [Section(*row[:-1]) for row in rows("sections")],
        [Paragraph(*row) for row in rows("paragraphs")],
        [InTextCitation(*row) for row in rows("citations")],
        [BibliographyEntry(*row[:3], tuple(orjson.loads(row[3]))) for row in rows("bibliography")],  # type: ignore[call-arg]
        [Figure(*row[:6], None if row[6] is None else row[6:10], row[10]) for row in rows("figures")],  # type: ignore[call-arg]
        [Page(*row) for row in rows("pages")],
    )


def content_rows(db: sqlite3.Connection) -> Iterator[bytes]:
    """A row of bytes for each document, with all that it has. The order of documents has no meaning."""
    for number, *key in db.execute("SELECT id, paper, version, source FROM documents").fetchall():
        document = read_document(db, number)
        original = db.execute("SELECT data FROM originals WHERE document = ?", (number,)).fetchone()
        digest = None if original is None else hashlib.sha256(original[0]).hexdigest()
        parts = (
            document.sections,
            document.paragraphs,
            document.citations,
            document.bibliography,
            document.figures,
            document.pages,
        )
        yield orjson.dumps([*key, document.text, *([list(row) for row in part] for part in parts), digest])


def passage_rows(db: sqlite3.Connection) -> Iterator[bytes]:
    """A row of bytes for each passage: its document and its offsets."""
    sql = """
        SELECT passages.id, paper, version, source, start, end, passages.tokens
        FROM passages JOIN documents ON documents.id = document ORDER BY passages.id
    """
    for row in db.execute(sql):
        yield orjson.dumps(row)
