"""The format of a packed library: a tar archive of plain files, compressed with zstd.

The members are the manifest, the list of files, and then the listed files in the order of their names, without owners
and times, so that equal libraries have equal archives.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, Final

from scholarbase import manifest
from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes import contents
from scholarbase.indexes.contents import Contents
from scholarbase.indexes.passages import FOLDER as PASSAGES
from scholarbase.ingest.folder import MOVED, VECTORS
from scholarbase.progress import Tracker

FIRST: Final = (manifest.FILE_NAME, contents.FILE_NAME)
"""The first two members. The second is not in the list of files, which it is."""
_SHARDS: Final = (VECTORS, PASSAGES)
_FILES: Final = {manifest.FILE_NAME, *MOVED} - {*_SHARDS}


def check_listed(listed: Contents, where: object) -> None:
    """Check the names in a list of files that anyone may have written.

    Raises:
        LibraryCorrupt: it has a name that no library has.
    """
    for name in listed.files:
        parts = name.split("/")
        if not (name in _FILES or (parts[0] in _SHARDS and len(parts) > 1)):
            raise LibraryCorrupt(f"{where} lists the file {name[:200]!r}, which is not a file of a library.")
        folders = ("/".join(parts[:end]) for end in range(1, len(parts)))
        if any(folder in listed.files for folder in folders):
            raise LibraryCorrupt(f"{where} lists the file {name!r} in a folder that is a file too.")
    if manifest.FILE_NAME not in listed.files:
        raise LibraryCorrupt(f"{where} does not list {manifest.FILE_NAME}.")


class PieceReader(io.RawIOBase):
    """A file to read, of pieces of any size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._pieces, b"")
        data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        return len(data)


def counted(tracker: Tracker) -> Callable[[int], None]:
    """A function that adds bytes to a stage's progress."""
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        tracker.advance(size)
        tracker.at(done)

    return add
