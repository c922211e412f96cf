"""``/v1/admin``: what an operator does with a running server. :mod:`scholarbase.api.access.guard` checks the key."""

from __future__ import annotations

from anyio import to_thread
from fastapi import Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from scholarbase.api.routes import json_response, problems, resource
from scholarbase.errors import Forbidden, InvalidRequest, SwapFailed

router = resource("/v1/admin", "admin")


class ReloadResponse(BaseModel):
    snapshot: str = Field(description="The snapshot that is served now.")
    previous: str = Field(description="The snapshot that was served before.")
    changed: bool = Field(description="Whether they differ.")
    held: list[str] = Field(description="The snapshots that requests may name, the newest first.")


@router.post(
    "/reload",
    response_model=ReloadResponse,
    responses=problems(SwapFailed, Forbidden),
    summary="Serve the newest library",
)
async def reload(request: Request) -> Response:
    """Serve the library that the server's `--library` names now: the target of a link, or the newest in a folder. The
    response is sent when every worker serves it. If it cannot be served, the old one is, and the error names the
    reason. A server without keys refuses this: send it SIGHUP, or start it with `--watch`."""
    if await request.body():
        raise InvalidRequest("A reload has no body: the server takes the library that its --library names.")
    state = request.app.state
    if not state.has_keys:
        raise Forbidden(
            "A server without keys has no admin keys: send it SIGHUP, start it with --watch, or create an admin key."
        )
    if state.reload is None:
        raise SwapFailed("This server was not started from a path, so it has no other library to serve.")
    # The swap goes on if the client disconnects.
    return json_response(
        await to_thread.run_sync(state.reload, limiter=state.reloading, abandon_on_cancel=True)
    )
