"""The schema of SQL statements: as the OpenAPI document describes it, and as text for a model to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field

from scholarbase.api.openapi import SNAPSHOT


class SqlColumn(BaseModel):
    name: str
    type: str = Field(description="TEXT, INTEGER or REAL.")
    description: str


class SqlView(BaseModel):
    name: str
    description: str
    columns: list[SqlColumn]


class SqlFunctions(BaseModel):
    own: dict[str, str] = Field(description="The functions besides SQLite's, and what they return.")
    sqlite: list[str] = Field(description="The functions of SQLite that statements may call.")


class SqlLimits(BaseModel):
    seconds: float = Field(description="The time of a statement.")
    rows: int = Field(description="The largest `limit`.")
    default_rows: int = Field(description="The rows of a response without `limit`.")
    bytes: int = Field(description="The size of the rows of a response.")
    value_characters: int = Field(description="The characters of a value in a response.")
    value_bytes: int = Field(description="The size of a value in a statement.")


class SqlSchemaResponse(BaseModel):
    snapshot: str = SNAPSHOT
    dialect: str = Field(description="`SQLite`.")
    description: str = Field(description="What a statement may be.")
    views: list[SqlView]
    functions: SqlFunctions
    limits: SqlLimits
    examples: list[str] = Field(description="Statements that can be sent as they are.")


def schema_as_text(schema: Mapping[str, Any]) -> str:
    """The schema of SQL statements for a model to read."""
    lines = [f"SQL in {schema['dialect']}'s dialect. {schema['description']}", ""]
    for view in schema["views"]:
        lines.append(f"{view['name']}: {view['description']}")
        lines += [
            f"  {column['name']} {column['type']}: {column['description']}" for column in view["columns"]
        ]
        lines.append("")
    lines.append("Functions:")
    lines += [f"  {name}: {about}" for name, about in schema["functions"]["own"].items()]
    lines += [f"  SQLite's {', '.join(schema['functions']['sqlite'])}", ""]
    limits = schema["limits"]
    lines.append(
        f"Limits: {limits['seconds']:g} seconds, {limits['default_rows']} rows by default and {limits['rows']:,} at "
        f"most, {limits['bytes']:,} bytes, {limits['value_characters']:,} characters of a value."
    )
    lines += ["", "Examples:", *(f"  {example}" for example in schema["examples"])]
    return "\n".join(lines)
