"""``/v1/facets``: the number of papers by year, category and venue."""

from __future__ import annotations

from scholarbase.api.responding import Call
from scholarbase.api.routes import add, resource
from scholarbase.errors import EncoderError, LibraryError, PaperNotFound, VectorIndexError
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.responses import FacetsResponse
from scholarbase.search.library import Library

router = resource("/v1/facets", "search", PaperNotFound, LibraryError, EncoderError, VectorIndexError)
FACETS = Call(None, FacetsParameters, Library.run_facets)

for method, name, summary, description in (
    (
        "GET",
        "facets",
        "Count papers by year, category and venue",
        "Without `q` the counts are exact, over all papers that match the filters. With `q` they are over the first "
        "1,000 results of the search, or with `exact` over all papers that match in the full-text index.",
    ),
    (
        "POST",
        "facets_by_body",
        "Count papers with a JSON body",
        "Like `GET /v1/facets`, for questions and lists of ids that are too long for a URL.",
    ),
):
    add(
        router,
        method,
        "",
        FACETS,
        name=name,
        response=FacetsResponse,
        summary=summary,
        description=description,
    )
