"""Lists of all papers of a library that meet a condition (:mod:`scholarbase_dialects.listing.conditions`)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock
from time import perf_counter
from typing import Final
from weakref import WeakKeyDictionary

import orjson

from scholarbase import deadlines
from scholarbase.errors import InvalidRequest
from scholarbase.identifiers import parse
from scholarbase.indexes.catalog import canonical_id, id_columns
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import PAPER_FIELDS
from scholarbase.models.responses import Hit
from scholarbase.search.cache import Cache
from scholarbase.search.library import Library
from scholarbase.timing import stages
from scholarbase_dialects.listing import conditions
from scholarbase_dialects.listing.conditions import Condition, Days, Listed, ListOrder, every, uses_counts

CACHED_BYTES: Final = 40 << 20
"""Bytes of cached lists, since a caller pages through one. A paper takes 8 bytes, and 4 more in a list by relevance:
one of 3 million papers by relevance fits. A longer list than fits, of 3.5 million papers by relevance, is made again
for each page. With the other caches a process stays within 100 MB above idle (docs/reliability.md)."""
CONDITION_BYTES: Final = 1 << 20
"""Bytes that the condition of a cached list counts for: it may have 10,000 ids. So at most 40 lists are cached."""
LISTS_AT_ONCE: Final = 2
"""Lists that are made at once; others wait. One of 3 million papers takes 36 MB, and 16 MB for sorting in SQLite."""
_ACTIVITY: Final = ("Listing papers", "use fewer words, names and conditions")
_REFERENCES: Final = ("Reading citations", "request a smaller limit, or no filters")


def list_cache() -> Cache[Listed]:
    """A cache of ``CACHED_BYTES``."""
    return Cache(CACHED_BYTES, lambda cached: cached.nbytes + CONDITION_BYTES)


@dataclass(eq=False)
class Kept:
    """What is kept of an open library.

    Args:
        making: the lists that are made at once.
        newest: its newest day, once it is known.
    """

    lists: Cache[Listed] = field(default_factory=list_cache)
    making: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(LISTS_AT_ONCE))
    newest: tuple[int | None] | None = None


_KEPT: Final[WeakKeyDictionary[Library, Kept]] = WeakKeyDictionary()
_LOCK: Final = Lock()


def kept_of(library: Library) -> Kept:
    with _LOCK:
        if library not in _KEPT:
            _KEPT[library] = Kept()
        return _KEPT[library]


def listed(
    library: Library,
    condition: Condition,
    *,
    order: ListOrder | Sequence[ListOrder] = "-relevance",
    limit: int = MAX_LIMIT,
    offset: int = 0,
    fields: Sequence[str] = PAPER_FIELDS,
    first: Sequence[str] = (),
    as_of: str | None = None,
) -> tuple[int, list[Hit]]:
    """The number of papers that meet a condition, and a page of them.

    Args:
        order: one or several, the first one first.
        first: ids of papers that come before all others if they meet the condition, such as the one whose title is
            searched for. They have the score of the best.

    Raises:
        InvalidRequest: the condition or the order needs counts of citations, which are unknown with ``as_of``.
        NothingLeft: ``as_of`` is before every paper.
        TimeLimit: it takes longer than the time limit.
    """
    orders: tuple[ListOrder, ...] = (order,) if isinstance(order, str) else tuple(order)
    condition = _existing(library, condition, as_of, orders)
    start = perf_counter()
    kept = kept_of(library)
    matching = kept.lists.get((condition, orders), lambda: _list(library, kept, condition, orders))
    deadlines.check(*_ACTIVITY)
    end = perf_counter()
    if first:
        matching = matching.with_first(held(library, first, as_of=as_of))
    page = slice(offset, offset + limit)
    papers = library.catalog.papers(matching.ids[page].tolist(), fields, as_of=as_of)
    scores = [0.0] * len(papers) if matching.scores is None else matching.scores[page].tolist()
    stages().extend((("list", start, end), ("hydrate", end, perf_counter())))
    return len(matching.ids), [Hit(score, paper) for score, paper in zip(scores, papers, strict=True)]


def count_years(library: Library, condition: Condition, *, as_of: str | None = None) -> list[tuple[int, int]]:
    """The number of papers of each year that meet a condition, most papers first. Raises as :func:`listed`."""
    condition = _existing(library, condition, as_of)
    with library.catalog.reading(*_ACTIVITY) as connection:
        return conditions.years(connection, condition)


def held(library: Library, ids: Sequence[str], *, as_of: str | None = None) -> tuple[int, ...]:
    """The catalogue ids of those papers that the library holds, as of a day, in ascending order.

    Raises:
        InvalidRequest: an id is malformed.
        NothingLeft: ``as_of`` is before every paper.
    """
    resolved = library.catalog.resolve([parse(paper_id) for paper_id in ids])
    numbers = {number for number in resolved if number is not None}
    day = library.lookup.day(as_of)
    return tuple(sorted(numbers if day is None else library.catalog.existing(list(numbers), day)))


def newest_day(library: Library) -> int | None:
    """The day ``yyyymmdd`` of the newest paper, None if no paper has a date."""
    kept = kept_of(library)
    if kept.newest is None:
        with library.catalog.reading() as connection:
            kept.newest = connection.execute("SELECT max(first_day) FROM papers").fetchone()
    [day] = kept.newest or (None,)
    return day


def reference_ids(library: Library, ids: Sequence[str], *, as_of: str | None = None) -> dict[str, list[str]]:
    """The ids of the papers that each of these papers cites, in the order of the library; with ``as_of``, only those
    published by then. Nothing for a paper that the library does not hold.

    Raises as :func:`held`.
    """
    day = library.lookup.day(as_of)
    existing = "" if day is None else "AND p.last_day <= ?"
    numbers = [number for number in library.catalog.resolve(list(map(parse, ids))) if number is not None]
    wanted = orjson.dumps(numbers).decode()
    sql = f"""
        SELECT {id_columns("c")}, {id_columns("p")}
        FROM json_each(?) AS citing CROSS JOIN papers AS c ON c.id = citing.value
        CROSS JOIN edges ON edges.citing = c.id CROSS JOIN papers AS p ON p.id = edges.cited {existing}
    """
    references: dict[str, list[str]] = {}
    with library.catalog.reading(*_REFERENCES) as connection:
        for row in connection.execute(sql, (wanted,) if day is None else (wanted, day)):
            references.setdefault(canonical_id(*row[:3]), []).append(canonical_id(*row[3:]))
    return references


def _existing(
    library: Library, condition: Condition, as_of: str | None, orders: Sequence[ListOrder] = ()
) -> Condition:
    """A condition on the papers that exist as of a day."""
    day = library.lookup.day(as_of)
    if day is None:
        return condition
    if uses_counts(condition, orders):
        raise InvalidRequest(
            f"Counts of citations and references, and retractions, cannot be combined with as_of {as_of!r}: the "
            "snapshot has only its own, later ones. Leave one of them out."
        )
    return every([condition, Days(last=day)])


def _list(library: Library, kept: Kept, condition: Condition, orders: Sequence[ListOrder]) -> Listed:
    """The whole list. Raises TimeLimit if others take until the time limit."""
    deadlines.check(*_ACTIVITY)
    with deadlines.turn(kept.making), library.catalog.reading(*_ACTIVITY) as connection:
        return conditions.listed(
            connection, condition, orders, title_weight=library.settings.fts5_title_weight
        )


def cursor_at(offset: int, snapshot: str) -> str:
    """The cursor of the results after the first ``offset``, in characters that a URL may have."""
    return base64.urlsafe_b64encode(orjson.dumps([offset, snapshot])).decode()


def offset_of(cursor: str, snapshot: str) -> int | None:
    """The offset of a cursor, 0 for ``*``; None for a cursor of another snapshot, and for another text."""
    if cursor == "*":
        return 0
    try:
        content = orjson.loads(base64.b64decode(cursor.encode(), b"-_", validate=True))
    except (UnicodeEncodeError, binascii.Error, orjson.JSONDecodeError):
        return None
    if not isinstance(content, list) or len(content) != 2 or content[1] != snapshot:
        return None
    return content[0] if type(content[0]) is int and content[0] >= 0 else None
