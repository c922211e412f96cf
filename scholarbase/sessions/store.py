"""Sessions and their calls, in the file of a folder or in the database of an extension.

Methods that change sessions return a future. Its result comes from the process's writer thread
(:mod:`scholarbase.sessions.writer`), so that a slow database or a full disk delays no search, or from the caller's
thread if a call can be written at once. Several processes share the sessions: a call gets its number inside the lock of
a transaction.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from scholarbase.errors import (
    InvalidRequest,
    QuotaExceeded,
    ScholarBaseError,
    SessionExists,
    SessionNotFound,
    StorageError,
)
from scholarbase.models.runs import CallKind
from scholarbase.sessions import rows
from scholarbase.sessions.admissions import Admissions
from scholarbase.sessions.progress import BudgetState, TrajectoryReader, check_budgets, stored_line
from scholarbase.sessions.registry import Registry
from scholarbase.sessions.rows import SessionFacts
from scholarbase.sessions.session import CallRecord, Quotas, Session, unix_time
from scholarbase.sessions.storage import Connection, open_storage
from scholarbase.sessions.writer import Writer, wait_for

SETTLE_SECONDS: Final = 5.0
"""How long a reader waits for the calls of processes that ended to be recorded."""
LOOK_UP_SECONDS: Final = 2.0
"""How long a search waits for a database in which its session cannot be written."""
EVERY_SESSION: Final = "*"
"""The name of all sessions, for an operation that may change any of them."""
_ALL: Final = 2**62
PAGE: Final = 32
"""Lines of a trajectory that are read at once."""


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
        self._admissions = Admissions(self._storage)
        self._registry = Registry(self._storage)
        self._writer = Writer(self._storage, self._registry, keep_days=keep_days)

    @property
    def name(self) -> str:
        """The file or the database, without a password."""
        return self._storage.name

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
            if rows.read_session(connection, session.id) is not None:
                raise SessionExists(
                    f"The session {session.id!r} exists already: use another name, or continue it with the header "
                    "X-ScholarBase-Session."
                )
            self._insert(connection, session)
            self._registry.remember(session)
            return session

        return self._writer.submit(run, session.id, _owned(session.owner))

    def _insert(self, connection: Connection, session: Session) -> None:
        """Raises QuotaExceeded: the owner has as many sessions as are allowed, or all are as large."""
        limit = self._quotas.sessions
        if limit is not None and rows.sessions_of(connection, session.owner) >= limit:
            raise QuotaExceeded(
                f"{'This key' if session.owner else 'This server'} has {limit:,} sessions, the maximum of "
                "SCHOLARBASE_SESSIONS_PER_KEY: continue one, delete some (DELETE /v1/sessions/NAME), or send the call "
                "without a session."
            )
        self._measure(connection)
        self._check_size()
        rows.insert_session(connection, session)

    def known(self, session_id: str, owner: str) -> Session | None:
        """The session, if this process has read it and none was deleted since. Raises as the future of ``find``.

        Without a file that shows deletions it is None, except while the database does not respond.
        """
        if not (self._storage.is_local or self._writer.is_stalled):
            return None
        session = self._registry.known(session_id)
        if session is not None:
            _check_owner(session, owner)
        return session

    def find(self, session_id: str, owner: str, *, opening: bool = True) -> Future[Session]:
        """The session of this name. Where it is missing, one without limits opens, if ``opening``.

        The future raises InvalidRequest where the session belongs to another key, SessionNotFound where it is missing
        and not ``opening``, and QuotaExceeded where it may not open.
        """

        def run(connection: Connection) -> Session:
            session, last_number = rows.read_session_and_last_number(connection, session_id)
            if session is None:
                if not opening:
                    raise not_found(session_id)
                session = Session(session_id, owner=owner)
                self._insert(connection, session)
            _check_owner(session, owner)
            self._registry.remember(session)
            self._registry.set_last_number(session_id, last_number)
            return session

        return self._writer.submit(run, session_id, *([_owned(owner)] if opening else []))

    def look_up(self, session_id: str, owner: str) -> Session:
        """As ``find`` while the file cannot be written: a missing session opens when its first call is written.

        Raises:
            InvalidRequest: the session belongs to another key.
            StorageError: the file exists and cannot be read.
        """
        session = self.known(session_id, owner)
        if session is not None:
            return session
        try:
            with self._storage.reading(LOOK_UP_SECONDS) as connection:
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

        def run(connection: Connection) -> None:
            deleted = rows.delete_sessions(connection, [session_id])
            self._registry.forget(session_id)
            if not deleted:
                raise not_found(session_id)

        return self._writer.submit(run, session_id)

    # -- calls ------------------------------------------------------------------------------------------

    def check_quotas(self, session_id: str) -> None:
        """Check the quotas before a call. Calls that run at the same time, in this process or another, may exceed them.

        Raises:
            QuotaExceeded: the session has as many calls as are allowed, or all sessions are as large.
        """
        limit = self._quotas.calls
        if limit is not None and self._registry.last_number(session_id) >= limit:
            raise QuotaExceeded(
                f"The session {session_id!r} has {self._registry.last_number(session_id):,} calls, and "
                f"SCHOLARBASE_SESSION_CALLS allows {limit:,}: continue in another session, or without one."
            )
        if self._quotas.megabytes is None:
            return
        if self._registry.is_measure_due() and self._writer.run_now(self._measure) is None:
            self._writer.submit(self._measure)
        self._check_size()

    def _measure(self, connection: Connection) -> int:
        self._registry.size = self._storage.used_bytes(connection)
        return self._registry.size

    def _check_size(self) -> None:
        limit = self._quotas.megabytes
        if limit is not None and self._registry.size >= limit * 1_000_000:
            raise QuotaExceeded(
                f"The sessions of this server take {self._registry.size / 1e6:,.0f} MB, and SCHOLARBASE_SESSIONS_MB "
                f"allows {limit:,}: delete some (DELETE /v1/sessions/NAME), or send the call without a session."
            )

    def reserve(
        self,
        session: Session,
        kind: CallKind,
        *,
        count: int = 1,
        with_seen: bool = False,
        key: str | None = None,
        parent: int | None = None,
        unanswered: CallRecord | None = None,
    ) -> Future[BudgetState]:
        """Reserve ``count`` calls in the session's budgets, all or none. A call that is recorded already under this
        key reserves nothing. ``unanswered`` is recorded for each of them if this process ends before ``record``.

        The future raises BudgetExhausted where a budget is used up, and InvalidRequest where ``parent`` is not an
        earlier call; nothing is counted then.
        """

        def run(connection: Connection) -> BudgetState:
            if session.limits:
                current = self._ensure(connection, session)
            else:
                current = rows.read_session(connection, session.id) or replace(session, opened="")
            limits = session.limits and current.limits
            admission = None
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
            if unanswered is not None:
                ended = self._storage.local_time(unanswered.ended or unix_time())
                line = stored_line(unanswered)
                admission = self._admissions.admit(connection, session.id, count, line, ended)
            for name, reserved in (("calls", count), ("expansions", expanding)):
                if name in remaining:
                    remaining[name] -= reserved
            return replace(state, remaining=remaining, reserved=count, admission=admission)

        return self._writer.submit(run, session.id)

    def record(self, session: Session, call: CallRecord) -> Future[int]:
        """Record a call; the future gives its number. It is retried while the file cannot be written."""
        line = stored_line(call)
        ended = call.ended or unix_time()
        if call.key is None and not self._storage.is_local:
            # A commit whose connection is lost may have happened: the call is not recorded again then.
            call = replace(call, key=f"call {secrets.token_hex(8)}")

        def append(connection: Connection) -> int | None:
            """None: the call is recorded already, or the session has to be opened again."""
            at = self._storage.local_time(ended)
            return rows.append_call(connection, session, line, at, call.key)

        def run(connection: Connection) -> int:
            number = None if session.limits else append(connection)
            if number is None:
                number = self._append_checked(connection, session, call, line, ended)
            self._registry.set_last_number(session.id, number)
            if self._registry.is_use_due(session.id):
                rows.set_used(connection, session.id)
            return number

        if not session.limits and (number := self._writer.run_now(append)) is not None:
            self._registry.set_last_number(session.id, number)
            if self._registry.is_use_due(session.id):
                # A statement of its own: where it fails, the call is recorded all the same.
                self._writer.run_now(lambda connection: rows.set_used(connection, session.id))
            written: Future[int] = Future()
            written.set_result(number)
            return written
        return self._writer.submit(run, session.id, recorded=session)

    def _append_checked(
        self, connection: Connection, session: Session, call: CallRecord, line: bytes, ended: int
    ) -> int:
        """Record a call that budgets count, that may be recorded already, or whose session may have been deleted."""
        current = self._ensure(connection, session)
        _check_owner(current, session.owner)
        number = rows.number_of_key(connection, session.id, call.key)
        counts = number is None and call.counted and call.kind != "answer"
        ended = self._storage.local_time(ended)
        if call.admission is not None and not self._admissions.finish(
            connection, call.admission, call.reserved
        ):
            # It was recorded already, or another process took this one for ended.
            if number is not None:
                return number
            failed = self._admissions.failed_key(call.admission)
            number = rows.replace_call(connection, session.id, failed, line, ended, call.key)
        if number is None:
            number = rows.append_call(connection, current, line, ended, call.key)
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
        self, owner: str | None = None, *, limit: int | None = None, offset: int = 0
    ) -> tuple[int, list[SessionFacts]]:
        """The number of sessions, of all keys or of one, and a page of them, the last used first."""
        with self._reading() as connection:
            if connection is None:
                return 0, []
            own, params = ("", ()) if owner is None else ("WHERE owner = ?", (owner,))
            [total] = connection.execute(f"SELECT count(*) FROM sessions {own}", params).fetchone()
            page = f"{own} ORDER BY used DESC, id LIMIT {_ALL if limit is None else int(limit)} OFFSET {int(offset)}"
            return int(total), rows.session_facts(connection, page, *params)

    def lines(self, session_id: str) -> Iterator[bytes]:
        """The session's trajectory, one JSON object a call, without line ends, in the order in which the calls ended.
        It has the calls that are recorded when the first line is read.

        Raises:
            SessionNotFound: no session has this name.
        """
        reader = TrajectoryReader(self.session(session_id).session)
        with self._reading() as connection:
            numbers = [] if connection is None else rows.numbers_by_end(connection, session_id)
        # Page by page: a slow reader, which may use several threads in turn, holds no connection open.
        for start in range(0, len(numbers), PAGE):
            page = numbers[start : start + PAGE]
            found = self._page(session_id, page)
            yield from (reader.line(number, *found[number]) for number in page if number in found)

    def _page(self, session_id: str, numbers: Sequence[int]) -> dict[int, tuple[int, bytes]]:
        with self._reading() as connection:
            return {} if connection is None else rows.calls_numbered(connection, session_id, numbers)

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """A connection for reading; None while nothing was ever recorded. Statements end at the deadline of the
        context."""
        with self._storage.reading() as connection:
            if connection is not None and self._must_settle(connection):
                with suppress(ScholarBaseError):  # what cannot be written is read as it is
                    wait_for(self._writer.submit(self._admissions.settle, EVERY_SESSION), SETTLE_SECONDS)
            yield connection

    def _must_settle(self, connection: Connection) -> bool:
        """Whether the file is one of an older version, or there are calls of processes that ended."""
        try:
            return self._admissions.are_unfinished(connection)
        except self._storage.errors as error:
            if "no such table" in str(error):
                return True
            raise

    def _ensure(self, connection: Connection, session: Session) -> Session:
        """The session as it is recorded, opened again where it was deleted while this process used it."""
        current = rows.ensure_session(connection, session)
        known = self._registry.last_known(session.id)
        if known is not None and known.owner == current.owner and known != current:
            self._registry.remember(current)
        return current


def _owned(owner: str) -> str:
    """The name of a key's sessions, for an operation that opens one: no session's name has a slash."""
    return f"/{owner}"


def _check_owner(session: Session, owner: str) -> None:
    if session.owner != owner:
        raise InvalidRequest(f"The session {session.id!r} belongs to another key: use another name.")


def not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(
        f"There is no session {session_id!r}: a call with the header X-ScholarBase-Session opens one, and sessions "
        "that are not used are deleted after a time."
    )
