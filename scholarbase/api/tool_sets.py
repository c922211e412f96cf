"""What a server's settings leave of a set of tools."""

from __future__ import annotations

from collections.abc import Sequence

from scholarbase.errors import SqlOff
from scholarbase.models.actions import QueryAction, Refused
from scholarbase.models.limits import ToolSet
from scholarbase.models.requests import Request
from scholarbase.settings import Settings
from scholarbase.tools.definitions import tools_in
from scholarbase.tools.tool import Tool

SQL_OFF = "This server runs no SQL statements: start it with SCHOLARBASE_SQL=true."


def offered(tool_set: ToolSet, settings: Settings) -> Sequence[Tool]:
    """The tools of a set that a server lists."""
    return [tool for tool in tools_in(tool_set) if settings.sql or tool.request is not QueryAction]


def permitted(request: Request, settings: Settings) -> Request:
    """A tool's request, or an action whose observation says that the server does not run it."""
    if isinstance(request, QueryAction) and not settings.sql:
        return Refused(reason=SQL_OFF, error_type=SqlOff.slug, format=request.format)
    return request
