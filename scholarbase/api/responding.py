"""Native calls: from an HTTP request to its response.

A call without a session, a size and another format than JSON takes the shortest way: its parameters are parsed, the
library runs it, and the response is encoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote_to_bytes

import msgspec
import orjson
from fastapi import Request as HttpRequest
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response as HttpResponse

from scholarbase.api.recording import RECORDING, record, respond_in_session, wait_for
from scholarbase.api.session_headers import SESSION_HEADERS
from scholarbase.errors import InvalidRequest, StorageError
from scholarbase.models.papers import PAPER_FIELDS
from scholarbase.models.requests import Request
from scholarbase.models.responses import Response
from scholarbase.search.library import Library
from scholarbase.sessions.progress import BudgetState
from scholarbase.sessions.recording import WRITE_SECONDS, Recording
from scholarbase.tools.answering import Answer, make_answer
from scholarbase.tools.definitions import Tool, never_short

T = TypeVar("T")

COMMA_SEPARATED: Final = frozenset({"fields", "category"})
"""Parameters whose values a URL may separate by commas, besides repeating them."""
_JSON: Final = "application/json"
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Call:
    """A native call.

    Args:
        tool: the tool whose arguments are recorded for it in a session.
        request: what its parameters, body and path are parsed into.
        run: runs the request on a library.
        is_short: whether that takes so little that it needs no thread.
        arguments: the tool's arguments for a request, one for each call that is recorded.
        compact: whether each paper's authors are one string.
    """

    tool: str
    request: type[Request]
    run: Callable[[Library, Any], Response]
    arguments: Callable[[Any], Sequence[Mapping[str, Any]]]
    is_short: Callable[[Library, Any], bool] = never_short
    compact: bool = False


def call_of(tool: Tool, arguments: Mapping[str, Any] | None = None) -> Call:
    """A call of a tool by its own name, with the arguments that are recorded."""
    return Call(tool.name, tool.request, tool.run, lambda _: [arguments or {}], tool.is_short, compact=True)


async def execute(short: bool, work: Callable[[], T]) -> T:
    """Run on the event loop if the work is short, else in a thread.

    A thread costs a tenth of a millisecond, and more under load: Python code hands its lock over only every few
    milliseconds, so that a thread and the event loop wait for each other at every SQLite statement. Ten clients get
    more look-ups and searches from the event loop alone. Long work would keep all of them waiting.
    """
    return work() if short else await run_in_threadpool(work)


def _json(response: Response) -> bytes:
    """The JSON of a response. With all fields of its papers, which is the default, it is encoded as it is."""
    return _encode(response if getattr(response, "fields", ()) is PAPER_FIELDS else response.selected())


def json_response(content: Any) -> HttpResponse:
    """A JSON response. The same content gives the same bytes."""
    return HttpResponse(orjson.dumps(content), media_type=_JSON)


# -- routes -------------------------------------------------------------------------------------------------


class NativeRoute(APIRoute):
    """A route that parses its own parameters, refuses unknown ones, and records the calls of sessions.

    FastAPI describes it in the OpenAPI document; its own parsing took a third of the time of a look-up. Endpoints
    that are no :class:`Call` are run by FastAPI.
    """

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]:
        names, repeated = _parameter_names(self)
        run_endpoint = super().get_route_handler()
        call: Call | None = getattr(self.endpoint, "call", None)

        async def handle(request: HttpRequest) -> HttpResponse:
            scope = request.scope
            values: Any = {}
            if scope["query_string"] or b"%" in scope["raw_path"] or not scope["raw_path"].isascii():
                values = _url_values(request, names, repeated)
            if call is None:
                return await run_endpoint(request)
            strict = scope["method"] == "POST"
            if strict:
                values = await _json_body(request)
            if isinstance(values, dict):
                values |= scope["path_params"]
            parsed: Any = call.request.parse(values, kind="key" if strict else "parameter", strict=strict)
            library: Library = request.app.state.library
            if (
                RECORDING in scope
                or parsed.max_tokens is not None
                or parsed.format != "json"
                or getattr(parsed, "exclude_seen", False)
            ):
                return await respond(request, library, call, parsed)
            # The shortest way, since many responses take little else.
            content = await execute(call.is_short(library, parsed), lambda: _json(call.run(library, parsed)))
            return HttpResponse(content, media_type=_JSON)

        async def handle_session(request: HttpRequest) -> HttpResponse:
            if any(name in SESSION_HEADERS for name, _ in request.scope["headers"]):
                return await respond_in_session(request, self.name, handle)
            return await handle(request)

        return handle_session


def _parameter_names(route: APIRoute) -> tuple[frozenset[str], frozenset[str]]:
    """The parameters of a route's URL, and those of them that may be repeated."""
    names, repeated = set(), set()
    for parameter in route.dependant.query_params:
        annotation: Any = parameter.field_info.annotation
        fields = getattr(annotation, "model_fields", None) or {parameter.alias: parameter.field_info}
        for name, field in fields.items():
            names.add(field.alias or name)
            if "tuple" in str(field.annotation):
                repeated.add(field.alias or name)
    return frozenset(names), frozenset(repeated)


def _url_values(request: HttpRequest, names: frozenset[str], repeated: frozenset[str]) -> dict[str, Any]:
    """The parameters of a URL.

    Raises:
        InvalidRequest: an unknown parameter, one that must not be repeated, or bytes that are not UTF-8.
    """
    sent: bytes = request.scope["raw_path"] + b"?" + request.scope["query_string"]
    if b"%" in sent or not sent.isascii():
        try:
            unquote_to_bytes(sent).decode()
        except UnicodeDecodeError as error:
            # They would be decoded as question marks, and another text would be searched for.
            bad = "".join(f"%{byte:02X}" for byte in error.object[error.start : error.end])
            raise InvalidRequest(
                f"The URL contains {bad}, which is not UTF-8: encode letters as UTF-8, so that \u00e9 is %C3%A9."
            ) from error
    values: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name not in names:
            takes = ", ".join(sorted(names)) or "no parameters"
            raise InvalidRequest(f"Unknown parameter {name!r}: {request.url.path} takes {takes}.")
        if name in repeated:
            parts = [part.strip() for part in value.split(",")] if name in COMMA_SEPARATED else [value]
            values.setdefault(name, []).extend(parts)
        elif name in values:
            raise InvalidRequest(f"The parameter {name!r} is repeated: send it once.")
        else:
            values[name] = value
    return values


async def _json_body(request: HttpRequest) -> Any:
    """The JSON of a body; its type is left to the request model.

    Raises:
        InvalidRequest: the body is missing, is not declared as JSON, or is not valid JSON.
    """
    body = await request.body()
    if not body:
        raise InvalidRequest("The body is missing: send a JSON object.")
    media_type = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if not (media_type == _JSON or (media_type.startswith("application/") and media_type.endswith("+json"))):
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The body is not valid JSON ({error}): send a JSON object.") from error


# -- responses of a size, in a format, or recorded ------------------------------------------------------------


async def respond(request: HttpRequest, library: Library, call: Call, parsed: Any) -> HttpResponse:
    """The response to a call in a session, of a size, or as text."""
    recording: Recording | None = request.scope.get(RECORDING)
    arguments = call.arguments(parsed) if recording is not None else ()
    if recording is not None:
        recording.set_request(arguments, parsed)
    answer = await make(library, call, parsed, recording)
    headers = await record(recording, arguments, answer) if recording is not None else None
    media_type = "text/plain; charset=utf-8" if answer.is_text else _JSON
    return HttpResponse(answer.body, media_type=media_type, headers=headers)


async def make(library: Library, call: Call, request: Any, recording: Recording | None) -> Answer:
    """The response to a call as its session changes it.

    Raises:
        BudgetExhausted: a budget of its session is exhausted. Whatever the library raises.
    """
    seen = any(getattr(one, "exclude_seen", False) for one in getattr(request, "searches", (request,)))
    if recording is not None:
        recording.set_request([vars(request)], request)
    if recording is not None and recording.needs_budget(seen):
        recording.budget = await _budget(recording, seen)
    short = request.max_tokens is None and not seen and call.is_short(library, request)

    def run() -> Answer:
        return make_answer(
            library, request, lambda r: call.run(library, r).to_dict(), recording, compact=call.compact
        )

    return await execute(short, run)


async def _budget(recording: Recording, seen: bool) -> BudgetState | None:
    if seen or recording.session.limits:
        return cast(BudgetState, await wait_for(recording.reserve(seen)))
    try:
        return cast(BudgetState, await wait_for(recording.reserve(seen), WRITE_SECONDS))
    except StorageError:  # the parent's check is not worth a longer wait
        return None
