"""Where sessions are kept: what the store, its writer and its reader need of a database.

:mod:`scholarbase.sessions.sqlite` is the file of a folder. Extensions add others by the scheme of their URLs, such as a
PostgreSQL database that several servers share. The statements of :mod:`scholarbase.sessions.rows` run on all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

from scholarbase.errors import InvalidRequest, StorageError
from scholarbase.extensions import added_names

_CONNECTION_STRING: Final = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=")
"""The start of libpq's other form, ``host=localhost dbname=sessions``."""


class Cursor(Protocol):
    """The result of a statement, as in Python's database API (PEP 249)."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to a database, with ``?`` for the parameters of a statement."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor: ...
    def close(self) -> None: ...


class Storage(Protocol):
    """A database of sessions. The thread of a writer uses it, except for ``reading`` and ``deletions``."""

    name: str
    """As messages show it: without a password."""
    process: str
    """Identifies this process among those that use the database."""
    errors: tuple[type[Exception], ...]
    """Errors of the database. Except for ``operation_errors``, they mean that it cannot be used."""
    operation_errors: tuple[type[Exception], ...]
    """Errors of one operation."""
    aborts: bool
    """Whether an operation's error ends its transaction."""
    group: int
    """The most operations in one transaction."""
    is_local: bool
    """Whether a statement may run in the caller's thread, and ``deletions`` shows at once what other processes
    deleted."""

    def connect(self) -> Connection:
        """A connection for writing, with the tables created or migrated."""

    def is_replaced(self) -> bool:
        """Whether the connection is no longer that of the database at this place."""

    def begin(self, connection: Connection, names: Sequence[str], seconds: float) -> None:
        """Begin a transaction, in which no other process changes what ``names`` name; wait at most ``seconds``."""

    def commit(self, connection: Connection) -> None: ...
    def rollback(self, connection: Connection) -> None: ...

    def rest(self, connection: Connection, *, checkpoint: bool) -> None:
        """Called when all operations that waited have run."""

    def reading(self, seconds: float | None = None) -> AbstractContextManager[Connection | None]:
        """A connection for reading; None where nothing was ever written. Statements end at the context's deadline, or
        after ``seconds``.

        Raises:
            StorageError: the database cannot be read.
        """

    def error(self, error: Exception | None) -> StorageError:
        """The error for callers."""

    def local_time(self, microseconds: int) -> int:
        """A time of this machine's clock in the time by which all processes order calls."""

    def used_bytes(self, connection: Connection) -> int:
        """The size of all sessions."""

    def deletions(self) -> int | None:
        """Another value after sessions were deleted."""

    def deleted(self) -> None:
        """Tell other processes that sessions were deleted."""

    def hold(self, connection: Connection) -> None:
        """Mark this process as running, until it ends or ``release``."""

    def renew(self, connection: Connection) -> float | None:
        """Renew the mark of ``hold``; the seconds until the next time, or None where that is not needed."""

    def ended(self, connection: Connection) -> set[str]:
        """The processes that have admitted calls and ended."""

    def sweep(self) -> None:
        """Remove what ended processes left."""

    def release(self, connection: Connection | None) -> None:
        """Remove the mark of ``hold``."""

    def close(self) -> None: ...


def open_storage(location: Path | str) -> Storage:
    """The storage in a folder, or at a URL whose scheme an extension adds.

    Raises:
        InvalidRequest: the URL is invalid or has another scheme, or is a connection string.
        MissingExtra: the storage needs an extra that is not installed.
    """
    if "://" in str(location):
        stores = added_names("session_stores")
        scheme = str(location).partition("://")[0]
        if scheme in stores:
            opened: Storage = stores[scheme](str(location))
            return opened
        raise InvalidRequest(
            f"Sessions cannot be kept at a URL of the scheme {scheme[:40]!r}: give a folder, or a URL of an installed "
            f"extension (its schemes: {', '.join(sorted(stores)) or 'none'})."
        )
    if _CONNECTION_STRING.match(str(location)):
        raise InvalidRequest(
            "Sessions are kept in a folder or at a URL, and SCHOLARBASE_SESSIONS is a connection string of PostgreSQL: "
            "write it as postgresql://USER@HOST/DATABASE."
        )
    from scholarbase.sessions.sqlite import SqliteStorage

    return SqliteStorage(Path(location))
