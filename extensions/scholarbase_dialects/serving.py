"""Serving dialects: from an HTTP request to an operation, its session and its response."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response as HttpResponse
from starlette.routing import BaseRoute, Match, Route, Router
from starlette.types import Receive, Scope, Send

from scholarbase.api.admission import FEW_PAPERS
from scholarbase.api.holding import library_of
from scholarbase.api.paths import is_below
from scholarbase.api.problems import log_failure
from scholarbase.api.recording import RECORDING, record, record_around, start_recording
from scholarbase.api.responding import LARGE_BODY, is_quick, large_response, loads, names_session, reserve
from scholarbase.api.response_cache import key_of
from scholarbase.api.session_headers import session_headers
from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.models.checks import as_of_day
from scholarbase.models.requests import MAX_KEYS, SearchBody
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.sessions.recording import Recording, ReturnedPapers
from scholarbase.tools.responding import CallResponse
from scholarbase_dialects.base import Body, Dialect, DialectRequest, Operation, http_response, ignored_header
from scholarbase_dialects.calls import Calls

log = logging.getLogger("scholarbase.api")

AS_OF: Final = "X-ScholarBase-As-Of"
"""The request header with the date of all answers, as ``as_of`` of native requests."""
IGNORED: Final = "X-ScholarBase-Ignored"
"""The response header with the parameters that had no effect."""

_SEARCH: Final = SearchBody.of(q="text", syntax="plain")
"""A request of an operation that is one search."""


@dataclass(frozen=True, slots=True)
class _Path:
    """The route of a request in metrics."""

    path: str


class DialectRoute(BaseRoute):
    """All paths of one dialect. Every error has the body of the original."""

    def __init__(self, dialect: Dialect, prefix: str) -> None:
        self._dialect = dialect
        self._prefix = prefix
        routes = [
            Route(prefix + operation.path or "/", _Endpoint(operation, prefix), methods=[operation.method])
            for operation in dialect.operations
        ]
        self._router = Router(routes, redirect_slashes=False)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_ours = scope["type"] == "http" and is_below(scope["path"], self._prefix)
        return (Match.FULL if is_ours else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if len(path) > 1:
            scope["path"] = path.rstrip("/")
        try:
            await self._router(scope, receive, send)
        except ClientDisconnect:
            raise
        except HTTPException as error:
            await self._failure(error.status_code, f"{error.detail}: {path}", scope, receive, send)
        except ScholarBaseError as error:
            log_failure(scope, error)
            await http_response(self._dialect.rejection(error))(scope, receive, send)
        except Exception:
            where = (scope["method"], scope.get("logged_path"), scope.get("request_id"))
            log.exception("%s %s failed id=%s", *where)
            message = (
                f"An unexpected error occurred. The server's log has it under {scope.get('request_id')}."
            )
            await self._failure(500, message, scope, receive, send)

    async def _failure(self, status: int, message: str, scope: Scope, receive: Receive, send: Send) -> None:
        status = self._dialect.statuses.get(status, status)
        await http_response(self._dialect.error(status, message))(scope, receive, send)


class _Endpoint:
    """The ASGI application of one operation. Starlette would answer the errors of a function as native routes do."""

    def __init__(self, operation: Operation, prefix: str) -> None:
        self._operation = operation
        self._prefix = prefix
        self._route = _Path(prefix + operation.path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self._route
        request = Request(scope, receive, send)
        respond = partial(_respond, self._operation, self._prefix)
        tool = self._operation.tool
        if tool is not None and names_session(scope["headers"]) and self._is_recorded(request):
            response = await record_around(request, tool, respond)
        else:
            response = await respond(request)
        await response(scope, receive, send)

    def _is_recorded(self, request: Request) -> bool:
        query = _by_name(request.query_params.multi_items())
        return self._operation.recorded(DialectRequest(request.path_params, query))


@dataclass(frozen=True, slots=True)
class _Answered:
    """The answer to a request, and the names of its parameters without an effect."""

    whole: Body
    ignored: tuple[str, ...]

    @property
    def body(self) -> bytes:
        return self.whole.content


async def _respond(operation: Operation, prefix: str, request: Request) -> HttpResponse:
    recording: Recording | None = request.scope.get(RECORDING)
    asked = await _parsed(operation, prefix, request)
    session = recording
    if session is None and operation.tool is not None and names_session(request.scope["headers"]):
        # Its date applies also to requests that it does not record.
        headers_of = session_headers(request.headers)
        session = await start_recording(request.app.state, request.scope, operation.tool, headers_of)
    as_of = _as_of(request, session)
    if recording is not None:
        recording.set_request([{}] * operation.calls(asked), (asked.path, asked.query, asked.body))
        await reserve(recording)
    body: Body
    calls = Calls(library_of(request), as_of, request.app.state.admission.load)

    def run(asked: DialectRequest) -> _Answered:
        answer = operation.answer(asked, calls)
        body = answer if isinstance(answer, Body) else Body(orjson.dumps(answer))
        return _Answered(body, tuple(asked.ignored))

    def run_again() -> _Answered:
        calls.begun.clear()  # of an attempt that took too long for the event loop
        return run(asked)

    admission, papers = request.app.state.admission, operation.papers
    if not isinstance(papers, int):
        papers = papers(asked)
    seed = library_of(request).response_fingerprint

    def key(asked: DialectRequest) -> bytes:
        route = prefix, operation.method, operation.path
        return key_of(seed, "dialect", route, as_of, request=asked)

    async def share(key: bytes, run: Callable[[], Awaitable[_Answered]]) -> _Answered:
        # A session records the papers of native calls. An operation without a tool may describe the server.
        if recording is not None or operation.tool is None:
            return await run()
        answered: _Answered = await request.app.state.responses.get(key, run, alone=operation.short)
        return answered

    if operation.parts is None:
        run_whole = partial(admission.execute, run_again, http=request, short=operation.short, papers=papers)
        answers = [await share(key(asked), run_whole)]
        body = answers[0].whole
    else:
        parts = [replace(part, ignored={}) for part in operation.parts.split(asked)]
        known = recording is None and all(key(part) in request.app.state.responses for part in parts)
        quick = operation.is_search and papers <= FEW_PAPERS and is_quick(library_of(request), _SEARCH)
        async with admission.in_parts(request, 0 if known else papers, quick=quick) as run_part:
            answers = [await share(key(part), partial(run_part, partial(run, part))) for part in parts]
        body = Body(operation.parts.join([answer.body for answer in answers]))
    for answer in answers:
        asked.ignore(*answer.ignored)
    headers = dict(body.headers)
    if recording is not None:
        headers |= await _record(recording, calls, body.content)
    if asked.ignored:
        headers[IGNORED] = ignored_header(asked.ignored)
    response = await large_response(request, body.content, body.media_type, headers)
    response.status_code = body.status
    return response


async def _parsed(operation: Operation, prefix: str, request: Request) -> DialectRequest:
    """Raises InvalidRequest: the body is not valid JSON."""
    parameters = request.query_params.multi_items()
    content: Any = None
    if operation.method == "POST" and (body := await request.body()):
        parse = _parse_form if operation.form else _loads
        if len(body) <= LARGE_BODY:
            content = parse(body)
        else:
            content = await to_thread.run_sync(parse, body, limiter=request.app.state.parsing)
    if operation.form and content is not None:
        parameters, content = [*parameters, *content], None
    query = _by_name(parameters)
    base = str(request.base_url).rstrip("/") + prefix
    asked = DialectRequest(request.path_params, query, content, base, request.headers.get("accept", ""))
    asked.ignore(*(name for name in query if name not in operation.parameters))
    return asked


def _by_name(parameters: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """The values of each parameter."""
    query: dict[str, list[str]] = {}
    for name, value in parameters:
        query.setdefault(name, []).append(value)
    return query


def _parse_form(body: bytes) -> list[tuple[str, str]]:
    """The parameters of a form.

    Raises:
        InvalidRequest: there are too many.
    """
    try:
        return parse_qsl(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MAX_KEYS, errors="replace"
        )
    except ValueError:
        raise InvalidRequest(f"The body has more than {MAX_KEYS} parameters: send fewer.") from None


def _loads(body: bytes) -> Any:
    """The JSON of a body. Halves of surrogate pairs, which no response can repeat, become question marks.

    Raises:
        InvalidRequest: the body is not valid JSON.
    """
    content = loads(body)
    return _readable(content) if rb"\ud" in body.lower() else content


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {_readable(key): _readable(item) for key, item in value.items()}
    return value


def _as_of(request: Request, recording: Recording | None) -> str | None:
    """The date of all answers to a request: of the header, or of the session.

    Raises:
        InvalidRequest: the header is repeated, is not a date, or is later than the session's date.
    """
    values = request.headers.getlist(AS_OF)
    if len(values) > 1:
        raise InvalidRequest(f"The header {AS_OF} occurs {len(values)} times: send it once.")
    if values:
        as_of_day(values[0])
    header = values[0] if values else None
    return header if recording is None else recording.session.date_of_call(header)


async def _record(recording: Recording, calls: Calls, body: bytes) -> Mapping[str, str]:
    """Record what the calls of a request returned, as ``recording.count`` calls of its session."""
    recorded = _merged(calls.begun, recording.count)
    tokens = estimate_tokens(body) // len(recorded)
    returned = [
        ReturnedPapers(tuple(ids), tuple(scores) if ids and len(scores) == len(ids) else None, tokens)
        for _, ids, scores in recorded
    ]
    remaining = recording.remaining(returned) if recording.session.limits else {}
    response = CallResponse({}, body, form="json", returned=returned, remaining=remaining)
    return await record(recording, [arguments for arguments, _, _ in recorded], response)


def _merged(
    begun: Sequence[tuple[Mapping[str, Any], list[str], list[float]]], count: int
) -> list[tuple[Mapping[str, Any], list[str], list[float]]]:
    """The native calls of a request as ``count`` calls: one each, or all of them as one with each paper once."""
    if len(begun) == count:
        return list(begun)
    assert count == 1, f"{len(begun)} native calls cannot be recorded as {count}"
    if not begun:
        return [({}, [], [])]
    scores: dict[str, float | None] = {}
    for _, ids, values in begun:
        for position, paper_id in enumerate(ids):
            scores.setdefault(paper_id, values[position] if len(values) == len(ids) else None)
    known = [score for score in scores.values() if score is not None]
    return [(begun[0][0], list(scores), known if len(known) == len(scores) else [])]
