"""The door: everything that an extension can add, and how installed extensions are found.

An extension is a subclass of :class:`Extension` that a package names in its metadata:

.. code-block:: toml

    [project.entry-points."scholarbase.extensions"]
    corpus = "scholarbase_corpus:Corpus"

Extensions are imported on first use: a command, path, source or name that the core does not know. What the core has
takes precedence. One that cannot be loaded is named in the log and in ``scholarbase doctor``; the others still work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Literal, NamedTuple

from scholarbase.settings import load_settings

log = logging.getLogger("scholarbase.extensions")

GROUP: Final = "scholarbase.extensions"
"""The group of entry points."""

Kind = Literal[
    "commands",
    "routes",
    "dialects",
    "sources",
    "query_formats",
    "encoders",
    "rerankers",
    "vector_indexes",
    "session_stores",
    "tool_sets",
    "baselines",
]
"""What an extension may add: the names of the methods of :class:`Extension`."""


class Extension:
    """What a package adds to ScholarBase. A subclass overrides the methods of the kinds that it adds.

    Each method is called once in a process, when something of its kind is needed, and may import what it needs.
    """

    def commands(self) -> Mapping[str, str]:
        """Commands: their words, such as ``eval scan``, and where each one is, as ``package.module:attribute``.

        Each is a :class:`click.Command` or a :class:`click.Group`, which is imported when the command is run.
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

    def sources(self) -> Sequence[Any]:
        """Formats of source files for an ingest, which are recognised by their content."""
        return ()

    def query_formats(self) -> Sequence[Any]:
        """Formats of query files for an evaluation, as :class:`scholarbase.evaluation.formats.reading.Format`."""
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
        those of :meth:`scholarbase.indexes.vectors.edge.EdgeIndex.points` in the library's folder ``vectors``.
        """
        return {}

    def session_stores(self) -> Mapping[str, Callable[..., Any]]:
        """Stores of sessions by the scheme of ``SCHOLARBASE_SESSIONS``: a function from the whole URL to a
        :class:`scholarbase.sessions.storage.Storage`. The quotas of the settings are checked by its caller."""
        return {}

    def tool_sets(self) -> Mapping[str, Sequence[Any]]:
        """Sets of tools by their names: each a sequence of :class:`scholarbase.tools.definitions.Tool`."""
        return {}

    def baselines(self) -> Mapping[str, Callable[..., Any]]:
        """Baseline agents by their names: functions that return a policy."""
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


@lru_cache(maxsize=1)
def installed() -> tuple[Installed, ...]:
    """The extensions that are installed and that ``SCHOLARBASE_EXTENSIONS`` does not leave out, by name.

    Raises:
        InvalidRequest: the environment has an invalid setting.
    """
    wanted = load_settings().extensions
    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    return tuple(_load(entry) for entry in found if wanted is None or entry.name in wanted)


def _load(entry: EntryPoint) -> Installed:
    package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("", "")
    try:
        kind = entry.load()
        if not (isinstance(kind, type) and issubclass(kind, Extension)):
            raise TypeError(f"{entry.value} is not a subclass of scholarbase.Extension")
        return Installed(entry.name, package, version, kind())
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        _warn(entry.name, package, version, "cannot be loaded", problem)
        return Installed(entry.name, package, version, None, problem)


def _warn(name: str, package: str, version: str, what: str, problem: str) -> None:
    log.error(
        "The extension %s (%s %s) %s: %s. Update or uninstall the package, or leave it out with "
        "SCHOLARBASE_EXTENSIONS.",
        name,
        package,
        version,
        what,
        problem,
    )


@cache
def _added(kind: Kind) -> tuple[tuple[str, Any], ...]:
    """What each extension adds of a kind."""
    parts = []
    for one in installed():
        if one.extension is None:
            continue
        try:
            added = getattr(one.extension, kind)()
            parts.append((one.name, dict(added) if isinstance(added, Mapping) else tuple(added)))
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            _warn(one.name, one.package, one.version, f"cannot add its {kind.replace('_', ' ')}", problem)
    return tuple(parts)


def added_list(kind: Kind) -> list[Any]:
    """What extensions add of a kind without names, in the order of the extensions' names."""
    return [one for _, added in _added(kind) for one in added]


def added_names(kind: Kind) -> dict[str, Any]:
    """What extensions add of a kind by name. Of two with the same name, that of the first extension is used."""
    merged: dict[str, tuple[str, Any]] = {}
    for extension, added in _added(kind):
        for name, value in added.items():
            first, _ = merged.setdefault(name, (extension, value))
            if first != extension:
                log.warning("The extensions %s and %s both add %s to %s.", first, extension, name, kind)
    return {name: value for name, (_, value) in merged.items()}


def forget() -> None:
    """Look for extensions again when one is needed, as after a package was installed."""
    installed.cache_clear()
    _added.cache_clear()


def load_attribute(place: str) -> Any:
    """Import ``package.module:attribute``."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def summary(one: Installed) -> Iterator[str]:
    """What an extension adds, in words, such as ``3 commands``."""
    if one.extension is None:
        return
    for kind in Kind.__args__:  # type: ignore[attr-defined]
        added = next((added for name, added in _added(kind) if name == one.name), ())
        if added:
            word = kind.replace("_", " ")
            yield f"{len(added)} {word if len(added) > 1 else word.removesuffix('s')}"
