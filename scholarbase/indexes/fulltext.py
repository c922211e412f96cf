"""Full-text search of titles and abstracts with SQLite's FTS5.

The index is an external-content table over the view ``documents``: it stores postings and lengths, not the
texts (https://sqlite.org/fts5.html#external_content_tables). The view has the searchable form of the texts
(:func:`scholarbase.markup.searchable`), by an SQL function of this name, which only the check of the index needs.
Words are case-folded, stripped of diacritics and stemmed by Porter's algorithm. Every match is scored, so counts are
exact. A second, small index holds the titles alone: looking a title's words up in it is four times as fast
(:mod:`scholarbase.indexes.titles`).

Expressions are in FTS5's query language; :mod:`scholarbase.indexes.query_syntax` makes them from users' queries.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

from scholarbase.databases import json_list
from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryError
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters, filter_sql
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.markup import searchable

TITLE_WEIGHT: Final = 2.0
"""The weight of a word in a title; in an abstract it is 1."""

TOKENIZER: Final = "porter unicode61 remove_diacritics 2"

_MALFORMED: Final = (
    "fts5: syntax error",
    "fts5: parser stack overflow",
    "fts5 expression tree is too large",
    "no such column: ",
    "unterminated string",
    "unknown special query",
    "fts5: column",
)
"""How SQLite's messages about a malformed expression begin. Its error code is the same for a missing table."""

VIEWS: Final = (
    """CREATE VIEW documents AS
    SELECT p.id, searchable(p.title) AS title, searchable(a.abstract) AS abstract
    FROM papers AS p LEFT JOIN abstracts AS a ON a.paper_id = p.id""",
    "CREATE VIEW titles AS SELECT id, searchable(title) AS title FROM papers",
)
"""The texts that are indexed, as SQLite stores the statements."""
SCHEMA: Final = f"""
{"".join(f"{view.replace('VIEW', 'VIEW IF NOT EXISTS')};" for view in VIEWS)}
CREATE VIRTUAL TABLE IF NOT EXISTS fulltext USING fts5(
    title, abstract, content = 'documents', content_rowid = 'id', tokenize = '{TOKENIZER}'
);
CREATE VIRTUAL TABLE IF NOT EXISTS title_words USING fts5(
    title, content = 'titles', content_rowid = 'id', tokenize = '{TOKENIZER}'
);
"""


def index_range(connection: sqlite3.Connection, first_id: int, last_id: int) -> int:
    """Index the papers with ids from ``first_id`` to ``last_id``, both included, and return their number.

    FTS5 does not detect that a paper is indexed twice, and then counts it twice: commit this in one transaction with
    the job's checkpoint.
    """
    papers = connection.execute(
        """
        SELECT p.id, p.title, a.abstract FROM papers AS p LEFT JOIN abstracts AS a ON a.paper_id = p.id
        WHERE p.id BETWEEN ? AND ? ORDER BY p.id
        """,
        (first_id, last_id),
    ).fetchall()
    index(connection, papers)
    return len(papers)


def index(
    connection: sqlite3.Connection, papers: Iterable[tuple[int, str, str | None]], *, remove: bool = False
) -> None:
    """Index the titles and abstracts of papers by their ids; with ``remove`` delete those that were indexed, which FTS5
    needs to be given again, since it does not store texts (https://sqlite.org/fts5.html#the_delete_command)."""
    rows = [
        (number, searchable(title), abstract and searchable(abstract)) for number, title, abstract in papers
    ]
    for table, columns in (("fulltext", "rowid, title, abstract"), ("title_words", "rowid, title")):
        marks = ", ".join("?" * len(columns.split()))
        into = (
            f"({table}, {columns}) VALUES ('delete', {marks})" if remove else f"({columns}) VALUES ({marks})"
        )
        connection.executemany(
            f"INSERT INTO {table} {into}", rows if table == "fulltext" else (row[:2] for row in rows)
        )


def optimize(connection: sqlite3.Connection) -> None:
    """Merge each index into a single segment, the smallest and fastest form."""
    connection.execute("INSERT INTO fulltext(fulltext) VALUES ('optimize')")
    connection.execute("INSERT INTO title_words(title_words) VALUES ('optimize')")


def check(connection: sqlite3.Connection) -> None:
    """Compare the indexes with the papers' texts, word for word.

    FTS5's integrity check is an INSERT that changes nothing, so the connection must be writable.

    Raises:
        LibraryCorrupt: the indexes and the texts differ, or an index is damaged.
        LibraryError: the connection is read-only.
    """
    connection.create_function("searchable", 1, lambda text: text and searchable(text), deterministic=True)
    try:
        connection.execute("INSERT INTO fulltext(fulltext, rank) VALUES ('integrity-check', 1)")
        connection.execute("INSERT INTO title_words(title_words, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:
            raise LibraryError(
                "The full-text index cannot be checked over a read-only connection: "
                "open the catalogue for writing."
            ) from error
        raise LibraryCorrupt(
            f"The full-text index differs from the titles and abstracts ({error}): ingest the library again."
        ) from error


def search(
    connection: sqlite3.Connection,
    expression: str,
    limit: int,
    filters: ResolvedFilters = NO_FILTERS,
    *,
    title_weight: float = TITLE_WEIGHT,
) -> list[ScoredId]:
    """Return the ``limit`` best matching papers, best first, ties by id.

    Scores are those of FTS5's BM25 (k1 = 1.2, b = 0.75) with the sign reversed: positive, larger is better.

    Raises:
        InvalidRequest: the expression is malformed.
    """
    source, params = _matches(filters)
    sql = f"""
        SELECT fulltext.rowid, -bm25(fulltext, {float(title_weight)!r}, 1.0) AS score
        {source} ORDER BY score DESC, fulltext.rowid LIMIT ?
    """
    return [ScoredId(*row) for row in rows(connection, sql, [expression, *params, limit], expression)]


def count(connection: sqlite3.Connection, expression: str, filters: ResolvedFilters = NO_FILTERS) -> int:
    """Count the matching papers. Raises as :func:`search`."""
    source, params = _matches(filters)
    return int(rows(connection, f"SELECT count(*) {source}", [expression, *params], expression)[0][0])


def matching_ids(
    connection: sqlite3.Connection, expression: str, limit: int, filters: ResolvedFilters = NO_FILTERS
) -> set[int]:
    """Return the ids of the matching papers, the ``limit`` lowest at most. Raises as :func:`search`."""
    source, params = _matches(filters)
    sql = f"SELECT fulltext.rowid {source} ORDER BY fulltext.rowid LIMIT ?"
    return {row[0] for row in rows(connection, sql, [expression, *params, limit], expression)}


def holding(connection: sqlite3.Connection, expressions: Sequence[str], ids: Sequence[int]) -> list[set[int]]:
    """Return the ids among ``ids`` that match, for each expression. Raises as :func:`search`."""
    # The ids in the outer loop: FTS5 seeks each in its posting lists.
    sql = """
        SELECT fulltext.rowid FROM json_each(?2) AS wanted
        CROSS JOIN fulltext ON fulltext.rowid = wanted.value WHERE fulltext MATCH ?1
    """
    listed = json_list(ids)
    return [
        {row[0] for row in rows(connection, sql, [expression, listed], expression)}
        for expression in expressions
    ]


def _matches(filters: ResolvedFilters) -> tuple[str, list[int | str]]:
    """Return FROM and WHERE for the papers that match the first parameter and pass the filters."""
    if filters.is_empty:
        return "FROM fulltext WHERE fulltext MATCH ?", []
    condition, params = filter_sql(filters, "p")
    # CROSS JOIN keeps the full text in the outer loop; in the inner one FTS5 would run the query for every paper.
    source = "FROM fulltext CROSS JOIN papers AS p ON p.id = fulltext.rowid WHERE fulltext MATCH ?"
    return f"{source} AND {condition}", params


def rows(
    connection: sqlite3.Connection, sql: str, params: list[int | str], expression: str
) -> list[tuple[Any, ...]]:
    """Run a statement with a full-text expression.

    Raises:
        InvalidRequest: the expression is malformed.
    """
    try:
        return connection.execute(sql, params).fetchall()
    except sqlite3.OperationalError as error:
        if str(error).startswith(_MALFORMED) or "expected integer" in str(error):
            raise InvalidRequest(
                f"The full-text query {expression[:200]!r} is malformed ({error}): "
                "put quotation marks around phrases and operators between words."
            ) from error
        raise
