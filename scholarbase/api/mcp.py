"""The tools over the Model Context Protocol (https://modelcontextprotocol.io): at ``/mcp``, and over standard input and
output.

A result has the JSON of the native API as structured content, and the same as readable text. An invalid call is a tool
error, whose message tells the model what to change. At ``/mcp/NAME`` the tools are those of the set NAME of an
extension; the text of those that only MCP clients see is the JSON.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from io import TextIOWrapper
from typing import Any, Final, cast
from urllib.parse import urlsplit

import anyio
from anyio import to_thread
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from scholarbase.api import mcp_sdk
from scholarbase.api.holding import library_of
from scholarbase.api.middleware import replaying
from scholarbase.api.problems import rejection
from scholarbase.api.recording import record, record_failure, start_recording
from scholarbase.api.responding import call_of, loads
from scholarbase.api.session_headers import SESSION, session_headers
from scholarbase.api.tool_sets import offered as offered_tools
from scholarbase.api.tool_sets import permitted
from scholarbase.errors import (
    BodyTooLarge,
    Forbidden,
    InvalidRequest,
    MethodNotAllowed,
    ScholarBaseError,
)
from scholarbase.http import is_loopback
from scholarbase.search.library import Library
from scholarbase.sessions.progress import dumps
from scholarbase.tools.calling import Tools
from scholarbase.tools.definitions import mcp_tool_set, schemas, tool_named, tools_in
from scholarbase.tools.tool import McpTool, Tool

log = logging.getLogger("scholarbase.mcp")

Call = Callable[[Any, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Calls a tool: the request's context, the tool's name and the arguments to the JSON of the response."""
ListSchemas = Callable[[Any], Awaitable[list[dict[str, Any]]]]
"""Lists the tools: the request's context to schemas in the form ``mcp``."""

_ANNOTATIONS: Final = {"readOnlyHint": True, "openWorldHint": False}
SESSION_META: Final = "scholarbase/session"
PARENT_META: Final = "scholarbase/parent"
ROUND_META: Final = "scholarbase/round"
MAX_SHOWN_ID: Final = 50
_ODD_ID: Final = re.compile(rb'"id"\s*:\s*(?:[ntf\[{]|-?\d+[.eE])')


def server_of(call: Call, list_schemas: ListSchemas, *, max_bytes: int, offered: str) -> Any:
    """An MCP server of the set of tools ``offered``, that lists its tools with ``list_schemas`` and runs them with
    ``call``. For a set that only MCP clients see, both are those of the nine tools.
    """
    only_mcp = mcp_tool_set(offered)

    async def list_tools(context: Any) -> list[dict[str, Any]]:
        if only_mcp is None:
            listed = await list_schemas(context)
        else:
            listed = [{"name": name, **tool.schema} for name, tool in only_mcp.items()]
        return [{**tool, "annotations": _ANNOTATIONS} for tool in listed]

    async def call_tool(context: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        tool = tool_named(name, offered) if only_mcp is None else only_mcp.named(name)
        try:
            _check_size(arguments, max_bytes)
            if isinstance(tool, McpTool):
                names = {schema["name"] for schema in await list_schemas(context)}
                content = await tool.run(partial(call, context), arguments, names)
                texts = [dumps(content).decode()]
            else:
                content = await call(context, tool.name, arguments)
                texts = tool.texts(content, tool.canonical(arguments).get("offset") or 0)
        except ScholarBaseError as error:
            if error.public is not None:
                log.error("%s: %s", name, error)
            return _tool_error(error)
        except Exception:
            log.exception("%s failed", name)
            return _tool_error(
                ScholarBaseError("An unexpected error occurred. The server's log has the details.")
            )
        parts = [_text(text) for text in texts]
        if content.get("image") is not None:
            media_type = content["media_type"]
            parts.append({"type": "image", "data": content.pop("image"), "mimeType": media_type})
        failed = content.get("error_type") is not None  # of a tool whose errors are responses
        return {"content": parts, "structuredContent": content, "isError": failed}

    return mcp_sdk.new_server((only_mcp or tools_in(offered)).instructions, list_tools, call_tool)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _check_size(arguments: Mapping[str, Any], max_bytes: int) -> None:
    size = len(dumps(dict(arguments)))
    if size > max_bytes:
        raise BodyTooLarge(
            f"The arguments have {size:,} bytes, and the maximum is {max_bytes:,}: split them over several calls."
        )


def _check_format(arguments: Mapping[str, Any]) -> None:
    if arguments.get("format") is not None:
        raise InvalidRequest(
            "format is not supported over MCP, where every response has JSON and text: leave it out."
        )


def _tool_error(error: ScholarBaseError) -> dict[str, Any]:
    about = {"title": error.title, "status": error.status, "detail": error.for_clients}
    return {"content": [_text(error.for_clients)], "structuredContent": about, "isError": True}


def over_http(state: Any, *, offered: str) -> StreamableHTTPSessionManager:
    """Streamable HTTP for the application with this state. A call names its session in the headers of the native
    routes, or in its ``_meta``."""
    tool_set = offered if mcp_tool_set(offered) is None else "scholarbase"

    async def call(context: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        request: Request = context.request
        tool = tool_named(name, tool_set)
        # The call may run on after its request.
        library = library_of(request)
        state.libraries.share(library)
        try:
            return await answer(request, context, tool, library, arguments)
        finally:
            state.libraries.release(library)

    async def answer(
        request: Request, context: Any, tool: Tool, library: Library, arguments: dict[str, Any]
    ) -> dict[str, Any]:
        headers = {**session_headers(request.headers), **_session_meta(context)}
        recording = await start_recording(state, request.scope, tool.name, headers)
        try:
            arguments = tool.canonical(arguments)
            _check_format(arguments)
            parsed = permitted(tool.parse(arguments), state.settings)
            response = await call_of(tool).make_response(request, library, parsed, recording)
        except anyio.get_cancelled_exc_class():
            if recording is not None:
                recording.record_cancellation()
            raise
        except Exception as error:
            if recording is not None:
                await record_failure(recording, arguments, error)
            raise
        if recording is not None:
            await record(recording, [response.arguments(arguments)], response)
        content: dict[str, Any] = loads(response.body)
        return content

    async def list_schemas(context: Any) -> list[dict[str, Any]]:
        request: Request = context.request
        library = library_of(request)
        return schemas(
            "mcp",
            modes=library.modes,
            graph=library.has_graph,
            full_texts=library.has_full_texts,
            in_session=SESSION in request.headers,
            tools=offered_tools(tool_set, state.settings),
        )

    server = server_of(call, list_schemas, max_bytes=state.settings.max_body_bytes, offered=offered)
    return mcp_sdk.over_http(server)


class McpApp:
    """ASGI application of ``/mcp`` and ``/mcp/{set}``: POST requests, but not from pages of other origins.

    MCP requires this check (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning).
    Pages of this machine and of the server's own origin are allowed. :class:`scholarbase.api.middleware.HostCheck`
    prevents DNS rebinding, for all routes.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._origins = state.settings.cors_origins or ()
        self._nine = over_http(state, offered="scholarbase")

    def run(self) -> AbstractAsyncContextManager[None]:
        """The context in which the application runs."""
        return self._nine.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        origin = headers.get("Origin")
        error: ScholarBaseError
        if origin is not None and not self._is_allowed(origin, headers.get("Host", "")):
            error = Forbidden(
                f"Pages of {origin} may not send requests to this server: add the origin to SCHOLARBASE_CORS_ORIGINS."
            )
        elif scope["method"] != "POST":
            # The server sends no messages of its own, so it offers no stream (2025-11-25, "Listening for Messages").
            error = MethodNotAllowed(f"{scope['path']} accepts only POST.")
        elif (problem := _problem_of_id(body := await Request(scope, receive).body())) is not None:
            error = InvalidRequest(problem)
        elif (unknown := _unknown_set(scope["path_params"].get("set"))) is not None:
            error = unknown
        else:
            await self._respond(scope, replaying(body, receive), send)
            return
        response = await rejection(error, scope)
        if isinstance(error, MethodNotAllowed):
            response.headers["Allow"] = "POST"
        await response(scope, receive, send)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        tool_set = scope["path_params"].get("set")
        if tool_set is None:
            await self._nine.handle_request(scope, receive, send)
            return
        # A request has its own server, since extensions are imported on first use.
        manager = over_http(self._state, offered=tool_set)
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    def _is_allowed(self, origin: str, host: str) -> bool:
        if origin in self._origins or "*" in self._origins:
            return True
        try:
            page = urlsplit(origin)
            name, _ = page.hostname or "", page.port
        except ValueError:
            return False
        if page.scheme in ("http", "https") and is_loopback(name):
            return True
        return page.netloc.lower() == host.lower()


def _unknown_set(tool_set: str | None) -> InvalidRequest | None:
    """The error of a path that names no set of tools."""
    if tool_set is None or mcp_tool_set(tool_set) is not None:
        return None
    try:
        tools_in(tool_set)
    except InvalidRequest as error:
        return error
    return None


def _problem_of_id(body: bytes) -> str | None:
    """What is wrong with the id of a message that MCP forbids (2025-11-25, "Requests") and the SDK takes for no id."""
    if _ODD_ID.search(body) is None:
        return None
    try:
        message = loads(body)
    except ValueError:
        return None  # reported by the SDK
    if not isinstance(message, dict) or "id" not in message or type(message["id"]) in (str, int):
        return None
    shown_id = dumps(message["id"]).decode()[:MAX_SHOWN_ID]
    return (
        f"id is {shown_id}: MCP requests have a string or a whole number as id, and notifications have no id."
    )


_INVALID_REQUEST: Final = -32600
"""JSON-RPC's code: https://www.jsonrpc.org/specification#error_object."""
_POLL_SECONDS: Final = 0.02


class _Stdio:
    """Standard input and output, as files of :func:`stdio_server`. A message with an invalid id is answered here.

    Args:
        seconds: how long the requests that were read may take after the end of the input, before they are cancelled.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._out = os.fdopen(os.dup(1), "wb", buffering=0)
        os.dup2(2, 1)  # what a library prints is no message
        self._lock = threading.Lock()
        self._asked: set[str | int] = set()
        """The ids of requests without a response."""

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in anyio.wrap_file(TextIOWrapper(sys.stdin.buffer, "utf-8", errors="replace")):
            if (problem := _problem_of_id(line.encode())) is not None:
                error = {"code": _INVALID_REQUEST, "message": problem}
                await self.write(dumps({"jsonrpc": "2.0", "id": None, "error": error}).decode() + "\n")
                continue
            message = _message(line)
            if "method" in message and "id" in message:
                self._asked.add(message["id"])
            yield line
        with anyio.move_on_after(self._seconds):
            while self._asked:
                await anyio.sleep(_POLL_SECONDS)

    async def write(self, line: str) -> None:
        message = _message(line)
        if "method" not in message:
            self._asked.discard(message.get("id", ""))
        try:
            await to_thread.run_sync(self._write, line.encode())
        except BrokenPipeError:  # the client reads no more
            signal.raise_signal(signal.SIGTERM)

    async def flush(self) -> None:
        """Each line is flushed when it is written."""

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        with self._lock:
            while left:
                left = left[self._out.write(left) :]


def _message(line: str) -> Mapping[str, Any]:
    """A message with the id of a request or response; empty if it has none, or is not valid."""
    try:
        message = loads(line.encode())
    except ValueError:
        return {}
    has_id = isinstance(message, dict) and type(message.get("id")) in (str, int)
    return message if has_id else {}


def _session_meta(context: Any) -> dict[str, Any]:
    meta = context.meta or {}
    keys = (("session", SESSION_META), ("parent", PARENT_META), ("round", ROUND_META))
    for key in meta:
        if key.startswith("scholarbase/") and key not in (SESSION_META, PARENT_META, ROUND_META):
            raise InvalidRequest(
                f"Unknown _meta key {key!r}: a call may have {SESSION_META}, {PARENT_META} and {ROUND_META}."
            )
    return {name: meta[key] for name, key in keys if meta.get(key) is not None}


def serve_stdio(tools: Tools, *, max_bytes: int, offered: str, seconds: float) -> None:
    """Serve the tools on standard input and output until the input ends, and ``seconds`` more for what it asked."""

    async def call(context: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        meta = _session_meta(context)
        if meta.get("session") not in (None, tools.session):
            raise InvalidRequest(
                f"The call names the session {meta['session']!r}, but this server records "
                + (f"all calls in {tools.session!r}" if tools.session else "no calls")
                + ": start it with --session, or leave the session out."
            )
        _check_format(arguments)
        return await to_thread.run_sync(
            lambda: tools.call(name, arguments, parent=meta.get("parent"), round=meta.get("round"))
        )

    async def list_schemas(context: Any) -> list[dict[str, Any]]:
        return await to_thread.run_sync(tools.schemas, "mcp")

    async def main() -> None:
        server = server_of(call, list_schemas, max_bytes=max_bytes, offered=offered)
        stdio = _Stdio(seconds)
        async with stdio_server(cast(Any, stdio), cast(Any, stdio)) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    # The thread that reads would hold the process until the next line. What was answered is recorded.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    anyio.run(main)
