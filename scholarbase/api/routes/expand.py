"""``/v1/expand``: the neighbours of a set of papers in the citation graph."""

from __future__ import annotations

from scholarbase.api.responding import native_call
from scholarbase.api.routes import add, resource
from scholarbase.errors import LibraryError, PaperNotFound
from scholarbase.models.responses import ExpandResponse
from scholarbase.tools.definitions import tool_named

router = resource("/v1/expand", "papers", PaperNotFound, LibraryError)
TOOL = tool_named("expand_papers")

add(
    router,
    "POST",
    "",
    native_call(TOOL),
    name="expand",
    response=ExpandResponse,
    summary="Neighbours of a set of papers",
    description="The papers within one or two hops of the seeds, each once, with the number of seeds that reach it; "
    "those reached by most seeds come first. Filters apply to the neighbours.",
)
