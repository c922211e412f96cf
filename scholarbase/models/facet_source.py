"""The method for counts of papers that ``Library`` and ``Client`` share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from scholarbase.models.author_source import arguments_of
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.limits import DEFAULT_FACET_VALUES, Engine, Mode, Syntax
from scholarbase.models.responses import FacetsResponse


class FacetSource(ABC):
    """Counts of papers: keyword arguments to a request. Subclasses run it."""

    @abstractmethod
    def run_facets(self, request: FacetsParameters) -> FacetsResponse: ...

    def facets(
        self,
        q: str | None = None,
        *,
        syntax: Syntax = "auto",
        mode: Mode | None = None,
        engine: Engine | None = None,
        min_similarity: float | None = None,
        exact: bool = False,
        limit: int = DEFAULT_FACET_VALUES,
        from_: str | None = None,
        to: str | None = None,
        category: Sequence[str] = (),
        venue: Sequence[str] = (),
        author: Sequence[str] = (),
        min_citations: int | None = None,
        status: Sequence[str] = (),
        exclude: Sequence[str] = (),
        exclude_ids: Sequence[str] = (),
        within: Sequence[str] | None = None,
        as_of: str | None = None,
        timeout: float | None = None,
    ) -> FacetsResponse:
        """The number of papers by year, category and venue.

        Args:
            q: a question, words or query syntax. None counts all papers that match the filters.
            syntax, mode, engine, min_similarity: as in ``search``, for the search whose first 1,000 results are
                counted.
            exact: count all papers that match ``q`` in the full-text index.
            limit: the number of categories and of venues, 1 to 1000. Years are all listed.
            from_, to, category, venue, author, min_citations, status, exclude, exclude_ids, within, as_of: as in
                ``search``.
            timeout: seconds that the request may take.

        Raises:
            InvalidRequest: an argument is invalid, or has no effect without ``q``.
            UnsupportedMode, NothingLeft, PaperNotFound, EncoderError, VectorIndexError, LibraryCorrupt: as in
                ``search``.
            TimeLimit: counting took longer than the time limit.
        """
        return self.run_facets(FacetsParameters.of(**arguments_of(locals())))
