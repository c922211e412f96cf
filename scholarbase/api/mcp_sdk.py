"""The MCP SDK, versions 1.10 and later: all that differs between its first and second major version."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any, Final

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from scholarbase import __version__
from scholarbase.errors import ToolNotFound

IS_FIRST: Final = int(version("mcp").partition(".")[0]) < 2
TTL_MS: Final = 60_000
"""How long a client may keep the lists of a server. They change only with its library."""
_types: Final[Any] = import_module("mcp.types" if IS_FIRST else "mcp_types")

ListTools = Callable[[Any], Awaitable[list[dict[str, Any]]]]
"""Lists the tools of a request, as the protocol writes them. The context has the HTTP ``request`` and ``meta``."""
CallTool = Callable[[Any, str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Calls a tool with arguments; the result is that of ``tools/call``. Raises ToolNotFound: there is no such tool."""


def new_server(instructions: str, list_tools: ListTools, call_tool: CallTool) -> Any:
    """A server of tools."""

    async def listed(context: Any) -> Any:
        return _types.ListToolsResult.model_validate({"tools": await list_tools(context)})

    async def called(context: Any, params: Any) -> Any:
        try:
            result = await call_tool(context, params.name, dict(params.arguments or {}))
        except ToolNotFound as error:
            raise _invalid_params(str(error)) from error
        return _types.CallToolResult.model_validate(result)

    about: dict[str, Any] = {"version": __version__, "instructions": instructions}
    if not IS_FIRST:
        return _second(about, listed, called)
    server: Any = Server("scholarbase", **about)

    def context() -> Any:
        current = server.request_context
        return SimpleNamespace(request=current.request, meta=current.meta and current.meta.model_dump())

    async def list_first(_: Any) -> Any:
        return _types.ServerResult(await listed(context()))

    async def call_first(request: Any) -> Any:
        return _types.ServerResult(await called(context(), request.params))

    server.request_handlers[_types.ListToolsRequest] = list_first
    server.request_handlers[_types.CallToolRequest] = call_first
    return server


def _second(about: Mapping[str, Any], listed: Any, called: Any) -> Any:
    async def list_second(context: Any, _: Any) -> Any:
        return await listed(context)

    options: dict[str, Any] = {}
    if "cache_hints" in inspect.signature(Server.__init__).parameters:
        hint = import_module("mcp.server.caching").CacheHint(ttl_ms=TTL_MS, scope="private")
        options["cache_hints"] = dict.fromkeys(("tools/list", "server/discover"), hint)
    return Server("scholarbase", **about, on_list_tools=list_second, on_call_tool=called, **options)


def _invalid_params(message: str) -> Exception:
    error: Exception
    if IS_FIRST:
        data = _types.ErrorData(code=_types.INVALID_PARAMS, message=message)
        error = import_module("mcp.shared.exceptions").McpError(data)
    else:
        error = import_module("mcp").MCPError(_types.INVALID_PARAMS, message)
    return error


def over_http(server: Any) -> StreamableHTTPSessionManager:
    """Streamable HTTP without sessions of the transport, so that every worker can handle every request."""
    options: dict[str, Any] = {}
    if "max_request_body_size" in inspect.signature(StreamableHTTPSessionManager.__init__).parameters:
        options["max_request_body_size"] = 1 << 62  # BodyLimit applies first
    return StreamableHTTPSessionManager(server, json_response=True, stateless=True, **options)
