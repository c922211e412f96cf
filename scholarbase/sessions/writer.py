"""The one thread of a process that writes the file of sessions.

Whoever has something to write hands it over and gets a future. What a disk refuses waits on, in its order, as far as it
is to last.
"""

from __future__ import annotations

import fcntl
import logging
import os
import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote

from scholarbase.errors import InvalidRequest, ScholarBaseError, StorageError
from scholarbase.sessions.session import Session

log = logging.getLogger("scholarbase.sessions")

WAITING_CALLS: Final = 100_000
"""Calls that wait for a disk that refuses. Beyond that the oldest are given up, and their session says how many."""
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
"""How long a store that is closed goes on trying to write what waits."""
SWEEP_SECONDS: Final = 3600.0
SLOW_SECONDS: Final = 0.02
"""What a call takes that is written here and now at most, or the thread writes those of the next while."""
SLOW_PAUSE_SECONDS: Final = 60.0
LOOK_SECONDS: Final = 0.1
"""How long a file that someone deletes may go on being written."""
CHECKPOINT_CALLS: Final = 1000
"""What is written here and now goes from SQLite's log to its file after so many calls."""
TOGETHER: Final = 256
"""Operations in one transaction, at most."""
CONNECT_ATTEMPTS: Final = 10
BUSY_SECONDS: Final = 30.0
_OWN_FAULT: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
"""What is wrong with one operation; SQLite's other errors are the disk's."""

T = TypeVar("T")


@dataclass(slots=True)
class _Operation:
    """Something to do inside a transaction. ``lasting``: to be tried again when the disk refuses. ``alone``: it sees to
    its transaction itself, which mostly is one statement.

    The future of one that lasts cannot be cancelled; of another it can until its turn comes, and it is then not done.
    """

    run: Callable[[sqlite3.Connection], Any]
    session: Session | str
    lasting: bool = False
    alone: bool = False
    future: Future[Any] = field(default_factory=Future)

    def __post_init__(self) -> None:
        if self.lasting:
            self.future.set_running_or_notify_cancel()

    @property
    def session_id(self) -> str:
        return self.session if isinstance(self.session, str) else self.session.id

    def is_wanted(self) -> bool:
        """Whether someone still waits for it, who can from now on not cease to."""
        if self.future.cancelled():
            return False
        return self.future.running() or self.future.set_running_or_notify_cancel()

    def refuse(self, error: Exception) -> None:
        if self.is_wanted():
            self.future.set_exception(error)


def heard(future: Future[T], seconds: float) -> T:
    """What the store gives within so many seconds, or its error.

    Raises:
        StorageError: it does not come. What was asked for is then not done, unless its turn has come already.
    """
    try:
        return future.result(seconds)
    except FutureTimeoutError:
        future.cancel()
        raise too_slow(seconds) from None


def too_slow(seconds: float) -> StorageError:
    """The error of a store that has not answered within so many seconds."""
    return StorageError(
        f"The file of sessions could not be written within {seconds:g} seconds: try again later."
    )


class Writer:
    """The thread, and what it is handed. What is written is up to who inherits it.

    Args:
        path: the file.
        sweeping: whether ``_sweep`` is to be called once in a while.
    """

    def __init__(self, path: Path, *, sweeping: bool) -> None:
        self.path: Final = path
        self._sweeping = sweeping
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        self._backlog: deque[_Operation] = deque()
        self._lost: dict[str, tuple[Session, int]] = {}
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._looked = 0.0
        self._refusal: Exception | None = None
        self._retry_at = 0.0
        self._swept: float | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._waiting = 0
        """Operations that last and are not done."""
        self._ready = False
        """Whether the file is there with its tables, as the thread sees it."""
        self._here = threading.Lock()
        self._direct: sqlite3.Connection | None = None
        self._slow_until = 0.0
        self._after: list[Callable[[], None]] = []
        """What the operations of a transaction want done once it is committed."""
        self._since_checkpoint = 0

    # -- for who inherits it ----------------------------------------------------------------------------

    def _forget_progress(self, session_id: str | None) -> None:
        """What is remembered of a session, of all where None, may not be what the file says."""
        raise NotImplementedError

    def _file_was_replaced(self) -> None:
        """What is remembered is of another file."""
        raise NotImplementedError

    def _count_lost(self, connection: sqlite3.Connection, session: Session, lost: int) -> None:
        """So many calls of the session were given up."""
        raise NotImplementedError

    def _sweep(self, connection: sqlite3.Connection) -> None:
        """Delete what is old."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what waits, and let go of the file. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            thread = self._thread
            self._queue.put(None)
        if thread is not None:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the writing thread -----------------------------------------------------------------------------

    def _ask(
        self,
        run: Callable[[sqlite3.Connection], T],
        session: Session | str,
        *,
        lasting: bool = False,
        alone: bool = False,
    ) -> Future[T]:
        operation = _Operation(run, session, lasting, alone)
        with self._lock:
            if self._closed:
                raise InvalidRequest(f"The sessions in {self.path.parent} are closed: open them again.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="sessions", daemon=True)
                self._thread.start()
            if lasting:
                self._waiting += 1
                operation.future.add_done_callback(self._waits_no_more)
            self._queue.put(operation)
        return operation.future

    def _waits_no_more(self, future: Future[Any]) -> None:
        with self._lock:
            self._waiting -= 1

    def _at_once(self, run: Callable[[sqlite3.Connection], T]) -> T | None:
        """Do something short here and now, by the thread that asks for it; None where that would mean waiting:
        something waits already, another thread or process writes, or the disk refuses. The thread then sees to it.

        It is one statement and goes to the system's memory; synchronising that with the disk is left to the thread.
        Handing it over and hearing of it would take the two threads five times as long.
        """
        began = time.monotonic()
        if (
            self._waiting
            or not self._ready
            or began < self._slow_until
            or not self._here.acquire(blocking=False)
        ):
            return None
        try:
            if not self._is_same_file():
                return None
            if self._direct is None:
                self._direct = _connect_directly(self.path)
            done = run(self._direct)
            if time.monotonic() - began > SLOW_SECONDS:
                # Memory does not take so long: the disk does, and keeps whoever answers from answering others.
                self._slow_until = began + SLOW_PAUSE_SECONDS
            self._since_checkpoint += 1
        except (sqlite3.Error, OSError):
            self._close_direct()
            return None
        finally:
            self._here.release()
        if self._since_checkpoint >= CHECKPOINT_CALLS:
            self._since_checkpoint = 0
            with suppress(InvalidRequest):  # closed meanwhile, which makes a checkpoint too
                self._ask(_checkpoint, "", alone=True)
        return done

    def _close_direct(self) -> None:
        if self._direct is not None:
            with suppress(sqlite3.Error):
                self._direct.close()
            self._direct = None

    def _write(self) -> None:
        open_ = True
        while open_:
            operations, open_ = self._next()
            if self._refusal is not None and open_ and time.monotonic() < self._retry_at:
                self._put_off(operations, self._refusal)
            else:
                self._backlog.extend(operations)
                self._try_all()
        until = time.monotonic() + CLOSE_SECONDS
        while self._backlog and time.monotonic() < until:
            time.sleep(RETRY_SECONDS / 5)
            self._try_all()
        if self._backlog:
            log.error("%d calls of sessions could not be written, and are lost.", len(self._backlog))
        for operation in self._backlog:
            operation.refuse(storage(self.path, self._refusal))
        self._disconnect()

    def _next(self) -> tuple[list[_Operation], bool]:
        """What waits, once something does or it is time to do something else; whether more may come."""
        timeout = SWEEP_SECONDS if self._sweeping else None
        if self._backlog:
            timeout = max(self._retry_at - time.monotonic(), 0.0)
        try:
            first = self._queue.get(timeout=timeout)
        except queue.Empty:
            return [], True
        operations: list[_Operation] = []
        while first is not None:
            operations.append(first)
            if len(operations) == TOGETHER:
                return operations, True
            try:
                first = self._queue.get_nowait()
            except queue.Empty:
                return operations, True
        return operations, False

    def _try_all(self) -> None:
        """Do what waits, in its order. What the disk refuses waits on, or hears of it. No error ends the thread."""
        try:
            while self._backlog:
                connection = self._connected()
                if self._backlog[0].alone and not self._lost:
                    self._alone(connection, self._backlog[0])
                else:
                    first = islice(self._backlog, TOGETHER)
                    self._together(connection, list(takewhile(lambda operation: not operation.alone, first)))
            self._refusal = None
            self._sweep_in_time()
        except Exception as error:
            expected = isinstance(error, sqlite3.Error | OSError)
            log.error("Sessions cannot be written: %s", storage(self.path, error), exc_info=not expected)
            self._disconnect()
            self._refusal = error
            self._retry_at = time.monotonic() + RETRY_SECONDS
            operations = list(self._backlog)
            self._backlog.clear()
            self._put_off(operations, error)

    def _alone(self, connection: sqlite3.Connection, operation: _Operation) -> None:
        """The first that waits, in a transaction of its own. Raises as ``_together``.

        Each statement gives Python's lock away and waits for it again, against a loop that answers: a call that is
        recorded in one statement costs a server a fraction of what one in six does, whether or not they are shared.
        """
        result, problem = None, None
        if operation.is_wanted():
            result, problem = self._tried(operation, connection)
        self._backlog.popleft()
        self._settle(operation, result, problem)

    def _settle(self, operation: _Operation, result: Any, problem: Exception | None) -> None:
        if operation.future.cancelled():
            return
        if problem is None:
            operation.future.set_result(result)
        else:
            operation.future.set_exception(problem)

    def _together(self, connection: sqlite3.Connection, operations: Sequence[_Operation]) -> None:
        """These, the first that wait, in one transaction.

        Raises:
            sqlite3.Error, OSError: the disk refuses, and none of them is done.
        """
        done: list[tuple[_Operation, Any, Exception | None]] = []
        try:
            with _turn(self.path):
                connection.execute("BEGIN IMMEDIATE")
                for operation in operations:
                    if operation.is_wanted():
                        done.append((operation, *self._tried(operation, connection)))
                for session, lost in self._lost.values():
                    self._count_lost(connection, session, lost)
                connection.execute("COMMIT")
        except BaseException:
            self._after.clear()
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            for operation in operations:
                self._forget_progress(operation.session_id)
            raise
        self._lost.clear()
        for after in self._after:
            after()
        self._after.clear()
        for _ in operations:
            self._backlog.popleft()
        for operation, result, problem in done:
            self._settle(operation, result, problem)

    def _tried(self, operation: _Operation, connection: sqlite3.Connection) -> tuple[Any, Exception | None]:
        """What an operation gives, or the error that is its answer. The disk's errors go on."""
        try:
            return operation.run(connection), None
        except _OWN_FAULT as error:
            self._forget_progress(operation.session_id)
            log.error("An operation on the session %s failed: %s", operation.session_id, error)
            return None, storage(self.path, error)
        except (sqlite3.Error, OSError):
            raise
        except ScholarBaseError as error:
            return None, error
        except Exception as error:
            self._forget_progress(operation.session_id)
            return None, error

    def _put_off(self, operations: Sequence[_Operation], error: Exception) -> None:
        for operation in operations:
            if operation.lasting:
                self._backlog.append(operation)
            else:
                operation.refuse(storage(self.path, error))
        while len(self._backlog) > WAITING_CALLS:
            given_up = self._backlog.popleft()
            session = given_up.session
            assert isinstance(session, Session)
            _, lost = self._lost.get(session.id, (session, 0))
            self._lost[session.id] = session, lost + 1
            given_up.refuse(storage(self.path, error))

    def _connected(self) -> sqlite3.Connection:
        """The connection. A file that was deleted or replaced takes no call with it: it is made, or opened, again."""
        if self._connection is not None and not self._is_same_file():
            log.error("%s is not the file that it was: it is opened again.", self.path)
            self._file_was_replaced()
            self._disconnect()
        if self._connection is None:
            self._connection = _connect(self.path)
            self._inode, self._looked = _inode(self.path), time.monotonic()
            self._ready = True
        return self._connection

    def _is_same_file(self) -> bool:
        """Whether the path still leads to the file that is open; looked at once in a while."""
        looked = time.monotonic()
        if looked - self._looked < LOOK_SECONDS:
            return True
        same = self._inode == _inode(self.path)
        if same:
            self._looked = looked
        return same

    def _disconnect(self) -> None:
        self._ready = False
        with self._here:
            self._close_direct()
        self._forget_progress(None)
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _sweep_in_time(self) -> None:
        if not self._sweeping or self._connection is None:
            return
        if self._swept is None or time.monotonic() - self._swept >= SWEEP_SECONDS:
            self._swept = time.monotonic()
            with _turn(self.path):
                self._sweep(self._connection)


def _checkpoint(connection: sqlite3.Connection) -> None:
    """https://sqlite.org/wal.html#ckpt"""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def storage(path: Path, error: Exception | None) -> StorageError:
    """What a disk's error is to a caller."""
    return StorageError(
        f"{path} cannot be read or written ({error}): make room, or name another folder by SCHOLARBASE_SESSIONS."
    )


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


@contextmanager
def _turn(path: Path) -> Iterator[None]:
    """This process's turn to write. SQLite too lets in one after the other, but whoever finds the file locked sleeps,
    up to a tenth of a second, and may find it locked again; here the kernel wakes the next as soon as one has done."""
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _connect_directly(path: Path) -> sqlite3.Connection:
    """A connection to the file that is there, which waits for nobody and for no disk."""
    where = f"file:{quote(str(path))}?mode=rw"  # one that is gone is not made here
    connection = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False, timeout=0)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # What agents asked is for who serves them alone; SQLite gives the files beside it the rights of this one.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    # Loads sqlite-utils, and pandas where that is installed: not for a server that records nothing.
    from scholarbase.sessions.schema import migrate

    for attempt in range(CONNECT_ATTEMPTS):
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
        )
        try:
            # A process that is killed loses nothing that was written; the power's failure at most the last calls
            # (https://sqlite.org/pragma.html#pragma_synchronous).
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            migrate(connection)
            return connection
        except BaseException as error:
            connection.close()
            # Of several processes that make the file at once, one does, and the others look again.
            collided = isinstance(error, sqlite3.IntegrityError) or "locked" in str(error)
            if attempt == CONNECT_ATTEMPTS - 1 or not collided:
                raise
        time.sleep(0.05 * (attempt + 1))
    raise AssertionError
