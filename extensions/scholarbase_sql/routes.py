"""``/v1/sql``: SQL statements over the views of a library, and their schema."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from scholarbase.api.openapi import TEXT
from scholarbase.api.responding import Call
from scholarbase.api.routes import OpenLibrary, cacheable, json_response, resource, route
from scholarbase.api.tool_sets import SQL_OFF
from scholarbase.errors import LibraryError, SqlOff, StorageError
from scholarbase.models.sql import SqlBody, SqlResponse
from scholarbase.search.library import Library
from scholarbase.settings import Settings
from scholarbase.tools.definitions import SQL
from scholarbase_sql.schema import SqlSchemaResponse, schema_as_text

router = resource("/v1/sql", "sql", SqlOff, LibraryError, StorageError)


def _check_on(settings: Settings) -> None:
    """Raises SqlOff: the server runs no SQL."""
    if not settings.sql:
        raise SqlOff(SQL_OFF)


class SqlSchemaParameters(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: Literal["json", "text"] = Field(
        "json", description="JSON, or text for a model to read.", examples=["json"]
    )


route(
    router,
    "POST",
    Call(Library.run_sql, SqlBody, SqlResponse, SQL, check_settings=_check_on, is_cached=False),
    name="sql",
    summary="Run an SQL statement",
    description="One SELECT over documented read-only views, in SQLite's dialect, with limits on time, memory and "
    "size. The server must be started with `SCHOLARBASE_SQL=true`.",
)


@router.get(
    "/schema",
    response_model=SqlSchemaResponse,
    responses={200: {"content": TEXT}},
    summary="The views of SQL statements",
)
@cacheable
async def sql_schema(
    request: Request, library: OpenLibrary, parameters: Annotated[SqlSchemaParameters, Query()]
) -> Response:
    """The views with their columns, the functions, the limits and examples, for a model to read."""
    _check_on(request.app.state.settings)
    schema = library.sql_schema()
    if parameters.format == "text":
        return Response(schema_as_text(schema), media_type="text/plain")
    return json_response(schema)
