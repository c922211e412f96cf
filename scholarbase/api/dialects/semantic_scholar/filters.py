"""The filters of the Graph's searches as those of native searches, and as conditions on papers for the others."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from scholarbase.api.dialects.base import DialectRequest
from scholarbase.api.dialects.describing import pdf_of
from scholarbase.api.dialects.semantic_scholar.papers import fields_of_study
from scholarbase.api.dialects.semantic_scholar.parameters import listed, unacceptable
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import date_bounds
from scholarbase.models.limits import MAX_NAME_LENGTH
from scholarbase.models.papers import Paper

DATES: Final = frozenset(("year", "publicationDateOrYear"))
PARAMETERS: Final = DATES | frozenset(
    (
        "venue",
        "fieldsOfStudy",
        "minCitationCount",
        "openAccessPdf",
        "publicationTypes",
    )
)
MAX_NAMES: Final = 100
"""Values of a list."""
_COMPACT: Final = re.compile(r"\A(\d{4})(\d\d)(\d\d)\Z", re.ASCII)
_YEARS: Final = re.compile(r"(\d{4})?(-)?(\d{4})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a request.

    Args:
        native: arguments of a native search.
        fields_of_study, publication_types: the papers' must have one of these, in lower case; empty for any.
        with_pdf: the paper must have a PDF.
    """

    native: dict[str, Any]
    fields_of_study: frozenset[str] = frozenset()
    publication_types: frozenset[str] = frozenset()
    with_pdf: bool = False

    @property
    def keep(self) -> Callable[[Paper], bool] | None:
        """Whether a paper passes the filters that native searches do not have; None if there are none."""
        return self._passes if self.fields_of_study or self.publication_types or self.with_pdf else None

    @property
    def needed(self) -> tuple[str, ...]:
        """The native fields that ``keep`` reads."""
        return ("external_ids", "fields_of_study", "categories", "publication_types") if self.keep else ()

    def _passes(self, paper: Paper) -> bool:
        fields = {one.casefold() for one in fields_of_study(paper)}
        types = {_type(one) for one in paper.publication_types}
        return (
            (not self.fields_of_study or not self.fields_of_study.isdisjoint(fields))
            and (not self.publication_types or not self.publication_types.isdisjoint(types))
            and (not self.with_pdf or pdf_of(paper) is not None)
        )


def filters_of(request: DialectRequest) -> Filters:
    """The filters in the URL.

    Raises:
        InvalidRequest: a value is malformed, in the original's words.
    """
    native: dict[str, Any] = dates_of(request)
    if venues := listed(request, "venue", MAX_NAMES):
        if any(len(one) > MAX_NAME_LENGTH for one in venues):
            raise unacceptable("venue", ",".join(venues))
        native["venue"] = venues
    if text := request.text("minCitationCount").strip():
        if not text.isdecimal() or len(text) > 18:
            raise unacceptable("minCitationCount", text)
        if int(text):  # 0 is no limit, and clients send it
            native["min_citations"] = int(text)
    return Filters(
        native,
        frozenset(name.casefold() for name in listed(request, "fieldsOfStudy", MAX_NAMES)),
        frozenset(_type(name) for name in listed(request, "publicationTypes", MAX_NAMES)),
        "openAccessPdf" in request.query,
    )


def dates_of(request: DialectRequest) -> dict[str, str]:
    """The first and last date, ``from_`` and ``to``, of ``year`` and ``publicationDateOrYear``. Raises as
    :func:`filters_of`."""
    firsts: list[str] = []
    lasts: list[str] = []
    for name, read in (("year", _years), ("publicationDateOrYear", _dates)):
        text = request.text(name).strip()
        if not text:
            continue
        try:
            first, last = read(text)
            _ = [date_bounds(one) for one in (first, last) if one]
        except InvalidRequest:
            raise unacceptable(name, text) from None
        firsts += [first] if first else []
        lasts += [last] if last else []
    limits = {}
    if firsts:
        limits["from_"] = max(firsts, key=lambda text: date_bounds(text)[0])
    if lasts:
        limits["to"] = min(lasts, key=lambda text: date_bounds(text)[1])
    return limits


def _years(text: str) -> tuple[str, str]:
    """The first and last year of ``2019``, ``2016-2020``, ``2010-`` or ``-2015``; empty for none."""
    match = _YEARS.fullmatch(text)
    if match is None or not (match[1] or match[3]):
        raise InvalidRequest(f"{text!r} is not a year or a range of years.")
    return match[1] or "", match[3] or ("" if match[2] else match[1])


def _dates(text: str) -> tuple[str, str]:
    """The first and last date of ``2019-03`` or ``2016-03-05:2020``, each of which may be empty in a range.

    Clients write days without hyphens too.
    """
    first, colon, last = (_COMPACT.sub(r"\1-\2-\3", part.strip()) for part in text.partition(":"))
    return first, last if colon else first


def _type(name: str) -> str:
    """A publication type in one form: the original writes ``JournalArticle`` and ``Journal Article``."""
    return name.replace(" ", "").casefold()
