"""``/v1/search``: by words, by meaning, or both."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from scholarbase.api.answers import answer, answered
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.schemas import (
    SearchAnswer,
    SearchBatchAnswer,
    SearchBatchBody,
    SearchBody,
    SearchParameters,
)
from scholarbase.api.strict import separated
from scholarbase.library import Library
from scholarbase.models import SearchRequest, in_batch

router = resource("/v1/search", "search")


@router.get("", response_model=None, responses={200: {"model": SearchAnswer}}, summary="Search")
async def search(library: OpenLibrary, parameters: Annotated[SearchParameters, Query()]) -> Response:
    """Search for papers. Filters apply before each leg takes its best, ties break by id, and the same request
    on the same snapshot gets the same bytes. An empty `results` means that nothing matched."""
    split = {"fields": separated(parameters.fields), "category": separated(parameters.category)}
    return await _run(library, parameters.model_copy(update=split).to_request())


@router.post(
    "", response_model=None, responses={200: {"model": SearchAnswer}}, summary="Search, by a JSON body"
)
async def search_by_body(library: OpenLibrary, body: SearchBody) -> Response:
    """The same as `GET /v1/search`, for questions and lists of ids that are too long for a URL."""
    return await _run(library, body.to_request())


@router.post(
    "/batch", response_model=None, responses={200: {"model": SearchBatchAnswer}}, summary="Many searches"
)
def search_batch(library: OpenLibrary, body: SearchBatchBody) -> Response:
    """Many searches, answered in order. One that cannot be answered fails the batch, and the problem says which."""
    requests = []
    for search in body.searches:
        with in_batch("search", search.q):
            requests.append(search.to_request())
    answers = library.search_batch(requests)
    return answer({"snapshot": library.snapshot_id, "results": [a.to_dict() for a in answers]})


async def _run(library: Library, request: SearchRequest) -> Response:
    return await answered(lambda: library.run(request).to_dict(), brief=library.is_brief(request))
