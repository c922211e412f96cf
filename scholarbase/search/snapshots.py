"""A folder of libraries, and the one of them to serve.

A server may be started on a library, on a symbolic link to one, or on a folder of libraries. In such a folder a link
named ``current`` decides; without it, the complete library whose folder has the last name. Manifests have no times, so
folders are named by date: ``2026-07-14``.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scholarbase import manifest
from scholarbase.errors import InvalidRequest, LibraryCorrupt, LibraryNotFound, StorageError
from scholarbase.indexes import contents
from scholarbase.manifest import Manifest, read_manifest

CURRENT: Final = "current"
"""The name of the link in a folder of libraries to the one that is served."""
REMOVED: Final = ".pruned-"
"""The start of the name of a library that is being removed."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete library in a folder.

    Args:
        problem: why its manifest cannot be read; then it has no snapshot id and no counts.
    """

    path: Path
    snapshot: str | None
    manifest: Manifest | None
    is_current: bool
    problem: str | None = None


def locate(path: Path) -> Path:
    """The folder of the library that ``path`` names now, without symbolic links.

    Raises:
        LibraryNotFound: ``path`` is no library, no link to one, and has none in it.
    """
    if (path / manifest.FILE_NAME).exists() or (path / "building").exists() or not path.is_dir():
        return path.resolve()
    if os.path.lexists(path / CURRENT):
        return _target(path / CURRENT)
    libraries = _libraries(path)
    if not libraries:
        raise LibraryNotFound(
            f'No library at {path}, and no complete one in it: run "scholarbase ingest" first, or give another '
            "--library."
        )
    return libraries[-1].resolve()


def snapshots(folder: Path) -> list[Snapshot]:
    """The complete libraries in a folder, by name.

    Raises:
        LibraryNotFound: there is no such folder.
        InvalidRequest: it is a library itself.
    """
    if not folder.is_dir():
        raise LibraryNotFound(f"There is no folder {folder}: give a folder with libraries in it.")
    if (folder / manifest.FILE_NAME).exists():
        raise InvalidRequest(f"{folder} is a library: give the folder that it is in.")
    current = (folder / CURRENT).resolve() if os.path.lexists(folder / CURRENT) else None
    listed = []
    for path in _libraries(folder):
        is_current = path.resolve() == current
        try:
            about, snapshot = read_manifest(path)
        except LibraryCorrupt as error:
            listed.append(Snapshot(path, None, None, is_current, str(error)))
        else:
            listed.append(Snapshot(path, snapshot, about, is_current))
    return listed


def prune(folder: Path, keep: int) -> list[Snapshot]:
    """Remove all but the last ``keep`` libraries of a folder, by name. Returns those that were removed.

    The library that ``current`` names stays, and folders that are not complete libraries stay. A library first gets a
    hidden name, so that no server finds half of it.

    Raises:
        LibraryNotFound, InvalidRequest: as :func:`snapshots`; or ``keep`` is less than 1.
        StorageError: a library cannot be removed.
    """
    if keep < 1:
        raise InvalidRequest(f"keep is {keep}: keep at least one library.")
    removed = [snapshot for snapshot in snapshots(folder)[:-keep] if not snapshot.is_current]
    try:
        for snapshot in removed:
            snapshot.path.rename(snapshot.path.with_name(REMOVED + snapshot.path.name))
        for path in folder.glob(f"{REMOVED}*"):  # also what an interrupted command left
            shutil.rmtree(path)
    except OSError as error:
        raise StorageError(
            f"{error.filename} cannot be removed ({error.strerror}): check its permissions."
        ) from error
    return removed


def _libraries(folder: Path) -> list[Path]:
    """The folders of complete libraries, by name. ``files.json`` gets its name last."""
    return sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".")
        and not path.is_symlink()
        and (path / manifest.FILE_NAME).is_file()
        and (path / contents.FILE_NAME).is_file()
    )


def _target(link: Path) -> Path:
    """Raises LibraryNotFound: the link names nothing."""
    try:
        return link.resolve(strict=True)
    except (OSError, RuntimeError):
        raise LibraryNotFound(
            f"The link {link} names {link.readlink() if link.is_symlink() else 'no folder'}, which does not exist: "
            "let it name a library."
        ) from None
