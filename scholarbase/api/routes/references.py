"""``/v1/references/check``: the papers that references mean."""

from __future__ import annotations

from scholarbase.api.routes import call, resource
from scholarbase.errors import LibraryError
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.responses import CheckResponse
from scholarbase.search.library import Library
from scholarbase.tools.definitions import tool_named

router = resource("/v1/references", "references", LibraryError)


@router.post("/check", summary="Check references")
@call(tool_named("check_references"))
def check_references(library: Library, request: CheckBody) -> CheckResponse:
    """The paper that each reference of a bibliography means, and where the two differ. A reference whose paper is not
    in this snapshot may still exist."""
    return library.run_check(request)
