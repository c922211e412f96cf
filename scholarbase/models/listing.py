"""Requests that list papers by conditions, whole and in any order, and their responses."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, Self, get_args

import msgspec
from pydantic import AfterValidator, Field, model_validator

from scholarbase.errors import InvalidRequest
from scholarbase.models.limits import DEFAULT_RESULTS, MAX_IDS, MAX_QUERY_LENGTH
from scholarbase.models.papers import PAPER_FIELDS, Paper
from scholarbase.models.requests import Filters, Timed
from scholarbase.models.values import FieldNames, Limit, Offset

MAX_CONDITIONS: Final = 100
"""Conditions of one request."""
MAX_RANGES: Final = 100
"""Ranges of one condition."""

RangeOf = Literal["year", "first_day", "last_day", "citation_count", "reference_count"]
IdsOf = Literal["id", "cites", "cited_by"]
Presence = Literal["abstract", "arxiv", "doi", "any_doi", "preprint", "references", "authors"]
ListSort = Literal[
    "-relevance", "relevance", "-date", "date", "-citation_count", "citation_count",
    "-reference_count", "reference_count", "-title", "title", "-id", "id",
]  # fmt: skip
"""``-`` is descending. ``relevance`` requires ``q``; ``id`` is the order of the library."""
LIST_SORTS: Final[tuple[ListSort, ...]] = get_args(ListSort)
_LATER: Final = ("citation_count", "reference_count")


class InRange(NamedTuple):
    """A number of the paper is in one of the ranges; their ends are included, None is open.

    ``first_day`` and ``last_day`` are the first and the last possible day of publication, as ``yyyymmdd``.
    """

    field: RangeOf
    ranges: tuple[tuple[int | None, int | None], ...]
    negated: bool = False


class Among(NamedTuple):
    """The paper is one of these (``id``), cites one of them (``cites``), or is cited by one (``cited_by``)."""

    field: IdsOf
    ids: tuple[str, ...]
    negated: bool = False


class Has(NamedTuple):
    """The paper has an abstract, an arXiv id, a DOI, references in the library, or authors.

    ``any_doi`` counts the DOIs that arXiv gives. A ``preprint`` has an arXiv id, and no other DOI than arXiv's.
    """

    field: Presence
    negated: bool = False


Condition = InRange | Among | Has


def _checked(conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidRequest(f"There are {len(conditions)} conditions: the maximum is {MAX_CONDITIONS}.")
    for one in conditions:
        if isinstance(one, InRange) and len(one.ranges) > MAX_RANGES:
            raise InvalidRequest(f"{one.field} has {len(one.ranges)} ranges: the maximum is {MAX_RANGES}.")
    if (ids := sum(len(one.ids) for one in conditions if isinstance(one, Among))) > MAX_IDS:
        raise InvalidRequest(f"The conditions have {ids} ids: the maximum in one request is {MAX_IDS}.")
    return conditions


class ListRequest(Filters, Timed):
    """All papers that match ``q``, pass the filters and meet every condition.

    ``q`` is query syntax (docs/search-syntax.md); None lists papers of any text. Ids of a condition that the library
    does not hold are ignored. Papers without a value come last in the order of it; ties break by the library's order.

    Raises:
        InvalidRequest: a value is invalid.
    """

    q: Annotated[str, Field(max_length=MAX_QUERY_LENGTH)] | None = None
    conditions: Annotated[tuple[Condition, ...], AfterValidator(_checked)] = ()
    sort: tuple[ListSort, ...] = ("-date",)
    limit: Limit = DEFAULT_RESULTS
    offset: Offset = 0
    fields: FieldNames = PAPER_FIELDS

    @model_validator(mode="after")
    def _check_sort(self) -> Self:
        later = [name for name in self.sort if name.removeprefix("-") in _LATER]
        later += [c.field for c in self.conditions if isinstance(c, InRange) and c.field in _LATER]
        if self.as_of is not None and later:
            raise InvalidRequest(
                f"{later[0].removeprefix('-')} cannot be combined with as_of {self.as_of!r}: the snapshot has only its "
                "own, later counts. Leave one of them out."
            )
        if self.q is None and any(name.endswith("relevance") for name in self.sort):
            raise InvalidRequest("sort by relevance requires q: send words, or sort by date.")
        return self


class ListResponse(msgspec.Struct, frozen=True):
    """A page of a list. ``scores`` are those of BM25 with ``q``, else empty."""

    snapshot: str
    total: int
    next_offset: int | None
    papers: tuple[Paper, ...]
    scores: tuple[float, ...] = ()
