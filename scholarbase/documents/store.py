"""Writes full texts to ``documents.sqlite``, and reads them back as data."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence

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
from scholarbase.documents.schema import PARTS, compress, decompress

MAIN_ORDER = "coalesce(version, 0) DESC, " + (
    "CASE source "
    + " ".join(f"WHEN '{source}' THEN {place}" for place, source in enumerate(PRECEDENCE))
    + " END"
)
"""The SQL that orders the documents of a paper: its latest version first, then the most faithful source."""


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
    db.executemany(
        "INSERT INTO sections VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (number, place, s.parent, s.number, s.title, s.start, s.end, count)
            for place, (s, count) in enumerate(zip(document.sections, section_tokens, strict=True))
        ],
    )
    db.executemany(
        "INSERT INTO paragraphs VALUES (?, ?, ?, ?, ?, ?)",
        [(number, place, p.section, p.kind, p.start, p.end) for place, p in enumerate(document.paragraphs)],
    )
    db.executemany(
        "INSERT INTO bibliography VALUES (?, ?, ?, ?, ?, ?, NULL)",
        [
            (number, place, b.text, b.title, b.year, orjson.dumps(b.ids).decode())
            for place, b in enumerate(document.bibliography)
        ],
    )
    db.executemany(
        "INSERT INTO citations VALUES (?, ?, ?, ?, ?)",
        [(number, place, c.entry, c.start, c.end) for place, c in enumerate(document.citations)],
    )
    db.executemany(
        "INSERT INTO figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                number,
                place,
                f.kind,
                f.label,
                f.caption,
                f.start,
                f.end,
                f.page,
                *(f.box or (None,) * 4),
                f.html,
            )
            for place, f in enumerate(document.figures)
        ],
    )
    db.executemany(
        "INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?)",
        [(number, place, p.start, p.end, p.width, p.height) for place, p in enumerate(document.pages, 1)],
    )
    if full.original is not None:
        db.execute("INSERT INTO originals VALUES (?, ?)", (number, full.original))
    return number


def delete_documents(db: sqlite3.Connection, numbers: Sequence[int]) -> None:
    """Delete documents with their parts. The caller commits."""
    listed = orjson.dumps(list(numbers)).decode()
    for table in (*PARTS, "originals"):
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

    def rows(columns: str, table: str, order: str = "place") -> list[tuple[object, ...]]:
        sql = f"SELECT {columns} FROM {table} WHERE document = ? ORDER BY {order}"
        return db.execute(sql, (number,)).fetchall()

    bibliography = [
        BibliographyEntry(text, title, year, tuple(orjson.loads(ids)))  # type: ignore[arg-type]
        for text, title, year, ids in rows("text, title, year, ids", "bibliography")
    ]
    figures = [
        Figure(*row[:6], None if row[6] is None else row[6:10], row[10])  # type: ignore[arg-type, call-arg]
        for row in rows("kind, label, caption, start, end, page, x, y, width, height, html", "figures")
    ]
    return Document(
        read_text(db, number),
        [Section(*row) for row in rows("start, end, title, number, parent", "sections")],  # type: ignore[arg-type]
        [Paragraph(*row) for row in rows("start, end, section, kind", "paragraphs")],  # type: ignore[arg-type]
        [InTextCitation(*row) for row in rows("start, end, entry", "citations")],  # type: ignore[arg-type]
        bibliography,
        figures,
        [Page(*row) for row in rows("start, end, width, height", "pages", "number")],  # type: ignore[arg-type]
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
        yield orjson.dumps([*key, document.text, *([list(one) for one in part] for part in parts), digest])


def passage_rows(db: sqlite3.Connection) -> Iterator[bytes]:
    """A row of bytes for each passage: its document and its offsets."""
    sql = """
        SELECT passages.id, paper, version, source, start, end, passages.tokens
        FROM passages JOIN documents ON documents.id = document ORDER BY passages.id
    """
    for row in db.execute(sql):
        yield orjson.dumps(row)
