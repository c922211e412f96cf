"""The sessions of a folder: what they are, what they have been given, and every call of theirs, in ``sessions.sqlite``.

A call is recorded by handing it to one thread (:mod:`scholarbase.sessions.writer`). Whoever made the call may wait
until it is written, and need not: a disk that is slow, or full, holds up no search. Several processes share the file;
they write in turn, and a call gets its number in its process's turn.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from scholarbase.errors import InvalidRequest, SessionExists, SessionNotFound, StorageError
from scholarbase.models.runs import CallKind
from scholarbase.sessions.progress import Progress, Standing, Telling, check_budgets, stored_line
from scholarbase.sessions.rows import SessionFacts, append, ask_for, facts, insert, kept, read_session
from scholarbase.sessions.session import CallRecord, Session, now
from scholarbase.sessions.writer import BUSY_SECONDS, Writer, storage

log = logging.getLogger("scholarbase.sessions")

FILE_NAME: Final = "sessions.sqlite"
KNOWN_SESSIONS: Final = 10_000
"""Sessions of which a process remembers what they were told; others are read again."""
FOLLOWED_SESSIONS: Final = 512
"""Sessions of which a process remembers what they were given: some 200 kB for a thousand papers."""
USED_SECONDS: Final = 1.0
"""How exactly it is known when a session was last used."""
PAGE: Final = 256
"""Lines that are read at once."""


class SessionStore(Writer):
    """The sessions of a folder. Safe to share between threads and between processes; ``close`` it, or use it in a
    ``with``. The file is made when the first session opens.

    Args:
        folder: where ``sessions.sqlite`` stands; made where it is missing.
        keep_days: sessions not used for so many days are deleted; None keeps all.
    """

    def __init__(self, folder: Path, *, keep_days: float | None = None) -> None:
        super().__init__(folder / FILE_NAME, sweeping=keep_days is not None)
        self._keep_days = keep_days
        self._known: OrderedDict[str, Session] = OrderedDict()
        self._progress: OrderedDict[str, Progress] = OrderedDict()
        self._touched: OrderedDict[str, float] = OrderedDict()
        self._deletions: Final = self.path.with_suffix(".deletions")
        """When it changes, sessions were deleted."""
        self._deleted = _changed(self._deletions)

    # -- sessions ---------------------------------------------------------------------------------------

    def open(self, session: Session) -> Future[Session]:
        """Open a session with what is fixed of it. The future raises SessionExists where there is one of the name."""

        def run(connection: sqlite3.Connection) -> Session:
            if read_session(connection, session.id) is not None:
                raise SessionExists(
                    f"There is a session {session.id!r} already: give another name, or go on with it by the header "
                    "X-ScholarBase-Session."
                )
            insert(connection, session)
            self._remember(session)
            return session

        return self._ask(run, session.id)

    def known(self, session_id: str, owner: str) -> Session | None:
        """The session of this name, if this process has met it, and nobody has deleted one since. Raises as the future
        of ``find``."""
        deleted = _changed(self._deletions)
        if deleted != self._deleted:
            self._deleted = deleted
            self._known.clear()
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
            session = read_session(connection, session_id)
            if session is None:
                if not opening:
                    raise not_found(session_id)
                session = Session(session_id, owner=owner)
                insert(connection, session)
            _check_owner(session, owner)
            self._remember(session)
            return session

        return self._ask(run, session_id)

    def look_up(self, session_id: str, owner: str) -> Session:
        """As ``find`` while the file cannot be written: a session that there is not opens with its first call, once
        that can be kept.

        Raises:
            InvalidRequest: the name belongs to another key's session.
            StorageError: there is a file, and it cannot be read.
        """
        session = None
        try:
            with self._reading() as connection:
                if connection is not None:
                    session = read_session(connection, session_id)
        except SessionNotFound:
            pass
        except StorageError:
            # It may have a date after which nothing exists, so it is not taken for a new one.
            if session_id not in self._known:
                raise
        session = session or self._known.get(session_id)
        if session is None:
            # Not remembered: once there is a file, it may have another of this name.
            return Session(session_id, owner=owner)
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
                raise not_found(session_id)
            self._after.append(self._tell_of_deletions)

        return self._ask(run, session_id)

    def _tell_of_deletions(self) -> None:
        """Have every process forget what it knows of sessions: one of these names may open anew, and be another."""
        at = time.time_ns()
        try:
            os.close(os.open(self._deletions, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.utime(self._deletions, ns=(at, at))
        except OSError as error:
            log.error("Other processes cannot be told that sessions were deleted: %s", error)

    # -- calls ------------------------------------------------------------------------------------------

    def begin(
        self,
        session: Session,
        kind: CallKind,
        *,
        count: int = 1,
        with_seen: bool = False,
        key: str | None = None,
        parent: int | None = None,
    ) -> Future[Standing]:
        """Take ``count`` calls from the session's budgets, all or none of them; nothing for a call that is kept
        already.

        The future raises BudgetExhausted where a budget has nothing left, and InvalidRequest where ``parent`` is no
        earlier call; nothing is then taken.
        """

        def run(connection: sqlite3.Connection) -> Standing:
            current = self._ensure(connection, session) if session.limits else session
            row = connection.execute("SELECT opened FROM sessions WHERE id = ?", (session.id,)).fetchone()
            progress = self._caught_up(connection, session.id, "" if row is None else row[0])
            limits = current.limits
            before = kept(connection, session.id, key)
            if parent is not None and before is None and parent > progress.last:
                raise InvalidRequest(
                    f"parent is {parent}, and the last call of the session {session.id!r} is {progress.last}: name an "
                    "earlier call, or none."
                )
            seen = (i for i, first in progress.first.items() if before is None or first < before)
            standing = Standing(
                candidates=frozenset(progress.candidates) if limits.candidates is not None else frozenset(),
                seen=frozenset(seen) if with_seen else frozenset(),
                again=before is not None,
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
            check_budgets(current, left, kind, count)
            expanding = count if kind == "expand" else 0
            ask_for(connection, session.id, count, expanding)
            for name, taken in (("calls", count), ("expansions", expanding)):
                if name in left:
                    left[name] -= taken
            return replace(standing, left=left, taken=count)

        return self._ask(run, session.id)

    def record(self, session: Session, call: CallRecord) -> Future[int]:
        """Keep a call; the future gives its number. It is tried again for as long as the disk refuses."""
        line = stored_line(session, call)

        def run(connection: sqlite3.Connection) -> int:
            number = None
            if not session.limits:
                with suppress(sqlite3.IntegrityError):  # one with this key is kept
                    number = self._append(connection, session, line, call.key)
            if number is None:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    number = self._record(connection, session, call, line)
                    connection.execute("COMMIT")
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
                    raise
                self._touch(connection, session.id)
            return number

        if not session.limits:
            number = self._at_once(lambda connection: self._append(connection, session, line, call.key))
            if number is not None:
                future: Future[int] = Future()
                future.set_result(number)
                return future
        return self._ask(run, session, lasting=True, alone=True)

    def _append(
        self, connection: sqlite3.Connection, session: Session, line: bytes, key: str | None
    ) -> int | None:
        number = append(connection, session, line, key)
        if number is not None:
            self._touch(connection, session.id)
        return number

    def _record(self, connection: sqlite3.Connection, session: Session, call: CallRecord, line: bytes) -> int:
        """As ``record``, where budgets count the call, or the session or the call may not be what they were."""
        current = self._ensure(connection, session)
        _check_owner(current, session.owner)
        before = kept(connection, session.id, call.key)
        counts = before is None and call.counted and call.kind != "answer"
        asked = int(counts) - call.taken
        if asked:
            ask_for(connection, session.id, asked, asked if call.kind == "expand" else 0)
        if before is not None:
            return before
        number = append(connection, current, line, call.key)
        assert number is not None
        return number

    def _touch(self, connection: sqlite3.Connection, session_id: str) -> None:
        """The session was used now; to the second, since an agent makes many calls in one."""
        at = time.monotonic()
        if at - self._touched.get(session_id, 0.0) >= USED_SECONDS:
            self._touched[session_id] = at
            self._touched.move_to_end(session_id)
            while len(self._touched) > KNOWN_SESSIONS:
                self._touched.popitem(last=False)
            with suppress(sqlite3.Error):  # the call is kept, and must not be tried again
                connection.execute("UPDATE sessions SET used = ? WHERE id = ?", (now(), session_id))

    # -- reading ----------------------------------------------------------------------------------------

    def session(self, session_id: str) -> SessionFacts:
        """Raises SessionNotFound: there is none of this name."""
        with self._reading() as connection:
            found = connection and facts(connection, "WHERE id = ?", session_id)
        if not found:
            raise not_found(session_id)
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
            return int(total), facts(connection, page, *params)

    def lines(self, session_id: str) -> Iterator[bytes]:
        """The session's trajectory, one JSON object a call, without line ends.

        Raises:
            SessionNotFound: there is none of this name.
        """
        self.session(session_id)
        # Page by page: whoever reads slowly, perhaps in one thread after the other, holds no connection open.
        after = 0
        telling = Telling()
        while page := self._page(session_id, after):
            yield from (telling.line(number, line) for number, line in page)
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
        try:
            there = self.path.is_file()
        except OSError as error:
            raise storage(self.path, error) from error
        if not there:
            yield None
            return
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_SECONDS)) as connection:
                connection.execute("PRAGMA query_only = 1")
                yield connection
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # another process is about to make them
                raise SessionNotFound(f"{self.path} has no sessions yet.") from error
            raise storage(self.path, error) from error
        except sqlite3.DatabaseError as error:
            raise storage(self.path, error) from error

    # -- what is remembered -----------------------------------------------------------------------------

    def _remember(self, session: Session) -> None:
        self._known[session.id] = session
        self._known.move_to_end(session.id)
        while len(self._known) > KNOWN_SESSIONS:
            self._known.popitem(last=False)

    def _forget(self, session_id: str) -> None:
        self._known.pop(session_id, None)
        self._forget_progress(session_id)

    def _file_was_replaced(self) -> None:
        self._known.clear()

    def _forget_progress(self, session_id: str | None) -> None:
        if session_id is None:
            self._progress.clear()
        else:
            self._progress.pop(session_id, None)

    def _count_lost(self, connection: sqlite3.Connection, session: Session, lost: int) -> None:
        self._ensure(connection, session)
        connection.execute("UPDATE sessions SET lost = lost + ? WHERE id = ?", (lost, session.id))

    def _sweep(self, connection: sqlite3.Connection) -> None:
        assert self._keep_days is not None
        try:
            before = (datetime.now(UTC) - timedelta(days=self._keep_days)).isoformat(timespec="milliseconds")
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
            self._tell_of_deletions()
            log.info("Deleted %d sessions that were not used for %g days.", len(old), self._keep_days)

    def _ensure(self, connection: sqlite3.Connection, session: Session) -> Session:
        """The session as the file has it. One that was deleted while this process still used it opens again."""
        current = read_session(connection, session.id)
        if current is None:
            # Its calls are numbered from 1 again: this is another session, for every process that knew it.
            current = replace(session, opened=now())
            insert(connection, current)
        known = self._known.get(session.id)
        if known is not None and known.owner == current.owner and known != current:
            self._remember(current)
        return current

    def _caught_up(self, connection: sqlite3.Connection, session_id: str, opened: str) -> Progress:
        """The progress of the session that opened then, with the calls that other processes have recorded."""
        progress = self._progress.get(session_id)
        if progress is None or progress.opened != opened:
            progress = self._progress[session_id] = Progress(opened)
        self._progress.move_to_end(session_id)
        while len(self._progress) > FOLLOWED_SESSIONS:
            self._progress.popitem(last=False)
        for number, line in connection.execute(
            "SELECT number, line FROM calls WHERE session = ? AND number > ? ORDER BY number",
            (session_id, progress.last),
        ):
            progress.take(number, line)
        return progress


def _check_owner(session: Session, owner: str) -> None:
    if session.owner != owner:
        raise InvalidRequest(f"The session {session.id!r} belongs to another key: give yours another name.")


def _changed(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def not_found(session_id: str) -> SessionNotFound:
    """The error of a name that no session has, as far as who asks may know."""
    return SessionNotFound(
        f"There is no session {session_id!r}: a call with the header X-ScholarBase-Session opens one, and sessions "
        "that are not used are deleted after a time."
    )
