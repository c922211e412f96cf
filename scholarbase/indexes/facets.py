"""Counts of papers by year, category and venue.

The counts of a category and of a venue are those of the filters with this value: a category counts papers that have
exactly this one, and a venue those whose venue has any of its names.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scholarbase.databases import json_list
from scholarbase.indexes import fulltext
from scholarbase.indexes.filters import ResolvedFilters, filter_sql

COUNTING: Final = ("Counting papers", "use more filters, or fewer and longer words")
"""Activity and advice for the error at the time limit."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counted papers. The names of one venue are one value, under the name that most papers have."""

    total: int
    years: dict[int, int]
    categories: dict[str, int]
    venues: dict[str, int]
    no_year: int
    no_category: int
    no_venue: int

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.years) + len(self.categories) + len(self.venues) + 1


def count(
    connection: sqlite3.Connection,
    filters: ResolvedFilters,
    *,
    expression: str | None = None,
    ids: Sequence[int] | None = None,
) -> Counts:
    """Count the papers that pass the filters, or those of them that match a full-text expression; or some ids.

    Args:
        ids: catalogue ids, which the filters do not apply to.

    Raises:
        InvalidRequest: the expression is malformed.
    """
    params: list[int | str]
    if ids is not None:
        source = "json_each(?) AS wanted CROSS JOIN papers AS p ON p.id = wanted.value"
        condition, params = "1", [json_list(ids)]
    else:
        condition, params = filter_sql(filters, "p")
        source = "papers AS p"
    if expression is not None:
        # CROSS JOIN keeps the full text in the outer loop, as in fulltext.search.
        source = "fulltext CROSS JOIN papers AS p ON p.id = fulltext.rowid"
        condition, params = f"fulltext MATCH ? AND {condition}", [expression, *params]
    # Grouped in SQLite, which needs a fraction of the rows and does not hold Python's lock.
    sql = f"""
        SELECT p.year, p.categories, p.venue, p.venue_key, count(*) FROM {source} WHERE {condition}
        GROUP BY p.year, p.categories, p.venue, p.venue_key
    """
    rows = fulltext.rows(connection, sql, params, expression or "")
    years: Counter[int | None] = Counter()
    categories: Counter[str] = Counter()
    venues: Counter[str | None] = Counter()
    names: dict[str, Counter[str]] = {}
    uncategorized = 0
    for year, listed, venue, key, papers in rows:
        years[year] += papers
        distinct = set((listed or "").split())
        for category in distinct:
            categories[category] += papers
        uncategorized += 0 if distinct else papers
        venues[key or None] += papers
        if key:
            names.setdefault(key, Counter())[venue] += papers
    no_year, no_venue = years.pop(None, 0), venues.pop(None, 0)
    spellings = {key: min(counts, key=lambda name: (-counts[name], name)) for key, counts in names.items()}
    by_key = {key: papers for key, papers in venues.items() if key is not None}
    return Counts(
        sum(row[4] for row in rows),
        {year: papers for year, papers in years.items() if year is not None},
        dict(categories),
        _joined(connection, by_key, spellings),
        no_year,
        uncategorized,
        no_venue,
    )


def _joined(
    connection: sqlite3.Connection, venues: Mapping[str, int], spellings: Mapping[str, str]
) -> dict[str, int]:
    """The papers of each venue by its name, of the numbers by key: those that the filter ``venue`` keeps."""
    same = _same_venues(connection, venues)
    listed: set[frozenset[str]] = set()
    joined: dict[str, int] = {}
    for key in sorted(venues, key=lambda venue_key: (-venues[venue_key], spellings[venue_key])):
        keys = same.get(key, frozenset((key,)))
        if keys not in listed:
            listed.add(keys)
            joined[spellings[key]] = sum(venues[venue_key] for venue_key in keys)
    return joined


def _same_venues(connection: sqlite3.Connection, keys: Mapping[str, int]) -> dict[str, frozenset[str]]:
    """For each key those of ``keys`` that are names of the same venue (as ``VENUE_KEYS`` finds them)."""
    pairs = connection.execute(
        """
        SELECT wanted.value, other.name_key FROM json_each(?) AS wanted
        CROSS JOIN venue_names AS own ON own.name_key = wanted.value
        CROSS JOIN venue_names AS other ON other.venue_key = own.venue_key
        """,
        (json_list(keys),),
    )
    same: dict[str, set[str]] = {}
    for key, other in pairs:
        if other in keys:
            same.setdefault(key, {key}).add(other)
    return {key: frozenset(names) for key, names in same.items()}
