"""Opening SQLite databases: the only module that calls ``sqlite3.connect``.

Limits that hold for every connection have their place here: how long it waits for a lock, and what it may write.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

BUSY_SECONDS: Final = 30.0
"""How long a connection waits for another one's transaction."""


def open_immutable(path: Path) -> sqlite3.Connection:
    """Open a database that nobody writes, for reading.

    SQLite takes no locks and looks for no journal, so the file must not change while it is open
    (https://sqlite.org/uri.html#uriimmutable).
    """
    connection = _connect(f"file:{quote(str(path))}?mode=ro&immutable=1")
    connection.execute("PRAGMA query_only = 1")
    return connection


def open_for_reading(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Open a database that others may be writing, for reading. It is not created."""
    connection = _connect(f"file:{quote(str(path))}?mode=rw", busy_seconds)
    connection.execute("PRAGMA query_only = 1")
    return connection


def open_for_writing(
    path: Path, *, create: bool = True, busy_seconds: float = BUSY_SECONDS
) -> sqlite3.Connection:
    """Open a database for writing. Statements outside ``BEGIN`` and ``COMMIT`` commit by themselves."""
    return _connect(f"file:{quote(str(path))}?mode={'rwc' if create else 'rw'}", busy_seconds)


def _connect(uri: str, busy_seconds: float = 0.0) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=busy_seconds)
