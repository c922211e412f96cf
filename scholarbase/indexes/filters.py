"""Resolved filters: days as numbers, papers as catalogue ids, venues as keys; and their SQL conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from scholarbase.databases import json_list
from scholarbase.models.status import ACTIVE


@dataclass(frozen=True, slots=True)
class ResolvedFilters:
    """Conditions on papers. Every index applies all of them before it cuts its ranking to a limit.

    ``first_day`` and ``last_day`` are numbers ``yyyymmdd``: a paper passes when its whole range of possible days is
    within them. ``categories`` and ``venues`` pass when any value matches: a category as stored or its archive
    (``cs`` for ``cs.CL``), a venue by its key (:func:`venue_key`); ``types`` and ``not_types`` are publication types as
    stored; ``statuses`` has values of :data:`.status.STATUSES`, () all of them. ``within`` and ``exclude`` are
    catalogue ids. With ``within`` or ``sets`` only those papers pass that are in ``within`` or in one of these sets.
    """

    first_day: int | None = None
    last_day: int | None = None
    categories: tuple[str, ...] = ()
    venues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    not_types: tuple[str, ...] = ()
    min_citations: int | None = None
    statuses: tuple[str, ...] = ()
    within: frozenset[int] | None = None
    sets: tuple[str, ...] = ()
    exclude: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self == NO_FILTERS

    @property
    def listed(self) -> frozenset[int] | None:
        """The only papers that may pass, None if they are not listed."""
        return None if self.sets else self.within


NO_FILTERS = ResolvedFilters()


class NumberFilter(NamedTuple):
    """A filter that compares a number of a paper with a limit.

    ``limit`` is the field of :class:`ResolvedFilters`, ``column`` that of ``papers`` and of payloads; papers pass from
    the limit on if ``is_least``, else up to it. Warnings say of papers that none ``passes``, with the greatest or least
    number of any paper, or that none ``has`` a number.
    """

    argument: str
    limit: str
    column: str
    is_least: bool
    passes: str
    has: str


NUMBER_FILTERS: Final = (
    NumberFilter(
        "from", "first_day", "first_day", True, "is certainly so late: the latest date is {}", "has a date"
    ),
    NumberFilter(
        "to", "last_day", "last_day", False, "is certainly so early: the earliest date is {}", "has a date"
    ),
    NumberFilter(
        "min_citations",
        "min_citations",
        "citation_count",
        True,
        "has so many citations: the most are {}",
        "has a number of citations",
    ),
)
"""SQL conditions, conditions and indexes of vectors, and warnings are derived from these."""


def venue_key(name: str) -> str:
    """Return a venue's name in the form in which names are compared: lower case, single spaces."""
    return " ".join(name.casefold().split())


def category_keys(categories: list[str]) -> list[str]:
    """Return the categories and their archives: ``['cs', 'cs.CL', 'cs.LG']`` for ``['cs.CL', 'cs.LG']``."""
    keys = set(categories)
    keys.update(category.split(".", 1)[0] for category in categories)
    return sorted(keys)


_LOWER_CASE_CLASSES = frozenset({"cond-mat", "physics"})


def category_forms(category: str) -> set[str]:
    """Return a category as requested and in arXiv's spelling: ``CS.cl`` and ``cs.CL``, ``Physics.Flu-dyn`` and
    ``physics.flu-dyn`` (https://arxiv.org/category_taxonomy)."""
    archive, dot, subject = category.strip().partition(".")
    archive = archive.lower()
    subject = subject.lower() if archive in _LOWER_CASE_CLASSES else subject.upper()
    return {category, f"{archive}{dot}{subject}"}


# -- SQL ----------------------------------------------------------------------------------------------

VENUE_KEYS: Final = """
    SELECT value FROM json_each(?) UNION SELECT name_key FROM venue_names WHERE venue_key IN (
        SELECT venue_key FROM venue_names WHERE name_key IN (SELECT value FROM json_each(?))
    )
"""
"""The keys in a list, and those of all other names of the venues that have one of them."""
WITH_STATUS: Final = "(status IS NOT NULL OR instr(details, '\"notices\":'))"
"""The condition of the papers with a status or a notice, which have an index of their own."""
_OF_TYPE: Final = """
    SELECT 1 FROM json_each({}.details, '$.publication_types') AS one
    WHERE one.value IN (SELECT value FROM json_each(?))
"""


def filter_sql(filters: ResolvedFilters, alias: str) -> tuple[str, list[int | str]]:
    """Return the filters as a condition on the row ``alias`` of ``papers``, and its parameters in order.

    Without filters the condition is ``"1"``. A paper without the value that a filter compares does not pass.
    """
    conditions: list[str] = []
    params: list[int | str] = []

    def add(condition: str, value: int | str) -> None:
        conditions.append(condition)
        params.append(value)

    for number_filter in NUMBER_FILTERS:
        if (limit := getattr(filters, number_filter.limit)) is not None:
            add(f"{alias}.{number_filter.column} {'>=' if number_filter.is_least else '<='} ?", limit)
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
    for types, operator in ((filters.types, "EXISTS"), (filters.not_types, "NOT EXISTS")):
        if types:
            add(f"{operator} ({_OF_TYPE.format(alias)})", json_list(types))
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
