"""The list of files of a finished vectors folder: its snapshot, and every file's size and hash.

Qdrant does not detect truncated or damaged files and returns wrong results from them. Opening a library compares the
files' sizes with ``contents.json``, which finds incomplete copies; verifying it compares the hashes too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.errors import LibraryCorrupt
from scholarbase.files import atomic_write, temporary_files

FILE_NAME: Final = "contents.json"


def write_contents(folder: Path, snapshot: str) -> None:
    """Write ``contents.json`` for a finished folder with the vectors of ``snapshot``."""
    for left in temporary_files(folder / FILE_NAME):
        left.unlink()
    files = {name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for name, path in _files(folder)}
    with atomic_write(folder / FILE_NAME) as file:
        file.write(orjson.dumps({"snapshot": snapshot, "files": files}, option=orjson.OPT_INDENT_2))


def check_contents(folder: Path, snapshot: str, *, hashes: bool = False) -> None:
    """Check that a folder has the complete vectors of ``snapshot``, by the files' sizes and optionally ``hashes``.

    Raises:
        LibraryCorrupt: the vectors are of another build, or a file is missing or has another size or content.
    """
    listed = _read(folder)
    if listed["snapshot"] != snapshot:
        raise LibraryCorrupt(
            f"The vectors at {folder} are another build's: they are of snapshot {listed['snapshot']}, and the "
            f"library is {snapshot}. Restore the copy, or ingest again."
        )
    for name, facts in listed["files"].items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size != facts["bytes"]:
            what = "is missing" if size is None else f"has {size:,} bytes instead of {facts['bytes']:,}"
            raise LibraryCorrupt(f"{path} {what}: the copy is incomplete. Restore it, or ingest again.")
        if hashes and _sha256(path) != facts["sha256"]:
            raise LibraryCorrupt(
                f"{path} has changed since it was written: restore the copy, or ingest again."
            )


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FILE_NAME
    try:
        content: dict[str, Any] = orjson.loads(path.read_bytes())
        content["snapshot"], content["files"]
    except FileNotFoundError as error:
        raise LibraryCorrupt(
            f"No vector index at {folder}, or an incomplete one ({FILE_NAME} is missing): restore the copy, or "
            "ingest again."
        ) from error
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise LibraryCorrupt(f"{path} cannot be read: {error}. Restore the copy, or ingest again.") from error
    return content


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != FILE_NAME:
            yield path.relative_to(folder).as_posix(), path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
