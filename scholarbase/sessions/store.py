"""The sessions of a folder and their calls, in ``sessions.sqlite``.

Methods that change the file return a future. Its result comes from the process's writer thread
(:mod:`scholarbase.sessions.writer`), so that a slow or full disk delays no search, or from the caller's thread if a
call can be written at once. Several processes share the file: a call gets its number inside SQLite's write lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from scholarbase.databases import open_for_reading
from scholarbase.errors import InvalidRequest, SessionExists, SessionNotFound, StorageError
from scholarbase.models.runs import CallKind
from scholarbase.sessions import rows
from scholarbase.sessions.progress import BudgetState, TrajectoryReader, check_budgets, stored_line
from scholarbase.sessions.registry import Registry
from scholarbase.sessions.rows import SessionFacts
from scholarbase.sessions.session import CallRecord, Session
from scholarbase.sessions.writer import Writer, storage_error

FILE_NAME: Final = "sessions.sqlite"
PAGE: Final = 256
"""Lines of a trajectory that are read at once."""


class SessionStore:
    """The sessions of a folder. Safe to share between threads and between processes; ``close`` it, or use it in a
    ``with``. The file is created when the first session opens.

    Args:
        folder: the folder of ``sessions.sqlite``; created where it is missing.
        keep_days: sessions not used for so many days are deleted; None deletes none.
    """

    def __init__(self, folder: Path, *, keep_days: float | None = None) -> None:
        self.path: Final = folder / FILE_NAME
        self._registry = Registry(self.path.with_suffix(".deletions"))
        self._writer = Writer(self.path, self._registry, keep_days=keep_days)

    def close(self) -> None:
        """Write the calls that wait, and close the file. A second call does nothing."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- sessions ---------------------------------------------------------------------------------------

    def open(self, session: Session) -> Future[Session]:
        """Open a session. The future raises SessionExists where the name is taken."""

        def run(connection: sqlite3.Connection) -> Session:
            if rows.read_session(connection, session.id) is not None:
                raise SessionExists(
                    f"The session {session.id!r} exists already: use another name, or continue it with the header "
                    "X-ScholarBase-Session."
                )
            rows.insert_session(connection, session)
            self._registry.remember(session)
            return session

        return self._writer.submit(run)

    def known(self, session_id: str, owner: str) -> Session | None:
        """The session, if this process has read it and none was deleted since. Raises as the future of ``find``."""
        session = self._registry.known(session_id)
        if session is not None:
            _check_owner(session, owner)
        return session

    def find(self, session_id: str, owner: str, *, opening: bool = True) -> Future[Session]:
        """The session of this name. Where it is missing, one without limits opens, if ``opening``.

        The future raises InvalidRequest where the session belongs to another key, and SessionNotFound where it is
        missing and not ``opening``.
        """

        def run(connection: sqlite3.Connection) -> Session:
            session = rows.read_session(connection, session_id)
            if session is None:
                if not opening:
                    raise not_found(session_id)
                session = Session(session_id, owner=owner)
                rows.insert_session(connection, session)
            _check_owner(session, owner)
            self._registry.remember(session)
            return session

        return self._writer.submit(run)

    def look_up(self, session_id: str, owner: str) -> Session:
        """As ``find`` while the file cannot be written: a missing session opens when its first call is written.

        Raises:
            InvalidRequest: the session belongs to another key.
            StorageError: the file exists and cannot be read.
        """
        session = None
        try:
            with self._reading() as connection:
                if connection is not None:
                    session = rows.read_session(connection, session_id)
        except SessionNotFound:
            pass
        except StorageError:
            # The file may have an as_of for it, so it does not count as a new session.
            if self._registry.last_known(session_id) is None:
                raise
        session = session or self._registry.last_known(session_id)
        if session is None:
            # Not remembered: the file may have another one of this name, once there is a file.
            return Session(session_id, owner=owner)
        _check_owner(session, owner)
        self._registry.remember(session)
        return session

    def delete(self, session_id: str) -> Future[None]:
        """Delete a session and its calls. The future raises SessionNotFound."""

        def run(connection: sqlite3.Connection) -> None:
            deleted = rows.delete_sessions(connection, [session_id])
            self._registry.forget(session_id)
            if not deleted:
                raise not_found(session_id)

        return self._writer.submit(run)

    # -- calls ------------------------------------------------------------------------------------------

    def reserve(
        self,
        session: Session,
        kind: CallKind,
        *,
        count: int = 1,
        with_seen: bool = False,
        key: str | None = None,
        parent: int | None = None,
    ) -> Future[BudgetState]:
        """Reserve ``count`` calls in the session's budgets, all or none. A call that is recorded already under this
        key reserves nothing.

        The future raises BudgetExhausted where a budget is used up, and InvalidRequest where ``parent`` is not an
        earlier call; nothing is counted then.
        """

        def run(connection: sqlite3.Connection) -> BudgetState:
            if session.limits:
                current = self._ensure(connection, session)
            else:
                current = rows.read_session(connection, session.id) or replace(session, opened="")
            limits = session.limits and current.limits
            progress = self._registry.progress(connection, session.id, current.opened)
            recorded = rows.number_of_key(connection, session.id, key)
            if parent is not None and recorded is None and parent > progress.last:
                raise InvalidRequest(
                    f"parent is {parent}, and the last call of the session {session.id!r} is {progress.last}: name an "
                    "earlier call, or none."
                )
            seen = (i for i, first in progress.first.items() if recorded is None or first < recorded)
            state = BudgetState(
                candidates=frozenset(progress.candidates) if limits.candidates is not None else frozenset(),
                seen=frozenset(seen) if with_seen else frozenset(),
                already_recorded=recorded is not None,
            )
            if not limits:
                return state
            calls, expansions = rows.counted_calls(connection, session.id)
            used = {
                "calls": calls,
                "expansions": expansions,
                "candidates": len(progress.candidates),
                "tokens": progress.tokens,
            }
            remaining = {name: limit - used[name] for name, limit in limits.to_dict().items()}
            if state.already_recorded:
                return replace(state, remaining=remaining)
            check_budgets(current, remaining, kind, count)
            expanding = count if kind == "expand" else 0
            rows.count_calls(connection, session.id, count, expanding)
            for name, reserved in (("calls", count), ("expansions", expanding)):
                if name in remaining:
                    remaining[name] -= reserved
            return replace(state, remaining=remaining, reserved=count)

        return self._writer.submit(run)

    def record(self, session: Session, call: CallRecord) -> Future[int]:
        """Record a call; the future gives its number. It is retried while the file cannot be written."""
        line = stored_line(session, call)

        def append(connection: sqlite3.Connection) -> int | None:
            """None: the session has to be opened again."""
            return rows.append_call(connection, session, line, call.key)

        def run(connection: sqlite3.Connection) -> int:
            number = None
            if not session.limits:
                with suppress(sqlite3.IntegrityError):  # recorded already with this key
                    number = append(connection)
            if number is None:
                number = self._append_checked(connection, session, call, line)
            if self._registry.is_use_due(session.id):
                rows.set_used(connection, session.id)
            return number

        if not session.limits and (number := self._writer.run_now(append)) is not None:
            if self._registry.is_use_due(session.id):
                # A statement of its own: where it fails, the call is recorded all the same.
                self._writer.run_now(lambda connection: rows.set_used(connection, session.id))
            written: Future[int] = Future()
            written.set_result(number)
            return written
        return self._writer.submit(run, recorded=session)

    def _append_checked(
        self, connection: sqlite3.Connection, session: Session, call: CallRecord, line: bytes
    ) -> int:
        """Record a call that budgets count, that may be recorded already, or whose session may have been deleted."""
        current = self._ensure(connection, session)
        _check_owner(current, session.owner)
        number = rows.number_of_key(connection, session.id, call.key)
        counts = number is None and call.counted and call.kind != "answer"
        if number is None:
            number = rows.append_call(connection, current, line, call.key)
            assert number is not None
        calls = int(counts) - call.reserved
        if calls:
            rows.count_calls(connection, session.id, calls, calls if call.kind == "expand" else 0)
        return number

    # -- reading ----------------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionFacts:
        """A session as a list shows it.

        Raises:
            SessionNotFound: no session has this name.
        """
        with self._reading() as connection:
            found = connection and rows.session_facts(connection, "WHERE id = ?", session_id)
        if not found:
            raise not_found(session_id)
        return found[0]

    def sessions(
        self, owner: str | None = None, *, limit: int = -1, offset: int = 0
    ) -> tuple[int, list[SessionFacts]]:
        """The number of sessions, of all keys or of one, and a page of them, the last used first; all where ``limit``
        is -1."""
        with self._reading() as connection:
            if connection is None:
                return 0, []
            own, params = ("", ()) if owner is None else ("WHERE owner = ?", (owner,))
            [total] = connection.execute(f"SELECT count(*) FROM sessions {own}", params).fetchone()
            page = f"{own} ORDER BY used DESC, id LIMIT {int(limit)} OFFSET {int(offset)}"
            return int(total), rows.session_facts(connection, page, *params)

    def lines(self, session_id: str) -> Iterator[bytes]:
        """The session's trajectory, one JSON object a call, without line ends.

        Raises:
            SessionNotFound: no session has this name.
        """
        self.session(session_id)
        # Page by page: a slow reader, which may use several threads in turn, holds no connection open.
        last = 0
        reader = TrajectoryReader()
        while page := self._page(session_id, last):
            yield from (reader.line(number, line) for number, line in page)
            last = page[-1][0]

    def _page(self, session_id: str, after: int) -> list[tuple[int, bytes]]:
        with self._reading() as connection:
            return [] if connection is None else list(rows.calls_after(connection, session_id, after, PAGE))

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection for reading; None while the file is missing."""
        try:
            exists = self.path.is_file()
        except OSError as error:
            raise storage_error(self.path, error) from error
        if not exists:
            yield None
            return
        try:
            with closing(open_for_reading(self.path)) as connection:
                yield connection
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # another process is creating them
                raise SessionNotFound(f"{self.path} has no sessions yet.") from error
            raise storage_error(self.path, error) from error
        except sqlite3.DatabaseError as error:
            raise storage_error(self.path, error) from error

    def _ensure(self, connection: sqlite3.Connection, session: Session) -> Session:
        """The session as it is in the file, opened again where it was deleted while this process used it."""
        current = rows.ensure_session(connection, session)
        known = self._registry.last_known(session.id)
        if known is not None and known.owner == current.owner and known != current:
            self._registry.remember(current)
        return current


def _check_owner(session: Session, owner: str) -> None:
    if session.owner != owner:
        raise InvalidRequest(f"The session {session.id!r} belongs to another key: use another name.")


def not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {session_id!r}: a call with the header X-ScholarBase-Session opens one, and sessions "
        "that are not used are deleted after a time."
    )
