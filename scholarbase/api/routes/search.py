"""Searches and counts of papers, title matches, and checks of references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scholarbase.api.routes import call, resource
from scholarbase.errors import EncoderError, LibraryError, PaperNotFound, RerankerError, VectorIndexError
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.facet_requests import FacetsParameters
from scholarbase.models.requests import SearchBatchBody, SearchBody, TitleBatchBody, TitleParameters
from scholarbase.models.responses import (
    CheckResponse,
    FacetsResponse,
    SearchBatchResponse,
    SearchResponse,
    TitleBatchResponse,
    TitleMatchResponse,
)
from scholarbase.search.library import Library
from scholarbase.tools.definitions import tool_named
from scholarbase.tools.responding import share_of

router = resource(
    "/v1/search", "search", PaperNotFound, LibraryError, EncoderError, RerankerError, VectorIndexError
)
counts = resource("/v1/facets", "search", PaperNotFound, LibraryError, EncoderError, VectorIndexError)
titles = resource("/v1/title-match", "titles", LibraryError)
references = resource("/v1/references", "references", LibraryError)
SEARCH = tool_named("search_papers")
MATCH = tool_named("match_titles")


@router.post(
    "",
    name="search_by_body",
    summary="Search with a JSON body",
    description="Like `GET /v1/search`, for questions and lists of ids that are too long for a URL.",
)
@router.get("", summary="Search")
@call(SEARCH)
def search(library: Library, request: SearchBody) -> SearchResponse:
    """Search for papers. Filters apply before each leg takes its first results, ties break by id, and the same request
    on the same snapshot returns the same bytes. Empty `results` mean that nothing matched."""
    return library.run(request)


def _each(body: SearchBatchBody) -> list[Mapping[str, Any]]:
    share = body.max_tokens and share_of(body.max_tokens, len(body.searches))
    options = {"max_tokens": share, "format": body.format}
    return [SEARCH.arguments_for(SearchBody.model_construct(**vars(one) | options)) for one in body.searches]


@router.post("/batch", summary="Search many questions")
@call(SEARCH, arguments=_each)
def search_batch(library: Library, request: SearchBatchBody) -> SearchBatchResponse:
    """Run many searches, in order. If one search fails, the batch fails, and the problem document names it. In a
    session, each search is a call."""
    return library.run_batch(request)


@counts.post(
    "",
    name="facets_by_body",
    summary="Count papers with a JSON body",
    description="Like `GET /v1/facets`, for questions and lists of ids that are too long for a URL.",
)
@counts.get("", summary="Count papers by year, category and venue")
@call()
def facets(library: Library, request: FacetsParameters) -> FacetsResponse:
    """Without `q` the counts are exact, over all papers that match the filters. With `q` they are over the first 1,000
    results of the search, or with `exact` over all papers that match in the full-text index."""
    return library.run_facets(request)


@titles.get("", summary="Match a title")
@call(MATCH, arguments=lambda request: [MATCH.arguments_for(request, titles=[request.title])])
def match_title(library: Library, request: TitleParameters) -> TitleMatchResponse:
    """The papers with this title (score 1), then papers with similar titles. Empty `results` mean that nothing
    matched."""
    return library.run_title(request)


@titles.post("/batch", summary="Match many titles")
@call(MATCH)
def match_titles(library: Library, request: TitleBatchBody) -> TitleBatchResponse:
    """Match many titles, in order: one list of matches per title, empty if nothing matched."""
    return library.run_titles(request)


@references.post("/check", summary="Check references")
@call(tool_named("check_references"))
def check_references(library: Library, request: CheckBody) -> CheckResponse:
    """The paper that each reference of a bibliography means, and where the two differ. A reference whose paper is not
    in this snapshot may still exist."""
    return library.run_check(request)


router.routes += [*titles.routes, *references.routes, *counts.routes]
