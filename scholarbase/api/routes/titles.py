"""``/v1/title-match``: papers by their titles."""

from __future__ import annotations

from scholarbase.api.routes import call, resource
from scholarbase.errors import LibraryError
from scholarbase.models.requests import TitleBatchBody, TitleParameters
from scholarbase.models.responses import TitleBatchResponse, TitleMatchResponse
from scholarbase.search.library import Library
from scholarbase.tools.definitions import tool_named

router = resource("/v1/title-match", "titles", LibraryError)
TOOL = tool_named("match_titles")


@router.get("", summary="Match a title")
@call(
    TOOL,
    arguments=lambda request: [TOOL.arguments_for(request, titles=[request.title])],
)
def match_title(library: Library, request: TitleParameters) -> TitleMatchResponse:
    """The papers with this title (score 1), then papers with similar titles. Empty `results` mean that nothing
    matched."""
    return library.run_title(request)


@router.post("/batch", summary="Match many titles")
@call(TOOL)
def match_titles(library: Library, request: TitleBatchBody) -> TitleBatchResponse:
    """Match many titles, in order: one list of matches per title, empty if nothing matched."""
    return library.run_titles(request)
