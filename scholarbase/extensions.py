"""Everything that an extension can add, and how installed extensions are found.

An extension is a subclass of :class:`Extension` that a package names in its metadata:

.. code-block:: toml

    [project.entry-points."scholarbase.extensions"]
    corpus = "scholarbase_corpus:Corpus"

Extensions are imported on first use: a command, path, source or name that the core does not know. What the core has
takes precedence. One that fails is named in the log and in ``scholarbase doctor``; the others still work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, NamedTuple, get_args

from scholarbase.errors import ExtensionError, InvalidRequest
from scholarbase.settings import Settings, load_settings

log = logging.getLogger("scholarbase.extensions")

GROUP: Final = "scholarbase.extensions"
"""The group of entry points."""
FAILURES: Final = (Exception, SystemExit)
"""What the code of an extension may raise, so that others still work."""

Kind = Literal[
    "commands",
    "routes",
    "dialects",
    "sources",
    "document_readers",
    "query_formats",
    "report_sections",
    "encoders",
    "rerankers",
    "vector_indexes",
    "session_stores",
    "library_fetchers",
    "sql_runners",
    "tool_sets",
    "mcp_tool_sets",
    "baselines",
]
"""What an extension may add: the names of the methods of :class:`Extension`."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_VALUES: Final[Mapping[Kind, str]] = {
    "commands": "builtins:str",
    "routes": "starlette.routing:BaseRoute",
    "dialects": "scholarbase.api.extension_routes:ServedDialect",
    "sources": "scholarbase.ingest.sources.added:SourceFormat",
    "document_readers": "scholarbase.documents.readers:DocumentReader",
    "query_formats": "builtins:object",
    "tool_sets": "scholarbase.tools.tool:Tool",
    "mcp_tool_sets": "scholarbase.tools.tool:McpToolSet",
}
"""The types of the parts of a kind, and of those of a set of tools. All others are functions."""


class Extension:
    """What a package adds to ScholarBase. A subclass overrides the methods of the kinds that it adds.

    A method is called when something of its kind is needed first, and imports what it needs itself, so that a process
    loads no part that it does not use.
    """

    def commands(self) -> Mapping[str, str]:
        """Commands: the words of each, such as ``eval scan``, mapped to ``package.module:attribute``.

        Each is a :class:`click.Command` or a :class:`click.Group`, which is imported when the command is run. All words
        but the last are those of a group that exists.
        """
        return {}

    def routes(self) -> Sequence[Any]:
        """Routes of the server, as Starlette's ``BaseRoute``. They follow all others, and are loaded with the first
        request that no route of the core matches."""
        return ()

    def dialects(self) -> Mapping[str, Any]:
        """Interfaces of other services by their names, for ``serve --dialect NAME``: each a
        :class:`scholarbase.api.extension_routes.ServedDialect`."""
        return {}

    def sources(self) -> Mapping[str, Any]:
        """Formats of source files for an ingest, by the names that a manifest gives them: each a
        :class:`scholarbase.ingest.sources.SourceFormat`."""
        return {}

    def document_readers(self) -> Sequence[Any]:
        """Readers of full texts, for ``ingest --documents``: each a
        :class:`scholarbase.documents.readers.DocumentReader`."""
        return ()

    def query_formats(self) -> Sequence[Any]:
        """Formats of query files for an evaluation, each a
        :class:`scholarbase_research.evaluation.formats.reading.Format`. They are tried before the formats with generic
        columns."""
        return ()

    def report_sections(self) -> Sequence[Callable[..., Any]]:
        """Functions from the runs of a report, a :class:`scholarbase_research.evaluation.measured.Measured`, to more
        sections, each a :class:`scholarbase_research.evaluation.report.page.Section`."""
        return ()

    def encoders(self) -> Mapping[str, Callable[..., Any]]:
        """Encoders by the scheme of their names: ``{"mine": open}`` opens ``mine:NAME`` by ``open(NAME, device)``,
        which returns a :class:`scholarbase.encoders.Encoder`. ``device`` is a torch device, or None."""
        return {}

    def rerankers(self) -> Mapping[str, Callable[..., Any]]:
        """Rerankers by the scheme of their locations, as :meth:`encoders`. ``open`` returns a
        :class:`scholarbase.rerankers.Reranker`."""
        return {}

    def vector_indexes(self) -> Mapping[str, Callable[..., Any]]:
        """Vector indexes by the scheme of ``SCHOLARBASE_VECTOR_INDEX``, for libraries whose vectors are elsewhere.

        ``{"mine": open}`` opens ``mine:ADDRESS`` by ``open(address, library, snapshot, settings)``: the whole
        address, the library's folder, its snapshot id and the :class:`scholarbase.settings.Settings`. It returns a
        :class:`scholarbase.indexes.vectors.index.VectorIndex` with the points of this snapshot, or raises
        VectorIndexError, and LibraryCorrupt if the points are those of another snapshot. The points to load are
        ``points()`` of :func:`scholarbase.indexes.vectors.shards.open_local` of the library's folder ``vectors``.
        """
        return {}

    def session_stores(self) -> Mapping[str, Callable[..., Any]]:
        """Stores of sessions by the scheme of ``SCHOLARBASE_SESSIONS``: a function from the whole URL to a
        :class:`scholarbase.sessions.storage.Storage`. The quotas of the settings are checked by its caller."""
        return {}

    def library_fetchers(self) -> Mapping[str, Callable[..., Any]]:
        """What fetches a library that ``--library`` names by a URL, by the URL's scheme: a function from the URL, the
        folder of the cache and a :class:`scholarbase.progress.Reporter` to the library's folder."""
        return {}

    def sql_runners(self) -> Sequence[Callable[..., Any]]:
        """What runs the SQL statements of a library: functions from its files, a
        :class:`scholarbase.search.opening.Opened`, and its :class:`scholarbase.search.lookup.Lookup` to a
        :class:`scholarbase.search.sql.SqlRunner`. The first is used."""
        return ()

    def tool_sets(self) -> Mapping[str, Sequence[Any]]:
        """Sets of tools by their names: each a sequence of :class:`scholarbase.tools.tool.Tool`, such as a
        :class:`scholarbase.tools.tool.ToolSet`."""
        return {}

    def mcp_tool_sets(self) -> Mapping[str, Any]:
        """Sets of tools that only MCP clients see, by their names: each a
        :class:`scholarbase.tools.tool.McpToolSet`."""
        return {}

    def baselines(self) -> Mapping[str, Callable[..., Any]]:
        """Baseline agents by their names, for ``agent run --policy NAME``.

        Each is a function from the results of a search (``--limit``) and the language model of ``--model``, or None, to
        a :class:`scholarbase_research.agents.base.Policy`, whose ``run(tools, trace, to)`` answers one question.
        """
        return {}


class Installed(NamedTuple):
    """An installed extension.

    Args:
        name: that of its entry point.
        package: the name of its package, and its version.
        extension: None if it cannot be loaded.
        problem: why it cannot be loaded.
    """

    name: str
    package: str
    version: str
    extension: Extension | None
    problem: str | None = None

    def failure(self, what: str, problem: str) -> ExtensionError:
        """The error that names the extension, what it cannot do and why."""
        return ExtensionError(
            f"The extension {self.name} ({self.package} {self.version}) {what}: {problem}. Update or uninstall the "
            "package, or leave it out with SCHOLARBASE_EXTENSIONS."
        )

    def parts(self, kind: Kind) -> dict[str, Any] | tuple[Any, ...]:
        """What it adds of a kind, by name if the kind has names.

        Raises:
            ExtensionError: its method fails or returns another type.
        """
        named = isinstance(getattr(Extension(), kind)(), Mapping)
        try:
            added = getattr(self.extension, kind)()
            if not isinstance(added, Mapping if named else Sequence):
                raise TypeError(f"it is a {type(added).__name__}, not a {'mapping' if named else 'sequence'}")
            parts = dict(added) if named else tuple(added)
            _check_parts(kind, parts)
        except FAILURES as error:
            raise self.failure(f"cannot add its {kind.replace('_', ' ')}", reason(error)) from error
        return parts


def _check_parts(kind: Kind, parts: dict[str, Any] | tuple[Any, ...]) -> None:
    """Raises TypeError: a name or a part is of another type."""
    for name in parts if isinstance(parts, dict) else ():
        if not (isinstance(name, str) and name.strip()):
            raise TypeError(f"the name {name!r} is not a text")
    for part in parts.values() if isinstance(parts, dict) else parts:
        wanted = load_attribute(_VALUES.get(kind, "collections.abc:Callable"))
        for value in part if kind == "tool_sets" else (part,):
            if not isinstance(value, wanted):
                raise TypeError(f"{value!r} is not a {wanted.__name__}")


def reason(error: BaseException) -> str:
    """An error as part of a sentence."""
    return f"{type(error).__name__}: {error}".rstrip(".")


def chosen() -> list[EntryPoint]:
    """The entry points of the installed extensions that ``SCHOLARBASE_EXTENSIONS`` does not leave out, by name.

    Raises:
        InvalidRequest: it names an extension that is not installed.
    """
    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    wanted = load_settings().extensions
    if wanted is None:
        return entries
    names = [entry.name for entry in entries]
    for name in wanted:
        if name not in names:
            raise InvalidRequest(
                f"SCHOLARBASE_EXTENSIONS names {name!r}, which is not an installed extension: the installed ones are "
                f"{', '.join(names) or 'none'}."
            )
    return [entry for entry in entries if entry.name in wanted]


def left_out() -> list[str]:
    """The names of the installed extensions that ``SCHOLARBASE_EXTENSIONS`` leaves out. None of them is imported."""
    wanted = load_settings().extensions
    return sorted(
        {entry.name for entry in entry_points(group=GROUP) if wanted is not None and entry.name not in wanted}
    )


def missing(name: str) -> str:
    """Why one of ScholarBase's own extensions adds nothing here, as the end of a sentence."""
    return (
        f"the extension {name} is not installed, or left out by SCHOLARBASE_EXTENSIONS. It comes with the package "
        "scholarbase"
    )


def check_choice(settings: Settings) -> None:
    """Raises InvalidRequest: the settings choose other extensions than this process has, or one is not installed."""
    chosen()
    if settings.extensions != load_settings().extensions:
        raise InvalidRequest(
            "Extensions are chosen for the whole process: set SCHOLARBASE_EXTENSIONS, not settings.extensions."
        )


@cache
def installed() -> tuple[Installed, ...]:
    """The installed extensions that ``SCHOLARBASE_EXTENSIONS`` does not leave out, by name.

    Raises:
        InvalidRequest: it names an extension that is not installed.
    """
    loaded: dict[str, Installed] = {}
    problems: list[Installed] = []
    for entry in chosen():
        extension = _load(entry, loaded.get(entry.name))
        if extension.problem is not None:
            log.error("%s", extension.failure("cannot be loaded", extension.problem))
            problems.append(extension)
        else:
            loaded[extension.name] = extension
    return tuple(sorted((*loaded.values(), *problems), key=lambda extension: extension.name))


def _load(entry: EntryPoint, first: Installed | None) -> Installed:
    package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("", "")
    try:
        if first is not None:
            raise ValueError(f"{first.package} has an extension with this name too")
        kind = entry.load()
        if not (isinstance(kind, type) and issubclass(kind, Extension)):
            raise TypeError(f"{entry.value} is not a subclass of scholarbase.Extension")
        return Installed(entry.name, package, version, kind())
    except FAILURES as error:
        return Installed(entry.name, package, version, None, reason(error))


@cache
def _added(kind: Kind) -> tuple[tuple[str, Any], ...]:
    """What each extension adds of a kind."""
    added: list[tuple[str, Any]] = []
    owners: dict[str, str] = {}
    for loaded in installed():
        if loaded.extension is None:
            continue
        try:
            parts = loaded.parts(kind)
        except ExtensionError as error:
            log.error("%s", error)
            continue
        added.append((loaded.name, parts))
        for name in parts if isinstance(parts, dict) else ():
            if (owner := owners.setdefault(name, loaded.name)) != loaded.name:
                log.warning(
                    "The extensions %s and %s both add %r to the %s: that of %s is used.",
                    owner,
                    loaded.name,
                    name,
                    kind.replace("_", " "),
                    owner,
                )
    return tuple(added)


def added_list(kind: Kind) -> list[Any]:
    """What extensions add of a kind without names, in the order of the extensions' names."""
    return [part for _, parts in _added(kind) for part in parts]


def added_names(kind: Kind) -> dict[str, Any]:
    """What extensions add of a kind by name. Of two with the same name, that of the first extension is used."""
    merged: dict[str, Any] = {}
    for _, parts in _added(kind):
        merged = parts | merged
    return merged


def added_tool(name: str) -> Any:
    """The :class:`scholarbase.tools.tool.Tool` of this name in a set of an extension, or None."""
    tools = (tool for tool_set in added_names("tool_sets").values() for tool in tool_set)
    return next((tool for tool in tools if tool.name == name), None)


def forget() -> None:
    """Look for extensions again when one is needed, as after a package was installed."""
    installed.cache_clear()
    _added.cache_clear()


def load_attribute(place: str) -> Any:
    """Import ``package.module:attribute``."""
    module, colon, attribute = place.partition(":")
    if not colon:
        raise ValueError(f"{place!r} is not package.module:attribute")
    return getattr(import_module(module), attribute)
