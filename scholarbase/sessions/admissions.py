"""Calls that budgets have counted and that are not recorded yet.

Each process that has such calls keeps a file locked. If it is killed, the next process that reads the sessions records
its calls as failed, so that every call that was counted has a line in its trajectory.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from pathlib import Path
from typing import Final

from scholarbase.sessions import rows

UNANSWERED: Final = (
    "The call was counted and has no response: its server stopped, or its client closed the connection."
)


class Admissions:
    """The admitted calls of this process, and those of processes that ended. Used in transactions of the writer's
    thread; ``are_unfinished`` may be used by any thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = secrets.token_hex(8)
        self._lock: int | None = None

    def admit(
        self, connection: sqlite3.Connection, session_id: str, calls: int, line: bytes, began: int
    ) -> int:
        """Store the line of ``calls`` calls that are about to run; the id for ``finish``."""
        if not self._path(self._process).exists():
            self._lock_file()
        admitted = connection.execute(
            "INSERT INTO admitted (session, process, calls, line, began) VALUES (?,?,?,?,?)",
            (session_id, self._process, calls, line, began),
        )
        assert admitted.lastrowid is not None
        return admitted.lastrowid

    def finish(self, connection: sqlite3.Connection, admission: int, calls: int) -> None:
        """Remove calls that are now recorded."""
        connection.execute("UPDATE admitted SET calls = calls - ? WHERE id = ?", (calls, admission))
        connection.execute("DELETE FROM admitted WHERE id = ? AND calls <= 0", (admission,))

    def are_unfinished(self, connection: sqlite3.Connection) -> bool:
        """Whether there are calls of processes that ended."""
        processes = connection.execute("SELECT DISTINCT process FROM admitted").fetchall()
        return any(self._has_ended(process) for [process] in processes)

    def settle(self, connection: sqlite3.Connection) -> None:
        """Record the calls of processes that ended."""
        ended: dict[str, bool] = {}
        admitted = connection.execute(
            "SELECT id, session, process, calls, line, began FROM admitted ORDER BY id"
        ).fetchall()
        for admission, session_id, process, calls, line, began in admitted:
            if process not in ended:
                ended[process] = self._has_ended(process)
            if not ended[process]:
                continue
            session = rows.read_session(connection, session_id)
            for _ in range(calls if session is not None else 0):
                assert session is not None
                rows.append_call(connection, session, line, began, None)
            self.finish(connection, admission, calls)
        for path in self._folder.glob(self._path("*").name):
            if self._has_ended(path.suffixes[-2].removeprefix(".")):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._lock is not None:
            self._path(self._process).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def _path(self, process: str) -> Path:
        return self._folder / f"sessions.{process}.lock"

    def _lock_file(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
        # It gets its name when it is locked: a file with the name and without a lock is that of an ended process.
        path = self._path(self._process)
        temporary = path.with_suffix(".new")
        self._lock = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        temporary.rename(path)

    def _has_ended(self, process: str) -> bool:
        try:
            file = os.open(self._path(process), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(file)
        return True
