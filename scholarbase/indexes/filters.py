"""Filters once the library has looked up what their names mean: days as numbers, ids as integers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResolvedFilters:
    """What a paper must satisfy, in the catalogue's own terms. Every index applies all of it before its cut.

    ``first_day`` and ``last_day`` are numbers ``yyyymmdd``: a paper passes when its own span of possible days
    lies wholly inside. ``categories`` and ``venues`` pass when any value matches: a category as it is stored or
    as an archive (``cs`` for ``cs.CL``), a venue by its key (:func:`venue_key`). ``within`` and ``exclude``
    are catalogue ids.
    """

    first_day: int | None = None
    last_day: int | None = None
    categories: tuple[str, ...] = ()
    venues: tuple[str, ...] = ()
    min_citations: int | None = None
    within: frozenset[int] | None = None
    exclude: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self == NO_FILTERS


NO_FILTERS = ResolvedFilters()


def venue_key(name: str) -> str:
    """A venue's name as it is compared: lower case, single spaces."""
    return " ".join(name.casefold().split())


def category_keys(categories: list[str]) -> list[str]:
    """Each category and its archive, once: ``['cs.CL', 'cs.LG']`` gives ``['cs', 'cs.CL', 'cs.LG']``."""
    keys = set(categories)
    keys.update(category.split(".", 1)[0] for category in categories)
    return sorted(keys)


_LOWER_CASE_CLASSES = frozenset({"cond-mat", "physics"})


def category_forms(category: str) -> set[str]:
    """A category as it was written and as arXiv writes it: ``CS.cl`` is ``cs.CL``, ``Physics.Flu-dyn`` is
    ``physics.flu-dyn`` (https://arxiv.org/category_taxonomy)."""
    archive, dot, subject = category.strip().partition(".")
    archive = archive.lower()
    subject = subject.lower() if archive in _LOWER_CASE_CLASSES else subject.upper()
    return {category, f"{archive}{dot}{subject}"}
