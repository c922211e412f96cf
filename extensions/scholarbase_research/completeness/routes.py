"""``/v1/completeness``, and the same estimate for a session."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from starlette.responses import Response

from scholarbase.api.responding import Call
from scholarbase.api.routes import OpenLibrary, json_response, problems, resource, route
from scholarbase.api.routes.sessions import SessionName, session_lines, visible_session
from scholarbase.errors import LibraryError, SessionNotFound, StorageError
from scholarbase_research.completeness.checking import Recall, RecallBody, run_recall
from scholarbase_research.completeness.sessions import SessionRecallBody, session_recall
from scholarbase_research.completeness.tool import ESTIMATE_RECALL

router: Final = resource("/v1", "completeness", LibraryError)

route(
    router,
    "POST /completeness",
    Call(run_recall, RecallBody, Recall, ESTIMATE_RECALL),
    name="estimate_recall",
    summary="Estimate how many relevant papers are unseen",
    description="Searches for a question are compared with each other and with papers known from elsewhere.",
)


@router.post(
    "/sessions/{name}/completeness",
    response_model=None,
    responses=problems(SessionNotFound, StorageError),
    summary="Estimate how many relevant papers a session has not seen",
)
def session_completeness(
    request: Request, library: OpenLibrary, name: SessionName, body: SessionRecallBody
) -> Response:
    """The calls of the session are compared. `relevant` is by default its last answer."""
    store, facts = visible_session(request, name)
    lines = session_lines(store, facts.session, "report")
    return json_response(session_recall(library, facts.session, lines, body.relevant, body.known).to_dict())
