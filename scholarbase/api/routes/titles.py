"""``/v1/title-match``: papers by their titles."""

from __future__ import annotations

from scholarbase.api.responding import Call, native_call
from scholarbase.api.routes import add, resource
from scholarbase.errors import LibraryError
from scholarbase.models.requests import TitleParameters
from scholarbase.models.responses import TitleBatchResponse, TitleMatchResponse
from scholarbase.search.library import Library
from scholarbase.tools.definitions import tool_named

router = resource("/v1/title-match", "titles", LibraryError)
TOOL = tool_named("match_titles")

add(
    router,
    "GET",
    "",
    Call(
        TOOL.name,
        TitleParameters,
        Library.run_title,
        lambda parameters: [TOOL.arguments_for(parameters, titles=[parameters.title])],
        Library.is_short_title,
    ),
    name="match_title",
    response=TitleMatchResponse,
    summary="Match a title",
    description="The papers with this title (score 1), then papers with similar titles. Empty `results` mean that "
    "nothing matched.",
)
add(
    router,
    "POST",
    "/batch",
    native_call(TOOL),
    name="match_titles",
    response=TitleBatchResponse,
    summary="Match many titles",
    description="Match many titles, in order: one list of matches per title, empty if nothing matched.",
)
