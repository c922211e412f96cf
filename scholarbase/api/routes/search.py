"""``/v1/search``: search by words, by meaning, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scholarbase.api.routes import call, resource
from scholarbase.errors import EncoderError, LibraryError, PaperNotFound, RerankerError, VectorIndexError
from scholarbase.models.requests import SearchBatchBody, SearchBody
from scholarbase.models.responses import SearchBatchResponse, SearchResponse
from scholarbase.search.library import Library
from scholarbase.tools.definitions import tool_named
from scholarbase.tools.responding import share_of

router = resource(
    "/v1/search", "search", PaperNotFound, LibraryError, EncoderError, RerankerError, VectorIndexError
)
TOOL = tool_named("search_papers")


@router.post(
    "",
    name="search_by_body",
    summary="Search with a JSON body",
    description="Like `GET /v1/search`, for questions and lists of ids that are too long for a URL.",
)
@router.get("", summary="Search")
@call(TOOL)
def search(library: Library, request: SearchBody) -> SearchResponse:
    """Search for papers. Filters apply before each leg takes its first results, ties break by id, and the same request
    on the same snapshot returns the same bytes. Empty `results` mean that nothing matched."""
    return library.run(request)


def _each(body: SearchBatchBody) -> list[Mapping[str, Any]]:
    share = body.max_tokens and share_of(body.max_tokens, len(body.searches))
    options = {"max_tokens": share, "format": body.format}
    return [TOOL.arguments_for(SearchBody.model_construct(**vars(one) | options)) for one in body.searches]


@router.post("/batch", summary="Search many questions")
@call(TOOL, arguments=_each)
def search_batch(library: Library, request: SearchBatchBody) -> SearchBatchResponse:
    """Run many searches, in order. If one search fails, the batch fails, and the problem document names it. In a
    session, each search is a call."""
    return library.run_batch(request)
