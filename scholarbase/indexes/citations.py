"""The citation edges: written once, walked in both directions.

An edge is a pair of catalogue ids, the citing paper's and the cited one's. *Citations* of a paper are the
papers that cite it, *references* those that it cites. Every count here is a count of edges that a page can
return, never the publisher's own worldwide figure.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, assert_never

import numpy as np
import numpy.typing as npt
import orjson

from scholarbase.errors import InvalidRequest, LibraryCorrupt
from scholarbase.indexes.filter_sql import filter_sql, json_list, reading
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.models import CitationSort, Direction, check_sort

Ids = npt.NDArray[np.int64]

MAX_STEPS: Final = 20_000_000
"""Edges that one expansion may walk: about half a gigabyte of memory."""

FEW: Final = 500
"""Edges that are read and sorted in a fraction of a millisecond: a hub with a hundred thousand takes a tenth of a
second."""

_FETCH: Final = 50_000
"""Ids that a statement is given, and rows that are taken from it, at once."""
_UNKNOWN: Final = np.iinfo(np.int64).max
"""Where a paper of which what sorts it is unknown stands: after all others."""
_READING: Final = "The citation edges"

_SORTED_BY: Final = {"citation_count": ("p.citation_count", "0"), "date": ("p.first_day", "p.last_day")}
"""What a sort compares, one after the other, before ids. Where the first is unknown, so is the second. A date of which
only the year is known stands at that year's first day, before (after, when descending) the days inside the year."""


class EdgeRow(NamedTuple):
    """An edge to be stored. None: the source does not say."""

    citing: int
    cited: int
    is_influential: bool | None = None
    contexts: list[str] | None = None
    intents: list[str] | None = None


class Edge(NamedTuple):
    """An edge seen from one of its ends: ``paper_id`` is the other end's, ``paper`` what was asked for of it."""

    paper_id: int
    is_influential: bool | None
    contexts: tuple[str, ...]
    intents: tuple[str, ...]
    paper: tuple[Any, ...] = ()


class NeighbourRow(NamedTuple):
    """A paper reached from seeds: how many of them reach it, and the fewest hops that takes."""

    paper_id: int
    seeds: int
    hops: int


class Expansion(NamedTuple):
    """A page of neighbours, and how many there are in all."""

    total: int
    neighbours: list[NeighbourRow]


def insert_edges(connection: sqlite3.Connection, rows: Iterable[EdgeRow]) -> None:
    """Store edges. An edge told twice is kept once, with what either telling knows: influential if any says
    so, contexts and intents of the first that has them. A paper's citation of itself is not stored.

    Telling the same again changes nothing, so a batch may be repeated.
    """
    connection.executemany(
        """
        INSERT INTO edges(citing, cited, is_influential, contexts, intents) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT(citing, cited) DO UPDATE SET
            is_influential = max(
                coalesce(is_influential, excluded.is_influential),
                coalesce(excluded.is_influential, is_influential)
            ),
            contexts = coalesce(contexts, excluded.contexts),
            intents = coalesce(intents, excluded.intents)
        """,
        (
            (row.citing, row.cited, row.is_influential, _stored(row.contexts), _stored(row.intents))
            for row in rows
            if row.citing != row.cited
        ),
    )


def check(connection: sqlite3.Connection) -> None:
    """See that both ends of every edge are papers, and different ones.

    Raises:
        LibraryCorrupt: some are not, or the edges cannot be read.
    """
    with reading(_READING):
        row = connection.execute(
            """
            SELECT citing, cited FROM edges
            WHERE citing = cited
               OR NOT EXISTS (SELECT 1 FROM papers WHERE id = citing)
               OR NOT EXISTS (SELECT 1 FROM papers WHERE id = cited)
            LIMIT 1
            """
        ).fetchone()
    if row is not None:
        citing, cited = row
        why = (
            "a paper does not cite itself" if citing == cited else "one of them is no paper of the catalogue"
        )
        raise LibraryCorrupt(
            f"The citation edges hold one from paper {citing} to paper {cited}, but {why}: ingest again."
        )


def count(
    connection: sqlite3.Connection,
    paper_id: int,
    direction: Direction,
    filters: ResolvedFilters = NO_FILTERS,
) -> int:
    """How many edges :func:`page` gives over all its pages.

    Raises:
        LibraryCorrupt: the edges cannot be read.
    """
    near, far = _ends(direction)
    condition, params = filter_sql(filters, "p")
    # Without filters the papers need not be looked at: both ends of an edge are papers.
    join = "" if filters.is_empty else f"CROSS JOIN papers AS p ON p.id = edges.{far}"
    with reading(_READING):
        row = connection.execute(
            f"SELECT count(*) FROM edges {join} WHERE edges.{near} = ? AND {condition}", [paper_id, *params]
        ).fetchone()
    return int(row[0])


def few(connection: sqlite3.Connection, paper_id: int, direction: Direction) -> int | None:
    """How many edges the paper has in the direction, None where that is more than ``FEW``.

    Raises:
        LibraryCorrupt: the edges cannot be read.
    """
    near, _ = _ends(direction)
    with reading(_READING):
        [counted] = connection.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM edges WHERE {near} = ? LIMIT {FEW + 1})", (paper_id,)
        ).fetchone()
    return counted if counted <= FEW else None


def page(
    connection: sqlite3.Connection,
    paper_id: int,
    direction: Direction,
    limit: int,
    offset: int = 0,
    sort: CitationSort = "-citation_count",
    filters: ResolvedFilters = NO_FILTERS,
    *,
    columns: str = "",
    join: str = "",
    at_most: int | None = None,
) -> list[Edge]:
    """A page of a paper's citations or references. Papers without the value sorted by come last; ties by id.

    ``columns`` of ``papers AS p`` at the other end, and of what ``join`` adds, are read with it. ``at_most`` is a
    number that the paper's edges do not exceed, where one is known: what fits on the page is read in one go.

    Raises:
        InvalidRequest: an unknown sort, or ``both`` as the direction.
        LibraryCorrupt: the edges cannot be read.
    """
    check_sort(sort)
    near, far = _ends(direction)
    condition, params = filter_sql(filters, "p")
    first, second = _SORTED_BY[sort.removeprefix("-")]
    known = f"{first}, {second}, e.is_influential, e.contexts, e.intents, p.id"
    columns = f"{known}, {columns}" if columns else known
    if at_most is not None and at_most <= limit and not offset:
        sql = f"""
            SELECT {columns} FROM edges AS e CROSS JOIN papers AS p ON p.id = e.{far} {join}
            WHERE e.{near} = ? AND {condition}
        """
        with reading(_READING):
            rows = connection.execute(sql, [paper_id, *params]).fetchall()
        # SQLite would carry the texts through its sort, which takes twice the time of reading them.
        rows.sort(key=_falling if sort.startswith("-") else _rising)
        return list(map(_edge, rows))
    way = "DESC" if sort.startswith("-") else "ASC"
    # The ids of the page first, for the same reason.
    sql = f"""
        WITH page AS MATERIALIZED (
            SELECT p.id, row_number() OVER (ORDER BY {first} {way} NULLS LAST, {second} {way}, p.id) AS place
            FROM edges CROSS JOIN papers AS p ON p.id = edges.{far}
            WHERE edges.{near} = ? AND {condition}
            ORDER BY place LIMIT ? OFFSET ?
        )
        SELECT {columns} FROM page CROSS JOIN edges AS e ON e.{far} = page.id AND e.{near} = ?
        CROSS JOIN papers AS p ON p.id = page.id {join}
        ORDER BY page.place
    """
    with reading(_READING):
        rows = connection.execute(sql, [paper_id, *params, limit, offset, paper_id]).fetchall()
    return list(map(_edge, rows))


def _rising(row: tuple[Any, ...]) -> tuple[bool, int, int, int]:
    """What rows of ``page`` are sorted by: the two values of ``_SORTED_BY``, then the id."""
    return row[0] is None, row[0] or 0, row[1] or 0, row[5]


def _falling(row: tuple[Any, ...]) -> tuple[bool, int, int, int]:
    return row[0] is None, -(row[0] or 0), -(row[1] or 0), row[5]


def _edge(row: tuple[Any, ...]) -> Edge:
    return Edge(
        row[5],
        None if row[2] is None else bool(row[2]),
        _loaded(row[3]) if row[3] else (),
        _loaded(row[4]) if row[4] else (),
        row[6:],
    )


def expand(
    connection: sqlite3.Connection,
    seeds: Iterable[int],
    direction: Direction,
    hops: int = 1,
    filters: ResolvedFilters = NO_FILTERS,
    limit: int = 100,
    offset: int = 0,
    *,
    as_of: int | None = None,
) -> Expansion:
    """The neighbours of a set of papers, each once and never a seed.

    Those that most seeds reach come first, then those that take fewer hops, then the most cited (unknown
    last), then the lowest id. Filters hold for the neighbours, not for the papers on the way to them. ``as_of``, a day
    ``yyyymmdd``, holds for both: no paper after it is reached or counted, and the newest stand where the most cited
    would.

    Raises:
        InvalidRequest: ``hops`` is not 1 or 2, or the walk takes more than ``MAX_STEPS`` edges.
        LibraryCorrupt: the edges cannot be read.
    """
    if hops not in (1, 2):
        raise InvalidRequest(f"hops is {hops!r}: an expansion takes 1 or 2.")
    starts = np.unique(np.fromiter(seeds, dtype=np.int64))
    with reading(_READING):
        near, far = _walk(connection, starts, direction, as_of)
        reached_from, reached = near, far
        if hops == 2:
            middles, onward = _walk(connection, np.unique(far), direction, as_of)
            second_from, second = _join(near, far, middles, onward)
            reached_from = np.concatenate([near, second_from])
            reached = np.concatenate([far, second])
        ids, seed_counts = _distinct_counts(reached_from, reached, starts)
        in_one = np.isin(ids, far)
        passing, last_key = _passing(
            connection, ids, filters, "p.citation_count" if as_of is None else "p.first_day"
        )
    hops_taken = np.where(in_one, 1, 2)
    # The last key counts first.
    order = np.lexsort((ids[passing], last_key[passing], hops_taken[passing], -seed_counts[passing]))
    some = passing[order[offset : offset + limit]]
    columns = (ids[some].tolist(), seed_counts[some].tolist(), hops_taken[some].tolist())
    return Expansion(len(passing), list(map(NeighbourRow, *columns)))


def _walk(
    connection: sqlite3.Connection, starts: Ids, direction: Direction, as_of: int | None
) -> tuple[Ids, Ids]:
    """All edges that leave these papers in the direction, as two arrays: where from, where to. Those that lead to
    papers after the day ``as_of`` are none."""
    ways: tuple[Direction, ...] = ("citations", "references") if direction == "both" else (direction,)
    parts: list[Ids] = [np.empty((0, 2), dtype=np.int64)]
    steps = 0
    for way in ways:
        near, far = _ends(way)
        existing = f"CROSS JOIN papers AS p ON p.id = edges.{far} AND p.last_day <= ?"
        for listed in _lists(starts):
            cursor = connection.execute(
                f"""
                SELECT start.value, edges.{far}
                FROM json_each(?) AS start CROSS JOIN edges ON edges.{near} = start.value
                {"" if as_of is None else existing}
                """,
                (listed,) if as_of is None else (listed, as_of),
            )
            # In parts: a list of a million tuples takes ten times the memory of its array.
            while rows := cursor.fetchmany(_FETCH):
                steps += len(rows)
                _check_steps(steps)
                parts.append(np.array(rows, dtype=np.int64))
    pairs = np.concatenate(parts)
    return pairs[:, 0], pairs[:, 1]


def _join(near: Ids, far: Ids, middles: Ids, onward: Ids) -> tuple[Ids, Ids]:
    """Follow each pair (near, far) over all pairs (middle, onward) with far = middle."""
    order = np.argsort(middles, kind="stable")
    middles, onward = middles[order], onward[order]
    first = np.searchsorted(middles, far, side="left")
    degree = np.searchsorted(middles, far, side="right") - first
    steps = int(degree.sum())
    _check_steps(steps)
    # Position of each step: where its middle's edges begin, plus 0, 1, 2, ... within them.
    within = np.arange(steps) - np.repeat(np.cumsum(degree) - degree, degree)
    return np.repeat(near, degree), onward[np.repeat(first, degree) + within]


def _distinct_counts(reached_from: Ids, reached: Ids, starts: Ids) -> tuple[Ids, Ids]:
    """Every paper reached that is no start, and from how many different starts."""
    outside = ~np.isin(reached, starts)
    ids, place = np.unique(reached[outside], return_inverse=True)
    seed_place = np.searchsorted(starts, reached_from[outside])
    pairs = np.unique(place.astype(np.int64) * len(starts) + seed_place)
    return ids, np.bincount(pairs // max(len(starts), 1), minlength=len(ids))


def _passing(
    connection: sqlite3.Connection, ids: Ids, filters: ResolvedFilters, greatest: str
) -> tuple[Ids, Ids]:
    """The places in ``ids``, which ascend, of the papers that pass; and for every place what sorts it, that with the
    greatest value first: the value of the column ``greatest`` below zero."""
    condition, params = filter_sql(filters, "p")
    places: list[Ids] = [np.empty(0, dtype=np.int64)]
    order = np.full(len(ids), _UNKNOWN)
    for listed in _lists(ids):
        rows = connection.execute(
            f"""
            SELECT p.id, ifnull(-{greatest}, {_UNKNOWN})
            FROM json_each(?) AS wanted CROSS JOIN papers AS p ON p.id = wanted.value WHERE {condition}
            """,
            [listed, *params],
        ).fetchall()
        found = np.array(rows, dtype=np.int64).reshape(-1, 2)
        place = np.searchsorted(ids, found[:, 0])
        order[place] = found[:, 1]
        places.append(place)
    return np.concatenate(places), order


def _lists(ids: Ids) -> Iterator[str]:
    """Ids as parameters for ``json_each(?)``, so many at a time that they take little memory."""
    for first in range(0, len(ids), _FETCH):
        yield json_list(ids[first : first + _FETCH].tolist())


def _check_steps(steps: int) -> None:
    if steps > MAX_STEPS:
        raise InvalidRequest(
            f"This expansion walks more than {MAX_STEPS} edges: give fewer seeds, one hop, or one direction."
        )


def _ends(direction: Direction) -> tuple[str, str]:
    """The column of the paper at hand and that of the other end."""
    if direction == "citations":
        return "cited", "citing"
    if direction == "references":
        return "citing", "cited"
    if direction == "both":
        raise InvalidRequest("A page goes in one direction, citations or references: ask for each in turn.")
    assert_never(direction)


def _stored(texts: list[str] | None) -> str | None:
    return orjson.dumps(texts).decode() if texts else None


def _loaded(stored: str) -> tuple[str, ...]:
    return tuple(orjson.loads(stored))
