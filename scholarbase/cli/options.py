"""What several commands take, and where a question goes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings

if TYPE_CHECKING:
    from scholarbase.client import Client
    from scholarbase.search.library import Library

F = TypeVar("F", bound=Callable[..., Any])


def library_option(command: F) -> F:
    return click.option(
        "--library",
        type=click.Path(path_type=Path),
        help="The library's folder. [env: SCHOLARBASE_LIBRARY]",
    )(command)


def as_of_option(command: F) -> F:
    return click.option(
        "--as-of", help="As if asked then, YYYY-MM or YYYY-MM-DD: later papers do not exist."
    )(command)


def encoder_option(command: F) -> F:
    return click.option(
        "--encoder", help="The query encoder: a name, a path, a URL, or none. [env: SCHOLARBASE_ENCODER]"
    )(command)


def where_options(command: F) -> F:
    """Where a question goes: a library here, or a server."""
    for option in (
        click.option(
            "--url", help="A ScholarBase server to ask instead of a library. [env: SCHOLARBASE_URL]"
        ),
        library_option,
        encoder_option,
        click.option("--json", "as_json", is_flag=True, help="Print the answer's JSON."),
    ):
        command = option(command)
    return command


def need_library(given: Path | None, settings: Settings) -> Path:
    path = given or settings.library
    if path is None:
        raise InvalidRequest("Which library? Give --library DIR, or set SCHOLARBASE_LIBRARY.")
    return path


def open_source(
    settings: Settings,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    *,
    default_encoder: str | None = None,
) -> Library | Client:
    """The library or the server that is named, else that of the settings. ``default_encoder`` is opened with a library
    where no encoder is named: ``none`` for what does not search."""
    if url is not None and library is not None:
        raise InvalidRequest("Give --library or --url, not both: one is a folder here, the other a server.")
    if url is None and (library or settings.library):
        from scholarbase.search.library import Library

        path = need_library(library, settings)
        return Library.open(path, encoder=encoder or default_encoder, settings=settings)
    if encoder is not None:
        raise InvalidRequest(
            f"--encoder {encoder} is for a library here, and the server at {url or settings.url} has its own: leave "
            "it out, or give --library."
        )
    from scholarbase.client import Client

    key = settings.api_key.get_secret_value() if settings.api_key else None
    return Client(url or settings.url, api_key=key)
