"""``/v1/expand``: from a set of papers along their citations."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from scholarbase.api.responding import respond
from scholarbase.api.routes import OpenLibrary, resource
from scholarbase.models.schemas import ExpandAnswer, ExpandBody
from scholarbase.tools.definitions import run_expand, tool_named

router = resource("/v1/expand", "papers")
TOOL = tool_named("expand_papers")


@router.post(
    "", response_model=None, responses={200: {"model": ExpandAnswer}}, summary="Neighbours of a set of papers"
)
async def expand(request: Request, library: OpenLibrary, body: ExpandBody) -> Response:
    """Each paper that the seeds reach within one or two hops, once, with how many seeds reach it; those that
    most of them reach come first. Filters hold for the neighbours."""
    return await respond(
        request,
        library,
        TOOL.name,
        body,
        lambda asked: run_expand(library, asked),
        calls=lambda: [TOOL.given(body)],
    )
