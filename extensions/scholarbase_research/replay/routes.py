"""``/v1/sessions/{name}/replay``."""

from __future__ import annotations

from typing import Final

from fastapi import Depends, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from scholarbase.api.routes import OpenLibrary, json_response, problems, resource
from scholarbase.api.routes.sessions import SessionName, admitted, session_lines, visible_session
from scholarbase.deadlines import check
from scholarbase.errors import SessionNotFound, StorageError
from scholarbase_research.replay.calls import Difference, differences, replay

router: Final = resource("/v1/sessions", "sessions", StorageError)
router.dependencies.append(Depends(admitted, scope="function"))


class ReplayDifference(BaseModel):
    call: int = Field(description="The number of the call.")
    tool: str
    what: str = Field(description="What differs first: error, ids or scores.")
    message: str = Field(description="What was recorded, and what came now.")


class ReplayResponse(BaseModel):
    session: str
    snapshot: str = Field(description="The snapshot on which the calls ran again.")
    recorded_on: list[str] = Field(description="The snapshots on which they were recorded.")
    calls: int = Field(description="The calls of the session.")
    replayed: int = Field(description="Those that ran again: neither failed calls nor the agent's answers.")
    differences: list[ReplayDifference]


@router.post(
    "/{name}/replay",
    response_model=ReplayResponse,
    responses=problems(SessionNotFound),
    summary="Run a session's calls again",
)
def replay_session(request: Request, library: OpenLibrary, name: SessionName) -> Response:
    """Each call of the session runs again in its order, and its ids and scores are compared with the recorded ones.
    Nothing is recorded. Name the session's snapshot in `X-ScholarBase-Snapshot`, if the server still holds it."""
    store, facts = visible_session(request, name)
    lines = list(session_lines(store, facts.session, "replay"))
    ran = 0
    recorded_on: dict[str, None] = {}
    all_differences: list[Difference] = []
    for replayed in replay(library, facts.session, lines):
        # A call that was stopped at the limit is no difference.
        check("The replay", f'run "scholarbase session replay {name}"')
        ran += replayed.ran
        recorded_on.setdefault(replayed.recorded.get("snapshot", library.snapshot_id))
        all_differences += differences([replayed])
    listed = [
        {"call": one.call, "tool": one.tool, "what": one.what, "message": str(one)} for one in all_differences
    ]
    return json_response(
        {
            "session": name,
            "snapshot": library.snapshot_id,
            "recorded_on": list(recorded_on),
            "calls": len(lines),
            "replayed": ran,
            "differences": listed,
        }
    )
