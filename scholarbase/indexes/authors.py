"""The SQL of authors: searches for names, authors with their details, and their papers.

:class:`scholarbase.indexes.catalog.Catalog` runs these functions. ``day`` is a point in time, a number ``yyyymmdd``: an
author without a paper by then does not exist, and counts that are only known since are None.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import orjson
from rapidfuzz import fuzz, process

from scholarbase.databases import json_list
from scholarbase.indexes import author_names
from scholarbase.indexes.filters import ResolvedFilters, filter_sql
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.limits import CitationSort

MAX_COMPARED: Final = 1000
"""Authors whose names are compared with one that nobody has."""
_SIMILAR: Final = 70
"""The least similarity (rapidfuzz's, 0 to 100) of such a name."""
_EXISTS: Final = """EXISTS (
    SELECT 1 FROM author_papers AS wrote CROSS JOIN papers AS p ON p.id = wrote.paper
    WHERE wrote.author = {author} AND p.last_day <= {day}
)"""
_ORDERS: Final[dict[CitationSort, str]] = {
    "-citation_count": "p.citation_count DESC NULLS LAST, p.first_day DESC NULLS LAST",
    "citation_count": "p.citation_count NULLS LAST, p.first_day NULLS LAST",
    "-date": "p.first_day DESC NULLS LAST, p.last_day DESC",
    "date": "p.first_day NULLS LAST, p.last_day",
}


class Page(NamedTuple):
    """A page of rows, and the number of all rows."""

    total: int
    rows: list[int]


def find(connection: sqlite3.Connection, ids: Iterable[str], day: int | None = None) -> dict[str, int]:
    """Map canonical ids of authors to their numbers."""
    exists = "" if day is None else f"AND {_EXISTS.format(author='author_names.author', day='?2')}"
    sql = f"""
        SELECT author_id, author FROM author_names
        WHERE author_id IN (SELECT value FROM json_each(?1)) {exists}
    """
    listed = json_list(sorted(set(ids)))
    return dict(connection.execute(sql, (listed,) if day is None else (listed, day)).fetchall())


def search(
    connection: sqlite3.Connection, expression: str, same: str, limit: int, offset: int, day: int | None
) -> Page:
    """Return authors whose names match an expression of :mod:`.author_names`: those that match ``same`` first, then
    those with the most papers."""
    exists = "" if day is None else f"AND {_EXISTS.format(author='author_words.rowid', day='?5')}"
    matching = f"SELECT rowid FROM author_words WHERE author_words MATCH ?1 {exists}"
    values = [expression, same, limit, offset, *([] if day is None else [day])]
    rows = connection.execute(
        f"""
        WITH matching AS MATERIALIZED ({matching}),
        same AS MATERIALIZED (SELECT rowid FROM author_words WHERE author_words MATCH ?2)
        SELECT (SELECT count(*) FROM matching), NULL
        UNION ALL
        SELECT * FROM (
            SELECT NULL, n.author FROM matching CROSS JOIN author_names AS n ON n.author = matching.rowid
            ORDER BY n.author NOT IN (SELECT rowid FROM same), n.paper_count DESC, n.author_id
            LIMIT ?3 OFFSET ?4
        )
        """,
        values,
    ).fetchall()
    return Page(rows[0][0], [row[1] for row in rows[1:]])


def matching(connection: sqlite3.Connection, expression: str, most: int) -> list[int]:
    """Return the authors whose names match an expression; more than ``most`` of them if there are more."""
    sql = "SELECT rowid FROM author_words WHERE author_words MATCH ? LIMIT ?"
    return [row[0] for row in connection.execute(sql, (expression, most + 1))]


def near(connection: sqlite3.Connection, name: str, most: int) -> list[str]:
    """Return the names that are most similar to a name, of authors whose words begin as the name's do: those of all its
    words, else of any, and of these the ``MAX_COMPARED`` with the most papers."""
    sql = """
        SELECT n.name FROM (SELECT rowid FROM author_words WHERE author_words MATCH ? LIMIT ?) AS found
        CROSS JOIN author_names AS n ON n.author = found.rowid
    """
    for expression in author_names.beginnings(name):
        names = [row[0] for row in connection.execute(sql, (expression, MAX_COMPARED))]
        choices = {candidate: " ".join(sorted(author_names.words(candidate))) for candidate in names}
        wanted = " ".join(sorted(author_names.words(name)))
        similar = process.extract(wanted, choices, scorer=fuzz.ratio, limit=most, score_cutoff=_SIMILAR)
        if similar:
            return [candidate for _, _, candidate in similar]
    return []


def read(
    connection: sqlite3.Connection, numbers: Sequence[int], day: int | None = None
) -> list[AuthorProfile]:
    """Return authors by their numbers, in this order."""
    count, values = "n.paper_count", [json_list(numbers)]
    if day is not None:
        count = """(
            SELECT count(*) FROM author_papers AS wrote CROSS JOIN papers AS p ON p.id = wrote.paper
            WHERE wrote.author = n.author AND p.last_day <= ?2
        )"""
    rows = connection.execute(
        f"""
        SELECT n.author_id, n.name, a.aliases, a.affiliations, a.homepage, {count}, n.citation_count,
            a.paper_count, a.citation_count, a.h_index
        FROM json_each(?1) AS wanted CROSS JOIN author_names AS n ON n.author = wanted.value
        LEFT JOIN authors AS a ON a.author_id = n.author_id
        """,
        values if day is None else [*values, day],
    ).fetchall()
    return [
        AuthorProfile(
            author_id,
            name,
            tuple(orjson.loads(aliases)) if aliases else (),
            tuple(orjson.loads(affiliations)) if affiliations else (),
            homepage,
            papers,
            *(counts if day is None else (None,) * len(counts)),
        )
        for author_id, name, aliases, affiliations, homepage, papers, *counts in rows
    ]


def papers(
    connection: sqlite3.Connection,
    author: int,
    limit: int,
    offset: int,
    sort: CitationSort,
    filters: ResolvedFilters,
) -> Page:
    """Return an author's papers that pass the filters. NULLs are sorted last, ties by id."""
    condition, params = filter_sql(filters, "p")
    source = f"""
        FROM author_papers AS wrote CROSS JOIN papers AS p ON p.id = wrote.paper
        WHERE wrote.author = ? AND {condition}
    """
    total = connection.execute(f"SELECT count(*) {source}", [author, *params]).fetchone()[0]
    rows = connection.execute(
        f"SELECT p.id {source} ORDER BY {_ORDERS[sort]}, p.id LIMIT ? OFFSET ?",
        [author, *params, limit, offset],
    )
    return Page(total, [row[0] for row in rows])


def papers_of(connection: sqlite3.Connection, numbers: Iterable[int], most: int) -> set[int]:
    """Return the papers of several authors; more than ``most`` of them if there are more."""
    rows = connection.execute(
        """
        SELECT DISTINCT wrote.paper FROM json_each(?) AS wanted
        CROSS JOIN author_papers AS wrote ON wrote.author = wanted.value LIMIT ?
        """,
        (json_list(numbers), most + 1),
    )
    return {row[0] for row in rows}
