"""Citation edges: storing, paging and expanding them in both directions, and counting co-citations.

An edge is a pair of catalogue ids: the citing paper's and the cited paper's. The *citations* of a paper are the
papers that cite it, its *references* the papers that it cites. Counts are of edges in this library, which pages
return, and not the worldwide figures of the publisher.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from scholarbase import deadlines
from scholarbase.databases import json_list
from scholarbase.errors import LibraryCorrupt, TooManyEdges
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters, filter_sql
from scholarbase.indexes.vectors.base import ScoredId
from scholarbase.models.limits import CitationSort, Direction

Ids = npt.NDArray[np.int64]
Edges = tuple[Ids, Ids, npt.NDArray[np.bool_]]
"""Edges as arrays: the paper they were read for, the other end, and whether that is a reference."""

MAX_STEPS: Final = 5_000_000
"""Most edges that one expansion may follow: about an eighth of a gigabyte of memory."""

FEW: Final = 500
"""Edges that are read and sorted in a fraction of a millisecond; a hundred thousand take a tenth of a second."""

MAX_CITING: Final = 2_000
"""Citing papers, the newest, whose references are counted as co-citations of a paper."""
MAX_REFERENCES: Final = 500_000
"""References that one count of co-citations reads, those of the newest citing papers first."""

EXPANSION: Final = ("The expansion", "use fewer seeds, one hop, or one direction")
"""Activity and advice for the error at the time limit."""
_STEPS: Final = 500_000
"""Steps of the second hop that are joined at once."""
_BATCH: Final = 50_000
"""Ids per statement, and rows per fetch."""
_UNKNOWN: Final = np.iinfo(np.int64).max
"""The sort key of a paper whose value is unknown: it comes after all others."""

_SORTED_BY: Final = {"citation_count": ("p.citation_count", "0"), "date": ("p.first_day", "p.last_day")}
"""The two columns that a sort compares before ids; where the first is NULL, so is the second. A date of which only the
year is known counts as that year's first day, before (after, when descending) the other days of the year."""


class EdgeRow(NamedTuple):
    """An edge to store. None: unknown."""

    citing: int
    cited: int
    is_influential: bool | None = None
    contexts: list[str] | None = None
    intents: list[str] | None = None


class Edge(NamedTuple):
    """An edge of a paper: ``paper_id`` and ``paper`` are of the other end."""

    paper_id: int
    is_influential: bool | None
    contexts: tuple[str, ...]
    intents: tuple[str, ...]
    paper: Any = ()


class NeighbourRow(NamedTuple):
    """A paper reached from seeds: the number of seeds that reach it, and the fewest hops."""

    paper_id: int
    seeds: int
    hops: int


class Most(NamedTuple):
    """How many citing papers and references of each paper an expansion follows; None: all."""

    citations: int | None = None
    references: int | None = None


ALL_EDGES: Final = Most()


def insert_edges(connection: sqlite3.Connection, rows: Iterable[EdgeRow]) -> None:
    """Store edges, without those of papers that cite themselves.

    Rows of the same edge are merged: influential if any row is, the longest contexts, the longest intents (of equally
    long ones the last in the order of their bytes). The order of the rows does not matter, and storing the same rows
    again changes nothing.
    """
    longest = """CASE
        WHEN excluded.{0} IS NULL THEN {0}
        WHEN {0} IS NULL OR (length(excluded.{0}), excluded.{0}) > (length({0}), {0}) THEN excluded.{0}
        ELSE {0} END"""
    connection.executemany(
        f"""
        INSERT INTO edges(citing, cited, is_influential, contexts, intents) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT(citing, cited) DO UPDATE SET
            is_influential = max(
                coalesce(is_influential, excluded.is_influential),
                coalesce(excluded.is_influential, is_influential)
            ),
            contexts = {longest.format("contexts")},
            intents = {longest.format("intents")}
        """,
        (
            (row.citing, row.cited, row.is_influential, _encoded(row.contexts), _encoded(row.intents))
            for row in rows
            if row.citing != row.cited
        ),
    )


def check(connection: sqlite3.Connection) -> None:
    """Check that every edge connects two different papers of the catalogue.

    Raises:
        LibraryCorrupt: an edge does not.
    """
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
        why = "a paper does not cite itself" if citing == cited else "the catalogue lacks one of these papers"
        raise LibraryCorrupt(
            f"There is a citation edge from paper {citing} to paper {cited}, but {why}: ingest again."
        )


def count(
    connection: sqlite3.Connection,
    paper_id: int,
    direction: Direction,
    filters: ResolvedFilters = NO_FILTERS,
) -> int:
    """Count the edges on all pages of :func:`page`."""
    near, far = _end_columns(direction)
    condition, params = filter_sql(filters, "p")
    # Both ends of an edge are papers, so that without filters the papers are not read.
    join = "" if filters.is_empty else f"CROSS JOIN papers AS p ON p.id = edges.{far}"
    row = connection.execute(
        f"SELECT count(*) FROM edges {join} WHERE edges.{near} = ? AND {condition}", [paper_id, *params]
    ).fetchone()
    return int(row[0])


def few(connection: sqlite3.Connection, paper_id: int, direction: Direction) -> int | None:
    """Count the paper's edges in a direction; None when they are more than ``FEW``."""
    near, _ = _end_columns(direction)
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
    make_paper: Callable[[Sequence[Any]], Any] = tuple,
    at_most: int | None = None,
) -> list[Edge]:
    """Return a page of a paper's citations or references. NULLs are sorted last, ties by id.

    Args:
        columns: of ``papers AS p`` at the other end and of ``join``; ``make_paper`` makes an edge's ``paper`` of them.
        at_most: an upper bound of the paper's edges, if known; when all fit on the page, they are sorted here.
    """
    near, far = _end_columns(direction)
    condition, params = filter_sql(filters, "p")
    first, second = _SORTED_BY[sort.removeprefix("-")]
    of_edge = f"{first}, {second}, e.is_influential, e.contexts, e.intents, p.id"
    columns = f"{of_edge}, {columns}" if columns else of_edge
    if at_most is not None and at_most <= limit and not offset:
        sql = f"""
            SELECT {columns} FROM edges AS e CROSS JOIN papers AS p ON p.id = e.{far} {join}
            WHERE e.{near} = ? AND {condition}
        """
        rows = connection.execute(sql, [paper_id, *params]).fetchall()
        sign = -1 if sort.startswith("-") else 1
        # SQLite's sorter would copy the texts, which takes twice the time of reading them.
        rows.sort(key=lambda row: (row[0] is None, sign * (row[0] or 0), sign * (row[1] or 0), row[5]))
    else:
        order = "DESC" if sort.startswith("-") else "ASC"
        # The ids of the page first, for the same reason.
        sql = f"""
            WITH page AS MATERIALIZED (
                SELECT p.id, row_number() OVER (ORDER BY {first} {order} NULLS LAST, {second} {order}, p.id) AS place
                FROM edges CROSS JOIN papers AS p ON p.id = edges.{far}
                WHERE edges.{near} = ? AND {condition}
                ORDER BY place LIMIT ? OFFSET ?
            )
            SELECT {columns} FROM page CROSS JOIN edges AS e ON e.{far} = page.id AND e.{near} = ?
            CROSS JOIN papers AS p ON p.id = page.id {join}
            ORDER BY page.place
        """
        rows = connection.execute(sql, [paper_id, *params, limit, offset, paper_id]).fetchall()
    return [
        Edge(
            row[5],
            None if row[2] is None else bool(row[2]),
            _decoded(row[3]) if row[3] else (),
            _decoded(row[4]) if row[4] else (),
            make_paper(row[6:]),
        )
        for row in rows
    ]


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
    most: Most = ALL_EDGES,
) -> tuple[int, list[NeighbourRow]]:
    """Return the number of neighbours of a set of papers, and a page of them, each once and without the seeds.

    They are sorted by the number of seeds that reach them, then by hops (fewest first), by citation count (highest
    first, unknown last) and by id. Filters hold for the neighbours, not for the papers between them and the seeds.
    ``as_of``, a day ``yyyymmdd``, holds for both: no paper after it is reached or counted, and the neighbours are
    sorted by date (newest first) instead of by citation count.

    ``most`` limits the citing papers and references that are followed from each seed, and with two hops from each paper
    that a seed reaches: the first in the order of citation count, or of date with ``as_of``. Seeds and, in the last hop
    of a path, papers that do not pass the filters are not among them.

    Raises:
        TooManyEdges: the expansion reads more than ``MAX_STEPS`` edges.
    """
    starts = np.unique(np.fromiter(seeds, dtype=np.int64))
    sorted_by = "p.citation_count" if as_of is None else "p.first_day"
    limits = _Limits(connection, most, starts, sorted_by)
    edges = _edges_from(connection, starts, direction, as_of)
    near, far = limits.first(edges, filters)
    passed_near, passed_far = (near, far) if hops == 1 else limits.first(edges, NO_FILTERS)
    middles = onward = np.empty(0, dtype=np.int64)
    if hops == 2:
        middles, onward = limits.first(
            _edges_from(connection, np.unique(passed_far), direction, as_of), filters
        )
    near_positions, passed_positions = np.searchsorted(starts, near), np.searchsorted(starts, passed_near)
    # Papers are counted by their position among all that were read: their ids are too great to be multiplied.
    known = np.unique(np.concatenate([starts, far, passed_far, middles, onward]))
    starts, far, passed_far, middles, onward = (
        np.searchsorted(known, ids) for ids in (starts, far, passed_far, middles, onward)
    )
    pairs = _distinct_pairs(near_positions, far, starts)
    if hops == 2:
        pairs = np.union1d(pairs, _second_hop(passed_positions, passed_far, middles, onward, starts))
    # Each pair is a paper that is reached times the number of seeds, plus the position of a seed that reaches it.
    reached, seed_counts = np.unique(pairs // max(len(starts), 1), return_counts=True)
    ids = known[reached]
    passing, sort_keys = _passing(connection, ids, filters, sorted_by)
    fewest_hops = np.where(np.isin(reached, far), 1, 2)
    # np.lexsort compares its last key first.
    order = np.lexsort((ids[passing], sort_keys[passing], fewest_hops[passing], -seed_counts[passing]))
    selected = passing[order[offset : offset + limit]]
    columns = (ids[selected].tolist(), seed_counts[selected].tolist(), fewest_hops[selected].tolist())
    return len(passing), list(map(NeighbourRow, *columns))


def cocited(
    connection: sqlite3.Connection,
    paper_id: int,
    limit: int,
    filters: ResolvedFilters = NO_FILTERS,
    *,
    as_of: int | None = None,
) -> tuple[list[ScoredId], bool]:
    """Return the papers most often cited together with a paper, each with the number of papers that cite both, and
    whether there are, or may be, further ones (Small, "Co-citation in the scientific literature",
    1973, https://doi.org/10.1002/asi.4630240406), without the paper itself. Ties break by id.

    Of a paper that more than ``MAX_CITING`` papers cite, the newest of these count (those of unknown date last, ties by
    id), and of their references the first ``MAX_REFERENCES``. Filters hold for the results, not for the papers that
    cite them. ``as_of``, a day ``yyyymmdd``, holds for both.
    """
    existing = "" if as_of is None else "AND p.last_day <= ?"
    rows = connection.execute(
        f"""
        SELECT p.id FROM edges CROSS JOIN papers AS p ON p.id = edges.citing
        WHERE edges.cited = ? {existing}
        ORDER BY p.first_day DESC NULLS LAST, p.last_day DESC, p.id LIMIT {MAX_CITING + 1}
        """,
        (paper_id,) if as_of is None else (paper_id, as_of),
    ).fetchall()
    condition, params = filter_sql(filters, "p")
    # The sum of all counts is at least as great as each of them, and NULL sorts first: it is the first row.
    [(references, _), *cited] = connection.execute(
        f"""
        WITH counted AS MATERIALIZED (
            SELECT cited, count(*) AS papers FROM (
                SELECT edges.cited FROM json_each(?) AS citing
                CROSS JOIN edges ON edges.citing = citing.value LIMIT {MAX_REFERENCES}
            ) GROUP BY cited
        )
        SELECT sum(papers) AS papers, NULL AS id FROM counted
        UNION ALL
        SELECT counted.papers, p.id FROM counted CROSS JOIN papers AS p ON p.id = counted.cited
        WHERE p.id <> ? AND {condition}
        ORDER BY papers DESC, id LIMIT ?
        """,
        [json_list(row[0] for row in rows[:MAX_CITING]), paper_id, *params, limit + 2],
    ).fetchall()
    is_cut = len(rows) > MAX_CITING or (references or 0) >= MAX_REFERENCES
    papers = [ScoredId(cited_id, float(count)) for count, cited_id in cited[:limit]]
    return papers, is_cut or len(cited) > limit


def linked(
    connection: sqlite3.Connection, seeds: Sequence[int], most: int, *, as_of: int | None = None
) -> Edges:
    """Return the edges of these papers in both directions, in their order.

    Of a paper with more than ``most`` citations or references, that direction is left out. ``as_of``, a day
    ``yyyymmdd``, leaves out papers after it.
    """
    existing = "" if as_of is None else "CROSS JOIN papers AS p ON p.id = edges.{} AND p.last_day <= ?2"
    lists = ", ".join(
        f"""(SELECT json_group_array({far}) FROM (
            SELECT {far} FROM edges {existing.format(far)} WHERE {near} = seed.value LIMIT {most + 1}
        ))"""
        for near, far in (("citing", "cited"), ("cited", "citing"))
    )
    values = [json_list(seeds)] if as_of is None else [json_list(seeds), as_of]
    near: list[int] = []
    far = [np.empty(0, dtype=np.int64)]
    sides: list[bool] = []
    for seed, row in zip(
        seeds, connection.execute(f"SELECT {lists} FROM json_each(?1) AS seed", values), strict=True
    ):
        for is_reference, listed in zip((True, False), row, strict=True):
            ends = orjson.loads(listed)
            if 0 < len(ends) <= most:
                near += [seed] * len(ends)
                far.append(np.array(ends, dtype=np.int64))
                sides += [is_reference] * len(ends)
    return np.array(near, dtype=np.int64), np.concatenate(far), np.array(sides, dtype=np.bool_)


class _Limits:
    """Takes the first edges of each paper (:func:`expand`)."""

    def __init__(self, connection: sqlite3.Connection, most: Most, starts: Ids, sorted_by: str) -> None:
        self._connection = connection
        self._most = most
        self._starts = starts
        self._sorted_by = sorted_by

    def first(self, edges: Edges, filters: ResolvedFilters) -> tuple[Ids, Ids]:
        """The edges from and to, of each paper as many as are followed. Without limits, all of them."""
        near, far, is_reference = edges
        if self._most == ALL_EDGES:
            return near, far
        outside = ~np.isin(far, self._starts)
        near, far, is_reference = near[outside], far[outside], is_reference[outside]
        ids = np.unique(far)
        passing, keys = _passing(self._connection, ids, filters, self._sorted_by)
        passes = np.zeros(len(ids), dtype=np.bool_)
        passes[passing] = True
        positions = np.searchsorted(ids, far)
        kept = passes[positions]
        near, far, is_reference, key = near[kept], far[kept], is_reference[kept], keys[positions[kept]]
        order = np.lexsort((far, key, is_reference, near))
        near, far, is_reference = near[order], far[order], is_reference[order]
        # The rank of each edge within its paper and direction.
        begins = np.ones(len(near), dtype=np.bool_)
        begins[1:] = (near[1:] != near[:-1]) | (is_reference[1:] != is_reference[:-1])
        numbers = np.arange(len(near))
        rank = numbers - np.maximum.accumulate(np.where(begins, numbers, 0))
        citations, references = (MAX_STEPS if limit is None else limit for limit in self._most)
        followed = rank < np.where(is_reference, references, citations)
        return near[followed], far[followed]


def _edges_from(
    connection: sqlite3.Connection, starts: Ids, direction: Direction, as_of: int | None
) -> Edges:
    """Return all edges of these papers in a direction. Papers after ``as_of`` are not at the other end."""
    directions: tuple[Direction, ...] = ("citations", "references") if direction == "both" else (direction,)
    near_parts, far_parts = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    side_parts = [np.empty(0, dtype=np.bool_)]
    steps = 0
    for side in directions:
        near, far = _end_columns(side)
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
            # In batches: a list of a million tuples takes ten times the memory of its array.
            while rows := cursor.fetchmany(_BATCH):
                steps += len(rows)
                _check_steps(steps)
                ends = np.array(rows, dtype=np.int64)
                near_parts.append(ends[:, 0].copy())
                far_parts.append(ends[:, 1].copy())
                side_parts.append(np.full(len(rows), side == "references"))
    return np.concatenate(near_parts), np.concatenate(far_parts), np.concatenate(side_parts)


def _distinct_pairs(positions: Ids, reached: Ids, starts: Ids) -> Ids:
    """Return the different pairs of a paper that is reached, but is no start, and the start that reaches it.

    A pair is one number: the paper times the number of starts, plus the position of the start among them.
    """
    outside = ~np.isin(reached, starts)
    return np.unique(reached[outside] * len(starts) + positions[outside])


def _second_hop(near_positions: Ids, far: Ids, middles: Ids, onward: Ids, starts: Ids) -> Ids:
    """Return the pairs (:func:`_distinct_pairs`) over the second hop.

    Each edge (near, far) of the first hop is joined with all edges (middle, onward) where far = middle, in parts, so
    that memory grows with the number of different pairs only.
    """
    order = np.argsort(middles, kind="stable")
    middles, onward = middles[order], onward[order]
    first = np.searchsorted(middles, far, side="left")
    degree = np.searchsorted(middles, far, side="right") - first
    ends = np.cumsum(degree)
    _check_steps(int(ends[-1]) if len(ends) else 0)
    pairs = np.empty(0, dtype=np.int64)
    begin = 0
    while begin < len(far):
        deadlines.check(*EXPANSION)
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _STEPS, side="right")))
        part = slice(begin, end)
        # The position of each step: that of its middle's first edge, plus 0, 1, 2, ...
        offsets = first[part] - (ends[part] - degree[part] - done)
        position = np.repeat(offsets, degree[part])
        position += np.arange(len(position))
        pairs_of_part = _distinct_pairs(
            np.repeat(near_positions[part], degree[part]), onward[position], starts
        )
        pairs = np.union1d(pairs, pairs_of_part)
        begin = end
    return pairs


def _passing(
    connection: sqlite3.Connection, ids: Ids, filters: ResolvedFilters, sorted_by: str
) -> tuple[Ids, Ids]:
    """Return the positions in ``ids``, which ascend, of the papers that pass; and a sort key for every position,
    which puts the greatest value of the column ``sorted_by`` first."""
    condition, params = filter_sql(filters, "p")
    position_parts: list[Ids] = [np.empty(0, dtype=np.int64)]
    keys = np.full(len(ids), _UNKNOWN)
    for listed in _lists(ids):
        rows = connection.execute(
            f"""
            SELECT p.id, ifnull(-{sorted_by}, {_UNKNOWN})
            FROM json_each(?) AS wanted CROSS JOIN papers AS p ON p.id = wanted.value WHERE {condition}
            """,
            [listed, *params],
        ).fetchall()
        columns = np.array(rows, dtype=np.int64).reshape(-1, 2)
        positions = np.searchsorted(ids, columns[:, 0])
        keys[positions] = columns[:, 1]
        position_parts.append(positions)
    return np.concatenate(position_parts), keys


def _lists(ids: Ids) -> Iterator[str]:
    """Yield ids as parameters of ``json_each(?)``, in batches."""
    for first in range(0, len(ids), _BATCH):
        yield json_list(ids[first : first + _BATCH].tolist())


def _check_steps(steps: int) -> None:
    if steps > MAX_STEPS:
        raise TooManyEdges(
            f"This expansion follows more than {MAX_STEPS:,} edges: use fewer seeds, one hop, or one direction."
        )


def _end_columns(direction: Direction) -> tuple[str, str]:
    """Return the column of the paper itself and the column of the other end."""
    return ("cited", "citing") if direction == "citations" else ("citing", "cited")


def _encoded(texts: list[str] | None) -> str | None:
    return orjson.dumps(texts).decode() if texts else None


def _decoded(stored: str) -> tuple[str, ...]:
    return tuple(orjson.loads(stored))
