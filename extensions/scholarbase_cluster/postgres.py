"""Sessions in a PostgreSQL database, which any number of servers share.

A transaction holds advisory locks on the names of what it changes
(https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS): numbers of calls have no gaps and
budgets are exact, while transactions on other sessions run at the same time. The locks are taken in one order, so that
no two transactions wait for each other.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from scholarbase.deadlines import DEADLINE
from scholarbase.errors import InvalidRequest, StorageError
from scholarbase.extras import require
from scholarbase.sessions.session import unix_time
from scholarbase.sessions.storage import OWNERS_IN_KEYS, Connection

psycopg = require("psycopg", "postgres", "SCHOLARBASE_SESSIONS in PostgreSQL")

CONNECT_SECONDS: Final = 3
STATEMENT_SECONDS: Final = 10.0
"""The most that a statement takes, by the database and by this process, which also ends the wait for a database that
hangs. A process that hangs inside a transaction loses it after the same time."""
_READING: Final = ("Reading sessions", "read fewer calls, or retry later")
"""Activity and advice for the error at the time limit."""
IDLE_CONNECTIONS: Final = 4
"""Connections for reading that are kept."""
STRIPES: Final = 4096
"""Different locks, at most: PostgreSQL's table of locks has room for some 6,400 by default."""
_LOCKS: Final = 0x5C401A7
"""Distinguishes these locks from those of other programs in the database, as the first of a lock's two numbers."""
_EVERY: Final = STRIPES
"""The lock of all sessions, which every transaction shares."""
_SETTINGS: Final = {
    "application_name": "scholarbase",
    "connect_timeout": CONNECT_SECONDS,
    # A connection whose host is gone ends, here and in the database, which then frees its locks.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": int(STATEMENT_SECONDS * 1000),
    "options": f"-c statement_timeout={STATEMENT_SECONDS:.0f}s -c lock_timeout=5s "
    f"-c idle_in_transaction_session_timeout={STATEMENT_SECONDS:.0f}s -c tcp_keepalives_idle=5 "
    "-c tcp_keepalives_interval=2 -c tcp_keepalives_count=3 -c client_min_messages=warning "
    "-c default_transaction_isolation=read\\ committed -c timezone=UTC",
}
SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT COLLATE "C" PRIMARY KEY, query_id TEXT NOT NULL, query TEXT, as_of TEXT, limits TEXT NOT NULL,
    owner TEXT COLLATE "C" NOT NULL, opened TEXT NOT NULL, opened_at BIGINT NOT NULL, lost BIGINT NOT NULL DEFAULT 0,
    bytes BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS sessions_by_owner ON sessions (owner);
CREATE TABLE IF NOT EXISTS calls (
    session TEXT COLLATE "C" NOT NULL, number BIGINT NOT NULL, ended BIGINT NOT NULL, is_open SMALLINT NOT NULL,
    key TEXT COLLATE "C", line BYTEA NOT NULL, PRIMARY KEY (session, number)
);
CREATE UNIQUE INDEX IF NOT EXISTS calls_by_key ON calls (session, key) WHERE key IS NOT NULL;
CREATE OR REPLACE FUNCTION add_bytes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE sessions SET bytes = bytes + octet_length(NEW.line)
        + CASE TG_OP WHEN 'INSERT' THEN 150 ELSE -octet_length(OLD.line) END WHERE id = NEW.session;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER call_recorded AFTER INSERT OR UPDATE ON calls FOR EACH ROW EXECUTE FUNCTION add_bytes();
CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL);
INSERT INTO schema_version SELECT 2 WHERE NOT EXISTS (SELECT FROM schema_version);
"""
VERSION: Final = 2


class _Connection:
    """A connection of psycopg, with ``?`` for parameters, and with a limit on the time that a statement takes."""

    def __init__(self, connection: Any) -> None:
        self.raw = connection
        self.seconds = STATEMENT_SECONDS
        """The most that the next statement may take."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Any:
        self.raw.end = time.monotonic() + self.seconds
        # PostgreSQL has no NUL in texts, and no name of a session has one: a name with another character is as unknown.
        given = [
            parameter.replace("\0", "\ufffd") if isinstance(parameter, str) else parameter
            for parameter in parameters
        ]
        return self.raw.execute(sql.replace("?", "%s") if given else sql, given or None)

    def close(self) -> None:
        self.raw.close()


class _Limited(psycopg.Connection):  # type: ignore[misc, name-defined]
    """Ends the wait for a database that does not respond: PostgreSQL's own limits need one that runs."""

    end: float = float("inf")

    def wait(self, gen: Any, interval: float = 0.1) -> Any:
        return super().wait(_until(gen, self), interval)


def _until(gen: Generator[Any, Any, Any], connection: _Limited) -> Generator[Any, Any, Any]:
    """A generator of psycopg's protocol (``psycopg.waiting``) that fails at the connection's ``end``."""
    try:
        state = next(gen)
        while True:
            ready = yield state
            if not ready and time.monotonic() > connection.end:
                gen.close()
                connection.pgconn.finish()
                raise psycopg.OperationalError("the database does not respond")
            state = gen.send(ready)
    except StopIteration as stop:
        return stop.value


class PostgresStorage:
    """A PostgreSQL database.

    Raises:
        InvalidRequest: the URL is invalid.
    """

    errors: tuple[type[Exception], ...] = (psycopg.Error, OSError)
    operation_errors: tuple[type[Exception], ...] = (
        psycopg.IntegrityError,
        psycopg.DataError,
        psycopg.ProgrammingError,
    )
    group = 64
    is_local = False
    is_ready = False

    def __init__(self, url: str) -> None:
        self._url = url
        self.name, self._secrets = _read(url)
        self._connection: _Connection | None = None
        self._idle: deque[_Connection] = deque()
        self._closed = False
        self._offset = 0
        """Microseconds that the database's clock is ahead of this machine's."""

    def _open(self) -> _Connection:
        return _Connection(_Limited.connect(self._url, autocommit=True, **_SETTINGS))

    # -- writing ----------------------------------------------------------------------------------------

    @contextmanager
    def transaction(self, names: Sequence[str], seconds: float) -> Iterator[Connection]:
        connection = self._begin(names)
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException as error:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")
            if isinstance(error, self.errors) and not isinstance(error, self.operation_errors):
                self._disconnect()
            raise

    def _begin(self, names: Sequence[str]) -> _Connection:
        """A connection in a transaction that holds the locks of ``names``."""
        # Without parameters several statements are sent at once.
        every = "*" in names
        sql = f"BEGIN; SELECT pg_advisory_xact_lock{'' if every else '_shared'}({_LOCKS}, {_EVERY})"
        if names and not every:
            stripes = sorted({_stripe(name) for name in names})
            sql += f"; SELECT pg_advisory_xact_lock({_LOCKS}, one) FROM unnest(ARRAY{stripes}) AS one"
        # A connection that was lost since the last transaction is opened again.
        attempts = 1 if self._connection is None else 2
        while True:
            attempts -= 1
            try:
                connection = self._connection = self._connection or self._connected()
                connection.execute(sql)
                return connection
            except psycopg.Error:
                self._disconnect()
                if not attempts:
                    raise

    def _connected(self) -> _Connection:
        connection = self._open()
        try:
            self._create(connection)
            self._offset = _clock_offset(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _create(self, connection: _Connection) -> None:
        [exists] = connection.execute("SELECT to_regclass('schema_version') IS NOT NULL").fetchone()
        if not exists or _version(connection) == 1:
            connection.execute("BEGIN")
            connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (_LOCKS, _EVERY))
            connection.execute(SCHEMA)
            if _version(connection) == 1:
                for statement in (*OWNERS_IN_KEYS, "UPDATE schema_version SET version = 2"):
                    connection.execute(statement)
            connection.execute("COMMIT")
        version = _version(connection)
        if version != VERSION:
            raise psycopg.OperationalError(
                f"its tables are of version {version}, and this ScholarBase has {VERSION}: use the newer one"
            )

    def note_deletion(self) -> None:
        """Nothing to do."""

    def deletions(self) -> object | None:
        return None

    def checkpoint(self) -> None:
        """Nothing to do."""

    def error(self, error: Exception | None) -> StorageError:
        reason = "it does not respond" if error is None else " ".join(str(error).split())
        for secret in self._secrets:
            reason = reason.replace(secret, "***")
        reason = re.sub(r'user "[^"]*"', "the user", reason)
        return StorageError(
            f"The sessions in {self.name} cannot be read or written ({reason}): start the database, or correct "
            "SCHOLARBASE_SESSIONS."
        )

    def local_time(self, microseconds: int) -> int:
        return microseconds + self._offset

    def used_bytes(self, connection: Connection) -> int:
        """The size of the calls, with 150 bytes each for their rows and indexes."""
        [size] = connection.execute("SELECT coalesce(sum(bytes), 0)::bigint FROM sessions").fetchone()
        return int(size)

    # -- reading ----------------------------------------------------------------------------------------

    @contextmanager
    def reading(self, seconds: float | None = None) -> Iterator[Connection | None]:
        deadline = DEADLINE.get()
        seconds = STATEMENT_SECONDS if seconds is None else seconds
        if deadline is not None:
            deadline.running = _READING
            seconds = min(deadline.remaining, seconds)
        try:
            connection = self._reader(max(seconds, 0.001))
            try:
                [exists] = connection.execute("SELECT to_regclass('schema_version') IS NOT NULL").fetchone()
                yield connection if exists else None
            except BaseException:  # its last result may not have been read
                connection.close()
                raise
            if self._closed or len(self._idle) >= IDLE_CONNECTIONS:
                connection.close()
            else:
                self._idle.append(connection)
        except psycopg.Error as error:
            if deadline is not None and deadline.remaining <= 0:
                raise deadline.late() from error
            raise self.error(error) from error

    def _reader(self, seconds: float) -> _Connection:
        """A connection that responds."""
        limit = f"SET statement_timeout = {max(int(seconds * 1000), 1)}"
        began = time.monotonic()
        with suppress(IndexError):
            while True:
                connection = self._idle.pop()
                connection.seconds = seconds
                try:
                    connection.execute(limit)
                    return connection
                except psycopg.Error:
                    connection.close()
                    if time.monotonic() - began >= seconds:
                        raise
        connection = self._open()
        connection.seconds = seconds
        connection.execute(limit)
        return connection

    def close(self) -> None:
        self._closed = True
        self._disconnect()
        while self._idle:
            self._idle.pop().close()


def _version(connection: Connection) -> int:
    return int(connection.execute("SELECT max(version) FROM schema_version").fetchone()[0])


def _clock_offset(connection: Connection) -> int:
    """Microseconds that the database's clock is ahead of this machine's; 0 if that is less than can be measured."""
    measured: list[tuple[int, int]] = []
    for _ in range(3):
        began = unix_time()
        [at] = connection.execute(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        ).fetchone()
        ended = unix_time()
        measured.append((ended - began, at - (began + ended) // 2))
    error, offset = min(measured)
    return offset if abs(offset) > error else 0


def _stripe(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest()) % STRIPES


def _read(url: str) -> tuple[str, tuple[str, ...]]:
    """How messages name the database of a URL, and what none may show.

    Raises:
        InvalidRequest: the URL is invalid. The message does not show it, since it may have a password.
    """
    try:
        parts = urlsplit(url)
        given = psycopg.conninfo.conninfo_to_dict(url)
        # A URL may have several hosts, with a port each or one for all: the first that accepts connections is used.
        hosts = str(given.get("host", "localhost")).split(",")
        ports = [int(port) for port in str(given.get("port") or 5432).split(",")]
        assert parts.fragment == ""
        addresses = zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=True)
        shown = (
            f"postgresql://{','.join(f'{host}:{port}' for host, port in addresses)}/{given.get('dbname', '')}"
        )
    except (psycopg.Error, ValueError, AssertionError):
        raise InvalidRequest(
            "The URL of SCHOLARBASE_SESSIONS is not a valid URL of PostgreSQL: give "
            "postgresql://USER:PASSWORD@HOST/DATABASE, with '/', '@', ':', '#' and '%' in the password written as %2F, "
            "%40, %3A, %23 and %25. A password can also be in the file ~/.pgpass or in PGPASSWORD."
        ) from None
    raw = parts.password or ""
    hidden = {str(given.get("password") or ""), raw, unquote(raw)} - {""}
    return shown, tuple(sorted(hidden, key=len, reverse=True))
