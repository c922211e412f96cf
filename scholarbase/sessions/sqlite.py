"""The sessions of a folder, in ``sessions.sqlite``.

Several processes share the file: a transaction holds SQLite's write lock. Each process that has calls which budgets
counted and which are not recorded keeps a file locked, so that others see when it ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from scholarbase.databases import open_for_reading, open_for_writing
from scholarbase.deadlines import DEADLINE
from scholarbase.errors import SessionNotFound, StorageError
from scholarbase.sessions.storage import Connection

log = logging.getLogger("scholarbase.sessions")

FILE_NAME: Final = "sessions.sqlite"
STEPS: Final = 10_000
"""SQLite's instructions between two looks at the clock."""
CONNECT_ATTEMPTS: Final = 10


class SqliteStorage:
    """The file of a folder; created with the first connection."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error, OSError)
    operation_errors: tuple[type[Exception], ...] = (
        sqlite3.IntegrityError,
        sqlite3.DataError,
        sqlite3.InterfaceError,
    )
    aborts = False
    group = 256
    is_local = True

    def __init__(self, folder: Path) -> None:
        self.path: Final = folder / FILE_NAME
        self.name = str(self.path)
        self.process = secrets.token_hex(8)
        self._folder = folder
        self._deletions = self.path.with_suffix(".deletions")
        self._lock: int | None = None
        self._file: tuple[int, int] | None = None
        """Device and inode of the open file."""

    # -- the connection for writing ---------------------------------------------------------------------

    def connect(self) -> Connection:
        connection = _connect(self.path)
        self._file = _identity(self.path)
        return connection

    def is_replaced(self) -> bool:
        return self._file != _identity(self.path)

    def begin(self, connection: Connection, names: Sequence[str], seconds: float) -> None:
        connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
        connection.execute("BEGIN IMMEDIATE")

    def commit(self, connection: Connection) -> None:
        connection.execute("COMMIT")

    def rollback(self, connection: Connection) -> None:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")

    def rest(self, connection: Connection, *, checkpoint: bool) -> None:
        if checkpoint:
            _checkpoint(connection)
        connection.execute("PRAGMA busy_timeout = 0")  # for Writer.run_now

    def error(self, error: Exception | None) -> StorageError:
        return StorageError(
            f"{self.path} cannot be read or written ({error}): free disk space, or set SCHOLARBASE_SESSIONS to another "
            "folder."
        )

    def local_time(self, microseconds: int) -> int:
        return microseconds

    def used_bytes(self, connection: Connection) -> int:
        """The size of the file without the pages that deleted sessions left free."""
        [size] = connection.execute(
            "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, "
            "pragma_page_size"
        ).fetchone()
        return int(size)

    # -- reading ----------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, seconds: float | None = None) -> Iterator[Connection | None]:
        deadline = DEADLINE.get()
        try:
            exists = self.path.is_file()
        except OSError as error:
            raise self.error(error) from error
        if not exists:
            yield None
            return
        try:
            with closing(open_for_reading(self.path)) as connection:
                if deadline is not None:
                    connection.set_progress_handler(lambda: deadline.remaining <= 0, STEPS)
                yield connection
        except sqlite3.OperationalError as error:
            if deadline is not None and deadline.remaining <= 0:
                raise deadline.error("Reading sessions", "read fewer calls, or retry later") from error
            if "no such table" in str(error):  # another process is creating them
                raise SessionNotFound(f"{self.path} has no sessions yet.") from error
            raise self.error(error) from error
        except sqlite3.DatabaseError as error:
            raise self.error(error) from error

    # -- deletions --------------------------------------------------------------------------------------

    def deletions(self) -> int | None:
        try:
            return self._deletions.stat().st_mtime_ns
        except OSError:
            return None

    def deleted(self) -> None:
        at = time.time_ns()
        try:
            os.close(os.open(self._deletions, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.utime(self._deletions, ns=(at, at))
        except OSError as error:
            log.error("Other processes cannot learn that sessions were deleted: %s", error)

    # -- running processes ------------------------------------------------------------------------------

    def hold(self, connection: Connection) -> None:
        if self._lock_path(self.process).exists():
            return
        if self._lock is not None:
            os.close(self._lock)
        # It gets its name when it is locked: a file with the name and without a lock is that of an ended process.
        path = self._lock_path(self.process)
        temporary = path.with_suffix(".new")
        self._lock = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        temporary.rename(path)

    def renew(self, connection: Connection) -> float | None:
        return None

    def ended(self, connection: Connection) -> set[str]:
        processes: list[Any] = connection.execute("SELECT DISTINCT process FROM admitted").fetchall()
        return {process for [process] in processes if self._has_ended(process)}

    def sweep(self) -> None:
        for path in self._folder.glob(self._lock_path("*").name):
            if self._has_ended(path.suffixes[-2].removeprefix(".")):
                path.unlink(missing_ok=True)

    def release(self, connection: Connection | None) -> None:
        if self._lock is not None:
            self._lock_path(self.process).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def close(self) -> None:
        """Nothing is open but what ``release`` closes."""

    def _lock_path(self, process: str) -> Path:
        return self._folder / f"sessions.{process}.lock"

    def _has_ended(self, process: str) -> bool:
        try:
            file = os.open(self._lock_path(process), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(file)
        return True


def _checkpoint(connection: Connection) -> None:
    """Copy the write-ahead log to the file, and begin the log again, which waits for the disk too."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version}")  # a small transaction


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Only the user may read what agents asked; SQLite gives the files beside this one the same mode. An existing file
    # must not be opened here: closing it would release the locks of this process's connections, and another process
    # could then delete the write-ahead log (https://sqlite.org/howtocorrupt.html, 2.2).
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    # Imports sqlite-utils, and pandas where that is installed: not for a server that records nothing.
    from scholarbase.sessions.schema import migrate

    for attempt in range(CONNECT_ATTEMPTS):
        connection = open_for_writing(path)
        try:
            # What is committed survives the process; a power failure may lose the last commits
            # (https://sqlite.org/pragma.html#pragma_synchronous).
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            migrate(connection)
            return connection
        except BaseException as error:
            connection.close()
            # Several processes may create the file at once: one succeeds, and the others try again.
            collided = isinstance(error, sqlite3.IntegrityError) or any(
                sign in str(error) for sign in ("locked", "duplicate column", "already exists")
            )
            if attempt == CONNECT_ATTEMPTS - 1 or not collided:
                raise
        time.sleep(0.05 * (attempt + 1))
    raise AssertionError
