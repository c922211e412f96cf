"""Opening SQLite databases: the only module that calls ``sqlite3.connect``.

Every connection is in autocommit mode and may be used by any thread, by one at a time.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

BUSY_SECONDS: Final = 30.0
"""How long a connection waits for another one's lock."""


def open_immutable(path: Path) -> sqlite3.Connection:
    """Open a database that no process writes, for reading.

    SQLite takes no locks and looks for no journal, so the file must not change while it is open
    (https://sqlite.org/uri.html#uriimmutable).
    """
    connection = _connect(path, "mode=ro&immutable=1", 0.0)
    connection.execute("PRAGMA query_only = 1")
    return connection


def open_for_reading(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
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
def open_in_memory() -> Iterator[sqlite3.Connection]:
    """A temporary database without a file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        yield connection


def _connect(path: Path, options: str, busy_seconds: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file://{quote(os.fsencode(path.absolute()))}?{options}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=busy_seconds,
    )
