"""Where sessions are kept: what the store and its writer need of a database.

:mod:`scholarbase.sessions.sqlite` is the file of a folder. Extensions add others by the scheme of their URLs, such as a
PostgreSQL database that several servers share. The statements of :mod:`scholarbase.sessions.store` run on all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

from scholarbase.errors import InvalidRequest, StorageError
from scholarbase.extensions import added_names

_CONNECTION_STRING: Final = re.compile(r"\s*(host|hostaddr|port|dbname|user|password|service)\s*=")
"""The start of libpq's other form, ``host=localhost dbname=sessions``."""


OWNERS_IN_KEYS: Final = (
    """
    UPDATE calls SET session = (SELECT owner FROM sessions WHERE id = calls.session) || '/' || session
    WHERE session IN (SELECT id FROM sessions WHERE owner <> '')
    """,
    "UPDATE sessions SET id = owner || '/' || id WHERE owner <> ''",
)
"""Statements that bring tables of version 1, in which a name was the session of one owner, to version 2."""


class Connection(Protocol):
    """A connection to a database, with ``?`` for the parameters of a statement. It returns a cursor of Python's
    database API (PEP 249)."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any: ...


class Storage(Protocol):
    """A database of sessions. One thread at a time uses ``transaction`` and ``checkpoint``, any thread the rest."""

    name: str
    """As messages show it: without a password."""
    errors: tuple[type[Exception], ...]
    """Errors of the database. Except for ``operation_errors``, they mean that it cannot be used."""
    operation_errors: tuple[type[Exception], ...]
    """Errors of one operation."""
    group: int
    """The most operations in one transaction."""
    is_local: bool
    """Whether reading a row is fast enough for an event loop."""

    @property
    def is_ready(self) -> bool:
        """Whether a transaction of one call is fast enough for an event loop."""

    def transaction(self, names: Sequence[str], seconds: float) -> AbstractContextManager[Connection]:
        """A transaction, committed at the end of the block, or rolled back after an error. Connects where needed, and
        creates the tables.

        Args:
            names: the keys of the sessions that it changes: no other process changes them meanwhile. ``*`` is all.
            seconds: how long it waits for other processes.
        """

    def note_deletion(self) -> None:
        """Called in a transaction that deletes sessions: ``deletions`` changes when it is committed."""

    def deletions(self) -> object | None:
        """A value that changes whenever sessions are deleted, in any process; None where only reading the sessions
        shows that."""

    def checkpoint(self) -> None:
        """Called now and then outside a transaction, for work that waits for the disk."""

    def reading(self, seconds: float | None = None) -> AbstractContextManager[Connection | None]:
        """A connection for reading; None where nothing was ever written. Statements end at the context's deadline, or
        after ``seconds``, which a call gives that can run without its session.

        Raises:
            StorageError: the database cannot be read.
        """

    def error(self, error: Exception | None) -> StorageError:
        """The error for callers."""

    def local_time(self, microseconds: int) -> int:
        """A time of this machine's clock in the time by which all processes order calls."""

    def used_bytes(self, connection: Connection) -> int:
        """The size of all sessions."""

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
