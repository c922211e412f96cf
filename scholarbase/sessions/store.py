"""Sessions and their calls, in the file of a folder or in the database of an extension.

Methods that change sessions return a future: :mod:`scholarbase.sessions.writer` runs them, so that a slow database or a
full disk delays no search. Several processes share the sessions: a call gets its number inside the lock of a
transaction. A call that budgets count is a row before it runs, with an error that says that it has no response; its
response replaces the error. So a process that is killed loses no unit of a budget, and each has a line.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Self

import orjson

from scholarbase.errors import InvalidRequest, QuotaExceeded, SessionExists, SessionNotFound, StorageError
from scholarbase.sessions.progress import BudgetState, Progress, TrajectoryReader, check_budgets, stored_line
from scholarbase.sessions.session import (
    CallRecord,
    Limits,
    Quotas,
    Session,
    now,
    rfc3339,
    session_key,
    unix_time,
)
from scholarbase.sessions.storage import Connection, open_storage
from scholarbase.sessions.writer import RETRY_SECONDS, Writer

log = logging.getLogger("scholarbase.sessions")

FIND_SECONDS: Final = 2.0
"""How long a call waits for a database that does not respond."""
KNOWN_SESSIONS: Final = 2_000
FOLLOWED_SESSIONS: Final = 512
"""Sessions whose progress is remembered: some 200 kB for a thousand papers."""
MEASURE_SECONDS: Final = 1.0
"""How often the size of all sessions is measured."""
PAGE: Final = 32
"""Lines of a trajectory that are read at once."""
_ALL: Final = 2**62
_COLUMNS: Final = "id, query_id, query, as_of, limits, owner, opened"
_LAST: Final = "(SELECT coalesce(max(number), 0) FROM calls WHERE session = sessions.id)"
_USED: Final = (
    "coalesce((SELECT ended FROM calls WHERE session = sessions.id ORDER BY number DESC LIMIT 1), opened_at)"
)
_OF_SESSION: Final = "FROM sessions WHERE id = ? AND opened = ?"
"""The row of a session, unless it was deleted, and perhaps opened again, since it was read."""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session as a list shows it: ``calls`` are the lines of its trajectory, ``used`` is the time of the last one,
    and ``lost`` how many could not be recorded."""

    session: Session
    calls: int
    used: str
    lost: int

    def to_dict(self) -> dict[str, Any]:
        return {**self.session.to_dict(), "calls": self.calls, "used": self.used, "lost": self.lost}


@dataclass(slots=True)
class _Known:
    """A session as this process last read it, and the number of its last call that it has read or written.
    ``deletions`` is that of the storage before the session was read."""

    session: Session
    calls: int
    deletions: object


class SessionStore:
    """The sessions of a folder or a database. Safe to share between threads and between processes; ``close`` it, or use
    it in a ``with``. The file, or the tables, are created when the first session opens.

    Args:
        location: the folder of ``sessions.sqlite``, created where it is missing, or the URL of a database.
        keep_days: sessions not used for so many days are deleted; None deletes none.
        quotas: what the sessions may use, by default without limits.

    Raises:
        InvalidRequest: the URL is invalid.
        MissingExtra: the database needs an extra that is not installed.
    """

    def __init__(
        self, location: Path | str, *, keep_days: float | None = None, quotas: Quotas | None = None
    ) -> None:
        self._storage = open_storage(location)
        self._quotas = quotas or Quotas()
        self._keep_days = keep_days
        self._progress: dict[str, Progress] = {}
        self._known: dict[str, _Known] = {}
        self._read_at = 0.0
        """When a database that could not be read is read again for a call."""
        self._read_error: StorageError | None = None
        self._size = 0
        self._measured = 0.0
        self._writer = Writer(
            self._storage,
            rolled_back=self._progress.clear,  # it may hold what was rolled back
            count_lost=_count_lost,
            sweep=None if keep_days is None else self._delete_unused,
        )

    @property
    def name(self) -> str:
        """The file or the database, without a password."""
        return self._storage.name

    @property
    def is_local(self) -> bool:
        """Whether ``find`` is fast enough for an event loop."""
        return self._storage.is_local

    def close(self) -> None:
        """Write the calls that wait, and close the file. A second call does nothing."""
        self._writer.close()
        self._storage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- sessions ---------------------------------------------------------------------------------------

    def open(self, session: Session) -> Future[Session]:
        """Open a session. The future raises SessionExists where the name is taken, and QuotaExceeded.

        Raises:
            InvalidRequest: a text has the character NUL, which PostgreSQL cannot store.
        """
        if "\0" in session.query_id + (session.query or ""):
            raise InvalidRequest("The query or query_id of the session has the character NUL: leave it out.")

        def run(connection: Connection) -> Session:
            if _read(connection, session.key) is not None:
                raise SessionExists(
                    f"The session {session.id!r} exists already: use another name, or continue it with the header "
                    "X-ScholarBase-Session."
                )
            self._check_may_open(connection, session.owner)
            _insert(connection, session)
            return session

        return self._writer.submit(run, session.key)

    def find(self, session_id: str, owner: str) -> Session:
        """The owner's session of a call that is about to run. Where there is none of this name, one without limits,
        which opens when the call is recorded. While the database cannot be read, the session as it was last read.

        Raises:
            QuotaExceeded: the session has as many calls as are allowed, the key has as many sessions, or all are as
                large. Calls that run at the same time may exceed that, and one call of each process.
            StorageError: the database cannot be read, and this process has not met the session, which may have a date.
        """
        known = self._known.get(session_key(session_id, owner))
        if self._read_error is not None and time.monotonic() < self._read_at:
            if known is None:
                raise self._read_error
        elif known is None or not self._is_current(known):
            try:
                with self._storage.reading(FIND_SECONDS) as connection:
                    read = None if connection is None else self._read_known(connection, session_id, owner)
                if read is None:
                    return Session(session_id, owner=owner)
                known, self._read_error = read, None
            except StorageError as error:
                self._read_at, self._read_error = time.monotonic() + RETRY_SECONDS, error
                if known is None:
                    raise
        self._check_size()
        limit = self._quotas.calls
        if limit is not None and known.calls >= limit:
            raise QuotaExceeded(
                f"The session {session_id!r} has {known.calls:,} calls, and SCHOLARBASE_SESSION_CALLS allows "
                f"{limit:,}: continue in another session, or without one."
            )
        return known.session

    def _is_current(self, known: _Known) -> bool:
        """Whether a session was not deleted since it was read, and the size of all is known."""
        is_measured = self._quotas.megabytes is None or time.monotonic() - self._measured < MEASURE_SECONDS
        return is_measured and known.deletions is not None and known.deletions == self._storage.deletions()

    def _read_known(self, connection: Connection, session_id: str, owner: str) -> _Known | None:
        """Raises QuotaExceeded: there is none of this name, and none may open."""
        deletions = self._storage.deletions()  # before the row is read
        row = connection.execute(
            f"SELECT {_COLUMNS}, {_LAST} FROM sessions WHERE id = ?", (session_key(session_id, owner),)
        ).fetchone()
        self._measure(connection)
        if row is None:
            self._check_may_open(connection, owner)
            return None
        with _as_written(row[0]):
            return self._remember(_session_of(*row[:7]), int(row[7]), deletions)

    def _remember(self, session: Session, calls: int, deletions: object) -> _Known:
        if len(self._known) >= KNOWN_SESSIONS:
            self._known.clear()
        known = self._known[session.key] = _Known(session, calls, deletions)
        return known

    def delete(self, key: str) -> Future[None]:
        """Delete a session (by ``Session.key``) and its calls. The future raises SessionNotFound."""

        def run(connection: Connection) -> None:
            if not self._delete(connection, key):
                raise not_found(key)

        return self._writer.submit(run, key)

    def _delete_unused(self, connection: Connection) -> None:
        assert self._keep_days is not None
        try:
            before = datetime.now(UTC) - timedelta(days=self._keep_days)
        except OverflowError:  # before the year 1
            return
        at = int(before.timestamp() * 1_000_000)
        old = connection.execute(f"SELECT id FROM sessions WHERE {_USED} < ?", (at,)).fetchall()
        for [key] in old:
            self._delete(connection, key)
        if old:
            log.info("Deleted %d sessions that were not used for %g days.", len(old), self._keep_days)

    def _delete(self, connection: Connection, key: str) -> int:
        connection.execute("DELETE FROM calls WHERE session = ?", (key,))
        deleted = connection.execute("DELETE FROM sessions WHERE id = ?", (key,)).rowcount
        if deleted:
            self._storage.note_deletion()
        return int(deleted)

    # -- quotas -----------------------------------------------------------------------------------------

    def _check_may_open(self, connection: Connection, owner: str) -> None:
        limit = self._quotas.sessions
        if limit is not None:
            counted = "SELECT count(*) FROM sessions WHERE owner = ?"
            if connection.execute(counted, (owner,)).fetchone()[0] >= limit:
                raise QuotaExceeded(
                    f"{'This key' if owner else 'This server'} has {limit:,} sessions, the maximum of "
                    "SCHOLARBASE_SESSIONS_PER_KEY: continue one, delete some (DELETE /v1/sessions/NAME), or send the "
                    "call without a session."
                )
        self._measure(connection)
        self._check_size()

    def _measure(self, connection: Connection) -> None:
        if self._quotas.megabytes is not None and time.monotonic() - self._measured >= MEASURE_SECONDS:
            self._measured = time.monotonic()
            self._size = self._storage.used_bytes(connection)

    def _check_size(self) -> None:
        limit = self._quotas.megabytes
        if limit is not None and self._size >= limit * 1_000_000:
            raise QuotaExceeded(
                f"The sessions of this server take {self._size / 1e6:,.0f} MB, and SCHOLARBASE_SESSIONS_MB allows "
                f"{limit:,}: delete some (DELETE /v1/sessions/NAME), or send the call without a session."
            )

    # -- calls ------------------------------------------------------------------------------------------

    def reserve(
        self,
        session: Session,
        calls: Sequence[CallRecord],
        *,
        with_seen: bool = False,
        parent: int | None = None,
    ) -> Future[BudgetState]:
        """Count calls in the session's budgets, all or none, and record them as they are until ``record`` has their
        responses. Calls that are recorded already under their keys are not counted again, and those of a session
        without limits are not recorded yet.

        The future raises BudgetExhausted where a budget is used up, and InvalidRequest where ``parent`` is not an
        earlier call; nothing is counted then.
        """
        lines = [stored_line(call) for call in calls]

        def run(connection: Connection) -> BudgetState:
            if session.limits:
                current = _ensure(connection, session)
            else:
                current = _read(connection, session.key) or replace(session, opened="")
            limits = current.limits if session.limits else Limits()
            progress = self._read_progress(connection, current)
            recorded = _number_of_key(connection, session.key, calls[0].key)
            if parent is not None and recorded is None and parent > progress.last:
                raise InvalidRequest(
                    f"parent is {parent}, and the last call of the session {session.id!r} is {progress.last}: name an "
                    "earlier call, or none."
                )
            state = progress.state(limits, with_seen=with_seen, before=recorded)
            if not limits or recorded is not None:
                return state
            check_budgets(current, state.remaining, calls[0].kind, len(calls))
            numbers = [
                self._append(connection, current, call, line, is_open=True)
                for call, line in zip(calls, lines, strict=True)
            ]
            counted = {"calls": len(calls), "expansions": len(calls) if calls[0].kind == "expand" else 0}
            remaining = {name: rest - counted.get(name, 0) for name, rest in state.remaining.items()}
            return replace(state, remaining=remaining, numbers=tuple(filter(None, numbers)))

        return self._writer.submit(run, session.key)

    def _read_progress(self, connection: Connection, session: Session) -> Progress:
        """The progress of a session, with the calls recorded by other processes."""
        progress = self._progress.pop(session.key, None)
        if progress is None or progress.opened != session.opened:
            progress = Progress(session.opened)
        self._progress[session.key] = progress
        if len(self._progress) > FOLLOWED_SESSIONS:
            del self._progress[next(iter(self._progress))]  # the one that was used least recently
        read = "SELECT number, line, is_open FROM calls WHERE session = ? AND number"
        rows = []
        if progress.open:
            numbers = ", ".join(map(str, progress.open))
            rows += connection.execute(f"{read} IN ({numbers})", (session.key,)).fetchall()
        rows += connection.execute(f"{read} > ? ORDER BY number", (session.key, progress.last)).fetchall()
        with _as_written(session.key):
            for number, line, is_open in rows:
                progress.add(number, line, is_open=bool(is_open))
        return progress

    def record(self, session: Session, calls: Sequence[CallRecord]) -> Future[list[int]]:
        """Record the calls of a request; the future gives their numbers. It is retried while the database cannot be
        written."""
        lines = [stored_line(call) for call in calls]
        if not self._storage.is_local:
            # A commit whose connection is lost may have happened: the call is not recorded again then.
            calls = [replace(call, key=call.key or f"call {secrets.token_hex(8)}") for call in calls]

        def run(connection: Connection) -> list[int]:
            current, numbers = session, []
            for call, line in zip(calls, lines, strict=True):
                number = self._write(connection, current, call, line)
                if number is None:
                    current = _ensure(connection, session)
                    self._remember(current, 0, self._storage.deletions())
                    number = self._write(connection, current, replace(call, number=None), line)
                assert number is not None
                numbers.append(number)
            if (known := self._known.get(session.key)) is not None:
                known.calls = max(known.calls, *numbers)
            return numbers

        return self._writer.submit(run, session.key, calls=len(calls))

    def _write(self, connection: Connection, session: Session, call: CallRecord, line: bytes) -> int | None:
        """Complete a call that is open, or append it where it is not recorded; its number. None: the session is new, or
        was deleted."""
        number = call.number
        if number is not None and self._complete(connection, session, call, number, line):
            return number
        number = _number_of_key(connection, session.key, call.key)
        if number is None:
            return self._append(connection, session, call, line)
        self._complete(connection, session, call, number, line)
        return number

    def _complete(
        self, connection: Connection, session: Session, call: CallRecord, number: int, line: bytes
    ) -> bool:
        ended = self._storage.local_time(call.ended or unix_time())
        changed = connection.execute(
            f"""
            UPDATE calls SET line = ?, ended = ?, key = ?, is_open = 0
            WHERE session = ? AND number = ? AND is_open = 1 AND EXISTS (SELECT 1 {_OF_SESSION})
            """,
            (line, ended, call.key, session.key, number, session.key, session.opened),
        ).rowcount
        return bool(changed)

    def _append(
        self,
        connection: Connection,
        session: Session,
        call: CallRecord,
        line: bytes,
        *,
        is_open: bool = False,
    ) -> int | None:
        ended = self._storage.local_time(call.ended or unix_time())
        rows = connection.execute(
            f"""
            INSERT INTO calls (session, number, ended, is_open, key, line)
            SELECT id, {_LAST} + 1, ?, ?, ?, ? {_OF_SESSION} RETURNING number
            """,
            (ended, int(is_open), call.key, line, session.key, session.opened),
        ).fetchall()
        return int(rows[0][0]) if rows else None

    # -- reading ----------------------------------------------------------------------------------------

    def session(self, key: str, *, of_any_owner: bool = False) -> SessionFacts:
        """A session as a list shows it, by its ``Session.key``.

        Args:
            of_any_owner: where there is none, ``key`` may be the name of any owner's session.

        Raises:
            SessionNotFound: no session has this key or name.
            InvalidRequest: several owners have a session of this name.
        """
        with self._storage.reading() as connection:
            facts = [] if connection is None else _facts(connection, "WHERE id = ?", key)
            if connection is not None and of_any_owner and not facts:
                facts = _facts(connection, "WHERE id = owner || '/' || ? ORDER BY id", key)
        if not facts:
            raise not_found(key)
        if len(facts) > 1:
            raise InvalidRequest(
                f"{len(facts)} keys have a session {key!r}: name one with its key on the command line, as in "
                f'"scholarbase session show {facts[0].session.key}".'
            )
        return facts[0]

    def sessions(
        self, owner: str | None = None, *, limit: int | None = None, offset: int = 0
    ) -> tuple[int, list[SessionFacts]]:
        """The number of sessions, of all keys or of one, and a page of them, the last used first."""
        with self._storage.reading() as connection:
            if connection is None:
                return 0, []
            of_owner, params = ("", ()) if owner is None else ("WHERE owner = ?", (owner,))
            [total] = connection.execute(f"SELECT count(*) FROM sessions {of_owner}", params).fetchone()
            page = f"ORDER BY {_USED} DESC, id LIMIT {_ALL if limit is None else int(limit)} OFFSET {int(offset)}"
            return int(total), _facts(connection, f"{of_owner} {page}", *params)

    def lines(self, key: str) -> Iterator[bytes]:
        """The trajectory of a session (by ``Session.key``), one JSON object a call, without line ends, in the order in
        which the calls ended. It has the calls that are recorded when the first line is read.

        Raises:
            SessionNotFound: no session has this key.
        """
        reader = TrajectoryReader(self.session(key).session)
        ordered = "SELECT number FROM calls WHERE session = ? ORDER BY ended, number"
        numbers = [number for [number] in self._select(ordered, key)]
        # Page by page: a slow reader, which may use several threads in turn, holds no connection open.
        for start in range(0, len(numbers), PAGE):
            page = numbers[start : start + PAGE]
            listed = ", ".join(map(str, page))
            read = f"SELECT number, ended, line FROM calls WHERE session = ? AND number IN ({listed})"
            rows = {number: (ended, line) for number, ended, line in self._select(read, key)}
            for number in page:
                if number in rows:
                    with _as_written(key):
                        line = reader.line(number, *rows[number])
                    yield line

    def _select(self, statement: str, *params: Any) -> list[Any]:
        with self._storage.reading() as connection:
            return [] if connection is None else connection.execute(statement, params).fetchall()


# -- rows -----------------------------------------------------------------------------------------------


@contextmanager
def _as_written(key: str) -> Iterator[None]:
    """Raises StorageError where the block finds that rows of a session have other values than a store writes."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise StorageError(
            f"The stored session {key!r} is not as ScholarBase writes it ({error}): replace the file of sessions by "
            "a backup, or move it away with its -wal and -shm files."
        ) from error


@lru_cache(KNOWN_SESSIONS)
def _session_of(
    key: str, query_id: str, query: str | None, as_of: str | None, limits: str, owner: str, opened: str
) -> Session:
    with _as_written(key):
        return Session(
            key.rpartition("/")[2], query_id, query, as_of, Limits(**orjson.loads(limits)), owner, opened
        )


def _read(connection: Connection, key: str) -> Session | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (key,)).fetchone()
    return None if row is None else _session_of(*row)


def _insert(connection: Connection, session: Session) -> None:
    limits = orjson.dumps(asdict(session.limits)).decode()
    question = (session.query_id, session.query, session.as_of)
    connection.execute(
        f"INSERT INTO sessions ({_COLUMNS}, opened_at) VALUES (?,?,?,?,?,?,?,?)",
        (session.key, *question, limits, session.owner, session.opened, unix_time()),
    )


def _ensure(connection: Connection, session: Session) -> Session:
    """The session as it is recorded; inserted where it is new, or was deleted."""
    current = _read(connection, session.key)
    if current is None:
        # Its calls are numbered from 1, so it is another session to every process that knew one of this name.
        current = replace(session, opened=now())
        _insert(connection, current)
    return current


def _count_lost(connection: Connection, key: str, calls: int) -> None:
    connection.execute("UPDATE sessions SET lost = lost + ? WHERE id = ?", (calls, key))


def _facts(connection: Connection, rest: str, *params: str) -> list[SessionFacts]:
    """Sessions with their numbers of calls; ``rest`` is the statement's end, from WHERE on."""
    rows = connection.execute(
        f"SELECT {_COLUMNS}, {_LAST}, {_USED}, lost FROM sessions {rest}", params
    ).fetchall()
    facts = []
    for row in rows:
        with _as_written(row[0]):
            facts.append(SessionFacts(_session_of(*row[:7]), int(row[7]), rfc3339(row[8]), int(row[9])))
    return facts


def _number_of_key(connection: Connection, session: str, key: str | None) -> int | None:
    """The number of the call recorded with this key."""
    if key is None:
        return None
    row = connection.execute(
        "SELECT number FROM calls WHERE session = ? AND key = ?", (session, key)
    ).fetchone()
    return None if row is None else int(row[0])


def not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {session_id!r}: a call with the header X-ScholarBase-Session opens one, and sessions "
        "that are not used are deleted after a time."
    )
