"""``scholarbase doctor``: checks of the machine, the installation and a library, each with what to do."""

from __future__ import annotations

import errno
import os
import platform
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import starmap
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from scholarbase import __version__
from scholarbase.cli.groups import find_command, load_command
from scholarbase.databases import open_memory
from scholarbase.errors import AddressError, ExtensionError, ScholarBaseError
from scholarbase.extensions import KINDS, Installed, installed, left_out, reason
from scholarbase.extras import PACKAGES, install_command, is_installed
from scholarbase.files import disk_size
from scholarbase.http import listen
from scholarbase.indexes.catalog import FILE_NAME as CATALOG
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.models.encoders import EncoderSpec
from scholarbase.sessions.store import SessionStore
from scholarbase.settings import Settings

State = Literal["ok", "warning", "failed"]

SHOWN_PACKAGES: Final = (
    *("qdrant-edge-py", "pydantic", "httpx", "fastapi", "granian", "mcp", "qdrant-client"),
    *("sentence-transformers", "FlagEmbedding", "torch"),
)
MIN_SQLITE: Final = (3, 38, 0)
"""RETURNING, and JSON functions as a part of every build (https://sqlite.org/changes.html)."""
MIN_DESCRIPTORS: Final = 1024


class Finding(NamedTuple):
    """The result of a check: what it found, and what to do if it is not ok."""

    name: str
    state: State
    detail: str


class _Warning(Exception):
    """What a check warns of."""


def _finding(name: str, check: Callable[..., str], *arguments: Any) -> Finding:
    """Run a check, which returns what it found, or raises what is wrong."""
    try:
        return Finding(name, "ok", check(*arguments))
    except _Warning as warning:
        return Finding(name, "warning", str(warning))
    except (ScholarBaseError, OSError) as error:
        return Finding(name, "failed", str(error))


def examine(settings: Settings, library: Path | None) -> Iterator[Finding]:
    """Run all checks; those of a library only if one is named."""
    yield Finding(
        "scholarbase", "ok", f"{__version__} on Python {platform.python_version()}, {platform.platform()}"
    )
    yield Finding("packages", "ok", ", ".join(_versions()))
    yield _finding("extras", _extras, settings)
    if not installed():
        about = "none enabled (SCHOLARBASE_EXTENSIONS=none)" if left_out() else "none installed"
        yield Finding("extensions", "ok", about)
    for extension in installed():
        yield _finding(f"extension {extension.name}", _extension, extension)
    yield _finding("sqlite", _sqlite)
    yield _finding("descriptors", _descriptors)
    if library is None:
        yield Finding("library", "warning", "No library is named: give --library DIR to check one.")
    else:
        yield from _library(library, settings)
    yield _finding("sessions", _sessions, settings)
    yield _finding("access", _access, settings)
    yield _finding("port", _port, settings)


def _versions() -> Iterator[str]:
    for package in SHOWN_PACKAGES:
        with suppress(PackageNotFoundError):
            yield f"{package} {version(package)}"


def _extras(settings: Settings) -> str:
    """The extras that are installed. Raises _Warning: the settings need another one."""
    extras = {extra: packages for extra, packages in PACKAGES.items() if extra != "report"}
    absent = [extra for extra, packages in extras.items() if not all(map(is_installed, packages))]
    needed = {
        "qdrant": settings.qdrant_url is not None,
        "postgres": isinstance(settings.sessions_location, str),
        "tracing": settings.tracing,
    }
    for extra in absent:
        if needed.get(extra):
            raise _Warning(f"the settings need {extra}, which is not installed: {install_command(extra)}.")
    present = ", ".join(extra for extra in extras if extra not in absent) or "none"
    advice = f"; not installed: {', '.join(absent)} ({install_command('NAME')} adds one)" if absent else ""
    return present + advice


def _extension(extension: Installed) -> str:
    added: list[str] = []
    problems = [f"cannot be loaded ({extension.problem})"] if extension.problem else []
    for kind in KINDS if extension.extension is not None else ():
        word = kind.replace("_", " ")
        try:
            parts = extension.parts(kind)
        except ExtensionError as error:
            problems.append(f"cannot add its {word} ({reason(error.__cause__ or error)})")
            continue
        if parts:
            added.append(f"{word} ({len(parts)})")
        if kind == "commands" and isinstance(parts, dict):
            problems += filter(None, starmap(_command_problem, parts.items()))
    about = f"{extension.package} {extension.version}: {', '.join(added)}"
    if problems:
        separator = "; " if added else ""
        raise _Warning(f"{about}{separator}{'; '.join(problems)}: update or uninstall the package")
    return about if added else f"{about}adds nothing"


def _command_problem(words: str, location: str) -> str | None:
    """Why a command of an extension cannot be run, None if it can."""
    from scholarbase.cli.commands import main

    try:
        command = load_command(words, location)
        if find_command(main, words) is command:
            return None
    except ExtensionError as error:
        return f"its command {words!r} cannot be loaded from {location} ({reason(error.__cause__ or error)})"
    return (
        f"its command {words!r} is not used, since another one has these words, or its group does not exist"
    )


def _sqlite() -> str:
    name = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        least = ".".join(map(str, MIN_SQLITE))
        raise ScholarBaseError(f"{name} is too old: use a Python that is built with {least} or newer.")
    try:
        with closing(open_memory()) as connection:
            connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
            connection.execute("SELECT json_patch('{}', '{}')")
    except sqlite3.Error as error:
        raise ScholarBaseError(
            f"{name} lacks FTS5 or JSON ({error}): use another build of Python."
        ) from error
    return f"{name} with FTS5 and JSON"


def _descriptors() -> str:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MIN_DESCRIPTORS:
        raise _Warning(f"{soft} open files are allowed, {hard} at most: run ulimit -n {MIN_DESCRIPTORS}.")
    return f"{soft} open files are allowed"


def _library(path: Path, settings: Settings) -> Iterator[Finding]:
    from scholarbase.search.library import Library

    def opens() -> str:
        with Library.open(path, encoder="none", rerankers={}, settings=settings) as library:
            papers = f"{library.manifest.counts['papers']:,} papers, snapshot {library.snapshot_id}"
            state = library.ready()
        broken = [f"{part}: {what}" for part, what in state.items() if what not in ("ok", "absent")]
        if broken:
            raise ScholarBaseError(f"{'; '.join(broken)}. Run scholarbase verify, or restore a copy.")
        return f"{path}: {papers}"

    opened = _finding("library", opens)
    yield opened
    if opened.state == "failed":
        return
    yield _finding("memory", _memory, path)
    manifest = read_manifest(path)[0]
    if manifest.encoder is not None:
        yield _finding("encoder", _encoder, path, manifest, manifest.encoder, settings)
    if settings.rerankers:
        yield _finding("rerankers", _rerankers, settings)


def _rerankers(settings: Settings) -> str:
    from scholarbase.search.opening import open_rerankers

    opened = open_rerankers(None, settings)
    for reranker in opened.values():
        reranker.close()
    return ", ".join(f"{name} ({reranker.name})" for name, reranker in opened.items())


def _encoder(path: Path, manifest: Manifest, spec: EncoderSpec, settings: Settings) -> str:
    from scholarbase.search.opening import open_query_encoder

    encoder = open_query_encoder(path, manifest, None, settings)
    if encoder is None:
        raise _Warning("SCHOLARBASE_ENCODER is none: dense and hybrid searches and engine 'learned' are off.")
    encoder.close()
    name = (
        spec.name if spec.query is None else f"the query encoder {spec.query.name} (documents: {spec.name})"
    )
    return f"{name} opens and encodes as when the library was built"


def _memory(path: Path) -> str:
    size = disk_size((path / CATALOG, *(path / "vectors").rglob("*")))
    available = _available_memory()
    if available is None:
        return f"the library has {size / 1e9:.1f} GB"
    detail = f"{available / 1e9:.1f} GB available, and the library has {size / 1e9:.1f} GB"
    if available < size:
        raise _Warning(f"{detail}: searches will wait for the disk. Add memory, or stop other programs.")
    return detail


def _available_memory() -> int | None:
    """Bytes that programs and the page cache can use; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def _sessions(settings: Settings) -> str:
    location = settings.sessions_location
    if location is None:
        return "not recorded"
    with SessionStore(location) as store:
        total = store.sessions(limit=1)[0]
    if isinstance(location, Path):
        existing = next(parent for parent in (location, *location.parents) if parent.exists())
        if not (existing.is_dir() and os.access(existing, os.W_OK)):
            raise ScholarBaseError(
                f"{location} cannot be written: name another folder by SCHOLARBASE_SESSIONS, or none."
            )
    return f"recorded in {store.name}, which has {total:,}"


def _access(settings: Settings) -> str:
    from scholarbase.api.access.guard import check_access

    check_access(settings)
    return "without keys" if settings.keys is None else f"with the keys of {settings.keys}"


def _port(settings: Settings) -> str:
    try:
        listen(settings.host, settings.port).close()
    except AddressError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
            raise _Warning(str(error)) from error
        raise
    return f"{settings.host} port {settings.port} is free"
