"""The folder in which a library is built: one job at a time, moved to final names when complete."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from scholarbase import manifest
from scholarbase.documents.schema import FILE_NAME as DOCUMENTS
from scholarbase.errors import LibraryBusy, LibraryExists
from scholarbase.files import DISK_FAILED, DISK_FULL, NOT_WRITABLE, atomic_write, storage_errors, sync_folder
from scholarbase.indexes import catalog, contents
from scholarbase.indexes.contents import RECORDS, Contents, files_in
from scholarbase.indexes.passages import FOLDER as PASSAGES
from scholarbase.manifest import BUILDING, COMMAND, INGEST, unfinished_command

VECTORS: Final = "vectors"
DENSE: Final = "dense"
VECTOR_WORK: Final = "vector-work"
"""Folders of encoded vectors, and of the state of their index, until the library is sealed."""
REJECTS: Final = "rejects.jsonl.gz"
ENCODER: Final = "encoder.json"
MOVED: Final = (catalog.FILE_NAME, VECTORS, DOCUMENTS, PASSAGES, REJECTS, ENCODER, RECORDS)
"""The entries of a library besides its manifest and the list of its files."""
_SPARE_FILES: Final = 8
"""More files than an ingest closes between an error of SQLite for want of files and its report."""
_OWN: Final = frozenset({"lock", COMMAND})
"""The entries of a folder in which nothing was built yet."""


class BuildFolder:
    """``LIBRARY/building``, locked. A job writes here; ``publish`` moves the files out, their list last.

    A file names the command that began it, if that is not ``ingest``.
    """

    def __init__(self, library: Path, command: str = INGEST) -> None:
        """
        Raises:
            LibraryExists: the folder exists and has other files than a library's, or an unfinished job of another
                ``command``.
            LibraryBusy: another job is building this library.
        """
        self.library = library
        self.path = library / BUILDING
        self.catalog = self.path / catalog.FILE_NAME
        self.records = self.path / RECORDS
        self.vectors = self.path / VECTORS
        self.documents = self.path / DOCUMENTS
        self.passages = self.path / PASSAGES
        self.dense = self.path / DENSE
        self.vector_work = self.path / VECTOR_WORK
        self.pending_manifest = self.path / "manifest.pending"
        self.pending_contents = self.path / "files.pending"
        if library.exists() and not library.is_dir():
            raise LibraryExists(f"{library} is a file: give --library a folder of its own.")
        if library.is_dir() and not self.path.exists() and not (library / manifest.FILE_NAME).exists():
            others = sorted(entry.name for entry in library.iterdir() if not entry.name.startswith("."))
            if others:
                raise LibraryExists(
                    f"{library} is not empty and not a library (it contains {others[0]!r}): "
                    "give --library an empty or a new folder."
                )
        self._created_library = not library.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = (library / BUILDING / "lock").open("a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise LibraryBusy(
                f"Another {unfinished_command(library)} is writing to {library}: wait until it ends, or stop it."
            ) from error
        try:
            self._begin(command)
        except BaseException:
            self._lock.close()
            raise

    def _begin(self, command: str) -> None:
        begun = unfinished_command(self.library)
        entries = (entry.name for entry in self.path.iterdir())
        if begun != command and any(name not in _OWN and not name.startswith(".") for name in entries):
            raise LibraryExists(
                f'{self.library} has an unfinished {begun}: run the same "scholarbase {begun}" again to finish it, '
                f"delete {self.path}, or give another --library."
            )
        if command == INGEST:
            (self.path / COMMAND).unlink(missing_ok=True)
        else:
            self.write(COMMAND, command.encode())

    def clear(self) -> None:
        """Delete the files of an unfinished job."""
        for entry in self.path.iterdir():
            if entry.name not in _OWN:
                _remove(entry)

    def write(self, name: str, data: bytes) -> None:
        with atomic_write(self.path / name) as file:
            file.write(data)

    def remove_unfinished(self) -> None:
        """Remove the files of Qdrant that a killed process had not renamed yet."""
        for unfinished in self.path.glob("*/**/.atomicwrite*"):
            shutil.rmtree(unfinished)

    def files(self) -> dict[str, Path]:
        """The library's files by their names."""
        files = {name: self.path / name for name in MOVED if (self.path / name).is_file()}
        for shard in (VECTORS, PASSAGES):
            files |= {name: self.path / name for name in files_in(self.path, shard)}
        return files | {manifest.FILE_NAME: self.pending_manifest}

    def list_files(self, files: Mapping[str, Path], advance: Callable[[int], None]) -> None:
        """Write the list of the library's files, which must all be complete. ``advance`` is called with the number
        of blocks hashed since the last call."""
        snapshot = manifest.snapshot_id(self.pending_manifest.read_bytes())
        self.write(self.pending_contents.name, Contents.of(snapshot, files, advance).to_bytes())

    def publish(self) -> None:
        """Move the files to their final names. After a kill, another call completes the moves.

        A library that is replaced has no list of files from the first move to the last, and no manifest until the move
        before the last.
        """
        (self.library / contents.FILE_NAME).unlink(missing_ok=True)
        if self.pending_manifest.exists():
            (self.library / manifest.FILE_NAME).unlink(missing_ok=True)
            listed = Contents.from_bytes(self.pending_contents.read_bytes(), self.pending_contents).files
            kept = {file.split("/")[0] for file in listed}
            for name in MOVED:
                built, final = self.path / name, self.library / name
                if built.exists() or name not in kept:
                    _remove(final)
                if built.exists():
                    built.replace(final)
            self.pending_manifest.replace(self.library / manifest.FILE_NAME)
        self.pending_contents.replace(self.library / contents.FILE_NAME)
        sync_folder(self.library)
        shutil.rmtree(self.path)

    def close(self) -> None:
        self._lock.close()
        # Remove the folders that this job created and left empty.
        if self.path.is_dir() and {entry.name for entry in self.path.iterdir()} <= _OWN:
            shutil.rmtree(self.path)
            if self._created_library and not any(self.library.iterdir()):
                self.library.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def build_errors(library: Path) -> Iterator[None]:
    """Turn errors of a full, read-only or failing disk, SQLite's included, into a StorageError."""
    advice = (
        "free some disk space and run the same command again to continue, or give --library a writable folder"
    )
    with storage_errors(library, advice, DISK_FULL | NOT_WRITABLE | DISK_FAILED):
        try:
            yield
        except sqlite3.OperationalError as error:
            if "full" in str(error) or "disk I/O error" in str(error):
                raise OSError(errno.ENOSPC, str(error)) from error
            # SQLite does not say that too many files are open; this does. Some were closed since.
            with ExitStack() as opened:
                for _ in range(_SPARE_FILES):
                    opened.enter_context(Path(os.devnull).open("rb"))
            raise
