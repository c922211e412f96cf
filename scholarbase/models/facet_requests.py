"""Requests for the number of papers by year, category and venue."""

from __future__ import annotations

from typing import Any, Final, Self

from pydantic import Field, model_validator

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import sent
from scholarbase.models.limits import DEFAULT_FACET_VALUES, FACET_RESULTS, MAX_QUERY_LENGTH
from scholarbase.models.requests import FILTER_NAMES, RANKING_NAMES, Filters, Ranked, SearchRequest, Timed
from scholarbase.models.values import Limit

_OF_QUERIES: Final = (*RANKING_NAMES, "exact")
"""Names that have no effect without ``q``."""
_OF_EXACT: Final = {
    "mode": "sparse",
    "engine": "fts5",
    "fusion": None,
    "graph_weight": None,
    "min_similarity": None,
}
"""The ranking of ``exact``."""


class FacetsParameters(Filters, Ranked, Timed):
    """Counts of papers by year, category and venue.

    Without ``q`` all papers that match the filters are counted; with ``q`` the first ``FACET_RESULTS`` results of the
    search, or with ``exact`` all papers that match ``q`` in the full-text index.

    Raises:
        InvalidRequest: a value is invalid.
    """

    q: str | None = Field(
        default=None,
        description="A question, words or query syntax, as in `/v1/search`; by default all papers are counted.",
        examples=["string theory"],
        json_schema_extra={"minLength": 1, "maxLength": MAX_QUERY_LENGTH},
    )
    exact: bool = Field(
        default=False,
        description=f"Count all papers that match `q` in the full-text index, instead of the first {FACET_RESULTS:,} "
        "results.",
        examples=[True],
    )
    limit: Limit = Field(
        default=DEFAULT_FACET_VALUES,
        description="The number of categories and of venues: 1 to 1000. Years are all listed.",
        examples=[20],
    )

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        if self.q is None:
            for name in _OF_QUERIES:
                if getattr(self, name) != FacetsParameters.model_fields[name].default:
                    raise InvalidRequest(
                        f"{name} {sent(getattr(self, name))} has no effect without q: send a q, or leave it out. "
                        "Without q all papers that match the filters are counted."
                    )
            return self
        if self.exact:
            for name, only in _OF_EXACT.items():
                value = getattr(self, name)
                if value not in (None, only):
                    raise InvalidRequest(
                        f"{name} {value!r} cannot be combined with exact, which counts the papers that match q in the "
                        "full-text index: leave one out."
                    )
        self.search()  # checks q and what is combined with it
        return self

    def search(self) -> SearchRequest:
        """The search whose results are counted; with ``exact`` that of the full-text index. Requires ``q``."""
        names = self.model_fields_set.intersection((*FILTER_NAMES, *RANKING_NAMES))
        changed: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.exact:
            changed |= _OF_EXACT
        return SearchRequest(q=self.q or "", limit=FACET_RESULTS, fields=("id",), **changed)
