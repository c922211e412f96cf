"""What a finished vectors folder holds: the snapshot, and every file's size and hash.

Qdrant takes a file that was cut short, or has a flipped bit, for what it is and answers wrongly from it. So the
folder carries ``contents.json``: opening a library compares the sizes, which finds a copy that broke off, and
verifying it compares the hashes.
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
    """List the files of a finished folder, as those of ``snapshot``."""
    for left in temporary_files(folder / FILE_NAME):
        left.unlink()
    files = {name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for name, path in _files(folder)}
    with atomic_write(folder / FILE_NAME) as file:
        file.write(orjson.dumps({"snapshot": snapshot, "files": files}, option=orjson.OPT_INDENT_2))


def check_contents(folder: Path, snapshot: str, *, hashes: bool = False) -> None:
    """See that a folder holds the vectors of ``snapshot``, whole: by the files' sizes, or by their ``hashes`` too.

    Raises:
        LibraryCorrupt: they are another build's, or a file is missing, of another size or of another content.
    """
    listed = _read(folder)
    if listed["snapshot"] != snapshot:
        raise LibraryCorrupt(
            f"The vectors at {folder} are of snapshot {listed['snapshot']}, and the library is {snapshot}: they are "
            "another build's. Restore the copy, or ingest again."
        )
    for name, facts in listed["files"].items():
        path = folder / name
        held = path.stat().st_size if path.is_file() else None
        if held != facts["bytes"]:
            what = "is missing" if held is None else f"has {held:,} bytes and not {facts['bytes']:,}"
            raise LibraryCorrupt(f"{path} {what}: the copy broke off. Restore it, or ingest again.")
        if hashes and _sha256(path) != facts["sha256"]:
            raise LibraryCorrupt(f"{path} does not hold what it held: restore the copy, or ingest again.")


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FILE_NAME
    try:
        content: dict[str, Any] = orjson.loads(path.read_bytes())
        content["snapshot"], content["files"]
    except FileNotFoundError as error:
        raise LibraryCorrupt(
            f"No vector index at {folder}, or not a whole one ({FILE_NAME} is missing): "
            "restore the copy, or ingest again."
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
