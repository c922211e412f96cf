"""Options of several commands, and the library or server that they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scholarbase.errors import InvalidRequest
from scholarbase.models.limits import CITATION_SORTS, DEFAULT_RERANK_DEPTH, EXPORT_FORMATS
from scholarbase.settings import Settings, cache_folder, is_url

if TYPE_CHECKING:
    from scholarbase.client import Client
    from scholarbase.search.library import Library

F = TypeVar("F", bound=Callable[..., Any])


class _LibraryType(click.Path):
    """A folder, or the URL of a packed library, which stays a string: paths have no double slashes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_url(value):
            return value
        return super().convert(value, param, ctx)


def library_option(command: F) -> F:
    return click.option(
        "--library",
        type=_LibraryType(path_type=Path),
        help="The library's folder, or the URL of a packed library. [env: SCHOLARBASE_LIBRARY]",
    )(command)


def target_option(command: F) -> F:
    """As :func:`library_option`, for a library that is written."""
    return click.option(
        "--library",
        type=click.Path(path_type=Path),
        help="The library's folder. [env: SCHOLARBASE_LIBRARY]",
    )(command)


def as_of_option(command: F) -> F:
    return click.option(
        "--as-of", help="Use the library as of this date, YYYY-MM or YYYY-MM-DD, without later papers."
    )(command)


def author_option(command: F) -> F:
    return click.option("--author", multiple=True, help="An author's name or id; may be repeated.")(command)


def status_option(command: F) -> F:
    return click.option(
        "--status", multiple=True, help="active, withdrawn or retracted papers only; may be repeated."
    )(command)


def page_options(command: F) -> F:
    """The options of a page of papers in an order."""
    for option in reversed(
        (
            click.option(
                "--sort",
                type=click.Choice(CITATION_SORTS),
                help="Sort order. [default: -citation_count, or -date with --as-of]",
            ),
            click.option("--from", "from_", help="Earliest date: YYYY, YYYY-MM or YYYY-MM-DD."),
            click.option("--to", help="Latest date."),
            status_option,
            as_of_option,
        )
    ):
        command = option(command)
    return command


def filter_options(command: F) -> F:
    """The options that select papers by their properties or ids."""
    for option in reversed(
        (
            click.option("--from", "from_", help="Earliest date: YYYY, YYYY-MM or YYYY-MM-DD."),
            click.option("--to", help="Latest date."),
            click.option(
                "--category",
                multiple=True,
                help="A category or archive, such as cs.CL or cs; may be repeated.",
            ),
            click.option("--venue", multiple=True, help="A venue by any of its names; may be repeated."),
            author_option,
            click.option("--min-citations", type=int, help="Minimum number of citations."),
            status_option,
            click.option(
                "--exclude",
                multiple=True,
                help="Exclude papers with this phrase in the title or abstract; may be repeated.",
            ),
            click.option(
                "--exclude-id",
                "exclude_ids",
                multiple=True,
                help="The id of a paper to exclude; may be repeated.",
            ),
            click.option(
                "--within",
                multiple=True,
                help="The id of a paper to search among, or set:NAME; may be repeated.",
            ),
            as_of_option,
        )
    ):
        command = option(command)
    return command


def encoder_option(command: F) -> F:
    return click.option(
        "--encoder", help="The query encoder: a name, a path, a URL, or none. [env: SCHOLARBASE_ENCODER]"
    )(command)


def source_options(command: F) -> F:
    """The options of commands that use a local library or a server."""
    for option in (
        click.option(
            "--url", help="A ScholarBase server to use instead of a library. [env: SCHOLARBASE_URL]"
        ),
        library_option,
        encoder_option,
        click.option("--json", "as_json", is_flag=True, help="Print the response as JSON."),
    ):
        command = option(command)
    return command


def export_option(command: F) -> F:
    return click.option(
        "--format",
        "form",
        type=click.Choice(EXPORT_FORMATS),
        help="Print the papers as BibTeX, RIS, CSL-JSON or CSV.",
    )(command)


def rerank_options(command: F) -> F:
    for option in (
        click.option(
            "--rerank-depth",
            default=DEFAULT_RERANK_DEPTH,
            show_default=True,
            help="Number of first papers that the reranker sorts.",
        ),
        click.option(
            "--rerank", help="Sort the first papers by this reranker. [names: SCHOLARBASE_RERANKERS]"
        ),
    ):
        command = option(command)
    return command


def chosen_reranker(settings: Settings, name: str | None) -> dict[str, str]:
    """The reranker of the settings with this name: a command opens no other models."""
    from scholarbase.search.plan import check_reranker

    if name is None:
        return {}
    known = settings.rerankers or {}
    check_reranker(name, known)
    return {name: known[name]}


def require_library(library: Path | str | None, settings: Settings) -> Path:
    """The folder of the library. One at a URL is fetched."""
    path = local_library(library, settings)
    if path is None:
        raise InvalidRequest("No library: give --library DIR, or set SCHOLARBASE_LIBRARY.")
    return path


def local_library(library: Path | str | None, settings: Settings) -> Path | None:
    """As :func:`require_library`, None if no library is named."""
    named = library or settings.library
    if not isinstance(named, str):
        return named
    from scholarbase.progress import reporter
    from scholarbase.updates.fetching import fetch_library

    folder = settings.cache_dir or cache_folder() / "libraries"
    return fetch_library(named, folder, reporter=reporter(settings.progress_seconds))


def require_target(library: Path | None, settings: Settings) -> Path:
    """The folder of the library that is written."""
    path = library or settings.library
    if path is None:
        raise InvalidRequest("No library: give --library DIR, or set SCHOLARBASE_LIBRARY.")
    if isinstance(path, str) or is_url(str(path).replace(":/", "://", 1)):
        raise InvalidRequest(f"{path} is a URL, and the library is written: give --library DIR.")
    return path


def open_source(
    settings: Settings,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    *,
    default_encoder: str | None = None,
    rerank: str | None = None,
) -> Library | Client:
    """Open the library or the server of the options, or else of the settings.

    ``default_encoder`` is the query encoder of a library when ``encoder`` is None: ``none`` to open no encoder.
    ``rerank`` is the only reranker that a library is opened with.

    Raises:
        InvalidRequest: options contradict each other, or no reranker has this name.
    """
    if url is not None and library is not None:
        raise InvalidRequest("Give --library for a local library or --url for a server, not both.")
    if url is None and (library or settings.library):
        from scholarbase.search.library import Library

        path = require_library(library, settings)
        rerankers = chosen_reranker(settings, rerank)
        return Library.open(path, encoder=encoder or default_encoder, rerankers=rerankers, settings=settings)
    if encoder is not None:
        raise InvalidRequest(
            f"--encoder {encoder} needs a local library, but the server at {url or settings.url} has its own "
            "encoder: omit --encoder, or give --library."
        )
    from scholarbase.client import Client

    key = settings.api_key.get_secret_value() if settings.api_key else None
    return Client(url or settings.url, api_key=key)


def named_sources(sets: Sequence[str]) -> dict[str, list[Path]]:
    """The sources of ``NAME=SOURCE`` by the name of the set."""
    named: dict[str, list[Path]] = {}
    for one in sets:
        name, equals, source = one.partition("=")
        if not equals or not source:
            raise InvalidRequest(f"--set {one} is not NAME=SOURCE: use one such as zotero=my.bib.")
        named.setdefault(name, []).append(Path(source))
    return named
