"""``scholarbase sql``: an SQL statement over the views of a library or a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson

from scholarbase.cli.options import as_of_option, open_source, source_options
from scholarbase.errors import InvalidRequest
from scholarbase.models.sql import DEFAULT_ROWS
from scholarbase.settings import Settings


@click.command(short_help="Run an SQL statement.")
@click.argument("query", required=False)
@click.option("--schema", is_flag=True, help="Print the views with their columns instead.")
@click.option("--limit", default=DEFAULT_ROWS, show_default=True, help="The most rows.")
@click.option("--timeout", type=float, help="Seconds that it may take. [default: SCHOLARBASE_TIMEOUT]")
@as_of_option
@source_options
@click.pass_obj
def sql(
    settings: Settings,
    /,
    query: str | None,
    schema: bool,
    as_json: bool,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    **options: Any,
) -> None:
    """Run QUERY, one SELECT in SQLite's dialect, over the read-only views of a library or a server."""

    from scholarbase.responses.text import rows_as_text
    from scholarbase_sql.schema import schema_as_text

    if (query is None) is not schema:
        raise InvalidRequest("Give a QUERY, or --schema to see the views.")
    with open_source(settings, library, url, encoder, default_encoder="none") as source:
        if query is None:
            content = source.sql_schema()
            text = schema_as_text(content)
        else:
            response = source.sql(query, **options)
            content = response.to_dict()
            text = rows_as_text(content)
            for warning in response.warnings:
                click.echo(f"Warning: {warning}", err=True)
            if response.truncated:
                click.echo("There is more: raise --limit, or use LIMIT and OFFSET.", err=True)
    click.echo(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode() if as_json else text)
