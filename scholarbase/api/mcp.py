"""The tools over the Model Context Protocol (https://modelcontextprotocol.io): on a server's ``/mcp``, and on standard
input and output for a client that starts its servers itself.

An answer comes twice: as structured content, the JSON of the native API, and as a text that reads well. What is wrong
with a call is a tool's error, with the sentence that tells a model what to change.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final

import anyio
from anyio import to_thread
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as McpTool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from scholarbase import __version__
from scholarbase.api.problems import problem
from scholarbase.api.recording import record, record_failure, start_recording
from scholarbase.api.responding import call_of, make
from scholarbase.api.session_headers import session_headers
from scholarbase.errors import BodyTooLarge, Forbidden, InvalidRequest, ScholarBaseError, ToolNotFound
from scholarbase.responses.text import as_text
from scholarbase.sessions.progress import dumps
from scholarbase.tools.calling import Tools
from scholarbase.tools.definitions import TOOLS, tool_named

log = logging.getLogger("scholarbase.mcp")

Call = Callable[[Any, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""The JSON of a tool's answer, from the request's context, the tool's name and its arguments."""

INSTRUCTIONS: Final = (
    "A local library of papers; every answer names its snapshot, and an empty list means that nothing matched. Search "
    "with search_papers, then follow citations with expand_papers. Set max_tokens to keep answers small."
)
SESSION_META: Final = "scholarbase/session"
PARENT_META: Final = "scholarbase/parent"
ROUND_META: Final = "scholarbase/round"


def server_of(call: Call, *, max_bytes: int) -> Server[Any]:
    """An MCP server whose tools are answered by ``call``."""

    async def list_tools(context: Any, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=listed)

    async def call_tool(context: Any, params: CallToolRequestParams) -> CallToolResult:
        arguments = dict(params.arguments or {})
        try:
            tool_named(params.name)
        except ToolNotFound as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        try:
            _check_size(arguments, max_bytes)
            content = await call(context, params.name, arguments)
        except ScholarBaseError as error:
            return _refused(error)
        except Exception:
            log.exception("%s failed", params.name)
            return _refused(
                ScholarBaseError("The server met an error that it does not know: its log has the details.")
            )
        text = TextContent(type="text", text=as_text(content, offset=arguments.get("offset") or 0))
        return CallToolResult(content=[text], structured_content=content)

    listed = [
        McpTool(
            name=tool.name,
            description=tool.description,
            input_schema=tool.schema(),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )
        for tool in TOOLS
    ]
    return Server(
        "scholarbase",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _check_size(arguments: Mapping[str, Any], max_bytes: int) -> None:
    size = len(dumps(dict(arguments)))
    if size > max_bytes:
        raise BodyTooLarge(
            f"The arguments have {size:,} bytes, and {max_bytes:,} is the most: send less at once."
        )


def _check_format(arguments: Mapping[str, Any]) -> None:
    if arguments.get("format") is not None:
        raise InvalidRequest(
            "format is not taken over MCP, where an answer comes as JSON and as text: leave it out."
        )


def _refused(error: ScholarBaseError) -> CallToolResult:
    about = {"title": error.title, "status": error.status, "detail": str(error)}
    return CallToolResult(
        content=[TextContent(type="text", text=str(error))], structured_content=about, is_error=True
    )


def over_http(state: Any, *, max_bytes: int) -> StreamableHTTPSessionManager:
    """Streamable HTTP for the application of this state.

    Stateless, so that any of several serving processes answers any request. What belongs to an agent's session is told
    by the same headers as on the native routes, or by ``_meta`` of a call.
    """

    async def call(context: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        request: Request = context.request
        tool, library = tool_named(name), state.library
        told = {**session_headers(request.headers), **_told(context)}
        recording = await start_recording(state, request.scope, name, told)
        try:
            _check_format(arguments)
            answer = await make(library, call_of(tool), tool.parse(arguments), recording)
        except Exception as error:
            if recording is not None:
                await record_failure(recording, arguments, error)
            raise
        if recording is not None:
            await record(recording, [arguments], answer)
        return answer.content

    return StreamableHTTPSessionManager(
        server_of(call, max_bytes=max_bytes),
        json_response=True,
        stateless=True,
        max_request_body_size=1 << 62,  # the server's own limit holds before it
    )


class McpApp:
    """What answers at ``/mcp``: the protocol, once it is known that no page of another origin asks. A page may reach a
    server on this machine by a name that it makes point here, and a browser then says whose page it is
    (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning)."""

    def __init__(self, manager: StreamableHTTPSessionManager, origins: Collection[str]) -> None:
        self._manager = manager
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = Headers(scope=scope).get("Origin")
        if origin is not None and origin not in self._origins and "*" not in self._origins:
            error = Forbidden(
                f"A page of {origin} asks, and none may but those of SCHOLARBASE_CORS_ORIGINS: name it there."
            )
            await problem(error.status, error.slug, error.title, str(error))(scope, receive, send)
            return
        await self._manager.handle_request(scope, receive, send)


def _told(context: Any) -> dict[str, Any]:
    meta = context.meta or {}
    keys = (("session", SESSION_META), ("parent", PARENT_META), ("round", ROUND_META))
    for key in meta:
        if key.startswith("scholarbase/") and key not in (SESSION_META, PARENT_META, ROUND_META):
            raise InvalidRequest(
                f"Unknown _meta key {key!r}: a call may have {SESSION_META}, {PARENT_META} and {ROUND_META}."
            )
    return {name: meta[key] for name, key in keys if meta.get(key) is not None}


def serve_stdio(tools: Tools, *, max_bytes: int) -> None:
    """Serve the tools on standard input and output until that ends."""

    async def call(context: Any, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        told = _told(context)
        if told.get("session") not in (None, tools.session):
            raise InvalidRequest(
                f"The call is told to be of the session {told['session']!r}, and this server records "
                + (f"all of them as {tools.session!r}" if tools.session else "none")
                + ": start it with --session, or leave the session out."
            )
        _check_format(arguments)
        content = await to_thread.run_sync(
            lambda: tools.call(name, arguments, parent=told.get("parent"), round=told.get("round"))
        )
        assert isinstance(content, dict)
        return content

    async def main() -> None:
        server = server_of(call, max_bytes=max_bytes)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(main)
