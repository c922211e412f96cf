"""``scholarbase doctor``: checks of the machine, the installation and a library, each with what to do."""

from __future__ import annotations

import errno
import os
import platform
import sqlite3
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import starmap
from pathlib import Path
from typing import Final, Literal, NamedTuple

from scholarbase import __version__
from scholarbase.cli.groups import find_command, load_command
from scholarbase.databases import open_in_memory
from scholarbase.errors import AddressError, ExtensionError, ScholarBaseError
from scholarbase.extensions import KINDS, installed, reason
from scholarbase.extras import PACKAGES, install_command, is_installed
from scholarbase.files import disk_size
from scholarbase.http import listen
from scholarbase.indexes.catalog import FILE_NAME as CATALOG
from scholarbase.manifest import Manifest
from scholarbase.models.encoders import EncoderSpec
from scholarbase.sessions.store import SessionStore
from scholarbase.settings import Settings

State = Literal["ok", "warning", "failed"]

SHOWN_PACKAGES: Final = (
    *("qdrant-edge-py", "sqlite-utils", "pydantic", "httpx", "fastapi", "granian", "mcp", "qdrant-client"),
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


def examine(settings: Settings, library: Path | None) -> Iterator[Finding]:
    """Run all checks; those of a library only if one is named."""
    yield Finding(
        "scholarbase", "ok", f"{__version__} on Python {platform.python_version()}, {platform.platform()}"
    )
    yield Finding("packages", "ok", ", ".join(_versions()))
    yield from _extras()
    yield from _extensions()
    yield _sqlite()
    yield _descriptors()
    if library is None:
        yield Finding("library", "warning", "No library is named: give --library DIR to check one.")
    else:
        yield from _library(library, settings)
    yield _sessions(settings)
    yield _port(settings)


def _versions() -> Iterator[str]:
    for package in SHOWN_PACKAGES:
        try:
            yield f"{package} {version(package)}"
        except PackageNotFoundError:
            continue


def _extras() -> Iterator[Finding]:
    for extra in (
        "server",
        "mcp",
        "proxy",
        "qdrant",
        "evaluation",
        "parquet",
        "zstd",
        "storage",
        "documents",
        "tracing",
    ):
        missing = [package for package in PACKAGES[extra] if not is_installed(package)]
        if missing:
            yield Finding(
                f"extra {extra}",
                "warning",
                f"{', '.join(missing)} not installed. If needed: {install_command(extra)}.",
            )


def _extensions() -> Iterator[Finding]:
    for one in installed():
        added: list[str] = []
        problems = [f"cannot be loaded ({one.problem})"] if one.problem else []
        for kind in KINDS if one.extension is not None else ():
            word = kind.replace("_", " ")
            try:
                parts = one.parts(kind)
            except ExtensionError as error:
                problems.append(f"cannot add its {word} ({reason(error.__cause__ or error)})")
                continue
            if parts:
                added.append(f"{word} ({len(parts)})")
            if kind == "commands" and isinstance(parts, dict):
                problems += filter(None, starmap(_command_problem, parts.items()))
        what = ", ".join(added) or ("" if problems else "adds nothing")
        if problems:
            what = "; ".join(filter(None, (what, *problems))) + ": update or uninstall the package"
        state: State = "warning" if problems else "ok"
        yield Finding(f"extension {one.name}", state, f"{one.package} {one.version}: {what}")


def _command_problem(words: str, place: str) -> str | None:
    """Why a command of an extension cannot be run, None if it can."""
    from scholarbase.cli.commands import main

    try:
        command = load_command(words, place)
        if find_command(main, words) is command:
            return None
    except ExtensionError as error:
        return f"its command {words!r} cannot be loaded from {place} ({reason(error.__cause__ or error)})"
    return (
        f"its command {words!r} is not used, since another one has these words, or its group does not exist"
    )


def _sqlite() -> Finding:
    name = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < MIN_SQLITE:
        least = ".".join(map(str, MIN_SQLITE))
        return Finding(
            "sqlite", "failed", f"{name} is too old: use a Python that is built with {least} or newer."
        )
    try:
        with open_in_memory() as connection:
            connection.execute("CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61')")
            connection.execute("INSERT INTO t VALUES ('searching')")
            found = connection.execute("SELECT bm25(t) FROM t WHERE t MATCH 'searches'").fetchall()
            connection.execute("SELECT json_patch('{}', '{}')")
    except sqlite3.Error as error:
        return Finding(
            "sqlite", "failed", f"{name} lacks FTS5 or JSON ({error}): use another build of Python."
        )
    return Finding("sqlite", "ok" if found else "failed", f"{name} with FTS5 and JSON")


def _descriptors() -> Finding:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MIN_DESCRIPTORS:
        return Finding(
            "descriptors",
            "warning",
            f"{soft} open files are allowed, {hard} at most: run ulimit -n {MIN_DESCRIPTORS}.",
        )
    return Finding("descriptors", "ok", f"{soft} open files are allowed")


def _library(path: Path, settings: Settings) -> Iterator[Finding]:
    from scholarbase.search.library import Library

    try:
        with Library.open(path, encoder="none", rerankers={}, settings=settings) as library:
            manifest, snapshot = library.manifest, library.snapshot_id
            state = library.ready()
    except (ScholarBaseError, OSError) as error:
        yield Finding("library", "failed", str(error))
        return
    broken = [f"{part}: {what}" for part, what in state.items() if what not in ("ok", "absent")]
    papers = f"{manifest.counts['papers']:,} papers, snapshot {snapshot}"
    if broken:
        yield Finding("library", "failed", f"{'; '.join(broken)}. Run scholarbase verify, or restore a copy.")
    else:
        yield Finding("library", "ok", f"{path}: {papers}")
    yield _memory(path)
    if manifest.encoder is not None:
        yield _encoder(path, manifest, manifest.encoder, settings)
    if settings.rerankers:
        yield _rerankers(settings)


def _rerankers(settings: Settings) -> Finding:
    from scholarbase.search.opening import open_rerankers

    try:
        opened = open_rerankers(None, settings)
    except ScholarBaseError as error:
        return Finding("rerankers", "failed", str(error))
    for reranker in opened.values():
        reranker.close()
    return Finding("rerankers", "ok", ", ".join(f"{name} ({one.name})" for name, one in opened.items()))


def _encoder(path: Path, manifest: Manifest, spec: EncoderSpec, settings: Settings) -> Finding:
    from scholarbase.search.opening import open_query_encoder

    try:
        encoder = open_query_encoder(path, manifest, None, settings)
    except ScholarBaseError as error:
        return Finding("encoder", "failed", str(error))
    if encoder is None:
        return Finding(
            "encoder",
            "warning",
            "SCHOLARBASE_ENCODER is none: dense and hybrid searches and engine 'learned' are off.",
        )
    encoder.close()
    name = (
        spec.name if spec.query is None else f"the query encoder {spec.query.name} (documents: {spec.name})"
    )
    return Finding("encoder", "ok", f"{name} opens and encodes as when the library was built")


def _memory(path: Path) -> Finding:
    size = disk_size((path / CATALOG, *(path / "vectors").rglob("*")))
    available = _available_memory()
    if available is None:
        return Finding("memory", "ok", f"the library has {size / 1e9:.1f} GB")
    detail = f"{available / 1e9:.1f} GB available, and the library has {size / 1e9:.1f} GB"
    if available < size:
        return Finding(
            "memory",
            "warning",
            f"{detail}: searches will wait for the disk. Add memory, or stop other programs.",
        )
    return Finding("memory", "ok", detail)


def _available_memory() -> int | None:
    """Bytes that programs and the page cache can use; None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)


def _sessions(settings: Settings) -> Finding:
    folder = settings.sessions_location
    if folder is None:
        return Finding("sessions", "ok", "not recorded")
    if isinstance(folder, str):
        return _database(folder)
    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK)):
        return Finding(
            "sessions",
            "failed",
            f"{folder} cannot be written: name another folder by SCHOLARBASE_SESSIONS, or none.",
        )
    return Finding("sessions", "ok", f"recorded in {folder}")


def _database(url: str) -> Finding:
    try:
        with SessionStore(url) as store:
            count, _ = store.sessions(limit=1)
    except ScholarBaseError as error:
        return Finding("sessions", "failed", str(error))
    return Finding("sessions", "ok", f"recorded in {store.name}, which has {count:,}")


def _port(settings: Settings) -> Finding:
    try:
        listen(settings.host, settings.port).close()
    except AddressError as error:
        in_use = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE
        return Finding("port", "warning" if in_use else "failed", str(error))
    return Finding("port", "ok", f"{settings.host} port {settings.port} is free")


def show(findings: Iterator[Finding], write: Callable[[str], object]) -> int:
    """Write a line for each finding. Returns the number of failed checks."""
    failed = 0
    for finding in findings:
        write(f"{finding.state:<8} {finding.name:<12} {finding.detail}")
        failed += finding.state == "failed"
    return failed
