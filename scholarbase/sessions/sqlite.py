"""The sessions of a folder, in ``sessions.sqlite``. Several processes share the file: a transaction holds SQLite's
write lock, and readers wait for none, since the file has a write-ahead log.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from scholarbase.databases import open_for_reading, open_for_writing
from scholarbase.deadlines import DEADLINE
from scholarbase.errors import SessionsUnavailable, StorageError
from scholarbase.files import DISK_FULL
from scholarbase.sessions.storage import OWNERS_IN_KEYS, Connection

FILE_NAME: Final = "sessions.sqlite"
VERSION: Final = 2
"""Of the tables, in the file's ``user_version``."""
SCHEMA: Final = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, query_id TEXT NOT NULL, query TEXT, as_of TEXT, limits TEXT NOT NULL,
        owner TEXT NOT NULL, opened TEXT NOT NULL, opened_at INTEGER NOT NULL, lost INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID
    """,
    "CREATE INDEX sessions_by_owner ON sessions (owner)",
    """
    CREATE TABLE calls (
        session TEXT NOT NULL, number INTEGER NOT NULL, ended INTEGER NOT NULL, is_open INTEGER NOT NULL,
        key TEXT, line BLOB NOT NULL, PRIMARY KEY (session, number)
    ) WITHOUT ROWID
    """,
    "CREATE UNIQUE INDEX calls_by_key ON calls (session, key) WHERE key IS NOT NULL",
)
"""A row of ``sessions`` is what is fixed when one opens, and the number of its calls that were dropped; its ``id`` is
:attr:`~scholarbase.sessions.session.Session.key`, as is ``session`` of its calls. A row of
``calls`` is a line of the trajectory, with the client's key; ``is_open`` until its response is ready. ``opened_at`` and
``ended`` are in microseconds since 1970."""
STEPS: Final = 10_000
"""SQLite's instructions between two looks at the clock."""
_READING: Final = ("Reading sessions", "read fewer calls, or retry later")
"""Activity and advice for the error at the time limit."""
READ_SECONDS: Final = 0.1
"""How long reading waits for a process that locks the file even for readers, since it may block an event loop."""
CHECK_SECONDS: Final = 2.0
"""How long a check waits for other processes."""
IDLE_CONNECTIONS: Final = 4
"""Connections for reading that are kept."""

_File = tuple[int, int]
"""Device and inode."""


class SqliteStorage:
    """The file of a folder; created with the first transaction."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error, OSError)
    operation_errors: tuple[type[Exception], ...] = (
        sqlite3.IntegrityError,
        sqlite3.DataError,
        sqlite3.InterfaceError,
    )
    group = 256
    is_local = True

    def __init__(self, folder: Path) -> None:
        self.path: Final = folder / FILE_NAME
        self.name = str(self.path)
        self._connection: sqlite3.Connection | None = None
        self._file: _File | None = None
        """The file that is open for writing."""
        self._seconds: float | None = None
        """How long its transactions wait for other processes."""
        self._has_deleted = False
        """Whether the running transaction deletes sessions."""
        self._idle: deque[tuple[_File, sqlite3.Connection]] = deque()

    # -- writing ----------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return self._connection is not None

    @contextmanager
    def transaction(self, names: Sequence[str], seconds: float) -> Iterator[Connection]:
        connection = self._connected(seconds)
        try:
            if seconds != self._seconds:
                connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
                self._seconds = seconds
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
            if self._has_deleted:
                self._has_deleted = False
                os.utime(self.path, ns=(time.time_ns(),) * 2)
        except BaseException as error:
            if connection.in_transaction:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.DatabaseError) and not _is_busy(error):
                self._disconnect()
            raise

    def note_deletion(self) -> None:
        self._has_deleted = True

    def deletions(self) -> object | None:
        """The file and the time of its last change, which a deletion sets; checkpoints change it too."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns

    def checkpoint(self) -> None:
        """Copy the write-ahead log to the file, and begin the log again, which waits for the disk too."""
        if self._connection is not None:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            self._connection.execute(f"PRAGMA user_version = {VERSION}")  # a small transaction

    def _connected(self, seconds: float) -> sqlite3.Connection:
        """The connection, a new one if the file at the path was deleted or replaced."""
        if self._connection is None or self._file != _identity(self.path):
            self._disconnect()
            self._connection = _connect(self.path, seconds)
            self._file, self._seconds = _identity(self.path), None
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- reading ----------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, seconds: float | None = None) -> Iterator[Connection | None]:
        deadline = DEADLINE.get()
        if deadline is not None:
            deadline.running = _READING
        try:
            file = _identity(self.path)
            connection = None if file is None else self._reader(file)
            if file is None or connection is None:
                # Raises where a file is in the folder's place, but not for a call, which goes on without sessions.
                if seconds is None:
                    with suppress(FileNotFoundError):
                        self.path.stat()
                yield None
                return
            try:
                if deadline is not None:
                    connection.set_progress_handler(lambda: deadline.remaining <= 0, STEPS)
                yield connection
                if deadline is not None:
                    connection.set_progress_handler(None, 0)
            except BaseException:
                connection.close()
                raise
            if len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append((file, connection))
            else:
                connection.close()
        except (sqlite3.Error, OSError) as error:
            if deadline is not None and deadline.remaining <= 0:
                raise deadline.late() from error
            raise self.error(error) from error

    def _reader(self, file: _File) -> sqlite3.Connection | None:
        """A connection to this file, None while it has no tables."""
        with suppress(IndexError):
            while True:
                known, connection = self._idle.pop()
                if known == file:
                    return connection
                connection.close()
        connection = open_for_reading(self.path, READ_SECONDS)
        try:
            [version] = connection.execute("PRAGMA user_version").fetchone()
            if version == 1:
                _connect(self.path, READ_SECONDS).close()
            if version:
                return connection
        except BaseException:
            connection.close()
            raise
        connection.close()
        return None

    def error(self, error: Exception | None) -> StorageError:
        kind: type[StorageError] = SessionsUnavailable
        if _is_busy(error):
            advice = "another process locks it, so retry when that has ended"
        elif _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            advice = "it is damaged, so replace it by a backup, or move it away with its -wal and -shm files"
        else:
            kind, advice = StorageError, "set SCHOLARBASE_SESSIONS to another folder"
            if _code(error) == sqlite3.SQLITE_FULL or getattr(error, "errno", None) in DISK_FULL:
                advice = f"free disk space, or {advice}"
        return kind(f"{self.path} cannot be read or written ({error}): {advice}.")

    def local_time(self, microseconds: int) -> int:
        return microseconds

    def used_bytes(self, connection: Connection) -> int:
        """The size of the file without the pages that deleted sessions left free."""
        [size] = connection.execute(
            "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
            "pragma_page_size"
        ).fetchone()
        return int(size)

    def close(self) -> None:
        self._disconnect()
        while self._idle:
            self._idle.pop()[1].close()


def check_writable(folder: Path) -> None:
    """Write to the file of a folder, which is created where it is missing.

    Raises:
        StorageError: it cannot be written.
    """
    storage = SqliteStorage(folder)
    try:
        with storage.transaction((), CHECK_SECONDS):
            pass
        storage.checkpoint()
    except storage.errors as error:
        raise storage.error(error) from error
    finally:
        storage.close()


def _identity(path: Path) -> _File | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _code(error: Exception | None) -> int:
    """SQLite's primary result code of an error; 0 for another error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _is_busy(error: Exception | None) -> bool:
    """Whether another process holds a lock."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _connect(path: Path, seconds: float) -> sqlite3.Connection:
    """Open the file for writing; ``seconds`` is how long that waits for other processes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only the user may read what agents asked; SQLite gives the files beside this one the same mode. An existing file
    # must not be opened here: closing it would release the locks of this process's connections, and another process
    # could then delete the write-ahead log (https://sqlite.org/howtocorrupt.html, 2.2).
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    connection = open_for_writing(path, busy_seconds=seconds)
    try:
        _begin_log(connection, seconds)
        # What is committed survives the process; a power failure may lose the last commits
        # (https://sqlite.org/pragma.html#pragma_synchronous).
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("BEGIN IMMEDIATE")
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version < VERSION:
            for statement in SCHEMA if version == 0 else OWNERS_IN_KEYS:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _begin_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Turn the write-ahead log on. SQLite waits for no other process that does so at the same time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
        time.sleep(0.01)
