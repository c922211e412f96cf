"""The thread of a process that writes the file of sessions.

Operations are put into a queue and return futures. The thread runs all that wait in one transaction. While the file
cannot be written, recorded calls wait in memory in their order, and every other operation fails.

A call that one statement records is written in the caller's thread if nothing waits (:meth:`Writer.run_now`): handing
it to the thread and back takes several times as long as writing it.
"""

from __future__ import annotations

import logging
import os
import queue
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

from scholarbase.databases import BUSY_SECONDS, open_for_writing
from scholarbase.errors import InvalidRequest, ScholarBaseError, StorageError
from scholarbase.sessions import rows
from scholarbase.sessions.registry import Registry
from scholarbase.sessions.session import Session

log = logging.getLogger("scholarbase.sessions")

WAITING_CALLS: Final = 100_000
"""Calls that wait in memory while the file cannot be written. Beyond that the oldest are dropped and counted."""
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
"""How long a closed store keeps trying to write the calls that wait."""
DELETE_SECONDS: Final = 3600.0
"""How often unused sessions are deleted."""
GROUP: Final = 256
"""Operations in one transaction, at most."""
CONNECT_ATTEMPTS: Final = 10
CHECKPOINT_STATEMENTS: Final = 1000
"""Statements and operations after which the thread copies the write-ahead log to the file. That waits for the disk, so
no caller's thread does it."""
_OPERATION_ERRORS: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
"""Errors of one operation; SQLite's other errors are those of the file."""

T = TypeVar("T")


@dataclass(slots=True)
class _Operation:
    """Something to run in a transaction. ``session``: of a call to record, which is retried and cannot be cancelled."""

    run: Callable[[sqlite3.Connection], Any]
    session: Session | None = None
    future: Future[Any] = field(default_factory=Future)

    def start(self) -> bool:
        """False where it was cancelled; from now on it cannot be."""
        if self.future.cancelled():
            return False
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def fail(self, error: Exception) -> None:
        if self.start():
            self.future.set_exception(error)


def wait_for(future: Future[T], seconds: float) -> T:
    """The result of a store's future.

    Raises:
        StorageError: it takes longer. The operation is cancelled, unless it is running already.
    """
    try:
        return future.result(seconds)
    except FutureTimeoutError:
        future.cancel()
        raise write_timeout(seconds) from None


def write_timeout(seconds: float) -> StorageError:
    return StorageError(
        f"The file of sessions could not be written within {seconds:g} seconds: try again later."
    )


def storage_error(path: Path, error: Exception | None) -> StorageError:
    return StorageError(
        f"{path} cannot be read or written ({error}): free disk space, or set SCHOLARBASE_SESSIONS to another folder."
    )


class Writer:
    """A queue of operations, and the thread that runs them. The thread starts with the first operation.

    Args:
        path: the file.
        registry: what this process remembers of the file; changed as operations commit.
        keep_days: sessions that were not used for so many days are deleted, every hour; None deletes none.
    """

    def __init__(self, path: Path, registry: Registry, *, keep_days: float | None) -> None:
        self._path = path
        self._registry = registry
        self._keep_days = keep_days
        self._delete_at = 0.0
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._unfinished = 0
        """Operations in the queue or being run."""
        self._unchecked = 0
        """Statements and operations since the last checkpoint."""
        self._connection_lock = threading.Lock()
        # The following are used by the thread alone, or with the connection's lock.
        self._waiting: deque[_Operation] = deque()
        self._dropped: Counter[Session] = Counter()
        self._error: Exception | None = None
        """Why the last transaction failed."""
        self._retry_at = 0.0
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        """Device and inode of the open file."""

    def submit(self, run: Callable[[sqlite3.Connection], T], *, recorded: Session | None = None) -> Future[T]:
        """Run an operation in a transaction.

        Args:
            recorded: the session of a call to record. The operation is then retried while the file cannot be written,
                and cannot be cancelled.

        Raises:
            InvalidRequest: the writer is closed.
        """
        operation = _Operation(run, recorded)
        if recorded is not None:
            operation.start()
        with self._lock:
            if self._closed:
                raise InvalidRequest(f"The sessions in {self._path.parent} are closed: open them again.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sessions", daemon=True)
                self._thread.start()
            self._unfinished += 1
            operation.future.add_done_callback(self._finish)
            self._queue.put(operation)
        return operation.future

    def _finish(self, _: Future[Any]) -> None:
        with self._lock:
            self._unfinished -= 1

    def run_now(self, statement: Callable[[sqlite3.Connection], T]) -> T | None:
        """Run one statement in this thread.

        Returns None, and has written nothing, where it would have to wait for other operations or another process, or
        where the file cannot be written: submit it then.
        """
        with self._lock:
            if self._closed or self._unfinished:
                return None
        if not self._connection_lock.acquire(blocking=False):
            return None
        try:
            if self._connection is None or self._error is not None or self._file != _identity(self._path):
                return None
            result = statement(self._connection)
            self._unchecked += 1
            is_checkpoint_due = self._unchecked % CHECKPOINT_STATEMENTS == 0
        except (sqlite3.Error, OSError):
            return None
        finally:
            self._connection_lock.release()
        if is_checkpoint_due:
            with suppress(InvalidRequest):  # closed meanwhile, which makes a checkpoint too
                self.submit(lambda _: None)
        return result

    def close(self) -> None:
        """Write the calls that wait, and end the thread. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()

    # -- the thread -------------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._receive():
            if not self._must_wait():
                self._write()
            self._drop_oldest()
        deadline = time.monotonic() + CLOSE_SECONDS
        self._write()
        while self._waiting and time.monotonic() < deadline:
            time.sleep(RETRY_SECONDS / 5)
            self._write()
        if self._waiting:
            log.error("%d calls of sessions could not be written, and are lost.", len(self._waiting))
        for operation in self._waiting:
            operation.fail(storage_error(self._path, self._error))
        with self._connection_lock:
            self._disconnect()

    def _must_wait(self) -> bool:
        """Whether the last transaction failed, and it is not yet time to retry."""
        return self._error is not None and time.monotonic() < self._retry_at

    def _receive(self) -> bool:
        """Wait for operations, or until it is time to retry or to delete unused sessions. False: closed."""
        timeout = None if self._keep_days is None else max(self._delete_at - time.monotonic(), 0.0)
        if self._waiting:
            timeout = max(self._retry_at - time.monotonic(), 0.0)
        try:
            operation = self._queue.get(timeout=timeout)
            while operation is not None:
                if operation.session is None and self._must_wait():
                    operation.fail(storage_error(self._path, self._error))
                else:
                    self._waiting.append(operation)
                operation = self._queue.get_nowait()
        except queue.Empty:
            return True
        return False

    def _write(self) -> None:
        """Run what waits, in its order. Where the file cannot be written, calls go on waiting, and the rest fails."""
        with self._connection_lock:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._keep_days is not None and time.monotonic() >= self._delete_at:
            self._delete_at = time.monotonic() + DELETE_SECONDS
            self._waiting.append(_Operation(self._delete_unused))
        try:
            while self._waiting:
                connection = self._connected()
                seconds = CLOSE_SECONDS if self._closed else BUSY_SECONDS
                connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
                self._write_group(connection, list(islice(self._waiting, GROUP)))
                if self._unchecked >= CHECKPOINT_STATEMENTS:
                    _checkpoint(connection)
                    self._unchecked = 0
                connection.execute("PRAGMA busy_timeout = 0")  # for run_now
            self._error = None
        except Exception as error:
            expected = isinstance(error, sqlite3.Error | OSError)
            log.error(
                "Sessions cannot be written: %s", storage_error(self._path, error), exc_info=not expected
            )
            self._disconnect()
            self._error, self._retry_at = error, time.monotonic() + RETRY_SECONDS
            for operation in self._waiting:
                if operation.session is None:
                    operation.fail(storage_error(self._path, error))
            self._waiting = deque(operation for operation in self._waiting if operation.session is not None)

    def _write_group(self, connection: sqlite3.Connection, operations: list[_Operation]) -> None:
        """Run the first operations that wait in one transaction.

        Raises:
            sqlite3.Error, OSError: the file cannot be written; the transaction is rolled back.
        """
        connection.execute("BEGIN IMMEDIATE")
        try:
            started = [operation for operation in operations if operation.start()]
            results = [self._result(operation, connection) for operation in started]
            for session, calls in self._dropped.items():
                rows.add_lost(connection, session, calls)
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        self._dropped.clear()
        self._unchecked += len(operations)
        self._registry.committed()
        for _ in operations:
            self._waiting.popleft()
        for operation, (result, error) in zip(started, results, strict=True):
            if error is None:
                operation.future.set_result(result)
            else:
                operation.future.set_exception(error)

    def _result(self, operation: _Operation, connection: sqlite3.Connection) -> tuple[Any, Exception | None]:
        """An operation's result, or the error that its future raises. Errors of the file are raised here."""
        try:
            return operation.run(connection), None
        except ScholarBaseError as error:
            return None, error
        except Exception as error:
            self._registry.forget_progress()
            if not isinstance(error, sqlite3.Error | OSError):
                return None, error
            if not isinstance(error, _OPERATION_ERRORS):
                raise
            log.error("An operation on sessions failed: %s", error)
            return None, storage_error(self._path, error)

    def _drop_oldest(self) -> None:
        while len(self._waiting) > WAITING_CALLS:
            operation = self._waiting.popleft()
            assert operation.session is not None
            self._dropped[operation.session] += 1
            operation.fail(storage_error(self._path, self._error))

    def _delete_unused(self, connection: sqlite3.Connection) -> None:
        assert self._keep_days is not None
        try:
            before = datetime.now(UTC) - timedelta(days=self._keep_days)
        except OverflowError:  # before the year 1
            return
        deleted = rows.delete_unused(connection, before.isoformat(timespec="milliseconds"))
        for session_id in deleted:
            self._registry.forget(session_id)
        if deleted:
            log.info("Deleted %d sessions that were not used for %g days.", len(deleted), self._keep_days)

    # -- the connection ---------------------------------------------------------------------------------

    def _connected(self) -> sqlite3.Connection:
        """The connection. Where the file was deleted or replaced, the one that is now at the path is opened."""
        if self._connection is not None and self._file != _identity(self._path):
            log.error("%s was deleted or replaced: it is opened again.", self._path)
            self._registry.clear()
            self._disconnect()
        if self._connection is None:
            self._connection = _connect(self._path)
            self._file = _identity(self._path)
        return self._connection

    def _disconnect(self) -> None:
        self._registry.forget_progress()
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None


def _checkpoint(connection: sqlite3.Connection) -> None:
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
