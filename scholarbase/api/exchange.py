"""Calls that belong to a session, or ask for an answer of a size: from a request to its answer and its record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, Final, cast

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from scholarbase.api.answers import answered
from scholarbase.errors import BudgetExhausted, InvalidRequest, ScholarBaseError, StorageError
from scholarbase.models import MIN_TITLE_SCORE, Direction
from scholarbase.models.schemas import (
    EdgeBody,
    PaperBatchBody,
    PaperParameters,
    SearchParameters,
    TitleParameters,
    sentence,
)
from scholarbase.search.library import Library
from scholarbase.sessions.progress import Standing
from scholarbase.sessions.recording import BUDGET_SECONDS, WRITE_SECONDS, Recording
from scholarbase.sessions.session import Session, check_number, check_session_id
from scholarbase.sessions.store import SessionStore
from scholarbase.sessions.writer import too_slow
from scholarbase.tools.answering import Answer, make_answer
from scholarbase.tools.definitions import tool_named

log = logging.getLogger("scholarbase.sessions")

SESSION: Final = "X-ScholarBase-Session"
PARENT: Final = "X-ScholarBase-Parent"
ROUND: Final = "X-ScholarBase-Round"
CALL: Final = "X-ScholarBase-Call"
BUDGET: Final = "X-ScholarBase-Budget"

IDEMPOTENCY_KEY: Final = "Idempotency-Key"
"""https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/"""
MAX_KEY: Final = 256

_RECORDING: Final = "scholarbase.recording"
"""Where a request's scope has its record, from before its parameters are read."""
_OF_SESSIONS: Final = frozenset(name.lower().encode() for name in (SESSION, PARENT, ROUND))
BRIEF_IDS: Final = 20
BRIEF_MATCHES: Final = 10


# -- which session ------------------------------------------------------------------------------------------


def store_of(state: Any) -> SessionStore:
    """The server's sessions.

    Raises:
        InvalidRequest: it keeps none.
    """
    store: SessionStore | None = state.sessions
    if store is None:
        raise InvalidRequest(
            "This server keeps no sessions: leave the session out, or start it with SCHOLARBASE_SESSIONS naming a "
            "folder."
        )
    return store


def owner_of(scope: Scope) -> str:
    """The id of the key that a request came with; empty where no keys are in force."""
    key = scope.get("scholarbase.key")
    return key.id if key is not None else ""


async def session_named(state: Any, scope: Scope, name: object) -> Session:
    """The session of a call; one that is new opens.

    Raises:
        InvalidRequest: it is no name of one, or another key's.
    """
    store, session_id, owner = store_of(state), check_session_id(name), owner_of(scope)
    if (known := store.known(session_id, owner)) is not None:
        return known
    try:
        found: Session = await waited(store.find(session_id, owner), WRITE_SECONDS)
        return found
    except StorageError:  # a disk that refuses, or is slow, stops no search
        return await run_in_threadpool(store.look_up, session_id, owner)


async def waited(future: Future[Any], seconds: float = BUDGET_SECONDS) -> Any:
    """What the store gives within so many seconds, or its error.

    Raises:
        StorageError: it does not come; what was asked for is then not done, unless its turn has come already.
    """
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    except TimeoutError:
        raise too_slow(seconds) from None


async def recording_of(state: Any, scope: Scope, tool: str, told: Mapping[str, Any]) -> Recording | None:
    """The record that a call is to have, None where it names no session. ``told`` has ``session``, ``parent`` and
    ``round``, as headers or MCP's metadata say them.

    Raises:
        InvalidRequest: one of them cannot be right.
    """
    if told.get("session") is None:
        for name in ("parent", "round"):
            if told.get(name) is not None:
                raise InvalidRequest(f"A {name} is told of a call without a session: name the session too.")
        return None
    session = await session_named(state, scope, told["session"])
    return Recording(
        store_of(state),
        session,
        tool,
        state.library.snapshot_id,
        check_number(told.get("parent"), "parent"),
        check_number(told.get("round"), "round"),
        key=checked_key(told.get("key")),
    )


def checked_key(key: Any) -> str | None:
    """Raises InvalidRequest: it is no text of a length to be kept."""
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY):
        raise InvalidRequest(f"{IDEMPOTENCY_KEY} must be a text of 1 to {MAX_KEY} characters.")
    return key


def told_by(headers: Headers) -> dict[str, str | None]:
    """What a request's headers say of its session.

    Raises:
        InvalidRequest: one of them stands there twice.
    """
    told: dict[str, str | None] = {}
    names = (("session", SESSION), ("parent", PARENT), ("round", ROUND), ("key", IDEMPOTENCY_KEY))
    for name, header in names:
        values = headers.getlist(header)
        if len(values) > 1:
            raise InvalidRequest(f"The header {header} is given {len(values)} times: give it once.")
        told[name] = values[0] if values else None
    return told


def names_session(scope: Scope) -> bool:
    """Whether a request's headers say something of a session."""
    return any(key in _OF_SESSIONS for key, _ in scope["headers"])


# -- an answer ----------------------------------------------------------------------------------------------


async def make(
    library: Library,
    tool: str,
    request: Any,
    run: Callable[[Any], dict[str, Any]],
    recording: Recording | None,
    *,
    compact: bool,
) -> Answer:
    """The answer to a call, made here and now where that is brief, else in a thread.

    Raises:
        BudgetExhausted: its session has nothing left. Whatever the library raises.
    """
    seen = _asks_for_seen(request)
    if recording is not None:
        recording.asks([vars(request)], request)
    if recording is not None and recording.needs_standing(seen):
        recording.standing = await _standing(recording, seen)
    answer_it = run
    if isinstance(request, SearchParameters) and not seen:
        # Checked once, for whether it is brief and for the answer, unless its session changes it.
        asked = request.to_request()
        brief = library.is_brief(asked)

        def once(one: Any) -> dict[str, Any]:
            return library.run(asked).to_dict() if one is request else run(one)

        answer_it = once
    else:
        brief = not seen and is_brief(library, tool, request)
    if request.max_tokens is None and brief:
        return make_answer(library, request, answer_it, recording, compact=compact)
    return await run_in_threadpool(
        lambda: make_answer(library, request, answer_it, recording, compact=compact)
    )


async def _standing(recording: Recording, seen: bool) -> Standing | None:
    if seen or recording.session.limits:
        return cast(Standing, await waited(recording.begin(seen)))
    try:
        return cast(Standing, await waited(recording.begin(seen), WRITE_SECONDS))
    except StorageError:  # whether the parent can be one is nothing to wait for longer
        return None


def _asks_for_seen(request: Any) -> bool:
    searches = getattr(request, "searches", None)
    if searches is not None:
        return any(search.exclude_seen for search in searches)
    return bool(getattr(request, "exclude_seen", False))


def is_brief(library: Library, tool: str, request: Any) -> bool:
    """Whether the answer takes so little that it is made on the event loop; :func:`answered` says why."""
    if isinstance(request, SearchParameters):
        return library.is_brief(request.to_request())
    if isinstance(request, EdgeBody):
        return has_few_edges(library, tool, vars(request))
    if isinstance(request, PaperBatchBody):
        return len(request.ids) <= BRIEF_IDS
    if isinstance(request, TitleParameters):
        # In a thread it would give the interpreter away at each of hundreds of rows, and wait for it as often: half a
        # second beside ten busy clients, for 4 ms of work. Many matches, or poor ones, are more work than that, and so
        # is counting words among the papers of a time.
        few = request.limit <= BRIEF_MATCHES and request.min_score >= MIN_TITLE_SCORE
        return few and request.as_of is None
    return isinstance(request, PaperParameters)


def has_few_edges(library: Library, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a page of citations or references is made on the event loop."""
    direction: Direction = "citations" if tool == "get_citations" else "references"
    return library.has_few_edges(arguments["paper_id"], direction, as_of=arguments["as_of"])


async def recorded(
    recording: Recording, calls: Sequence[Mapping[str, Any]], answer: Answer
) -> dict[str, str]:
    """Keep the calls that an answer answers; the headers that say so."""
    given = zip(calls, answer.given, strict=True)
    headers: dict[str, str] = {}
    try:
        headers = _numbered(await written(recording.finish(list(given))))
    except ScholarBaseError as closed:
        log.error("A call cannot be recorded: %s", closed)
    if answer.left:
        headers[BUDGET] = ", ".join(f"{name}={left}" for name, left in answer.left.items())
    return headers


async def failed(
    recording: Recording, arguments: Mapping[str, Any], error: Exception
) -> BudgetExhausted | None:
    """Keep a call that failed. One that failed before its session was asked for it takes its place in the budgets now;
    what they refuse is the answer then, and is given back."""
    refusal = None
    if recording.session.limits and recording.standing is None and not isinstance(error, BudgetExhausted):
        try:
            recording.standing = await waited(recording.begin(False))
        except BudgetExhausted as refused:
            error = refusal = refused
        except ScholarBaseError:
            pass  # it is counted when it can be written
    if isinstance(error, RequestValidationError):
        error = InvalidRequest(sentence(error.errors()[0]))
    elif not isinstance(error, ScholarBaseError) and getattr(error, "detail", None):
        error = InvalidRequest(str(error.detail))  # type: ignore[attr-defined]
    try:
        kept = recording.fail(arguments, error)
    except ScholarBaseError as closed:
        log.error("A call cannot be recorded: %s", closed)
    else:
        await written([kept])
    return refusal


async def written(calls: Sequence[Future[int]]) -> list[int]:
    """The numbers of calls that are being recorded; none where the disk is slower than an answer may wait."""
    # They are written in the order in which they were handed over, so that the last is waited for, by one callback and
    # one timer: asyncio.timeout and wrap_future take several times as long. Mostly it is written already.
    if not calls[-1].done():
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        calls[-1].add_done_callback(lambda _: _call_soon(loop, done))
        timer = loop.call_later(WRITE_SECONDS, _set, done)
        await done
        timer.cancel()
    try:
        return [call.result(0) for call in calls]
    except FutureTimeoutError:
        log.warning("A call is not yet recorded: its answer goes out without waiting.")
    except Exception as error:
        log.error("A call cannot be recorded: %s", error, exc_info=not isinstance(error, ScholarBaseError))
    return []


def _call_soon(loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_set, done)


def _set(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _numbered(numbers: Sequence[int]) -> dict[str, str]:
    if not numbers:
        return {}
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 1 and list(numbers) == list(range(first, last + 1)):
        return {CALL: f"{first}-{last}"}
    return {CALL: ", ".join(map(str, numbers))}


# -- the native routes --------------------------------------------------------------------------------------

_TOOLS: Final = {
    "search": "search_papers",
    "search_by_body": "search_papers",
    "search_batch": "search_papers",
    "match_title": "match_titles",
    "match_titles": "match_titles",
    "paper": "get_papers",
    "papers": "get_papers",
    "citations": "get_citations",
    "references": "get_references",
    "expand": "expand_papers",
}
"""Route to the tool that it is, by the route's name."""


_DESCRIBED: Final = (
    (
        SESSION,
        "Records the call in the session of this name, which opens where there is none.",
        "string",
        "agent-7",
    ),
    (PARENT, "The number of the session's call that this one follows from.", "integer", 1),
    (ROUND, "The agent's turn, which calls made side by side share.", "integer", 1),
)


def describe(document: dict[str, Any]) -> None:
    """Say in the OpenAPI document which headers a call of a session has."""
    headers = [
        {
            "name": name,
            "in": "header",
            "required": False,
            "description": what,
            "schema": {"type": kind},
            "example": example,
        }
        for name, what, kind, example in _DESCRIBED
    ]
    for operations in document["paths"].values():
        for operation in operations.values():
            if operation.get("operationId") in (*_TOOLS, "call_tool"):
                operation.setdefault("parameters", []).extend(headers)


async def within_session(request: Request, route: str, answer: Callable[[Request], Any]) -> Response:
    """Answer a request that names a session, and keep it also where it fails."""
    scope = request.scope
    if scope.get("scholarbase.head"):
        raise InvalidRequest(
            "HEAD gives no papers that could be recorded: leave the session out, or ask by GET."
        )
    tool = request.path_params["name"] if route == "call_tool" else _TOOLS.get(route)
    if tool is None:
        response: Response = await answer(request)
        return response
    tool_named(tool)
    recording = await recording_of(request.app.state, scope, tool, told_by(request.headers))
    assert recording is not None
    scope[_RECORDING] = recording
    try:
        response = await answer(request)
    except Exception as error:
        refusal = await failed(recording, await _raw_arguments(request), error)
        if refusal is not None:
            raise refusal from error
        raise
    return response


async def _raw_arguments(request: Request) -> dict[str, Any]:
    """What a request that could not be answered asked for, as it was sent."""
    arguments: dict[str, Any] = {}
    for name in request.query_params:
        values = request.query_params.getlist(name)
        arguments[name] = values if len(values) > 1 else values[0]
    if "paper_id" in request.path_params:
        arguments["paper_id"] = request.path_params["paper_id"]
    body = await request.body()
    if body:
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError:
            content = body[:1000].decode("utf-8", "backslashreplace")
        arguments |= content if isinstance(content, dict) else {"body": content}
    return arguments


async def respond(
    request: Request,
    library: Library,
    tool: str,
    parameters: Any,
    run: Callable[[Any], dict[str, Any]],
    *,
    calls: Callable[[], Sequence[Mapping[str, Any]]],
    compact: bool = False,
) -> Response:
    """The response to a native call, or a tool's.

    Args:
        parameters: what it asks for, with ``max_tokens`` and ``format``.
        run: gives the JSON of the answer.
        calls: gives the tool's arguments by which the call, or each of a batch, is kept.
    """
    if not compact and is_plain(request, parameters):
        brief = is_brief(library, tool, parameters)
        return await answered(lambda: run(parameters), brief=brief)
    recording: Recording | None = request.scope.get(_RECORDING)
    if recording is not None:
        kept = calls()
        recording.asks(kept, parameters)
    answer = await make(library, tool, parameters, run, recording, compact=compact)
    headers = await recorded(recording, kept, answer) if recording is not None else None
    media_type = "text/plain; charset=utf-8" if answer.is_text else "application/json"
    return Response(answer.body, media_type=media_type, headers=headers)


def is_plain(request: Request, parameters: BaseModel) -> bool:
    """Whether a call has neither a session nor a size nor another format: it then takes the shortest way."""
    options: Any = parameters
    return _RECORDING not in request.scope and options.max_tokens is None and options.format == "json"
