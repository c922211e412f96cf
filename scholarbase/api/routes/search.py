"""``/v1/search``: by words, by meaning, or both."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from scholarbase.api.answers import answered
from scholarbase.api.responding import is_plain, respond
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.api.strict import separated
from scholarbase.models import in_batch
from scholarbase.models.schemas import (
    SearchAnswer,
    SearchBatchAnswer,
    SearchBatchBody,
    SearchBody,
    SearchParameters,
)
from scholarbase.search.library import Library
from scholarbase.tools.answering import share_of
from scholarbase.tools.definitions import run_search, tool_named

router = resource("/v1/search", "search")
TOOL = tool_named("search_papers")


@router.get("", response_model=None, responses={200: {"model": SearchAnswer}}, summary="Search")
async def search(
    request: Request, library: OpenLibrary, parameters: Annotated[SearchParameters, Query()]
) -> Response:
    """Search for papers. Filters apply before each leg takes its best, ties break by id, and the same request
    on the same snapshot gets the same bytes. An empty `results` means that nothing matched."""
    split = {"fields": separated(parameters.fields), "category": separated(parameters.category)}
    return await _search(request, library, parameters.model_copy(update=split))


@router.post(
    "", response_model=None, responses={200: {"model": SearchAnswer}}, summary="Search, by a JSON body"
)
async def search_by_body(request: Request, library: OpenLibrary, body: SearchBody) -> Response:
    """The same as `GET /v1/search`, for questions and lists of ids that are too long for a URL."""
    return await _search(request, library, body)


@router.post(
    "/batch", response_model=None, responses={200: {"model": SearchBatchAnswer}}, summary="Many searches"
)
async def search_batch(request: Request, library: OpenLibrary, body: SearchBatchBody) -> Response:
    """Many searches, answered in order. One that cannot be answered fails the batch, and the problem says which. In a
    session each is a call of its own."""

    def run(asked: SearchBatchBody) -> dict[str, Any]:
        requests = []
        for one in asked.searches:
            with in_batch("search", one.q):
                requests.append(one.to_request())
        answers = library.search_batch(requests)
        return {"snapshot": library.snapshot_id, "results": [a.to_dict() for a in answers]}

    def calls() -> list[dict[str, Any]]:
        share = body.max_tokens and share_of(body.max_tokens, len(body.searches))
        options = {"max_tokens": share, "format": body.format}
        return [TOOL.given(SearchBody.model_construct(**{**vars(one), **options})) for one in body.searches]

    return await respond(request, library, TOOL.name, body, run, calls=calls)


async def _search(request: Request, library: Library, parameters: SearchParameters) -> Response:
    if is_plain(request, parameters):
        asked = parameters.to_request()
        return await answered(lambda: library.run(asked).to_dict(), brief=library.is_brief(asked))
    return await respond(
        request,
        library,
        TOOL.name,
        parameters,
        lambda asked: run_search(library, asked),
        calls=lambda: [TOOL.given(parameters)],
    )
