"""The one way in which sessions are written: operations that wait are run in one transaction.

The thread of a process runs them. A recorded call is written in its caller's thread where nothing else is being
written: handing it to the thread and back takes several times as long as writing it. While the database cannot be
written, recorded calls wait in memory in their order, and every other operation fails.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from scholarbase.errors import InvalidRequest, ScholarBaseError, SessionsUnavailable, StorageError
from scholarbase.sessions.storage import Connection, Storage

log = logging.getLogger("scholarbase.sessions")

WAITING_CALLS: Final = 100_000
"""Recorded requests that wait in memory while the database cannot be written. Later ones are dropped and counted."""
LOCK_SECONDS: Final = 2.0
"""How long a transaction of the thread waits for other processes. Then operations that are not retried fail."""
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
"""How long a closed writer keeps trying to write the calls that wait."""
LOG_SECONDS: Final = 60.0
"""The shortest time between two log lines that say that the database cannot be written."""
SWEEP_SECONDS: Final = 3600.0
CHECKPOINT_OPERATIONS: Final = 1000
"""Operations after which the thread makes a checkpoint. That waits for the disk, so no caller's thread does it."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Operation:
    """Something to run in a transaction. ``name``: the session that it changes. ``calls``: how many calls it records
    there; such an operation is retried and cannot be cancelled."""

    run: Callable[[Connection], Any]
    name: str
    calls: int = 0
    future: Future[Any] = field(default_factory=Future)

    def start(self) -> bool:
        """False where it was cancelled; from now on it cannot be."""
        if self.future.cancelled():  # to say so twice is an error
            return False
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def result(self, connection: Connection) -> tuple[Any, ScholarBaseError | None]:
        try:
            return self.run(connection), None
        except ScholarBaseError as error:
            return None, error

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
    return SessionsUnavailable(f"Sessions could not be written within {seconds:g} seconds: try again later.")


class Writer:
    """A queue of operations, and the thread that runs them, which starts with the first.

    Args:
        rolled_back: called when a transaction was rolled back.
        count_lost: an operation that counts calls of a session that were dropped.
        sweep: an operation to run every hour.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        rolled_back: Callable[[], None],
        count_lost: Callable[[Connection, str, int], None],
        sweep: Callable[[Connection], None] | None,
    ) -> None:
        self._storage = storage
        self._rolled_back = rolled_back
        self._count_lost = count_lost
        self._sweep = sweep
        self._sweep_at = 0.0
        self._waiting: deque[_Operation] = deque()
        self._lost: Counter[str] = Counter()
        self._lock = threading.Lock()
        """Of the queue's end: no operation is added once the writer is closed."""
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None
        """Why the last transaction failed, until it is time to retry."""
        self._log_at = 0.0
        """When a further error may be logged."""
        self._unchecked = 0
        """Operations since the last checkpoint."""

    def submit(self, run: Callable[[Connection], T], name: str, *, calls: int = 0) -> Future[T]:
        """Run an operation in a transaction.

        Args:
            run: raises ScholarBaseError only before it changes something.
            name: the session that it changes.
            calls: how many calls of it are recorded: such an operation is retried while the database cannot be written,
                and cannot be cancelled.

        The future raises what ``run`` raises, StorageError, and InvalidRequest where the writer is closed.
        """
        operation = _Operation(run, name, calls)
        with self._lock:
            if self._closed.is_set():
                closed = f"The sessions in {self._storage.name} are closed: open them again."
                operation.fail(InvalidRequest(closed))
                return operation.future
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="sessions", daemon=True)
                self._thread.start()
            is_first = not self._waiting
            if not calls:
                is_dropped = self._error is not None
            else:
                operation.start()
                if is_dropped := len(self._waiting) >= WAITING_CALLS:
                    self._lost[name] += calls
            if is_dropped:
                operation.fail(self._storage.error(self._error))
                return operation.future
            self._waiting.append(operation)
        if not calls or not is_first or not self._write_now():
            self._wake.set()
        return operation.future

    def close(self) -> None:
        """Write the calls that wait, and end the thread. A second call does nothing."""
        with self._lock:
            self._closed.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _write_now(self) -> bool:
        """Write what waits in this thread, if that does not have to wait. False: the thread must."""
        if not self._writing.acquire(blocking=False):
            return False
        try:
            if self._error is not None or not self._storage.is_ready:
                return False
            self._write_waiting(0.0)
        except self._storage.errors:
            return False
        finally:
            self._writing.release()
        return self._unchecked < CHECKPOINT_OPERATIONS

    # -- the thread -------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._closed.is_set():
            self._wake.wait(self._until_sweep())
            self._wake.clear()
            self._write(LOCK_SECONDS)
            if self._error is not None:
                self._closed.wait(RETRY_SECONDS)
                self._wake.set()
        deadline = time.monotonic() + CLOSE_SECONDS
        self._write(CLOSE_SECONDS)
        while self._waiting and time.monotonic() < deadline:
            time.sleep(RETRY_SECONDS / 5)
            self._write(CLOSE_SECONDS)
        # With those that were dropped before, which are not counted in the database either.
        lost = self._lost.total() + sum(operation.calls for operation in self._waiting)
        if lost:
            log.error(
                "%d calls of sessions could not be written to %s, and are lost.", lost, self._storage.name
            )
        for operation in self._waiting:
            operation.fail(self._storage.error(self._error))

    def _until_sweep(self) -> float | None:
        """Seconds until unused sessions are deleted, None where they never are."""
        if self._sweep is None:
            return None
        if time.monotonic() >= self._sweep_at:
            self._sweep_at = time.monotonic() + SWEEP_SECONDS
            self._waiting.append(_Operation(self._sweep, "*"))
            self._wake.set()
        return self._sweep_at - time.monotonic()

    def _write(self, seconds: float) -> None:
        """Write what waits. Where the database cannot be written, calls go on waiting, and the rest fails."""
        failed: list[_Operation] = []
        with self._writing:
            try:
                self._write_waiting(seconds)
                if self._unchecked >= CHECKPOINT_OPERATIONS:
                    self._unchecked = 0
                    self._storage.checkpoint()
                self._error = None
            except self._storage.errors as error:
                if time.monotonic() >= self._log_at:
                    self._log_at = time.monotonic() + LOG_SECONDS
                    log.error("Sessions cannot be written: %s", self._storage.error(error))
                with self._lock:
                    self._error = error
                    failed = [operation for operation in self._waiting if not operation.calls]
                    self._waiting = deque(operation for operation in self._waiting if operation.calls)
        for operation in failed:
            operation.fail(self._storage.error(self._error))

    def _write_waiting(self, seconds: float) -> None:
        """Raises one of the storage's errors: it cannot be written, and what was not written waits again."""
        while self._waiting:
            size = min(len(self._waiting), self._storage.group)
            group = [self._waiting.popleft() for _ in range(size)]
            try:
                self._write_group(group, seconds)
            except self._storage.errors:
                self._waiting.extendleft(
                    operation for operation in reversed(group) if not operation.future.done()
                )
                raise

    def _write_group(self, group: list[_Operation], seconds: float) -> None:
        """Run operations in one transaction; if one of them fails, each in its own."""
        names = [operation.name for operation in group]
        lost = dict(self._lost)
        try:
            with self._storage.transaction([*names, *lost], seconds) as connection:
                started = [operation for operation in group if operation.start()]
                results = [operation.result(connection) for operation in started]
                for session_id, calls in lost.items():
                    self._count_lost(connection, session_id, calls)
        except Exception as error:
            self._rolled_back()
            is_expected = isinstance(error, self._storage.errors)
            if is_expected and not isinstance(error, self._storage.operation_errors):
                raise
            if len(group) == 1:
                log.error("An operation on sessions failed: %s", error, exc_info=not is_expected)
                group[0].fail(self._storage.error(error) if is_expected else error)
                return
            for operation in group:
                self._write_group([operation], seconds)
            return
        if lost:
            with self._lock:
                self._lost -= Counter(lost)
        self._unchecked += len(group)
        for operation, (result, failure) in zip(started, results, strict=True):
            if failure is None:
                operation.future.set_result(result)
            else:
                operation.future.set_exception(failure)
