"""The filters of the Graph's searches: as those of native searches, and all as conditions on papers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import date_bounds
from scholarbase.models.limits import MAX_NAME_LENGTH
from scholarbase_dialects.base import DialectRequest, years_of
from scholarbase_dialects.listing.conditions import (
    ArxivIds,
    AtVenue,
    Categories,
    Condition,
    Days,
    Either,
    Has,
    Labels,
    Number,
    Without,
    every,
)
from scholarbase_dialects.semantic_scholar.papers import archives_of
from scholarbase_dialects.semantic_scholar.parameters import listed, unacceptable

DATES: Final = frozenset(("year", "publicationDateOrYear"))
PARAMETERS: Final = DATES | frozenset(
    ("venue", "fieldsOfStudy", "minCitationCount", "openAccessPdf", "publicationTypes")
)
MAX_NAMES: Final = 100
"""Values of a list."""
_COMPACT: Final = re.compile(r"\A(\d{4})(\d\d)(\d\d)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a request.

    Args:
        native: arguments of a native search.
        others: those that native searches do not have, by the names of parameters.
        values: the values of these parameters.
    """

    native: dict[str, Any]
    others: dict[str, Condition]
    values: dict[str, Any]

    @property
    def recorded(self) -> dict[str, Any]:
        """The arguments that a session records."""
        native = {name.rstrip("_"): value for name, value in self.native.items()}
        return {**native, **{name: self.values[name] for name in self.others}}

    @property
    def conditions(self) -> list[Condition]:
        """All filters."""
        first, last = self.native.get("from_"), self.native.get("to")
        least, venues = self.native.get("min_citations"), self.native.get("venue")
        return [
            *([Days(first=date_bounds(first)[0])] if first else []),
            *([Days(last=date_bounds(last)[1])] if last else []),
            *([Number("citation_count", least)] if least is not None else []),
            *([AtVenue(tuple(venues))] if venues else []),
            *self.others.values(),
        ]


def filters_of(request: DialectRequest) -> Filters:
    """The filters in the URL.

    Raises:
        InvalidRequest: a value is malformed, in the original's words.
    """
    native: dict[str, Any] = dates_of(request)
    if venues := listed(request, "venue", MAX_NAMES):
        if any(len(venue) > MAX_NAME_LENGTH for venue in venues):
            raise unacceptable("venue", ",".join(venues))
        native["venue"] = venues
    if text := request.text("minCitationCount").strip():
        if not text.isdecimal() or len(text) > 18:
            raise unacceptable("minCitationCount", text)
        if int(text):  # 0 is no limit, and clients send it
            native["min_citations"] = int(text)
    return with_labels(request, native)


def with_labels(request: DialectRequest, native: dict[str, Any]) -> Filters:
    """Native filters, and those in the URL by fields of study, types and open access. Raises as :func:`filters_of`."""
    others: dict[str, Condition] = {}
    values: dict[str, Any] = {}
    if fields := listed(request, "fieldsOfStudy", MAX_NAMES):
        archives = archives_of({field.casefold() for field in fields})
        of_categories = every([Without(Has("fields_of_study")), Categories(archives)])
        values["fieldsOfStudy"] = fields
        others["fieldsOfStudy"] = Either((Labels("fields_of_study", tuple(fields)), of_categories))
    if types := listed(request, "publicationTypes", MAX_NAMES):
        values["publicationTypes"] = types
        others["publicationTypes"] = Labels("publication_types", tuple(types))
    if "openAccessPdf" in request.query:
        values["openAccessPdf"] = True
        others["openAccessPdf"] = ArxivIds()
    return Filters(native, others, values)


def dates_of(request: DialectRequest) -> dict[str, str]:
    """The first and last date, ``from_`` and ``to``, of ``year`` and ``publicationDateOrYear``, the
    strictest of all values. Raises as :func:`filters_of`."""
    firsts: list[str] = []
    lasts: list[str] = []
    for name, read in (("year", years_of), ("publicationDateOrYear", _dates)):
        for text in map(str.strip, request.query.get(name, ())):
            if not text:
                continue
            if (limits := read(text)) is None:
                raise unacceptable(name, text)
            first, last = limits
            try:
                _ = [date_bounds(day) for day in (first, last) if day]
            except InvalidRequest:
                raise unacceptable(name, text) from None
            firsts += [first] if first else []
            lasts += [last] if last else []
    dates = {}
    if firsts:
        dates["from_"] = max(firsts, key=lambda text: date_bounds(text)[0])
    if lasts:
        dates["to"] = min(lasts, key=lambda text: date_bounds(text)[1])
    return dates


def _dates(text: str) -> tuple[str, str]:
    """The first and last date of ``2019-03`` or ``2016-03-05:2020``, each of which may be empty in a range.

    Clients write days without hyphens too.
    """
    first, colon, last = (_COMPACT.sub(r"\1-\2-\3", part.strip()) for part in text.partition(":"))
    return first, last if colon else first
