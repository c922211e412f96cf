"""``/v1/facets``: the number of papers by year, category and venue."""

from __future__ import annotations

from scholarbase.api.routes import call, resource
from scholarbase.errors import EncoderError, LibraryError, PaperNotFound, VectorIndexError
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.responses import FacetsResponse
from scholarbase.search.library import Library

router = resource("/v1/facets", "search", PaperNotFound, LibraryError, EncoderError, VectorIndexError)


@router.post(
    "",
    name="facets_by_body",
    summary="Count papers with a JSON body",
    description="Like `GET /v1/facets`, for questions and lists of ids that are too long for a URL.",
)
@router.get("", summary="Count papers by year, category and venue")
@call()
def facets(library: Library, request: FacetsParameters) -> FacetsResponse:
    """Without `q` the counts are exact, over all papers that match the filters. With `q` they are over the first 1,000
    results of the search, or with `exact` over all papers that match in the full-text index."""
    return library.run_facets(request)
