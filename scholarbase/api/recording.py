"""Recording the calls of a session: before a request is answered, and after."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

import orjson
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import Scope

from scholarbase.api.holding import LIBRARY
from scholarbase.api.problems import invalid_request
from scholarbase.api.session_headers import (
    BUDGET,
    CALL,
    check_key,
    owner_of,
    session_headers,
    store_of,
)
from scholarbase.errors import BudgetExhausted, InvalidRequest, ScholarBaseError
from scholarbase.sessions.progress import MAX_RECORDED, NOT_RECORDED
from scholarbase.sessions.recording import BUDGET_SECONDS, WRITE_SECONDS, Recording
from scholarbase.sessions.session import Session, check_number, check_session_id
from scholarbase.sessions.writer import write_timeout
from scholarbase.tools.responding import CallResponse

log = logging.getLogger("scholarbase.sessions")
RECORDING: Final = "scholarbase.recording"
"""Key of a request's scope under which its :class:`Recording` is, from before its parameters are read."""

T = TypeVar("T")


async def find_session(state: Any, scope: Scope, name: object) -> Session:
    """The session of a call.

    Raises:
        InvalidRequest: the name is invalid.
        QuotaExceeded, StorageError: as :meth:`SessionStore.find`.
    """
    store, session_id, owner = store_of(state), check_session_id(name), owner_of(scope)
    if store.is_local:
        return store.find(session_id, owner)
    return await run_in_threadpool(store.find, session_id, owner)


async def wait_for(future: Future[T], seconds: float = BUDGET_SECONDS) -> T:
    """The result of a store's future.

    Raises:
        StorageError: it takes longer. The operation is cancelled, unless it is running already.
    """
    if future.done():
        return future.result()
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    except TimeoutError:
        raise write_timeout(seconds) from None


async def start_recording(
    state: Any, scope: Scope, tool: str, headers: Mapping[str, Any]
) -> Recording | None:
    """The recording of a call, None where it names no session. ``headers`` has ``session``, ``parent``, ``round`` and
    ``key``, from headers or MCP's metadata.

    Raises:
        InvalidRequest: one of them is invalid.
    """
    if headers.get("session") is None:
        for name in ("parent", "round"):
            if headers.get(name) is not None:
                raise InvalidRequest(f"A {name} needs a session: name the session too.")
        return None
    # Checked first: a refused call opens no session.
    parent, turn = (check_number(headers.get(name), name) for name in ("parent", "round"))
    key = check_key(headers.get("key"))
    session = await find_session(state, scope, headers["session"])
    return Recording(
        session=session,
        tool=tool,
        store=store_of(state),
        snapshot=scope[LIBRARY].snapshot_id,
        parent=parent,
        round=turn,
        key=key,
        on_unwritten=state.gauges.unrecorded.inc,
    )


async def record(
    recording: Recording, calls: Sequence[Mapping[str, Any]], response: CallResponse
) -> dict[str, str]:
    """Record the calls of a response; its headers about them."""
    returned = list(zip(calls, response.returned, strict=True))
    written = await _written(recording, recording.record(returned), recording.write_seconds)
    headers = _call_header(written)
    if response.remaining:
        headers[BUDGET] = ", ".join(f"{name}={left}" for name, left in response.remaining.items())
    return headers


async def record_failure(
    recording: Recording, arguments: Mapping[str, Any], error: Exception
) -> BudgetExhausted | None:
    """Record a call that failed. One that failed before the budgets counted it is counted now; where they are used up,
    the error that the response must have instead is returned."""
    refusal = None
    if recording.session.limits and recording.budget is None and not isinstance(error, BudgetExhausted):
        try:
            recording.budget = await wait_for(recording.reserve(False))
        except BudgetExhausted as exhausted:
            error = refusal = exhausted
        except ScholarBaseError:
            pass  # it is counted when it is written
    if isinstance(error, RequestValidationError):
        error = invalid_request(error)
    elif not isinstance(error, ScholarBaseError) and getattr(error, "detail", None):
        error = InvalidRequest(str(error.detail))  # type: ignore[attr-defined]
    await _written(recording, recording.record_failure(arguments, error), WRITE_SECONDS)
    return refusal


async def _written(recording: Recording, calls: Future[list[int]], seconds: float) -> list[int]:
    """The numbers of calls that are being written; none where that takes longer than a response may wait."""
    try:
        return await wait_for(calls, seconds)
    except ScholarBaseError as error:
        log.debug("A call is not recorded yet: %s", error)  # the writer logs it once a minute
    except Exception as error:
        log.error("A call cannot be recorded: %s", error, exc_info=True)
    recording.on_unwritten()
    return []


def _call_header(numbers: Sequence[int]) -> dict[str, str]:
    if not numbers:
        return {}
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 1 and list(numbers) == list(range(first, last + 1)):
        return {CALL: f"{first}-{last}"}
    return {CALL: ", ".join(map(str, numbers))}


async def respond_in_session(
    request: Request, tool: str | None, respond: Callable[[Request], Any]
) -> Response:
    """Respond to a request of a native route that names a session, and record it under ``tool`` if there is one."""
    if request.scope.get("scholarbase.head"):
        raise InvalidRequest("A HEAD request returns no papers to record: leave the session out, or use GET.")
    if tool is None:
        response: Response = await respond(request)
        return response
    return await record_around(request, tool, respond)


async def at_date_of_session(request: Request, parsed: T) -> T:
    """A request of a call that no session records, with the ``as_of`` of the session that it names.

    Raises:
        InvalidRequest: its ``as_of`` is later, or the session is invalid.
    """
    name = session_headers(request.headers).get("session")
    if name is None or not hasattr(parsed, "as_of"):
        return parsed
    session = await find_session(request.app.state, request.scope, name)
    as_of = session.date_of_call(parsed.as_of)
    return parsed if as_of == parsed.as_of else parsed.model_copy(update={"as_of": as_of})  # type: ignore[attr-defined]


async def record_around(request: Request, tool: str, respond: Callable[[Request], Any]) -> Response:
    """Respond to a request that names a session, and record it under ``tool`` also where it fails.

    ``respond`` finds the recording in the request's scope under ``RECORDING``.
    """
    scope = request.scope
    recording = await start_recording(request.app.state, scope, tool, session_headers(request.headers))
    assert recording is not None
    scope[RECORDING] = recording
    try:
        response: Response = await respond(request)
    except asyncio.CancelledError:
        recording.record_cancellation()
        raise
    except Exception as error:
        refusal = await record_failure(recording, await _raw_arguments(request), error)
        if refusal is not None:
            raise refusal from error
        raise
    return response


async def _raw_arguments(request: Request) -> dict[str, Any]:
    """The arguments of an invalid request, as they were sent."""
    arguments: dict[str, Any] = {}
    for name in request.query_params:
        values = request.query_params.getlist(name)
        arguments[name] = values if len(values) > 1 else values[0]
    if "paper_id" in request.path_params:
        arguments["paper_id"] = request.path_params["paper_id"]
    body = await request.body()
    if len(body) > MAX_RECORDED:
        arguments = {NOT_RECORDED: len(body)}
    elif body:
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError:
            content = body[:1000].decode("utf-8", "backslashreplace")
        arguments |= content if isinstance(content, dict) else {"body": content}
    return arguments
