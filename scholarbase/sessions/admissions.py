"""Calls that budgets have counted and that are not recorded yet.

If a process that has such calls ends, the next process that reads the sessions records its calls as failed, so that
every call that was counted has a line in its trajectory. One that was only cut off replaces these lines later.
"""

from __future__ import annotations

from typing import Final

from scholarbase.sessions import rows
from scholarbase.sessions.storage import Connection, Storage

UNANSWERED: Final = (
    "The call was counted and has no response: its server stopped, or its client closed the connection."
)


class Admissions:
    """The admitted calls of this process, and those of processes that ended. Used in transactions of the writer's
    thread; ``are_unfinished`` may be used by any thread."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def admit(self, connection: Connection, session_id: str, calls: int, line: bytes, began: int) -> int:
        """Store the line of ``calls`` calls that are about to run; the id for ``finish``."""
        self._storage.hold(connection)
        [admission] = connection.execute(
            "INSERT INTO admitted (session, process, calls, line, began) VALUES (?,?,?,?,?) RETURNING id",
            (session_id, self._storage.process, calls, line, began),
        ).fetchone()
        return int(admission)

    def finish(self, connection: Connection, admission: int, calls: int) -> bool:
        """Remove calls that are now recorded. False: they were recorded as failed by another process."""
        changed = connection.execute(
            "UPDATE admitted SET calls = calls - ? WHERE id = ? AND process = ?",
            (calls, admission, self._storage.process),
        ).rowcount
        connection.execute("DELETE FROM admitted WHERE id = ? AND calls <= 0", (admission,))
        return bool(changed)

    def failed_key(self, admission: int, process: str | None = None) -> str:
        """The beginning of the keys of calls that ``settle`` recorded as failed. A process's name is random."""
        return f"unanswered {process or self._storage.process} {admission} "

    def are_unfinished(self, connection: Connection) -> bool:
        """Whether there are calls of processes that ended."""
        return bool(self._storage.ended(connection))

    def settle(self, connection: Connection) -> None:
        """Record the calls of processes that ended."""
        ended = self._storage.ended(connection)
        admitted = connection.execute(
            "SELECT id, session, process, calls, line, began FROM admitted ORDER BY id"
        ).fetchall()
        for admission, session_id, process, calls, line, began in admitted:
            if process not in ended:
                continue
            session = rows.read_session(connection, session_id)
            for place in range(calls if session is not None else 0):
                assert session is not None
                key = f"{self.failed_key(admission, process)}{place}"
                rows.append_call(connection, session, line, began, key)
            connection.execute("DELETE FROM admitted WHERE id = ?", (admission,))
        self._storage.sweep()
