"""Resolved filters: days as numbers, papers as catalogue ids, venues as keys."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResolvedFilters:
    """Conditions on papers. Every index applies all of them before it cuts its ranking to a limit.

    ``first_day`` and ``last_day`` are numbers ``yyyymmdd``: a paper passes when its whole range of possible days is
    within them. ``categories`` and ``venues`` pass when any value matches: a category as stored or its archive
    (``cs`` for ``cs.CL``), a venue by its key (:func:`venue_key`); ``statuses`` has
    values of :data:`.status.STATUSES`, () all of them. ``within`` and ``exclude`` are catalogue ids. With
    ``within`` or ``sets`` only those papers pass that are in ``within`` or in one of these sets.
    """

    first_day: int | None = None
    last_day: int | None = None
    categories: tuple[str, ...] = ()
    venues: tuple[str, ...] = ()
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
