"""SQL statements over the views of a library: request and response."""

from __future__ import annotations

from typing import Annotated, Final, Self

from msgspec import Meta
from pydantic import Field, model_validator

from scholarbase.models.checks import check_filled, check_whole
from scholarbase.models.requests import ResponseOptions, Timed
from scholarbase.models.responses import Response, Snapshot
from scholarbase.models.values import AsOf

DEFAULT_ROWS: Final = 100
"""Rows of a response, unless the request says otherwise."""
MAX_ROWS: Final = 10_000
MAX_STATEMENT: Final = 20_000
"""Characters of a statement."""
EXAMPLE_STATEMENT: Final = (
    "SELECT paper_id, title FROM papers WHERE list_contains(categories, 'hep-th') "
    "ORDER BY year, paper_id LIMIT 3"
)


class SqlBody(ResponseOptions, Timed):
    """An SQL statement to run."""

    query: str = Field(
        description="One SELECT, WITH ... SELECT or VALUES in SQLite's dialect, over the views of "
        f"`GET /v1/sql/schema`: at most {MAX_STATEMENT:,} characters.",
        examples=[EXAMPLE_STATEMENT],
        json_schema_extra={"minLength": 1, "maxLength": MAX_STATEMENT},
    )
    limit: int = Field(
        default=DEFAULT_ROWS,
        description=f"The most rows of the response, 1 to {MAX_ROWS:,}.",
        examples=[20],
        json_schema_extra={"minimum": 1, "maximum": MAX_ROWS},
    )
    as_of: AsOf = None

    @model_validator(mode="after")
    def _check_query(self) -> Self:
        check_filled(self.query, "query", MAX_STATEMENT, "one SELECT statement")
        check_whole(self.limit, "limit", 1, MAX_ROWS)
        return self


class SqlResponse(Response, frozen=True):
    """The rows of a statement."""

    snapshot: Snapshot
    columns: Annotated[tuple[str, ...], Meta(description="The names of the columns.")]
    rows: Annotated[
        tuple[tuple[str | int | float | None, ...], ...],
        Meta(description="The values of each row: texts, numbers and null."),
    ]
    truncated: Annotated[bool, Meta(description="Whether the statement has more rows, or a value was cut.")]
    row_count: Annotated[int, Meta(description="The number of rows in this response.")]
    warnings: Annotated[
        tuple[str, ...], Meta(description="Present if values or rows are left out because of their size.")
    ] = ()
