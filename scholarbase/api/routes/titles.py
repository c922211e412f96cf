"""``/v1/title-match``: papers by their titles."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from scholarbase.api.responding import respond
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.api.strict import separated
from scholarbase.models.schemas import TitleBatchBody, TitleParameters, TitlesAnswer, TitlesBatchAnswer
from scholarbase.tools.definitions import run_titles, tool_named

router = resource("/v1/title-match", "titles")
TOOL = tool_named("match_titles")


@router.get("", response_model=None, responses={200: {"model": TitlesAnswer}}, summary="Match a title")
async def match_title(
    request: Request, library: OpenLibrary, parameters: Annotated[TitleParameters, Query()]
) -> Response:
    """The papers with this title (score 1), then those with titles like it. No such paper is an empty list."""
    given = parameters.model_copy(update={"fields": separated(parameters.fields)})

    def run(asked: TitleParameters) -> dict[str, Any]:
        return library.match_title(
            asked.title, limit=asked.limit, min_score=asked.min_score, as_of=asked.as_of, fields=asked.fields
        ).to_dict()

    return await respond(
        request, library, TOOL.name, given, run, calls=lambda: [TOOL.given(given, titles=[given.title])]
    )


@router.post(
    "/batch", response_model=None, responses={200: {"model": TitlesBatchAnswer}}, summary="Match many titles"
)
async def match_titles(request: Request, library: OpenLibrary, body: TitleBatchBody) -> Response:
    """Many titles, answered in order: a list of matches for each, empty where there is none."""
    return await respond(
        request,
        library,
        TOOL.name,
        body,
        lambda asked: run_titles(library, asked),
        calls=lambda: [TOOL.given(body)],
    )
