"""Folders replaced atomically: built beside their path, and moved there by two renames."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path


def building(folder: Path) -> Path:
    """The path where the new content of ``folder`` is built."""
    return _beside(folder, "writing")


def put(folder: Path, last: str) -> None:
    """Replace ``folder`` by what was built. ``last`` is the file that was written last.

    Raises:
        OSError: a rename failed.
    """
    old = _beside(folder, "old")
    _remove(old)
    if folder.exists():
        folder.rename(old)
    try:
        building(folder).rename(folder)
    except FileNotFoundError:
        if not (folder / last).is_file():  # otherwise another process has just repaired it
            raise
    _remove(old)


def repair(folder: Path, last: str) -> None:
    """Finish a replacement that was killed between its two renames: ``folder`` is missing, and the old and the
    complete new one are beside it."""
    old, new = _beside(folder, "old"), building(folder)
    if old.is_dir() and not folder.exists():
        with suppress(OSError):  # another process repairs it, or the parent is read-only
            (new if (new / last).is_file() else old).rename(folder)
            _remove(old)


def _beside(folder: Path, suffix: str) -> Path:
    place = folder if folder.name not in ("", "..") else folder.resolve()
    return place.parent / f".{place.name}.{suffix}"


def _remove(folder: Path) -> None:
    """Remove a folder. Of a symbolic link only the link is removed."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
