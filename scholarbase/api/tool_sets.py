"""What a server's settings leave of a set of tools."""

from __future__ import annotations

from collections.abc import Sequence

from scholarbase.errors import SqlOff
from scholarbase.models.requests import Request
from scholarbase.settings import Settings
from scholarbase.tools.definitions import tools_in
from scholarbase.tools.tool import Tool

SQL_OFF = "This server runs no SQL statements: start it with SCHOLARBASE_SQL=true."


def offered(tool_set: str, settings: Settings) -> Sequence[Tool]:
    """The tools of a set that a server lists."""
    return [tool for tool in tools_in(tool_set) if settings.sql or not tool.request.uses_sql]


def permitted(request: Request, settings: Settings) -> Request:
    """A tool's request, or what runs in its place. Raises SqlOff: the server does not run it."""
    if request.uses_sql and not settings.sql:
        return request.refused(SqlOff(SQL_OFF))
    return request
