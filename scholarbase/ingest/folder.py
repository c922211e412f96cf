"""The folder in which a library is built: one job at a time, and final names only for what is whole."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scholarbase import manifest
from scholarbase.errors import LibraryBusy, LibraryExists, StorageError
from scholarbase.indexes import catalog

BUILDING: Final = "building"
VECTORS: Final = "vectors"
REJECTS: Final = "rejects.jsonl.gz"
ENCODER: Final = "encoder.json"

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class BuildFolder:
    """``LIBRARY/building``, locked. Everything is made in it; ``publish`` moves it out, the manifest last."""

    def __init__(self, library: Path) -> None:
        """
        Raises:
            LibraryExists: the folder is there, and holds something that is not a library.
            LibraryBusy: another job builds there now.
            StorageError: the folder cannot be made.
        """
        self.library = library
        self.path = library / BUILDING
        if library.exists() and not library.is_dir():
            raise LibraryExists(f"{library} is a file: give --library a folder of its own.")
        if library.is_dir() and not self.path.exists() and not (library / manifest.FILE_NAME).exists():
            strangers = sorted(entry.name for entry in library.iterdir() if not entry.name.startswith("."))
            if strangers:
                raise LibraryExists(
                    f"{library} is not empty and holds no library ({strangers[0]!r} is in it): "
                    "give --library an empty folder or a new one."
                )
        self._made_library = not library.exists()
        with storage_errors(library):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (library / BUILDING / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise LibraryBusy(f"Another ingest is writing to {library}: wait for it, or stop it.") from error

    def clear(self) -> None:
        """Throw away what an unfinished job has made."""
        for entry in self.path.iterdir():
            if entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    @property
    def catalog(self) -> Path:
        return self.path / catalog.FILE_NAME

    @property
    def vectors(self) -> Path:
        return self.path / VECTORS

    @property
    def dense(self) -> Path:
        return self.path / "dense"

    @property
    def pending_manifest(self) -> Path:
        return self.path / "manifest.pending"

    def write(self, name: str, data: bytes) -> None:
        """A small file, whole or not at all."""
        temporary = self.path / f"{name}.tmp"
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / name)

    def publish(self) -> None:
        """Move what was built to its final names. Killed in between, it goes on where it stopped.

        A library that was there before is no library from the first move to the last.
        """
        (self.library / manifest.FILE_NAME).unlink(missing_ok=True)
        for name in (catalog.FILE_NAME, VECTORS, REJECTS, ENCODER):
            made, final = self.path / name, self.library / name
            if made.exists():
                if final.is_dir():
                    shutil.rmtree(final)
                made.replace(final)
        self.pending_manifest.replace(self.library / manifest.FILE_NAME)
        _sync(self.library)
        shutil.rmtree(self.path)

    def close(self) -> None:
        self._lock.close()
        # A folder that this job made and put nothing into is not left behind.
        if self.path.is_dir() and {entry.name for entry in self.path.iterdir()} <= {"lock"}:
            shutil.rmtree(self.path)
            if self._made_library and not any(self.library.iterdir()):
                self.library.rmdir()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def storage_errors(folder: Path) -> Iterator[None]:
    """Turn "no space left", however it is said, into a StorageError that says what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "full" in str(error) or "disk I/O error" in str(error):
            raise StorageError(_full(folder, str(error))) from error
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise StorageError(_full(folder, os.strerror(error.errno or 0))) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise StorageError(
                f"{error.filename or folder} cannot be written ({error.strerror}): give --library a folder that can."
            ) from error
        raise


def _full(folder: Path, reason: str) -> str:
    where = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    free = shutil.disk_usage(where).free / 1e6
    return (
        f"The disk that holds {folder} is full ({reason}; {free:,.0f} MB free): make room and run the same "
        "command again; it goes on where it stopped."
    )
