"""``/v1/references/check``: the papers that references mean."""

from __future__ import annotations

from scholarbase.api.responding import native_call
from scholarbase.api.routes import add, resource
from scholarbase.errors import LibraryError
from scholarbase.models.responses import CheckResponse
from scholarbase.tools.definitions import tool_named

router = resource("/v1/references", "references", LibraryError)

add(
    router,
    "POST",
    "/check",
    native_call(tool_named("check_references")),
    name="check_references",
    response=CheckResponse,
    summary="Check references",
    description="The paper that each reference of a bibliography means, and where the two differ. A reference whose "
    "paper is not in this snapshot may still exist.",
)
