"""Filters as SQL conditions on the catalogue's ``papers``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import orjson

from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.models.status import ACTIVE

VENUE_KEYS: Final = """
    SELECT value FROM json_each(?) UNION SELECT name_key FROM venue_names WHERE venue_key IN (
        SELECT venue_key FROM venue_names WHERE name_key IN (SELECT value FROM json_each(?))
    )
"""
"""The keys in a list, and those of all other names of the venues that have one of them."""


def json_list(values: Iterable[int] | Iterable[str]) -> str:
    """Encode values as one parameter of ``json_each(?)``, which has no limit on their number as ``IN (?, ?)`` has."""
    return orjson.dumps(list(values)).decode()


def filter_sql(filters: ResolvedFilters, alias: str) -> tuple[str, list[int | str]]:
    """Return the filters as a condition on the row ``alias`` of ``papers``, and its parameters in order.

    Without filters the condition is ``"1"``. A paper without the value that a filter compares does not pass.
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
        # The column is a space-separated list, so a value that contains a space cannot be a category.
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
    if filters.statuses:
        params.append(json_list(filters.statuses))
        active = f"{alias}.status IS NULL OR " if ACTIVE in filters.statuses else ""
        conditions.append(f"({active}{alias}.status IN (SELECT value FROM json_each(?)))")
    if filters.listed is not None:
        add(f"{alias}.id IN (SELECT value FROM json_each(?))", json_list(sorted(filters.listed)))
    elif filters.sets:
        in_set = f"""EXISTS (
            SELECT 1 FROM json_each(?) AS wanted CROSS JOIN sets
            WHERE sets.name = wanted.value AND sets.paper = {alias}.id
        )"""
        others = json_list(sorted(filters.within or ()))
        params.append(json_list(filters.sets))
        add(f"({in_set} OR {alias}.id IN (SELECT value FROM json_each(?)))", others)
    if filters.exclude:
        add(f"{alias}.id NOT IN (SELECT value FROM json_each(?))", json_list(sorted(filters.exclude)))
    return " AND ".join(conditions) or "1", params
