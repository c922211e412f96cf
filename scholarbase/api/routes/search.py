"""``/v1/search``: search by words, by meaning, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scholarbase.api.responding import Call, native_call
from scholarbase.api.routes import add, resource
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
SEARCH = native_call(TOOL)


def _each(body: SearchBatchBody) -> list[Mapping[str, Any]]:
    share = body.max_tokens and share_of(body.max_tokens, len(body.searches))
    options = {"max_tokens": share, "format": body.format}
    return [TOOL.arguments_for(SearchBody.model_construct(**vars(one) | options)) for one in body.searches]


add(
    router,
    "GET",
    "",
    SEARCH,
    name="search",
    response=SearchResponse,
    summary="Search",
    description="Search for papers. Filters apply before each leg takes its first results, ties break by id, and the "
    "same request on the same snapshot returns the same bytes. Empty `results` mean that nothing matched.",
)
add(
    router,
    "POST",
    "",
    SEARCH,
    name="search_by_body",
    response=SearchResponse,
    summary="Search with a JSON body",
    description="Like `GET /v1/search`, for questions and lists of ids that are too long for a URL.",
)
add(
    router,
    "POST",
    "/batch",
    Call(TOOL.name, SearchBatchBody, Library.run_batch, _each),
    name="search_batch",
    response=SearchBatchResponse,
    summary="Search many questions",
    description="Run many searches, in order. If one search fails, the batch fails, and the problem document names it. "
    "In a session, each search is a call.",
)
