"""``/v1/expand``: from a set of papers along their citations."""

from __future__ import annotations

from scholarbase.api.responding import Call
from scholarbase.api.routes import add, resource
from scholarbase.models.requests import ExpandBody
from scholarbase.models.responses import ExpandResponse
from scholarbase.tools.definitions import tool_named

router = resource("/v1/expand", "papers")
TOOL = tool_named("expand_papers")

add(
    router,
    "POST",
    "",
    Call(TOOL.name, ExpandBody, TOOL.run, lambda body: [TOOL.arguments_for(body)]),
    name="expand",
    response=ExpandResponse,
    summary="Neighbours of a set of papers",
    description="The papers that the seeds reach within one or two hops, each once, with how many seeds reach it; "
    "those that most seeds reach come first. Filters apply to the neighbours.",
)
