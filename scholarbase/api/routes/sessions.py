"""``/v1/sessions``: sessions, their trajectories and their reports."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Annotated, Final

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from scholarbase.api.recording import wait_for
from scholarbase.api.routes import OpenLibrary, json_response, problems, resource
from scholarbase.api.session_headers import IDEMPOTENCY_KEY, PARAMETERS, check_key, owner_of, store_of
from scholarbase.deadlines import check
from scholarbase.errors import InvalidRequest, SessionExists, SessionNotFound, StorageError
from scholarbase.identifiers import parse
from scholarbase.models.checks import check_ids
from scholarbase.models.paging import next_offset
from scholarbase.models.session_requests import ReportBody, SessionAnswerBody, SessionBody, SessionsParameters
from scholarbase.search.library import Library
from scholarbase.sessions.progress import MAX_RECORDED
from scholarbase.sessions.report import held_answers, report
from scholarbase.sessions.session import CallRecord, Limits, Session, now, session_key
from scholarbase.sessions.store import SessionFacts, SessionStore, not_found

MAX_READ: Final = 32_000_000
"""Bytes of the calls that a report or a replay reads. In memory they take several times as much."""


async def admitted(request: Request) -> AsyncIterator[None]:
    """Admit a request, which FastAPI runs in a thread of its own, as one of those that run at once."""
    async with request.app.state.admission.thread(request):
        yield


router = resource("/v1/sessions", "sessions", StorageError)
router.dependencies.append(Depends(admitted, scope="function"))
UNKNOWN: Final = problems(SessionNotFound)

SessionName = Annotated[str, Path(description="The session's name.")]


class SessionResponse(BaseModel):
    session: str
    query_id: str = Field(description="The id of the question; by default the session's name.")
    query: str | None
    as_of: str | None
    limits: dict[str, int] = Field(description="The limits that are set.")
    opened: str = Field(description="RFC 3339.")


class ListedSession(SessionResponse):
    calls: int
    used: str = Field(description="The time of the last call, RFC 3339.")
    lost: int = Field(description="Calls that could not be recorded.")


class SessionsResponse(BaseModel):
    total: int
    next_offset: int | None = Field(description="The `offset` of the next page; null on the last page.")
    results: list[ListedSession]


class RecordedCall(BaseModel):
    session: str
    call: int = Field(description="The number of the call.")


class ReportResponse(SessionResponse):
    """The cost and the findings of a session; docs/trajectories.md defines the figures."""

    calls: int
    rounds: int
    search_calls: int
    match_calls: int
    expand_calls: int
    inspect_calls: int
    failed_calls: int
    candidates: int
    recall: float | None = Field(description="Over all answers; null without answers.")
    recall_100: float | None
    recall_100_per_100: float | None
    seconds: float | None
    tokens: int | None
    recall_after: list[float] | None = Field(description="Recall after each call.")
    answers: int = Field(description="How many were named for this report, not what the agent answered.")
    answers_absent: list[str] = Field(description="Answers that the library does not hold.")


@router.post(
    "",
    status_code=201,
    response_model=SessionResponse,
    responses=problems(SessionExists),
    summary="Open a session",
)
async def open_session(request: Request, body: SessionBody) -> Response:
    """Open a session with a question, a cut-off date or limits. A session without any of these needs no opening: the
    first call with the header `X-ScholarBase-Session` opens it."""
    session = Session(
        body.session if body.session is not None else secrets.token_hex(8),
        query_id=body.query_id or "",
        query=body.query,
        as_of=body.as_of,
        limits=Limits(**body.limits.model_dump()) if body.limits is not None else Limits(),
        owner=owner_of(request.scope),
    )
    opened = await wait_for(store_of(request.app.state).open(session))
    made = json_response(opened.to_dict())
    made.status_code = 201
    return made


@router.get("", response_model=SessionsResponse, summary="List sessions")
def list_sessions(request: Request, parameters: Annotated[SessionsParameters, Query()]) -> Response:
    """The sessions that your key opened, the last used first; an admin's key sees all."""
    owner = None if _sees_all(request) else owner_of(request.scope)
    total, facts = store_of(request.app.state).sessions(
        owner, limit=parameters.limit, offset=parameters.offset
    )
    return json_response(
        {
            "total": total,
            "next_offset": next_offset(parameters.offset, len(facts), total),
            "results": [session.to_dict() for session in facts],
        }
    )


@router.get(
    "/{name}",
    response_model=None,
    responses={
        **UNKNOWN,
        200: {
            "content": {"application/jsonl": {}},
            "description": "One JSON object a line, one line a call.",
        },
    },
    summary="A session's trajectory",
)
def trajectory(request: Request, name: SessionName) -> Response:
    """Every call of the session, in the form that evaluation reads (docs/trajectories.md)."""
    store, facts = visible_session(request, name)

    def lines() -> Iterator[bytes]:
        for line in store.lines(facts.session.key):
            yield line + b"\n"

    return StreamingResponse(lines(), media_type="application/jsonl")


@router.get(
    "/{name}/report",
    response_model=ReportResponse,
    responses=UNKNOWN,
    summary="What a session cost",
)
def session_report(request: Request, library: OpenLibrary, name: SessionName) -> Response:
    """Rounds, calls, candidates, seconds and tokens."""
    return _reported(request, library, name, None)


@router.post(
    "/{name}/report",
    response_model=ReportResponse,
    responses=UNKNOWN,
    summary="What a session cost and found",
)
def judged_report(request: Request, library: OpenLibrary, name: SessionName, body: ReportBody) -> Response:
    """The report, with recall of `answers`: after each call, overall, at 100, and per 100 candidates."""
    return _reported(request, library, name, body.answers)


@router.post(
    "/{name}/answer",
    response_model=RecordedCall,
    responses=UNKNOWN,
    summary="Record the agent's answer",
    openapi_extra={"parameters": [*PARAMETERS[-1:]]},
)
async def record_answer(
    request: Request, library: OpenLibrary, name: SessionName, body: SessionAnswerBody
) -> Response:
    """The agent's final answer; it ranks before the papers of its calls."""
    store, facts = await run_in_threadpool(visible_session, request, name)
    listed = check_ids(body.ids, "ids")
    papers = await run_in_threadpool(library.papers, listed, fields=("id",))
    ids = tuple(
        str(parse(paper_id, keys=True)) if paper is None else paper.id
        for paper_id, paper in zip(listed, papers, strict=True)
    )
    if (size := sum(map(len, ids))) > MAX_RECORDED:
        raise InvalidRequest(
            f"The ids of the answer have {size:,} characters, and at most {MAX_RECORDED:,} are recorded: send fewer."
        )
    key = check_key(request.headers.get(IDEMPOTENCY_KEY))
    await run_in_threadpool(store.find, name, facts.session.owner)  # checks the quotas
    call = CallRecord("answer", "answer", {}, ids, time=now(), snapshot=library.snapshot_id, key=key)
    [number] = await wait_for(store.record(facts.session, [call]))
    return json_response({"session": name, "call": number})


@router.delete("/{name}", response_model=None, status_code=204, responses=UNKNOWN, summary="Delete a session")
async def delete_session(request: Request, name: SessionName) -> Response:
    """Delete the session and its calls."""
    store, facts = await run_in_threadpool(visible_session, request, name)
    await wait_for(store.delete(facts.session.key))
    return Response(status_code=204)


def _sees_all(request: Request) -> bool:
    key = request.scope.get("scholarbase.key")
    return key is None or key.role == "admin"


def visible_session(request: Request, name: str) -> tuple[SessionStore, SessionFacts]:
    """The session of this name of the request's key; for an admin, else the only one of other keys.

    Raises:
        SessionNotFound: there is none.
        InvalidRequest: an admin's key has none, and several others have.
    """
    store = store_of(request.app.state)
    try:
        return store, store.session(session_key(name, owner_of(request.scope)))
    except SessionNotFound:
        if not _sees_all(request):
            raise not_found(name) from None
    return store, store.session(name, of_any_owner=True)


def _reported(request: Request, library: Library, name: str, answers: Sequence[str] | None) -> Response:
    store, facts = visible_session(request, name)
    lines = list(session_lines(store, facts.session, "report"))
    answer_ids = None if answers is None else held_answers(library, answers, facts.session.as_of)
    return json_response(report(facts.session, lines, answer_ids))


def session_lines(store: SessionStore, session: Session, what: str) -> Iterator[bytes]:
    """The lines of a session whose calls fit into memory. Raises InvalidRequest: they do not."""
    size, name = 0, session.id
    _check_time(name, what)
    for line in store.lines(session.key):
        size += len(line)
        if size > MAX_READ:
            raise InvalidRequest(
                f"The calls of the session {name!r} have more than {MAX_READ:,} bytes, too many for a {what} by a "
                f'server: run "scholarbase session {what} {name}".'
            )
        _check_time(name, what)
        yield line


def _check_time(name: str, what: str) -> None:
    check(f"The {what}", f'run "scholarbase session {what} {name}"')
