"""Listing papers by conditions: all ids in order, and counts by year.

The whole order is read at once, since SQLite must sort all matches for any page of them: 335,000 ids take 0.3 s. A
caller that keeps it has every page, and the exact total.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from scholarbase.indexes.filter_sql import filter_sql, json_list
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.models.listing import Has, IdsOf, InRange, ListSort, Presence, RangeOf

_BATCH: Final = 50_000
"""Rows per fetch: a list of a million tuples takes ten times the memory of its array."""
_NUMBERS: Final[dict[RangeOf, str]] = {
    "year": "p.year",
    "first_day": "p.first_day",
    "last_day": "p.last_day",
    "citation_count": "p.citation_count",
    "reference_count": "p.reference_count",
}
_AMONG: Final[dict[IdsOf, str]] = {
    "id": "p.id IN (SELECT value FROM json_each(?))",
    "cites": "p.id IN (SELECT citing FROM edges WHERE cited IN (SELECT value FROM json_each(?)))",
    "cited_by": "p.id IN (SELECT cited FROM edges WHERE citing IN (SELECT value FROM json_each(?)))",
}
_PRESENT: Final[dict[Presence, str]] = {
    "abstract": "EXISTS (SELECT 1 FROM abstracts AS a WHERE a.paper_id = p.id AND a.abstract <> '')",
    "arxiv": "p.arxiv_id IS NOT NULL",
    "doi": "p.external_ids ->> 'DOI' IS NOT NULL",
    "any_doi": "(p.arxiv_id IS NOT NULL OR p.external_ids ->> 'DOI' IS NOT NULL)",
    "preprint": "(p.arxiv_id IS NOT NULL AND p.external_ids ->> 'DOI' IS NULL)",
    "references": "EXISTS (SELECT 1 FROM edges WHERE edges.citing = p.id)",
    "authors": "p.authors IS NOT NULL",
}
_SORTED_BY: Final = {
    "date": ("p.first_day", "p.last_day"),
    "citation_count": ("p.citation_count",),
    "reference_count": ("p.reference_count",),
    "title": ("p.title",),
    "id": ("p.id",),
}


class AmongIds(NamedTuple):
    """:class:`~scholarbase.models.listing.Among` with catalogue ids."""

    field: IdsOf
    ids: tuple[int, ...]
    negated: bool = False


class Listing(NamedTuple):
    """Which papers are listed. ``expression`` is FTS5's, None for papers of any text."""

    expression: str | None
    filters: ResolvedFilters
    conditions: tuple[InRange | AmongIds | Has, ...] = ()


class Listed(NamedTuple):
    """The ids of papers in order, and the scores of BM25 (larger is better); None without an expression."""

    ids: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32] | None


def listed(
    connection: sqlite3.Connection, listing: Listing, sort: Sequence[ListSort], *, title_weight: float
) -> Listed:
    """All papers of a listing in order. NULLs are sorted last, ties by id."""
    source, params = _source(listing)
    score = "NULL" if listing.expression is None else f"-bm25(fulltext, {float(title_weight)!r}, 1.0)"
    order = ", ".join([*(_order(name) for name in sort), "p.id"])
    cursor = connection.execute(f"SELECT p.id, {score} AS score {source} ORDER BY {order}", params)
    ids, scores = [np.empty(0, np.int32)], [np.empty(0, np.float32)]
    while rows := cursor.fetchmany(_BATCH):
        ids.append(np.fromiter((row[0] for row in rows), np.int32, len(rows)))
        if listing.expression is not None:
            scores.append(np.fromiter((row[1] for row in rows), np.float32, len(rows)))
    return Listed(np.concatenate(ids), None if listing.expression is None else np.concatenate(scores))


def years(connection: sqlite3.Connection, listing: Listing) -> list[tuple[int, int]]:
    """The number of papers of each year, most papers first. Papers without a year are not counted."""
    source, params = _source(listing)
    return connection.execute(
        f"SELECT p.year, count(*) AS papers {source} AND p.year IS NOT NULL GROUP BY 1 ORDER BY papers DESC, 1 DESC",
        params,
    ).fetchall()


def _order(name: ListSort) -> str:
    field, direction = name.removeprefix("-"), "DESC" if name.startswith("-") else "ASC"
    if field == "relevance":
        return f"score {direction}"
    return ", ".join(f"{column} {direction} NULLS LAST" for column in _SORTED_BY[field])


def _source(listing: Listing) -> tuple[str, list[int | str]]:
    condition, params = filter_sql(listing.filters, "p")
    conditions = [condition]
    for one in listing.conditions:
        if isinstance(one, InRange):
            found = " OR ".join(_range(_NUMBERS[one.field], low, high, params) for low, high in one.ranges)
        elif isinstance(one, AmongIds):
            found = _AMONG[one.field]
            params.append(json_list(one.ids))
        else:
            found = _PRESENT[one.field]
        conditions.append(f"NOT ifnull({found or 0}, 0)" if one.negated else f"({found or 0})")
    where = " AND ".join(conditions)
    if listing.expression is None:
        return f"FROM papers AS p WHERE {where}", params
    # CROSS JOIN keeps the full text in the outer loop.
    source = "FROM fulltext CROSS JOIN papers AS p ON p.id = fulltext.rowid WHERE fulltext MATCH ?"
    return f"{source} AND {where}", [listing.expression, *params]


def _range(column: str, low: int | None, high: int | None, params: list[int | str]) -> str:
    parts = []
    for sign, limit in ((">=", low), ("<=", high)):
        if limit is not None:
            parts.append(f"{column} {sign} ?")
            params.append(limit)
    return f"({' AND '.join(parts) or f'{column} IS NOT NULL'})"
