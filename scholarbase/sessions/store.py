"""The file of sessions, ``sessions.sqlite``, and the one thread of a process that writes it.

A call is recorded by handing it to that thread, which writes all that wait together in one transaction (group commit).
Whoever made the call may wait until it is written, and need not: a disk that is slow, or full, holds up no search.
Several processes share the file; SQLite's write lock orders them, and a call gets its number inside of it.

========  ==========================================================================================
sessions  what is fixed when one opens, when it was last used, and what its budgets have been asked for
calls     one row a call: its number within the session, and its line of the trajectory
========  ==========================================================================================
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import orjson
from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from scholarbase.errors import (
    BudgetExhausted,
    InvalidRequest,
    SessionExists,
    SessionNotFound,
    StorageError,
)
from scholarbase.evaluation.calls import CallKind
from scholarbase.evaluation.efficiency import LOOKING
from scholarbase.sessions.session import CallRecord, Limits, Session, now

log = logging.getLogger("scholarbase.sessions")

FILE_NAME: Final = "sessions.sqlite"
KNOWN_SESSIONS: Final = 10_000
"""Sessions of which a process remembers what they were told and what they have seen; others are read again."""
WAITING_CALLS: Final = 100_000
"""Calls that wait for a disk that refuses. Beyond that the oldest are given up, and their session says how many."""
RETRY_SECONDS: Final = 1.0
SWEEP_SECONDS: Final = 3600.0
TOGETHER: Final = 256
"""Operations in one transaction, at most."""
_BUSY_SECONDS: Final = 30.0

T = TypeVar("T")

migrations = Migrations("scholarbase-sessions")


@migrations()
def m001_sessions(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE IF NOT EXISTS sessions (
            id TEXT PRIMARY KEY, query_id TEXT NOT NULL, query TEXT, as_of TEXT, limits TEXT NOT NULL,
            owner TEXT NOT NULL, opened TEXT NOT NULL, used TEXT NOT NULL,
            calls_asked INTEGER NOT NULL DEFAULT 0, expansions_asked INTEGER NOT NULL DEFAULT 0,
            lost INTEGER NOT NULL DEFAULT 0
        ) WITHOUT ROWID
        """
    )
    db.execute("CREATE INDEX IF NOT EXISTS sessions_by_use ON sessions (used)")
    db.execute(
        """
        CREATE TABLE IF NOT EXISTS calls (
            session TEXT NOT NULL, number INTEGER NOT NULL, line BLOB NOT NULL, key TEXT,
            PRIMARY KEY (session, number)
        ) WITHOUT ROWID
        """
    )
    db.execute("CREATE UNIQUE INDEX IF NOT EXISTS calls_by_key ON calls (session, key) WHERE key IS NOT NULL")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stands before a call: what its budgets leave, and what it has been given.

    ``left`` has the limits that there are; ``candidates`` and ``seen`` are the ids of the papers that search and
    expansion calls, and all calls, have given, where they were asked for.
    """

    left: dict[str, int] = field(default_factory=dict)
    candidates: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session as a list shows it."""

    session: Session
    calls: int
    used: str
    lost: int


@dataclass(slots=True)
class _Progress:
    """What the calls of a session have come to, as far as this process has read them."""

    last: int = 0
    round: int = 0
    tokens: int = 0
    given: dict[str, int] = field(default_factory=dict)
    """Id to the last call that gave it."""
    candidates: set[str] = field(default_factory=set)

    def take(self, number: int, line: dict[str, Any]) -> None:
        self.last = number
        self.round = line["round"]
        self.tokens += line.get("tokens", 0)
        for paper_id in line["ids"]:
            self.given[paper_id] = number
        if line["kind"] in LOOKING:
            self.candidates.update(line["ids"])


@dataclass(slots=True)
class _Operation:
    """Something to do inside a transaction. ``lasting``: to be tried again when the disk refuses."""

    run: Callable[[sqlite3.Connection], Any]
    future: Future[Any]
    session: str
    lasting: bool = False


class SessionStore:
    """The sessions of a folder. Safe to share between threads and between processes; ``close`` it, or use it in a
    ``with``. The file is made when the first session opens.

    Args:
        folder: where ``sessions.sqlite`` stands; made where it is missing.
        keep_days: sessions not used for so many days are deleted; None keeps all.
    """

    def __init__(self, folder: Path, *, keep_days: float | None = None) -> None:
        self.path: Final = folder / FILE_NAME
        self._keep_days = keep_days
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._progress: OrderedDict[str, _Progress] = OrderedDict()
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[_Operation | None] = queue.SimpleQueue()
        self._backlog: deque[_Operation] = deque()
        self._lost: dict[str, int] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def close(self) -> None:
        """Write what waits, and let go of the file. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            thread = self._thread
        if thread is not None:
            self._queue.put(None)
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- sessions ---------------------------------------------------------------------------------------

    def open(self, session: Session) -> Future[Session]:
        """Open a session with what is fixed of it. The future raises SessionExists where there is one of the name."""

        def run(connection: sqlite3.Connection) -> Session:
            if _read_session(connection, session.id) is not None:
                raise SessionExists(
                    f"There is a session {session.id!r} already: give another name, or go on with it by the header "
                    "X-ScholarBase-Session."
                )
            _insert(connection, session)
            self._remember(session)
            return session

        return self._ask(run, session.id)

    def known(self, session_id: str, owner: str) -> Session | None:
        """The session of this name, if this process has met it. Raises as the future of ``find``."""
        session = self._known.get(session_id)
        if session is not None:
            _check_owner(session, owner)
        return session

    def find(self, session_id: str, owner: str, *, opening: bool = True) -> Future[Session]:
        """The session of this name; one that there is not opens, without a limit, if ``opening``.

        The future raises InvalidRequest where the name belongs to another key's session, and SessionNotFound where
        there is none and none is to open.
        """

        def run(connection: sqlite3.Connection) -> Session:
            session = _read_session(connection, session_id)
            if session is None:
                if not opening:
                    raise _not_found(session_id)
                session = Session(session_id, owner=owner)
                _insert(connection, session)
            _check_owner(session, owner)
            self._remember(session)
            return session

        return self._ask(run, session_id)

    def delete(self, session_id: str) -> Future[None]:
        """Delete a session and its calls. The future raises SessionNotFound."""

        def run(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM calls WHERE session = ?", (session_id,))
            done = connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount
            self._forget(session_id)
            if not done:
                raise _not_found(session_id)

        return self._ask(run, session_id)

    # -- calls ------------------------------------------------------------------------------------------

    def begin(
        self,
        session: Session,
        kind: CallKind,
        *,
        count: int = 1,
        with_seen: bool = False,
        key: str | None = None,
    ) -> Future[Standing]:
        """Take ``count`` calls from the session's budgets, all or none of them; nothing for a call that is kept
        already.

        The future raises BudgetExhausted where a budget has nothing left; nothing is then taken.
        """

        def run(connection: sqlite3.Connection) -> Standing:
            progress = self._caught_up(connection, session.id)
            limits = session.limits
            left: dict[str, int] = {}
            if limits:
                self._ensure(connection, session)
                [calls, expansions] = connection.execute(
                    "SELECT calls_asked, expansions_asked FROM sessions WHERE id = ?", (session.id,)
                ).fetchone()
                used = {
                    "calls": calls,
                    "expansions": expansions,
                    "candidates": len(progress.candidates),
                    "tokens": progress.tokens,
                }
                left = {name: limit - used[name] for name, limit in limits.to_dict().items()}
                if _kept(connection, session.id, key) is not None:
                    return Standing(left, frozenset(progress.candidates), frozenset(progress.given))
                _check_budgets(session, left, kind, count)
                expanding = count if kind == "expand" else 0
                connection.execute(
                    "UPDATE sessions SET calls_asked = calls_asked + ?, expansions_asked = expansions_asked + ? "
                    "WHERE id = ?",
                    (count, expanding, session.id),
                )
                for name, taken in (("calls", count), ("expansions", expanding)):
                    if name in left:
                        left[name] -= taken
            return Standing(
                left=left,
                candidates=frozenset(progress.candidates) if limits.candidates is not None else frozenset(),
                seen=frozenset(progress.given) if with_seen else frozenset(),
            )

        return self._ask(run, session.id)

    def record(self, session: Session, call: CallRecord) -> Future[int]:
        """Keep a call; the future gives its number. It is tried again for as long as the disk refuses."""

        def run(connection: sqlite3.Connection) -> int:
            if (kept := _kept(connection, session.id, call.key)) is not None:
                return kept
            used = (now(), 0 if call.counted else 1, session.id)
            if not connection.execute(_USED, used).rowcount:
                self._ensure(connection, session)
                connection.execute(_USED, used)
            progress = self._caught_up(connection, session.id)
            line = _line(session, call, progress)
            number: int = line["call"]
            connection.execute(
                "INSERT INTO calls (session, number, line, key) VALUES (?, ?, ?, ?)",
                (session.id, number, _dumps(line), call.key),
            )
            progress.take(number, line)
            return number

        return self._ask(run, session.id, lasting=True)

    # -- reading ----------------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionFacts:
        """Raises SessionNotFound: there is none of this name."""
        with self._reading() as connection:
            found = connection and _facts(connection, "WHERE id = ?", session_id)
        if not found:
            raise _not_found(session_id)
        return found[0]

    def sessions(self, owner: str | None = None) -> list[SessionFacts]:
        """All sessions, or those that a key opened; the last used first."""
        with self._reading() as connection:
            if connection is None:
                return []
            if owner is None:
                return _facts(connection, "ORDER BY used DESC, id")
            return _facts(connection, "WHERE owner = ? ORDER BY used DESC, id", owner)

    def lines(self, session_id: str) -> Iterator[bytes]:
        """The session's trajectory, one JSON object a call, without line ends.

        Raises:
            SessionNotFound: there is none of this name.
        """
        self.session(session_id)
        with self._reading() as connection:
            if connection is not None:
                for [line] in connection.execute(
                    "SELECT line FROM calls WHERE session = ? ORDER BY number", (session_id,)
                ):
                    yield line

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection that only reads; None where no session was ever opened."""
        if not self.path.is_file():
            yield None
            return
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as connection:
                connection.execute("PRAGMA query_only = 1")
                yield connection
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # another process is about to make them
                raise SessionNotFound(f"{self.path} has no sessions yet.") from error
            raise _storage(self.path, error) from error
        except sqlite3.DatabaseError as error:
            raise _storage(self.path, error) from error

    # -- the writing thread -----------------------------------------------------------------------------

    def _ask(
        self, run: Callable[[sqlite3.Connection], T], session_id: str, *, lasting: bool = False
    ) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise InvalidRequest(f"The sessions in {self.path.parent} are closed: open them again.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="sessions", daemon=True)
                self._thread.start()
        self._queue.put(_Operation(run, future, session_id, lasting))
        return future

    def _write(self) -> None:
        connection: sqlite3.Connection | None = None
        swept = 0.0
        open_ = True
        while open_:
            operations, open_ = self._next()
            try:
                if connection is None:
                    connection = _connect(self.path)
            except (sqlite3.Error, OSError) as error:
                log.error("Sessions cannot be written: %s", _storage(self.path, error))
                self._put_off(operations, error)
                continue
            self._together(connection, [*self._waiting(), *operations])
            if self._keep_days is not None and time.monotonic() - swept > SWEEP_SECONDS:
                swept = time.monotonic()
                try:
                    self._sweep(connection, self._keep_days)
                except sqlite3.Error as error:
                    log.error("Old sessions cannot be deleted: %s", _storage(self.path, error))
        if connection is not None:
            connection.close()

    def _next(self) -> tuple[list[_Operation], bool]:
        """What waits, once something does; whether more may come."""
        try:
            first = self._queue.get(timeout=RETRY_SECONDS if self._backlog else None)
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

    def _waiting(self) -> list[_Operation]:
        waiting = list(self._backlog)
        self._backlog.clear()
        return waiting

    def _together(self, connection: sqlite3.Connection, operations: Sequence[_Operation]) -> None:
        """All in one transaction. Should that fail, each in its own, so that one that cannot be done stops no other."""
        done: list[tuple[_Operation, Any, Exception | None]] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for operation in operations:
                done.append((operation, *_tried(operation, connection)))
            self._count_lost(connection)
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            for operation in operations:
                self._forget_progress(operation.session)
            if len(operations) == 1:
                self._put_off(operations, error)
                log.error("Sessions cannot be written: %s", _storage(self.path, error))
                return
            for operation in operations:
                self._together(connection, [operation])
            return
        for operation, result, problem in done:
            if problem is None:
                operation.future.set_result(result)
            else:
                operation.future.set_exception(problem)

    def _put_off(self, operations: Sequence[_Operation], error: Exception) -> None:
        for operation in operations:
            if operation.lasting:
                self._backlog.append(operation)
            elif not operation.future.done():
                operation.future.set_exception(_storage(self.path, error))
        while len(self._backlog) > WAITING_CALLS:
            given_up = self._backlog.popleft()
            self._lost[given_up.session] = self._lost.get(given_up.session, 0) + 1
            given_up.future.set_exception(_storage(self.path, error))

    def _count_lost(self, connection: sqlite3.Connection) -> None:
        while self._lost:
            session_id, lost = self._lost.popitem()
            connection.execute("UPDATE sessions SET lost = lost + ? WHERE id = ?", (lost, session_id))

    def _sweep(self, connection: sqlite3.Connection, keep_days: float) -> None:
        before = (datetime.now(UTC) - timedelta(days=keep_days)).isoformat(timespec="milliseconds")
        connection.execute("BEGIN IMMEDIATE")
        old = [row[0] for row in connection.execute("SELECT id FROM sessions WHERE used < ?", (before,))]
        connection.executemany("DELETE FROM calls WHERE session = ?", [(i,) for i in old])
        connection.executemany("DELETE FROM sessions WHERE id = ?", [(i,) for i in old])
        connection.execute("COMMIT")
        for session_id in old:
            self._forget(session_id)
        if old:
            log.info("Deleted %d sessions that were not used for %g days.", len(old), keep_days)

    # -- what is remembered -----------------------------------------------------------------------------

    def _remember(self, session: Session) -> None:
        self._known[session.id] = session
        self._known.move_to_end(session.id)
        while len(self._known) > KNOWN_SESSIONS:
            self._known.popitem(last=False)

    def _forget(self, session_id: str) -> None:
        self._known.pop(session_id, None)
        self._forget_progress(session_id)

    def _forget_progress(self, session_id: str) -> None:
        self._progress.pop(session_id, None)

    def _ensure(self, connection: sqlite3.Connection, session: Session) -> None:
        """A session that was deleted while this process still used it opens again."""
        if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (session.id,)).fetchone() is None:
            self._forget_progress(session.id)
            _insert(connection, session)

    def _caught_up(self, connection: sqlite3.Connection, session_id: str) -> _Progress:
        """The session's progress, with the calls that other processes have recorded."""
        progress = self._progress.setdefault(session_id, _Progress())
        self._progress.move_to_end(session_id)
        while len(self._progress) > KNOWN_SESSIONS:
            self._progress.popitem(last=False)
        for number, line in connection.execute(
            "SELECT number, line FROM calls WHERE session = ? AND number > ? ORDER BY number",
            (session_id, progress.last),
        ):
            progress.take(number, orjson.loads(line))
        return progress


def _tried(operation: _Operation, connection: sqlite3.Connection) -> tuple[Any, Exception | None]:
    """What an operation gives, or the error that is its answer. The disk's errors go on."""
    try:
        return operation.run(connection), None
    except (sqlite3.Error, OSError):
        raise
    except Exception as error:
        return None, error


def _line(session: Session, call: CallRecord, progress: _Progress) -> dict[str, Any]:
    """The trajectory's line of a call that follows on ``progress``."""
    number = progress.last + 1
    parent = call.parent if call.parent is not None and call.parent < number else None
    if parent is None and call.kind != "search":
        # An expansion or a look-up follows from the call that last gave one of the papers that it names.
        parent = max((progress.given.get(i, 0) for i in _named(call.arguments)), default=0) or None
    given: dict[str, Any] = {
        "query_id": session.query_id,
        "call": number,
        "tool": call.tool,
        "kind": call.kind,
        "arguments": dict(call.arguments),
        "ids": list(call.ids),
        "scores": None if call.scores is None else list(call.scores),
        "time": call.time or now(),
        "seconds": call.seconds,
        "tokens": call.tokens,
        "parent": parent,
        "round": max(call.round or progress.round + 1, progress.round),
        "snapshot": call.snapshot,
        "session": session.id,
        "query": session.query,
        "error": call.error,
    }
    return {key: value for key, value in given.items() if value is not None}


def _dumps(line: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(line)
    except TypeError:
        # A call that was refused may hold anything: half a surrogate pair, a number beyond 64 bits.
        return orjson.dumps(_plain(line))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(str(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    small = isinstance(value, bool | float | None) or (isinstance(value, int) and abs(value) < 2**63)
    return value if small else repr(value)


def _named(arguments: Any) -> list[str]:
    """The papers that a call's arguments name."""
    named: list[str] = []
    for key in ("paper_id", "ids", "seeds"):
        value = arguments.get(key)
        named.extend(value if isinstance(value, list) else [value])
    return [i for i in named if isinstance(i, str)]


def _check_budgets(session: Session, left: dict[str, int], kind: CallKind, count: int) -> None:
    wanted = {"calls": count, "tokens": 1}
    if kind in LOOKING:
        wanted["candidates"] = 1
    if kind == "expand":
        wanted["expansions"] = count
    for name, needed in wanted.items():
        if name in left and left[name] < needed:
            limit = session.limits.to_dict()[name]
            rest = max(left[name], 0)
            raise BudgetExhausted(
                f"The session {session.id!r} may have {limit} {name}, and {rest} are left: "
                + (
                    "answer with what has been found."
                    if rest == 0
                    else f"this call takes {needed}; ask for less at once."
                )
            )


def _insert(connection: sqlite3.Connection, session: Session) -> None:
    connection.execute(
        "INSERT INTO sessions (id, query_id, query, as_of, limits, owner, opened, used) VALUES (?,?,?,?,?,?,?,?)",
        (
            session.id,
            session.query_id,
            session.query,
            session.as_of,
            orjson.dumps(asdict(session.limits)).decode(),
            session.owner,
            session.opened,
            now(),
        ),
    )


def _kept(connection: sqlite3.Connection, session_id: str, key: str | None) -> int | None:
    """The number of the call that came with this key, if one did."""
    if key is None:
        return None
    row = connection.execute(
        "SELECT number FROM calls WHERE session = ? AND key = ?", (session_id, key)
    ).fetchone()
    return None if row is None else int(row[0])


_USED: Final = "UPDATE sessions SET used = ?, calls_asked = calls_asked + ? WHERE id = ?"
_COLUMNS: Final = "id, query_id, query, as_of, limits, owner, opened"


def _session_of(row: Sequence[Any]) -> Session:
    limits = Limits.from_dict(orjson.loads(row[4]))
    return Session(row[0], row[1], row[2], row[3], limits, row[5], row[6])


def _read_session(connection: sqlite3.Connection, session_id: str) -> Session | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else _session_of(row)


def _facts(connection: sqlite3.Connection, rest: str, *params: str) -> list[SessionFacts]:
    counted = "(SELECT count(*) FROM calls WHERE session = sessions.id)"
    rows = connection.execute(
        f"SELECT {_COLUMNS}, {counted}, used, lost FROM sessions {rest}", params
    ).fetchall()
    return [SessionFacts(_session_of(row), row[7], row[8], row[9]) for row in rows]


def _check_owner(session: Session, owner: str) -> None:
    if session.owner != owner:
        raise InvalidRequest(f"The session {session.id!r} belongs to another key: give yours another name.")


def _not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {session_id!r}: a call with the header X-ScholarBase-Session opens one, and sessions "
        "that are not used are deleted after a time."
    )


def _storage(path: Path, error: Exception) -> StorageError:
    return StorageError(
        f"{path} cannot be read or written ({error}): make room, or name another folder by SCHOLARBASE_SESSIONS."
    )


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS)
    # A process that is killed loses nothing that was written; the power's failure at most the last calls
    # (https://sqlite.org/pragma.html#pragma_synchronous).
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    migrations.apply(Database(connection))
    return connection
