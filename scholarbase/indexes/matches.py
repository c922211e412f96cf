"""All papers that match, in pages without an end, and not ranked.

A page starts behind a position, which is the sort key and the id of the last paper of the page before. Reading all
pages by id costs as much as reading the matches once; by another sort each page reads all matches, and keeps its own.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from scholarbase.indexes.filter_sql import filter_sql, json_list
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.fulltext import rows

MatchSort = Literal["id", "-id", "date", "-date", "citation_count", "-citation_count"]
UNKNOWN: Final = 2**63 - 1
"""The sort key of a paper whose value is unknown: it comes after all others."""
_KEYS: Final = {
    "date": "iif(p.publication_date IS NULL, NULL, p.first_day)",
    "citation_count": "p.citation_count",
}


class Position(NamedTuple):
    """A place between two papers: after the one with this sort key and catalogue id."""

    key: int
    paper_id: int


@dataclass(frozen=True, slots=True)
class Matches:
    """What papers must match.

    Args:
        expression: of FTS5; None for all papers.
        excludes: whether the papers must not match the expression.
        fields_of_study: the paper's must have one of these, in lower case; empty for any.
        archives: arXiv categories that count as fields of study, each with the marks around it, as ``" cs."``.
        publication_types: as ``fields_of_study``, and without spaces.
        on_arxiv: the paper must have an arXiv id.
    """

    expression: str | None = None
    excludes: bool = False
    fields_of_study: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    publication_types: tuple[str, ...] = ()
    on_arxiv: bool = False


def count(connection: sqlite3.Connection, condition: Matches, filters: ResolvedFilters) -> int:
    """Count the matches. Raises as :func:`page`."""
    source, params = _source(condition, filters)
    [[counted]] = rows(connection, f"SELECT count(*) {source}", params, condition.expression or "")
    return int(counted)


def page(
    connection: sqlite3.Connection,
    condition: Matches,
    filters: ResolvedFilters,
    sort: MatchSort,
    limit: int,
    after: Position | None = None,
    *,
    counts: bool = True,
) -> list[Position]:
    """Return the positions of the next ``limit`` matches. Papers whose sort value is unknown come last, ties by id.

    Args:
        counts: whether citation counts are known; without, none is.

    Raises:
        InvalidRequest: the expression is malformed.
    """
    source, params = _source(condition, filters)
    name = sort.removeprefix("-")
    if sort == "id":
        key, behind = "0", "p.id > ?"
        start: list[int | str] = [] if after is None else [after.paper_id]
        if condition.expression is not None and not condition.excludes:
            behind = "fulltext.rowid > ?"  # FTS5 begins its posting lists there
    else:
        value = "p.id" if name == "id" else _KEYS[name] if counts or name == "date" else "NULL"
        key = f"coalesce({'-' if sort.startswith('-') else ''}{value}, {UNKNOWN})"
        behind = f"({key}, p.id) > (?, ?)"
        start = [] if after is None else list(after)
    where = "" if after is None else f"AND {behind}"
    order = "p.id" if sort == "id" else "key, p.id"
    if sort == "id" and behind.startswith("fulltext"):
        order = "fulltext.rowid"
    sql = f"SELECT {key} AS key, p.id {source} {where} ORDER BY {order} LIMIT ?"
    found = rows(connection, sql, [*params, *start, limit], condition.expression or "")
    return [Position(*row) for row in found]


def _source(condition: Matches, filters: ResolvedFilters) -> tuple[str, list[int | str]]:
    """FROM and WHERE, and their parameters."""
    params: list[int | str] = []
    if condition.expression is None:
        source = "FROM papers AS p WHERE 1"
    elif condition.excludes:
        source = "FROM papers AS p WHERE p.id NOT IN (SELECT rowid FROM fulltext WHERE fulltext MATCH ?)"
        params.append(condition.expression)
    else:
        # CROSS JOIN keeps the full text in the outer loop.
        source = "FROM fulltext CROSS JOIN papers AS p ON p.id = fulltext.rowid WHERE fulltext MATCH ?"
        params.append(condition.expression)
    passing, values = filter_sql(filters, "p")
    conditions = [passing]
    params += values
    if condition.fields_of_study:
        conditions.append(
            """(
                EXISTS (
                    SELECT 1 FROM json_each(p.details, '$.fields_of_study') AS one
                    WHERE lower(one.value) IN (SELECT value FROM json_each(?))
                ) OR (
                    coalesce(json_array_length(p.details, '$.fields_of_study'), 0) = 0
                    AND EXISTS (
                        SELECT 1 FROM json_each(?) AS archive
                        WHERE instr(' ' || p.categories || ' ', archive.value)
                    )
                )
            )"""
        )
        params += [json_list(condition.fields_of_study), json_list(condition.archives)]
    if condition.publication_types:
        conditions.append(
            """EXISTS (
                SELECT 1 FROM json_each(p.details, '$.publication_types') AS one
                WHERE lower(replace(one.value, ' ', '')) IN (SELECT value FROM json_each(?))
            )"""
        )
        params.append(json_list(condition.publication_types))
    if condition.on_arxiv:
        conditions.append("p.arxiv_id IS NOT NULL")
    return f"{source} AND {' AND '.join(conditions)}", params
