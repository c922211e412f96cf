"""``/v1/expand``: the neighbours of a set of papers in the citation graph."""

from __future__ import annotations

from scholarbase.api.routes import call, resource
from scholarbase.errors import LibraryError, PaperNotFound
from scholarbase.models.requests import ExpandBody
from scholarbase.models.responses import ExpandResponse
from scholarbase.search.library import Library
from scholarbase.tools.definitions import tool_named

router = resource("/v1/expand", "papers", PaperNotFound, LibraryError)


@router.post("", summary="Neighbours of a set of papers")
@call(tool_named("expand_papers"))
def expand(library: Library, request: ExpandBody) -> ExpandResponse:
    """The papers within one or two hops of the seeds, each once, with the number of seeds that reach it; those reached
    by most seeds come first. Filters apply to the neighbours."""
    return library.run_expand(request)
