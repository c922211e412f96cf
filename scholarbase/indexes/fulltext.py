"""Full text: titles and abstracts in SQLite's FTS5, ranked, counted and filtered.

The index is an external-content table over the view ``documents``: it stores postings and lengths, not the
texts (https://sqlite.org/fts5.html#external_content_tables). Words are folded to lower case without
diacritics and stemmed by Porter's algorithm. Every match is scored, so counts are exact. The titles have a second,
small index, in which a title's words are looked up four times as fast as among the abstracts' (:mod:`titles`).

Expressions are FTS5's own language; :mod:`scholarbase.indexes.query_syntax` makes them from what people type.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryError
from scholarbase.indexes.filter_sql import filter_sql, json_list, reading
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import ScoredId

TITLE_WEIGHT: Final = 2.0
"""How much a word counts in a title against one in an abstract."""

TOKENIZER: Final = "porter unicode61 remove_diacritics 2"

_SCHEMA: Final = f"""
CREATE VIEW IF NOT EXISTS documents AS
    SELECT p.id, p.title, a.abstract FROM papers AS p LEFT JOIN abstracts AS a ON a.paper_id = p.id;
CREATE VIRTUAL TABLE IF NOT EXISTS fulltext USING fts5(
    title, abstract, content = 'documents', content_rowid = 'id', tokenize = '{TOKENIZER}'
);
"""

_TITLES_SCHEMA: Final = f"""
CREATE VIRTUAL TABLE IF NOT EXISTS title_words USING fts5(
    title, content = 'papers', content_rowid = 'id', tokenize = '{TOKENIZER}'
)
"""

_READING: Final = "The full-text index"


def create(connection: sqlite3.Connection) -> None:
    """Create the view and the index, where they are not there yet."""
    for statement in _SCHEMA.split(";\n"):
        if statement.strip():
            connection.execute(statement)


def create_titles(connection: sqlite3.Connection) -> None:
    """Create the index of the titles alone, where it is not there yet."""
    connection.execute(_TITLES_SCHEMA)


def index_range(connection: sqlite3.Connection, first_id: int, last_id: int) -> int:
    """Index the papers with ids from ``first_id`` to ``last_id``, both included; how many they are.

    FTS5 takes a paper twice without complaint and then counts it twice: run this in one transaction with
    the record of how far the work has come.
    """
    cursor = connection.execute(
        """
        INSERT INTO fulltext(rowid, title, abstract)
        SELECT id, title, abstract FROM documents WHERE id BETWEEN ? AND ? ORDER BY id
        """,
        (first_id, last_id),
    )
    count = cursor.rowcount
    connection.execute(
        "INSERT INTO title_words(rowid, title) SELECT id, title FROM papers WHERE id BETWEEN ? AND ? ORDER BY id",
        (first_id, last_id),
    )
    return count


def optimize(connection: sqlite3.Connection) -> None:
    """Merge each index into one segment: smallest and fastest to read."""
    connection.execute("INSERT INTO fulltext(fulltext) VALUES ('optimize')")
    connection.execute("INSERT INTO title_words(title_words) VALUES ('optimize')")


def check(connection: sqlite3.Connection) -> None:
    """Compare the indexes with the papers' texts, word for word.

    FTS5 runs its integrity check as an INSERT, though it changes nothing: the connection must be one that
    may write.

    Raises:
        LibraryCorrupt: the index and the texts differ, or the index is damaged.
        LibraryError: the connection may not write.
    """
    try:
        connection.execute("INSERT INTO fulltext(fulltext, rank) VALUES ('integrity-check', 1)")
        connection.execute("INSERT INTO title_words(title_words, rank) VALUES ('integrity-check', 1)")
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY:
            raise LibraryError(
                "The full-text index cannot be checked over a read-only connection: "
                "open the catalogue for writing."
            ) from error
        raise LibraryCorrupt(
            f"The full-text index does not hold what the titles and abstracts say ({error}): "
            "ingest the library again."
        ) from error


def search(
    connection: sqlite3.Connection,
    expression: str,
    limit: int,
    filters: ResolvedFilters = NO_FILTERS,
    *,
    title_weight: float = TITLE_WEIGHT,
) -> list[ScoredId]:
    """The ``limit`` best papers that match, best first, ties by id. A word in a title counts ``title_weight``, one in
    an abstract 1.

    Scores are BM25 (FTS5's, k1 = 1.2, b = 0.75) with its sign turned: above zero, larger is better.

    Raises:
        InvalidRequest: FTS5 does not understand the expression.
        LibraryCorrupt: the index cannot be read.
    """
    source, params = _matches(filters)
    rows = _read(
        connection,
        f"""
        SELECT fulltext.rowid, -bm25(fulltext, {float(title_weight)!r}, 1.0) AS score
        {source} ORDER BY score DESC, fulltext.rowid LIMIT ?
        """,
        expression,
        [*params, limit],
    )
    return [ScoredId(paper_id, score) for paper_id, score in rows]


def count(connection: sqlite3.Connection, expression: str, filters: ResolvedFilters = NO_FILTERS) -> int:
    """How many papers match. Raises as :func:`search`."""
    source, params = _matches(filters)
    return int(_read(connection, f"SELECT count(*) {source}", expression, params)[0][0])


def matching_ids(
    connection: sqlite3.Connection, expression: str, limit: int, filters: ResolvedFilters = NO_FILTERS
) -> set[int]:
    """The ids of the papers that match, or of the ``limit`` with the lowest ids. Raises as :func:`search`."""
    source, params = _matches(filters)
    sql = f"SELECT fulltext.rowid {source} ORDER BY fulltext.rowid LIMIT ?"
    return {row[0] for row in _read(connection, sql, expression, [*params, limit])}


def holding(connection: sqlite3.Connection, expressions: Sequence[str], ids: Sequence[int]) -> list[set[int]]:
    """Which of the papers match, for each expression. Raises as :func:`search`."""
    found: list[set[int]] = []
    # The ids outside: FTS5 leaps to each in its posting lists.
    sql = """
        SELECT fulltext.rowid, 0 FROM json_each(?2) AS wanted
        CROSS JOIN fulltext ON fulltext.rowid = wanted.value WHERE fulltext MATCH ?1
    """
    for expression in expressions:
        found.append({row[0] for row in _read(connection, sql, expression, [json_list(ids)])})
    return found


def _matches(filters: ResolvedFilters) -> tuple[str, list[int | str]]:
    """FROM and WHERE of everything that matches the first parameter and passes the filters."""
    if filters.is_empty:
        return "FROM fulltext WHERE fulltext MATCH ?", []
    condition, params = filter_sql(filters, "p")
    # CROSS JOIN keeps the full text outside: the other way round, FTS5 runs the query again for every paper.
    source = "FROM fulltext CROSS JOIN papers AS p ON p.id = fulltext.rowid WHERE fulltext MATCH ?"
    return f"{source} AND {condition}", params


def _read(
    connection: sqlite3.Connection, sql: str, expression: str, params: list[int | str]
) -> list[tuple[int, float]]:
    with reading(_READING):
        try:
            return connection.execute(sql, [expression, *params]).fetchall()
        except sqlite3.OperationalError as error:
            if _is_about_expression(str(error)):
                raise InvalidRequest(
                    f"The full-text query {expression[:200]!r} is malformed ({error}): "
                    "put quotation marks around phrases and operators between words."
                ) from error
            raise


def _is_about_expression(message: str) -> bool:
    """Whether FTS5 complains of the query. SQLite has one code for this and for a missing table."""
    return (
        message.startswith(
            ("fts5: syntax error", "fts5: parser stack overflow", "fts5 expression tree is too large")
        )
        or message.startswith(
            ("no such column: ", "unterminated string", "unknown special query", "fts5: column")
        )
        or "expected integer" in message
    )
