"""The keep rules: which papers a library leaves out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import orjson

from scholarbase.databases import small_cache
from scholarbase.models.limits import KeepRule

_IN_COLLECTION: Final = "EXISTS (SELECT 1 FROM aliases WHERE paper_id = papers.id AND scheme = 'Doc')"
"""A document of a test collection, which is searched as a whole."""
_WITHOUT_ABSTRACT: Final = "id NOT IN (SELECT paper_id FROM abstracts)"
_LEFT_OUT: Final[Mapping[KeepRule, Mapping[str, str]]] = {
    "text": {
        "papers_without_text": f"{_WITHOUT_ABSTRACT} AND id NOT IN (SELECT paper FROM papers_with_text) "
        f"AND NOT {_IN_COLLECTION}"
    },
    "arxiv": {
        "papers_without_arxiv_id": "arxiv_id IS NULL",
        "papers_without_text": f"arxiv_id IS NOT NULL AND {_WITHOUT_ABSTRACT}",
    },
    "title": {},
}
"""The papers that a keep rule leaves out, by the name of their count. All rules keep those of people's own files."""


def left_out(db: sqlite3.Connection, keep: KeepRule, among: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """The papers among these that a rule leaves out, by the name of their count. The tables ``own_papers`` and
    ``papers_with_text`` have those of people's own files and of full texts."""
    listed = orjson.dumps(among).decode()
    for name, condition in _LEFT_OUT[keep].items():
        sql = f"""
            SELECT id FROM papers WHERE id IN (SELECT value FROM json_each(?)) AND {condition}
            AND id NOT IN (SELECT paper FROM own_papers)
        """
        yield name, [row[0] for row in db.execute(sql, (listed,))]


def papers_in_parts(db: sqlite3.Connection, size: int) -> Iterator[list[int]]:
    """The numbers of all papers, ``size`` at a time. The caller may remove those of a part."""
    last = -1
    sql = "SELECT id FROM papers WHERE id > ? ORDER BY id LIMIT ?"
    while numbers := [row[0] for row in db.execute(sql, (last, size))]:
        last = numbers[-1]
        yield numbers


def drop_table(db: sqlite3.Connection, table: str, at_once: int) -> None:
    """Drop a table, whose rows are deleted in parts.

    One statement would keep all of its pages in memory, to be able to undo itself, where SQLite is compiled to
    overwrite what is deleted (https://sqlite.org/pragma.html#pragma_secure_delete).
    """
    sql = f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} LIMIT ?)"
    with small_cache(db):
        while db.execute(sql, (at_once,)).rowcount:
            pass
    db.execute(f"DROP TABLE {table}")
