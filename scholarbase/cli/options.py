"""Options of several commands, and the library or server that they name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, get_origin

import click
import orjson
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from scholarbase.errors import InvalidRequest, LibraryNotFound
from scholarbase.extensions import added_names
from scholarbase.models.limits import EXPORT_FORMATS
from scholarbase.settings import PREFIX, Settings, is_url
from scholarbase.terminal import printable_json

if TYPE_CHECKING:
    from scholarbase.client import Client
    from scholarbase.encoders import Encoder
    from scholarbase.search.library import Library

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Final = {"fields": "--field", "exclude_ids": "--exclude-id", "keep_libraries": "--keep"}
"""Names of options that are not those of their fields."""
_OMITTED: Final = ("max_tokens", "format", "exclude_seen", "timeout")
"""Fields of requests that are no options: they are for callers of a server."""


class _LibraryType(click.Path):
    """A folder, or the URL of a packed library, which stays a string: paths have no double slashes."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and is_url(value):
            return value
        return super().convert(value, param, ctx)


# -- options of models -----------------------------------------------------------------------------------


def request_options(model: type[BaseModel], *names: str, without: Sequence[str] = ()) -> Callable[[F], F]:
    """An option for each field of a request, or for those in ``names``, with its type, default and description."""
    chosen = names or [name for name in model.model_fields if name not in (*_OMITTED, *without)]
    return _options([_request_option(name, model.model_fields[name]) for name in chosen])


def setting_options(*names: str) -> Callable[[F], F]:
    """An option for each of these settings. Its value is None where the setting counts."""
    return _options([_setting_option(name, Settings.model_fields[name]) for name in names])


def _options(decorators: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    def add(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return add


def _request_option(name: str, field: FieldInfo) -> Callable[[F], F]:
    text = _described(field)
    if _kind(field) is tuple:
        joined = "separated by commas" in (field.description or "")
        return click.option(
            *_names(name),
            multiple=True,
            callback=(lambda context, parameter, values: ",".join(values) or None) if joined else None,
            help=f"{text} May be repeated.",
        )
    shown = field.default is not None and field.default is not False
    return click.option(*_names(name), **_type(field), default=field.default, show_default=shown, help=text)


def _setting_option(name: str, field: FieldInfo) -> Callable[[F], F]:
    default = "" if field.default is None or field.default is False else f"; default: {field.default}"
    text = f"{_described(field)} [env: {PREFIX}{name.upper()}{default}]"
    return click.option(*_names(name), **_type(field), default=None, help=text)


def _names(name: str) -> tuple[str, str]:
    return _OPTIONS.get(name) or f"--{name.rstrip('_').replace('_', '-')}", name


def _kind(field: FieldInfo) -> Any:
    """The type of a field without None: ``tuple``, ``bool``, a Literal, ..."""
    annotation = field.annotation
    kind = next((part for part in get_args(annotation) if NoneType in get_args(annotation)), annotation)
    return tuple if get_origin(kind) is tuple else kind


def _type(field: FieldInfo) -> dict[str, Any]:
    kind = _kind(field)
    if kind is bool:
        return {"is_flag": True}
    return {"type": click.Choice(get_args(kind)) if get_origin(kind) is Literal else kind}


def _described(field: FieldInfo) -> str:
    """The description of a field, without the sentences on HTTP."""
    sentences = (field.description or "").rstrip(".").split(". ")
    kept = (text for text in sentences if not text.startswith(("In a string or a URL", "In a URL", "`/v1/")))
    return f"{'. '.join(kept)}.".replace("`", "").replace("/v1/", "scholarbase ")


# -- options of several commands -------------------------------------------------------------------------


library_option = click.option(
    "--library",
    type=_LibraryType(path_type=Path),
    help="The library's folder, the name of one that get or demo wrote, or the URL of a packed library. "
    "[env: SCHOLARBASE_LIBRARY]",
)
target_option = click.option(
    "--library",
    type=click.Path(path_type=Path),
    help="The library's folder. [env: SCHOLARBASE_LIBRARY]",
)
"""As ``library_option``, for a library that is written."""
url_option = click.option(
    "--url", help="A ScholarBase server to use instead of a library. [env: SCHOLARBASE_URL]"
)
as_of_option = click.option(
    "--as-of", help="Use the library as of this date, YYYY-MM or YYYY-MM-DD, without later papers."
)
encoder_option = setting_options("encoder")
sets_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=SOURCE",
    help="A source whose papers are the set NAME, which searches name as --within set:NAME; may be repeated.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
export_option = click.option(
    "--format",
    "form",
    type=click.Choice(EXPORT_FORMATS),
    help="Print the papers as BibTeX, RIS, CSL-JSON or CSV.",
)


def source_options(command: F) -> F:
    """The options of commands that use a local library or a server."""
    return json_option(encoder_option(library_option(url_option(command))))


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(printable_json(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()))


# -- libraries -------------------------------------------------------------------------------------------


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
    if named is None:
        return None
    if isinstance(named, Path):
        if not named.exists():
            return downloaded_library(named, settings)
        warn_of_folder(named, settings)
        return named
    from scholarbase.progress import reporter

    fetchers = added_names("library_fetchers")
    scheme = named.partition(":")[0]
    if scheme.lower() not in fetchers:
        raise InvalidRequest(
            f"{named!r} is not the URL of a library: no installed extension fetches libraries at {scheme}://."
        )
    folder: Path = fetchers[scheme.lower()](
        named, settings.libraries_folder, reporter(settings.progress_seconds)
    )
    return folder


def downloaded_library(named: Path, settings: Settings) -> Path:
    """The folder of the library with this name that ``get`` or ``demo`` wrote, or the path itself if there is none.

    Raises:
        LibraryNotFound: the demo is not built yet.
    """
    folder = settings.libraries_folder / named
    if str(named) == "demo" and not folder.is_dir():
        raise LibraryNotFound('No library demo: run "scholarbase demo" first, which builds it.')
    return folder if len(named.parts) == 1 and folder.is_dir() else named


def warn_of_folder(named: Path, settings: Settings) -> None:
    """Log a warning if a folder here has the name of a library that ``get`` or ``demo`` wrote: the folder is used."""
    library = settings.libraries_folder / named
    if len(named.parts) == 1 and library.is_dir() and library.resolve() != named.resolve():
        log.warning(
            "%s is the folder %s here, not the library %s of that name: for the other one, give its path.",
            named,
            named.resolve(),
            library,
        )


def require_target(library: Path | None, settings: Settings) -> Path:
    """The folder of the library that is written."""
    path = library or settings.library
    if path is None:
        raise InvalidRequest("No library: give --library DIR, or set SCHOLARBASE_LIBRARY.")
    if isinstance(path, str) or is_url(str(path).replace(":/", "://", 1)):
        raise InvalidRequest(f"{path} is a URL, and the library is written: give --library DIR.")
    warn_of_folder(path, settings)
    return path


def open_source(
    settings: Settings,
    library: Path | None,
    url: str | None,
    encoder: str | Encoder | None,
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
    for assignment in sets:
        name, equals, source = assignment.partition("=")
        if not equals or not source:
            raise InvalidRequest(f"--set {assignment} is not NAME=SOURCE: use one such as zotero=my.bib.")
        named.setdefault(name, []).append(Path(source))
    return named
