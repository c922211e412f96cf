"""SQLite databases: opening them, and pools of connections that read them.

This is the only module that calls ``sqlite3.connect``. Every connection is in autocommit mode and may be used by any
thread, by one at a time.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep
from typing import Final
from urllib.parse import quote

import orjson

from scholarbase.deadlines import DEADLINE, Deadline
from scholarbase.errors import LibraryCorrupt, LibraryError, StorageError

BUSY_SECONDS: Final = 30.0
"""How long a connection waits for another one's lock."""
SMALL_CACHE: Final = -8192
"""The cache of :func:`small_cache`, 8 MB (https://sqlite.org/pragma.html#pragma_cache_size)."""
WATCH_SECONDS: Final = 0.02
"""How often the deadlines of running statements are compared with the clock."""
_OWN_SQL: Final = """
    SELECT type || ' ' || name, sql FROM sqlite_schema WHERE type IN ('view', 'trigger')
    UNION ALL
    SELECT 'generated column ' || c.name, NULL FROM sqlite_schema AS t, pragma_table_xinfo(t.name) AS c
    WHERE t.type = 'table' AND c.hidden > 1
"""
"""What SQLite runs of a database when it is read or written (https://sqlite.org/security.html)."""
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def open_memory() -> sqlite3.Connection:
    """An empty database in memory. Others can be attached to it."""
    return sqlite3.connect(":memory:", uri=True, isolation_level=None, check_same_thread=False)


def open_immutable(path: Path, views: Collection[str] | None = None) -> sqlite3.Connection:
    """Open a database that no process writes, for reading.

    SQLite takes no locks and looks for no journal, so the file must not change while it is open
    (https://sqlite.org/uri.html#uriimmutable).

    Args:
        views: the views that a library's database has, which may be from anyone: others are an error, as is any
            other SQL in it. None does not look.

    Raises:
        LibraryCorrupt: it has another view, a trigger or a generated column.
    """
    connection = _connect(path, "mode=ro&immutable=1", 0.0)
    try:
        connection.execute("PRAGMA query_only = 1")
        if views is not None:
            _check_own_sql(connection, path, views)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_own_sql(connection: sqlite3.Connection, path: Path, views: Collection[str]) -> None:
    for name, sql in connection.execute(_OWN_SQL):
        if sql not in views:
            raise LibraryCorrupt(
                f"{path} has the {name[:200]!r}, which no library has: it was not written by ScholarBase. Get the "
                "library again, or ingest it."
            )


def attach_immutable(connection: sqlite3.Connection, path: Path, name: str) -> None:
    """Let a connection read another database, as the schema ``name``.

    A connection of :func:`open_immutable` may then create temporary tables, which ``query_only`` forbids. The file is
    opened for reading.
    """
    connection.execute("PRAGMA query_only = 0")
    connection.execute(f"ATTACH ? AS {name}", (_uri(path, "mode=ro&immutable=1"),))


def open_for_reading(path: Path, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open an existing database for reading while other connections may write it.

    The file itself is opened for writing: recovering a write-ahead log needs that (https://sqlite.org/wal.html).
    """
    connection = _connect(path, "mode=rw", busy_seconds)
    connection.execute("PRAGMA query_only = 1")
    return connection


def open_for_writing(
    path: Path, *, create: bool = True, busy_seconds: float = BUSY_SECONDS
) -> sqlite3.Connection:
    """Open a database for writing; ``create`` it if it does not exist."""
    return _connect(path, "mode=rwc" if create else "mode=rw", busy_seconds)


@contextmanager
def small_cache(connection: sqlite3.Connection) -> Iterator[None]:
    """Cache few pages of a connection meanwhile: its statements read or append pages that they do not need again, and
    would fill a large cache with them."""
    [before] = connection.execute("PRAGMA cache_size").fetchone()
    connection.execute(f"PRAGMA cache_size = {SMALL_CACHE}")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA cache_size = {before}")


def finish(path: Path) -> None:
    """Turn a database's write-ahead log off, and compact its file if more than a fifth is free."""
    with closing(open_for_writing(path, create=False)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        free, pages = (
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count")
        )
        if free > pages // 5:
            db.execute("VACUUM")


def _connect(path: Path, options: str, busy_seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(
        _uri(path, options),
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=busy_seconds,
    )


def _uri(path: Path, options: str) -> str:
    return f"file://{quote(os.fsencode(path.absolute()))}?{options}"


# -- pools ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Reader:
    """A connection of a pool, and the deadline of the statement that it runs."""

    connection: sqlite3.Connection
    deadline: Deadline | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class ReadPool:
    """A fixed number of connections to a database of a library. Safe to share between threads.

    All connections are opened at once, so that a file that replaces this one later is never read.

    Statements are interrupted at the deadline of their context. A watching thread does that with ``sqlite3_interrupt``
    (https://sqlite.org/c3ref/interrupt.html), which also stops inside a full-text search. A progress handler would need
    Python's lock thousands of times a second.

    Args:
        path: the database, which no process writes.
        size: the number of connections. A thread that finds none free waits for one.
        connect: opens one connection.
    """

    def __init__(self, path: Path, size: int, connect: Callable[[Path], sqlite3.Connection]) -> None:
        self.path = path
        self._readers: list[_Reader] = []
        self._idle: deque[_Reader] = deque()
        self._freed = threading.Condition()
        self._waiting = 0
        self._limited = threading.Event()
        """Set while statements may have deadlines."""
        self._watcher: threading.Thread | None = None
        self._is_closed = False
        try:
            for _ in range(size):
                self._readers.append(_Reader(connect(path)))
        except BaseException:
            self.close()
            raise
        self._idle.extend(self._readers)

    @contextmanager
    def lend(self, activity: str, advice: str) -> Iterator[sqlite3.Connection]:
        """Lend a connection to this thread.

        Args:
            activity: what the block does, as the subject of a sentence.
            advice: what to change in the request if it takes too long.

        Raises:
            TimeLimit, Cancelled: the deadline ended, while waiting for a connection or in a statement.
            LibraryCorrupt: SQLite found the database to be damaged.
            LibraryError: the database is closed or cannot be read.
            StorageError: the disk has no room for a temporary file.
        """
        deadline = DEADLINE.get()
        if deadline is not None:
            deadline.running = activity, advice
            if deadline.end <= monotonic():
                raise deadline.late()
        if self._is_closed:
            raise LibraryError(f"The database {self.path} is closed: open the library again.")
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = self._wait()
        try:
            if deadline is not None:
                reader.deadline = deadline
                if not self._limited.is_set():
                    self._watch()
            yield reader.connection
        except sqlite3.Error as error:
            raise self._translated(error, deadline) from error
        except orjson.JSONDecodeError as error:
            raise LibraryCorrupt(
                f'{self.path} is damaged: a row has JSON that cannot be read ({error}). Run "scholarbase verify" on '
                "the library."
            ) from error
        finally:
            if deadline is not None:
                with reader.lock:  # so that the next statement is not interrupted
                    reader.deadline = None
            self._idle.append(reader)
            if self._waiting:
                with self._freed:
                    self._freed.notify()

    def connections(self) -> Iterator[sqlite3.Connection]:
        """Every connection, before any is lent."""
        return (reader.connection for reader in self._readers)

    def close(self) -> None:
        """Close every connection. A second call does nothing."""
        self._is_closed = True
        self._limited.set()  # ends the watching thread
        for reader in self._readers:
            reader.connection.close()

    def _wait(self) -> _Reader:
        """Wait for a connection."""
        deadline = DEADLINE.get()
        with self._freed:
            self._waiting += 1
            try:
                while True:
                    try:
                        return self._idle.pop()
                    except IndexError:
                        if deadline is not None and deadline.remaining <= 0:
                            raise deadline.late() from None
                    self._freed.wait(WATCH_SECONDS)
            finally:
                self._waiting -= 1

    def _translated(self, error: sqlite3.Error, deadline: Deadline | None) -> Exception:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # of extended codes, the primary one
        if code == sqlite3.SQLITE_INTERRUPT and deadline is not None:
            return deadline.late()
        if code in _DAMAGED or str(error).startswith("Could not decode"):
            return LibraryCorrupt(
                f'{self.path} is damaged: {error}. Run "scholarbase verify" on the library.'
            )
        if code == sqlite3.SQLITE_FULL:
            return StorageError(
                f"SQLite has no room for a temporary file ({error}): free some disk space, or set SQLITE_TMPDIR."
            )
        if code == sqlite3.SQLITE_IOERR:
            return LibraryError(f"{self.path} cannot be read: {error}. Check its disk.")
        if self._is_closed and isinstance(error, sqlite3.ProgrammingError):
            return LibraryError(f"The database {self.path} is closed: open the library again.")
        return error

    # -- deadlines --------------------------------------------------------------------------------------

    def _watch(self) -> None:
        with self._freed:
            if self._watcher is None:
                self._watcher = threading.Thread(
                    target=self._interrupt_late, name="sqlite-deadlines", daemon=True
                )
                self._watcher.start()
        self._limited.set()

    def _interrupt_late(self) -> None:
        """Interrupt statements after their deadlines. Without deadlines the thread sleeps."""
        while not self._is_closed:
            self._limited.wait()
            sleep(WATCH_SECONDS)
            self._limited.clear()
            for reader in self._readers:
                if (deadline := reader.deadline) is None:
                    continue
                self._limited.set()
                if deadline.end <= monotonic():
                    with reader.lock, suppress(sqlite3.ProgrammingError):  # closed meanwhile
                        if reader.deadline is deadline:
                            reader.connection.interrupt()


def json_list(values: Iterable[int] | Iterable[str]) -> str:
    """Encode values as one parameter of ``json_each(?)``, which has no limit on their number as ``IN (?, ?)`` has."""
    return orjson.dumps(list(values)).decode()
