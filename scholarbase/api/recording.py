"""Recording the calls of a session: before a request is answered, and after."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, Final

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Scope

from scholarbase.api.session_headers import (
    BUDGET,
    CALL,
    ROUTE_TOOLS,
    checked_key,
    owner_of,
    store_of,
    told_by,
)
from scholarbase.errors import BudgetExhausted, InvalidRequest, ScholarBaseError, StorageError
from scholarbase.models.requests import sentence
from scholarbase.sessions.recording import BUDGET_SECONDS, WRITE_SECONDS, Recording
from scholarbase.sessions.session import Session, check_number, check_session_id
from scholarbase.sessions.writer import too_slow
from scholarbase.tools.answering import Answer
from scholarbase.tools.definitions import tool_named

log = logging.getLogger("scholarbase.sessions")
RECORDING: Final = "scholarbase.recording"
"""Where a request's scope has its record, from before its parameters are read."""


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
        error = InvalidRequest(sentence(error.errors()[0], "key"))
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


async def within_session(request: Request, route: str, answer: Callable[[Request], Any]) -> Response:
    """Answer a request that names a session, and keep it also where it fails."""
    scope = request.scope
    if scope.get("scholarbase.head"):
        raise InvalidRequest(
            "HEAD gives no papers that could be recorded: leave the session out, or ask by GET."
        )
    tool = request.path_params["name"] if route == "call_tool" else ROUTE_TOOLS.get(route)
    if tool is None:
        response: Response = await answer(request)
        return response
    tool_named(tool)
    recording = await recording_of(request.app.state, scope, tool, told_by(request.headers))
    assert recording is not None
    scope[RECORDING] = recording
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
