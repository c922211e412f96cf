"""The thread of a process that writes sessions.

Operations are put into a queue and return futures. The thread runs all that wait in one transaction. While the database
cannot be written, recorded calls wait in memory in their order, and every other operation fails.

A call that one statement records in a file is written in the caller's thread if nothing waits
(:meth:`Writer.run_now`): handing it to the thread and back takes several times as long as writing it.
"""

from __future__ import annotations

import logging
import queue
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
from typing import Any, Final, TypeVar

from scholarbase.databases import BUSY_SECONDS
from scholarbase.errors import InvalidRequest, ScholarBaseError, StorageError
from scholarbase.sessions import rows
from scholarbase.sessions.registry import Registry
from scholarbase.sessions.session import Session
from scholarbase.sessions.storage import Connection, Storage

log = logging.getLogger("scholarbase.sessions")

WAITING_CALLS: Final = 100_000
"""Calls that wait in memory while the file cannot be written. Beyond that the oldest are dropped and counted."""
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
"""How long a closed store keeps trying to write the calls that wait."""
DELETE_SECONDS: Final = 3600.0
"""How often unused sessions are deleted."""
STALLED_SECONDS: Final = 0.25
"""A transaction that takes longer is taken for one that may never end."""
CHECKPOINT_STATEMENTS: Final = 1000
"""Statements and operations after which the thread copies the write-ahead log to the file. That waits for the disk, so
no caller's thread does it."""

T = TypeVar("T")


@dataclass(slots=True)
class _Operation:
    """Something to run in a transaction. ``names``: what it changes. ``session``: of a call to record, which is retried
    and cannot be cancelled."""

    run: Callable[[Connection], Any]
    names: tuple[str, ...] = ()
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
    return StorageError(f"Sessions could not be written within {seconds:g} seconds: try again later.")


class Writer:
    """A queue of operations, and the thread that runs them. The thread starts with the first operation.

    Args:
        storage: the database.
        registry: what this process remembers of it; changed as operations commit.
        keep_days: sessions that were not used for so many days are deleted, every hour; None deletes none.
    """

    def __init__(self, storage: Storage, registry: Registry, *, keep_days: float | None) -> None:
        self._storage = storage
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
        self._connection: Connection | None = None
        self._is_new = False
        """Whether no transaction has run on the connection yet."""
        self._renew_at: float | None = None
        self._began: float | None = None
        """When the transaction that is running began."""

    @property
    def is_stalled(self) -> bool:
        """Whether the last transaction failed, or one takes long."""
        began = self._began
        return self._error is not None or (began is not None and time.monotonic() - began > STALLED_SECONDS)

    def submit(
        self, run: Callable[[Connection], T], *names: str, recorded: Session | None = None
    ) -> Future[T]:
        """Run an operation in a transaction.

        Args:
            names: what the operation changes: no other process changes it in the meantime.
            recorded: the session of a call to record. The operation is then retried while the file cannot be written,
                and cannot be cancelled.

        Raises:
            InvalidRequest: the writer is closed.
        """
        operation = _Operation(run, names, recorded)
        if recorded is not None:
            operation.start()
        with self._lock:
            if self._closed:
                raise InvalidRequest(f"The sessions in {self._storage.name} are closed: open them again.")
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

    def run_now(self, statement: Callable[[Connection], T]) -> T | None:
        """Run one statement in this thread.

        Returns None, and has written nothing, where it would have to wait for other operations or another process, or
        where the file cannot be written: submit it then.
        """
        with self._lock:
            if self._closed or self._unfinished or not self._storage.is_local:
                return None
        if not self._connection_lock.acquire(blocking=False):
            return None
        try:
            if self._connection is None or self._error is not None or self._storage.is_replaced():
                return None
            result = statement(self._connection)
            self._unchecked += 1
            is_checkpoint_due = self._unchecked % CHECKPOINT_STATEMENTS == 0
        except self._storage.errors:
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
            operation.fail(self._storage.error(self._error))
        with self._connection_lock:
            with suppress(*self._storage.errors):
                self._storage.release(self._connection)
            self._disconnect()

    def _must_wait(self) -> bool:
        """Whether the last transaction failed, and it is not yet time to retry."""
        return self._error is not None and time.monotonic() < self._retry_at

    def _receive(self) -> bool:
        """Wait for operations, or until it is time to retry or to delete unused sessions. False: closed."""
        due = [self._renew_at, None if self._keep_days is None else self._delete_at]
        timeout = min((max(at - time.monotonic(), 0.0) for at in due if at is not None), default=None)
        if self._waiting:
            timeout = max(self._retry_at - time.monotonic(), 0.0)
        try:
            operation = self._queue.get(timeout=timeout)
            while operation is not None:
                if operation.session is None and self._must_wait():
                    operation.fail(self._storage.error(self._error))
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
            self._waiting.append(_Operation(self._delete_unused, ("*",)))
        if self._renew_at is not None and time.monotonic() >= self._renew_at:
            self._waiting.append(_Operation(lambda _: None))
        try:
            while self._waiting:
                self._began = time.monotonic()
                self._write_group(list(islice(self._waiting, self._storage.group)))
            if self._connection is not None:
                self._rest(self._connection)
            self._error = None
        except Exception as error:
            expected = isinstance(error, self._storage.errors)
            log.error("Sessions cannot be written: %s", self._storage.error(error), exc_info=not expected)
            self._disconnect()
            self._error, self._retry_at = error, time.monotonic() + RETRY_SECONDS
            for operation in self._waiting:
                if operation.session is None:
                    operation.fail(self._storage.error(error))
            self._waiting = deque(operation for operation in self._waiting if operation.session is not None)
        finally:
            self._began = None

    def _rest(self, connection: Connection) -> None:
        is_checkpoint_due = self._unchecked >= CHECKPOINT_STATEMENTS
        self._storage.rest(connection, checkpoint=is_checkpoint_due)
        if is_checkpoint_due:
            self._unchecked = 0

    def _write_group(self, operations: list[_Operation]) -> None:
        """Run the first operations that wait in one transaction; if one of them ends it, the first alone.

        Raises:
            Exception: one of the storage's ``errors``: it cannot be written; the transaction is rolled back.
        """
        connection = self._begin(operations)
        try:
            started = [operation for operation in operations if operation.start()]
            results = [self._result(operation, connection) for operation in started]
            for session, calls in self._dropped.items():
                rows.add_lost(connection, session, calls)
            seconds = self._storage.renew(connection)
            self._storage.commit(connection)
        except BaseException as error:
            self._storage.rollback(connection)
            self._registry.forget_progress()
            if not (self._storage.aborts and isinstance(error, self._storage.operation_errors)):
                raise
            if len(operations) > 1:
                self._write_group(operations[:1])
                return
            log.error("An operation on sessions failed: %s", error)
            results, seconds = [(None, self._storage.error(error)) for _ in started], None
        else:
            self._dropped.clear()
            self._registry.committed()
        self._renew_at = None if seconds is None else time.monotonic() + seconds
        self._unchecked += len(operations)
        for _ in operations:
            self._waiting.popleft()
        for operation, (result, failure) in zip(started, results, strict=True):
            if failure is None:
                operation.future.set_result(result)
            else:
                operation.future.set_exception(failure)

    def _begin(self, operations: list[_Operation]) -> Connection:
        """A connection in a new transaction. One that was lost since the last transaction is opened again."""
        names = [name for operation in operations for name in operation.names]
        names += [session.id for session in self._dropped]
        seconds = CLOSE_SECONDS if self._closed else BUSY_SECONDS
        connection = self._connected()
        try:
            self._storage.begin(connection, names, seconds)
        except self._storage.errors:
            if self._is_new or self._storage.is_local:
                raise
            self._disconnect()
            connection = self._connected()
            self._storage.begin(connection, names, seconds)
        self._is_new = False
        return connection

    def _result(self, operation: _Operation, connection: Connection) -> tuple[Any, Exception | None]:
        """An operation's result, or the error that its future raises. Errors of the storage are raised here, and those
        that end its transaction."""
        try:
            return operation.run(connection), None
        except ScholarBaseError as error:
            return None, error
        except Exception as error:
            self._registry.forget_progress()
            if not isinstance(error, self._storage.errors):
                return None, error
            if self._storage.aborts or not isinstance(error, self._storage.operation_errors):
                raise
            log.error("An operation on sessions failed: %s", error)
            return None, self._storage.error(error)

    def _drop_oldest(self) -> None:
        while len(self._waiting) > WAITING_CALLS:
            operation = self._waiting.popleft()
            assert operation.session is not None
            self._dropped[operation.session] += 1
            operation.fail(self._storage.error(self._error))

    def _delete_unused(self, connection: Connection) -> None:
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

    def _connected(self) -> Connection:
        """The connection. Where the file was deleted or replaced, the one that is now at the path is opened."""
        if self._connection is not None and self._storage.is_replaced():
            log.error("%s was deleted or replaced: it is opened again.", self._storage.name)
            self._registry.clear()
            self._disconnect()
        if self._connection is None:
            self._connection = self._storage.connect()
            self._is_new = True
        return self._connection

    def _disconnect(self) -> None:
        self._registry.forget_progress()
        if self._connection is not None:
            with suppress(*self._storage.errors):
                self._connection.close()
        self._connection = None
