"""The file of sessions, ``sessions.sqlite``, and the one thread of a process that writes it.

A call is recorded by handing it to that thread, which writes all that wait together in one transaction (group commit).
Whoever made the call may wait until it is written, and need not: a disk that is slow, or full, holds up no search.
Several processes share the file; SQLite's write lock orders them, and a call gets its number inside of it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import queue
import re
import sqlite3
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import orjson

from scholarbase.errors import (
    BudgetExhausted,
    InvalidRequest,
    ScholarBaseError,
    SessionExists,
    SessionNotFound,
    StorageError,
)
from scholarbase.evaluation.calls import CallKind
from scholarbase.evaluation.efficiency import LOOKING
from scholarbase.identifiers import parse
from scholarbase.sessions.session import CallRecord, Limits, Session, now

log = logging.getLogger("scholarbase.sessions")

FILE_NAME: Final = "sessions.sqlite"
KNOWN_SESSIONS: Final = 10_000
"""Sessions of which a process remembers what they were told; others are read again."""
FOLLOWED_SESSIONS: Final = 512
"""Sessions of which a process remembers what they were given: some 200 kB for a thousand papers."""
WAITING_CALLS: Final = 100_000
"""Calls that wait for a disk that refuses. Beyond that the oldest are given up, and their session says how many."""
RETRY_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 5.0
"""How long a store that is closed goes on trying to write what waits."""
SWEEP_SECONDS: Final = 3600.0
TOGETHER: Final = 256
"""Operations in one transaction, at most."""
PAGE: Final = 256
"""Lines that are read at once."""
CONNECT_ATTEMPTS: Final = 10
_BUSY_SECONDS: Final = 30.0
_OWN_FAULT: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError)
"""What is wrong with one operation; SQLite's other errors are the disk's."""
_DEPTH: Final = 100
"""How deep arguments are kept; orjson writes 254 levels."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stands before a call: what its budgets leave, and what it has been given.

    ``left`` has the limits that there are; ``candidates`` and ``seen`` are the ids of the papers that search and
    expansion calls, and all calls, have given, where they were asked for. ``again``: the call is kept already, and this
    is how things stood before it. ``taken``: how many calls were taken from the budgets.
    """

    left: dict[str, int] = field(default_factory=dict)
    candidates: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    again: bool = False
    taken: int = 0


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

    opened: str = ""
    """When the session opened: another one of the same name, opened later, is not this one."""
    last: int = 0
    round: int = 0
    tokens: int = 0
    first: dict[str, int] = field(default_factory=dict)
    """Id to the first call that gave it."""
    given: dict[str, int] = field(default_factory=dict)
    """Id to the last call that gave it."""
    candidates: set[str] = field(default_factory=set)

    def take(self, number: int, line: dict[str, Any]) -> None:
        self.last = number
        self.round = line["round"]
        self.tokens += line.get("tokens", 0)
        if line["kind"] == "answer":
            return  # the agent's own words, which nothing gave it
        for paper_id in line["ids"]:
            self.first.setdefault(paper_id, number)
            self.given[paper_id] = number
        if line["kind"] in LOOKING:
            self.candidates.update(line["ids"])


@dataclass(slots=True)
class _Operation:
    """Something to do inside a transaction. ``lasting``: to be tried again when the disk refuses.

    The future of one that lasts cannot be cancelled; of another it can until its turn comes, and it is then not done.
    """

    run: Callable[[sqlite3.Connection], Any]
    session: Session | str
    lasting: bool = False
    future: Future[Any] = field(default_factory=Future)

    def __post_init__(self) -> None:
        if self.lasting:
            self.future.set_running_or_notify_cancel()

    @property
    def session_id(self) -> str:
        return self.session if isinstance(self.session, str) else self.session.id

    def is_wanted(self) -> bool:
        """Whether someone still waits for it, who can from now on not cease to."""
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
        self._lost: dict[str, tuple[Session, int]] = {}
        self._connection: sqlite3.Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._refusal: Exception | None = None
        self._retry_at = 0.0
        self._swept: float | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

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

    def look_up(self, session_id: str, owner: str) -> Session:
        """As ``find`` while the file cannot be written: a session that there is not opens with its first call, once
        that can be kept.

        Raises:
            InvalidRequest: the name belongs to another key's session.
        """
        session = None
        try:
            with self._reading() as connection:
                if connection is not None:
                    session = _read_session(connection, session_id)
        except SessionNotFound:
            pass
        except StorageError as error:
            log.error("The session %s cannot be read: %s", session_id, error)
        session = session or self._known.get(session_id) or Session(session_id, owner=owner)
        _check_owner(session, owner)
        self._remember(session)
        return session

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
            current = self._ensure(connection, session) if session.limits else session
            row = connection.execute("SELECT opened FROM sessions WHERE id = ?", (session.id,)).fetchone()
            progress = self._caught_up(connection, session.id, "" if row is None else row[0])
            limits = current.limits
            kept = _kept(connection, session.id, key)
            seen = (i for i, first in progress.first.items() if kept is None or first < kept)
            standing = Standing(
                candidates=frozenset(progress.candidates) if limits.candidates is not None else frozenset(),
                seen=frozenset(seen) if with_seen else frozenset(),
                again=kept is not None,
            )
            if not limits:
                return standing
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
            if standing.again:
                return replace(standing, left=left)
            _check_budgets(current, left, kind, count)
            expanding = count if kind == "expand" else 0
            _ask_for(connection, session.id, count, expanding)
            for name, taken in (("calls", count), ("expansions", expanding)):
                if name in left:
                    left[name] -= taken
            return replace(standing, left=left, taken=count)

        return self._ask(run, session.id)

    def record(self, session: Session, call: CallRecord) -> Future[int]:
        """Keep a call; the future gives its number. It is tried again for as long as the disk refuses."""

        def run(connection: sqlite3.Connection) -> int:
            current = self._ensure(connection, session)
            _check_owner(current, session.owner)
            kept = _kept(connection, session.id, call.key)
            counts = kept is None and call.counted and call.kind != "answer"
            asked = int(counts) - call.taken
            expanding = asked if call.kind == "expand" else 0
            if kept is not None:
                if asked:
                    _ask_for(connection, session.id, asked, expanding)
                return kept
            progress = self._caught_up(connection, session.id, current.opened)
            line = _line(session, call, progress)
            number: int = line["call"]
            connection.execute(
                "INSERT INTO calls (session, number, line, key) VALUES (?, ?, ?, ?)",
                (session.id, number, _dumps(line), call.key),
            )
            _ask_for(connection, session.id, asked, expanding, used=now())
            progress.take(number, line)
            return number

        return self._ask(run, session, lasting=True)

    # -- reading ----------------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionFacts:
        """Raises SessionNotFound: there is none of this name."""
        with self._reading() as connection:
            found = connection and _facts(connection, "WHERE id = ?", session_id)
        if not found:
            raise _not_found(session_id)
        return found[0]

    def sessions(
        self, owner: str | None = None, *, limit: int = -1, offset: int = 0
    ) -> tuple[int, list[SessionFacts]]:
        """How many sessions there are, of all or of one key, and a page of them, the last used first; all of them
        where ``limit`` is -1."""
        with self._reading() as connection:
            if connection is None:
                return 0, []
            own, params = ("", ()) if owner is None else ("WHERE owner = ?", (owner,))
            [total] = connection.execute(f"SELECT count(*) FROM sessions {own}", params).fetchone()
            page = f"{own} ORDER BY used DESC, id LIMIT {int(limit)} OFFSET {int(offset)}"
            return int(total), _facts(connection, page, *params)

    def lines(self, session_id: str) -> Iterator[bytes]:
        """The session's trajectory, one JSON object a call, without line ends.

        Raises:
            SessionNotFound: there is none of this name.
        """
        self.session(session_id)
        # Page by page: whoever reads slowly, perhaps in one thread after the other, holds no connection open.
        after = 0
        while page := self._page(session_id, after):
            yield from (line for _, line in page)
            after = page[-1][0]

    def _page(self, session_id: str, after: int) -> list[tuple[int, bytes]]:
        with self._reading() as connection:
            if connection is None:
                return []
            return connection.execute(
                "SELECT number, line FROM calls WHERE session = ? AND number > ? ORDER BY number LIMIT ?",
                (session_id, after, PAGE),
            ).fetchall()

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
        self, run: Callable[[sqlite3.Connection], T], session: Session | str, *, lasting: bool = False
    ) -> Future[T]:
        operation = _Operation(run, session, lasting)
        with self._lock:
            if self._closed:
                raise InvalidRequest(f"The sessions in {self.path.parent} are closed: open them again.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="sessions", daemon=True)
                self._thread.start()
            self._queue.put(operation)
        return operation.future

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
            operation.refuse(_storage(self.path, self._refusal))
        self._disconnect()

    def _next(self) -> tuple[list[_Operation], bool]:
        """What waits, once something does or it is time to do something else; whether more may come."""
        timeout = SWEEP_SECONDS if self._keep_days is not None else None
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
                self._together(self._connected(), list(islice(self._backlog, TOGETHER)))
            self._refusal = None
            self._sweep_in_time()
        except Exception as error:
            expected = isinstance(error, sqlite3.Error | OSError)
            log.error("Sessions cannot be written: %s", _storage(self.path, error), exc_info=not expected)
            self._disconnect()
            self._refusal = error
            self._retry_at = time.monotonic() + RETRY_SECONDS
            operations = list(self._backlog)
            self._backlog.clear()
            self._put_off(operations, error)

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
                self._count_lost(connection)
                connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            for operation in operations:
                self._forget_progress(operation.session_id)
            raise
        self._lost.clear()
        for _ in operations:
            self._backlog.popleft()
        for operation, result, problem in done:
            if problem is None:
                operation.future.set_result(result)
            else:
                operation.future.set_exception(problem)

    def _tried(self, operation: _Operation, connection: sqlite3.Connection) -> tuple[Any, Exception | None]:
        """What an operation gives, or the error that is its answer. The disk's errors go on."""
        try:
            return operation.run(connection), None
        except _OWN_FAULT as error:
            self._forget_progress(operation.session_id)
            log.error("An operation on the session %s failed: %s", operation.session_id, error)
            return None, _storage(self.path, error)
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
                operation.refuse(_storage(self.path, error))
        while len(self._backlog) > WAITING_CALLS:
            given_up = self._backlog.popleft()
            session = given_up.session
            assert isinstance(session, Session)
            _, lost = self._lost.get(session.id, (session, 0))
            self._lost[session.id] = session, lost + 1
            given_up.refuse(_storage(self.path, error))

    def _count_lost(self, connection: sqlite3.Connection) -> None:
        for session, lost in self._lost.values():
            self._ensure(connection, session)
            connection.execute("UPDATE sessions SET lost = lost + ? WHERE id = ?", (lost, session.id))

    def _connected(self) -> sqlite3.Connection:
        """The connection. A file that was deleted or replaced takes no call with it: it is made, or opened, again."""
        if self._connection is not None and self._inode != _inode(self.path):
            log.error("%s is not the file that it was: it is opened again.", self.path)
            self._disconnect()
        if self._connection is None:
            self._connection = _connect(self.path)
            self._inode = _inode(self.path)
        return self._connection

    def _disconnect(self) -> None:
        self._progress.clear()
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _sweep_in_time(self) -> None:
        if self._keep_days is None or self._connection is None:
            return
        if self._swept is None or time.monotonic() - self._swept >= SWEEP_SECONDS:
            self._swept = time.monotonic()
            self._sweep(self._connection, self._keep_days)

    def _sweep(self, connection: sqlite3.Connection, keep_days: float) -> None:
        try:
            before = (datetime.now(UTC) - timedelta(days=keep_days)).isoformat(timespec="milliseconds")
        except OverflowError:  # since before the year 1
            return
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

    def _ensure(self, connection: sqlite3.Connection, session: Session) -> Session:
        """The session as the file has it. One that was deleted while this process still used it opens again."""
        current = _read_session(connection, session.id)
        if current is None:
            # Its calls are numbered from 1 again: this is another session, for every process that knew it.
            current = replace(session, opened=now())
            _insert(connection, current)
        known = self._known.get(session.id)
        if known is not None and known.owner == current.owner and known != current:
            self._remember(current)
        return current

    def _caught_up(self, connection: sqlite3.Connection, session_id: str, opened: str) -> _Progress:
        """The progress of the session that opened then, with the calls that other processes have recorded."""
        progress = self._progress.get(session_id)
        if progress is None or progress.opened != opened:
            progress = self._progress[session_id] = _Progress(opened)
        self._progress.move_to_end(session_id)
        while len(self._progress) > FOLLOWED_SESSIONS:
            self._progress.popitem(last=False)
        for number, line in connection.execute(
            "SELECT number, line FROM calls WHERE session = ? AND number > ? ORDER BY number",
            (session_id, progress.last),
        ):
            progress.take(number, orjson.loads(line))
        return progress


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
        # A call that was refused may hold anything: half a surrogate pair, a number beyond 64 bits, a hundred lists
        # in each other.
        return orjson.dumps(_plain(line))


def _plain(value: Any, depth: int = 0) -> Any:
    plain: Any = value
    if isinstance(value, float):
        plain = float(value)
    elif isinstance(value, Mapping) and depth < _DEPTH:
        plain = {_text(str(key)): _plain(item, depth + 1) for key, item in value.items()}
    elif isinstance(value, list | tuple) and depth < _DEPTH:
        plain = [_plain(item, depth + 1) for item in value]
    elif isinstance(value, str):
        plain = _text(value)
    elif not (value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63)):
        try:
            plain = _text(repr(value))
        except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
            plain = f"a {type(value).__name__} that cannot be shown"
    return plain


def _text(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode()


def _named(arguments: Any) -> list[str]:
    """The papers that a call's arguments name, by the canonical forms of their ids."""
    named: list[str] = []
    for key in ("paper_id", "ids", "seeds"):
        value = arguments.get(key)
        for written in value if isinstance(value, list | tuple) else [value]:
            with suppress(InvalidRequest):
                if isinstance(written, str):
                    named.append(str(parse(written)))
    return named


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


_REFUSAL: Final = re.compile(
    r"The session '[^']+' may have \d+ (calls|expansions|candidates|tokens), and \d+ are left: ", re.ASCII
)


def is_refusal(error: str | None) -> bool:
    """Whether a recorded call's error is that a budget of its session refused it."""
    return error is not None and _REFUSAL.match(error) is not None


def _ask_for(
    connection: sqlite3.Connection, session_id: str, calls: int, expansions: int, used: str | None = None
) -> None:
    connection.execute(
        "UPDATE sessions SET calls_asked = calls_asked + ?, expansions_asked = expansions_asked + ?, "
        "used = coalesce(?, used) WHERE id = ?",
        (calls, expansions, used, session_id),
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


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except FileNotFoundError:
        return None
    return about.st_dev, about.st_ino


def _storage(path: Path, error: Exception | None) -> StorageError:
    return StorageError(
        f"{path} cannot be read or written ({error}): make room, or name another folder by SCHOLARBASE_SESSIONS."
    )


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


def _connect(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Loads sqlite-utils, and pandas where that is installed: not for a server that records nothing.
    from scholarbase.sessions.schema import migrate

    for attempt in range(CONNECT_ATTEMPTS):
        connection = sqlite3.connect(
            path, isolation_level=None, check_same_thread=False, timeout=_BUSY_SECONDS
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
