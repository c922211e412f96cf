"""Folders that are there whole or not at all: built beside their place, and put there by two renames."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path


def building(folder: Path) -> Path:
    """Where what will stand at ``folder`` is built."""
    return _beside(folder, "writing")


def put(folder: Path, sign: str) -> None:
    """Put what was built at its place; what stood there goes. ``sign`` is the file of it that was written last.

    Raises:
        OSError: it cannot be put there.
    """
    old = _beside(folder, "old")
    _remove(old)
    if folder.exists():
        folder.rename(old)
    try:
        building(folder).rename(folder)
    except FileNotFoundError:
        if not (folder / sign).is_file():  # else who reads it has mended it just now
            raise
    _remove(old)


def mend(folder: Path, sign: str) -> None:
    """Finish what a process that was killed between the two renames has left: the old folder set aside, and the new
    one, whole, still under its own name."""
    old, new = _beside(folder, "old"), building(folder)
    if old.is_dir() and not folder.exists():
        with suppress(OSError):  # another process does it, or nobody may
            (new if (new / sign).is_file() else old).rename(folder)
            _remove(old)


def _beside(folder: Path, what: str) -> Path:
    place = folder if folder.name not in ("", "..") else folder.resolve()
    return place.parent / f".{place.name}.{what}"


def _remove(folder: Path) -> None:
    """Of a folder that was a link to one elsewhere, the link: what it led to is left."""
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
