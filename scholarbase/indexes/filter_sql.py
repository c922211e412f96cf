"""What the readers of the catalogue's SQL share: filters as conditions, SQLite's failures as our errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import orjson

from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes.filters import ResolvedFilters


def json_list(values: Iterable[int] | Iterable[str]) -> str:
    """Values as one parameter for ``json_each(?)``: no limit on their number, unlike ``IN (?, ?, ...)``."""
    return orjson.dumps(list(values)).decode()


def filter_sql(filters: ResolvedFilters, alias: str) -> tuple[str, list[int | str]]:
    """The filters as a condition on the row ``alias`` of ``papers``, and its parameters in order.

    No filters give ``"1"``. A condition on a value that a paper lacks is not true, and it does not pass.
    """
    conditions: list[str] = []
    params: list[int | str] = []

    def add(condition: str, value: int | str) -> None:
        conditions.append(condition)
        params.append(value)

    if filters.first_day is not None:
        add(f"{alias}.first_day >= ?", filters.first_day)
    if filters.last_day is not None:
        add(f"{alias}.last_day <= ?", filters.last_day)
    if filters.categories:
        # The column is a list with spaces between, so a value with a space in it names no category.
        add(
            f"""EXISTS (
                SELECT 1 FROM json_each(?) AS wanted
                WHERE instr(wanted.value, ' ') = 0 AND (
                    instr(' ' || {alias}.categories || ' ', ' ' || wanted.value || ' ')
                    OR (instr(wanted.value, '.') = 0
                        AND instr(' ' || {alias}.categories, ' ' || wanted.value || '.'))
                )
            )""",
            json_list(filters.categories),
        )
    if filters.venues:
        add(f"{alias}.venue_key IN (SELECT value FROM json_each(?))", json_list(filters.venues))
    if filters.min_citations is not None:
        add(f"{alias}.citation_count >= ?", filters.min_citations)
    if filters.within is not None:
        add(f"{alias}.id IN (SELECT value FROM json_each(?))", json_list(sorted(filters.within)))
    if filters.exclude:
        add(f"{alias}.id NOT IN (SELECT value FROM json_each(?))", json_list(sorted(filters.exclude)))
    return " AND ".join(conditions) or "1", params


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn SQLite's failures inside the block into LibraryCorrupt; ``what`` begins the sentence.

    An interrupted statement stays ``sqlite3.OperationalError``: the caller who interrupted it knows why.
    Misuse of the connection (``sqlite3.ProgrammingError``) is a fault of the code, and stays as it is.
    """
    try:
        yield
    except sqlite3.ProgrammingError:
        raise
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            raise
        raise LibraryCorrupt(
            f'{what} cannot be read: {error}. Run "scholarbase verify" on the library.'
        ) from error
