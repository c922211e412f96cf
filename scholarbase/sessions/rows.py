"""The SQL of ``sessions.sqlite``: sessions and calls as rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from scholarbase.sessions.session import Limits, Session, now


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session as a list shows it."""

    session: Session
    calls: int
    used: str
    lost: int

    def to_dict(self) -> dict[str, Any]:
        return {**self.session.to_dict(), "calls": self.calls, "used": self.used, "lost": self.lost}


def ask_for(connection: sqlite3.Connection, session_id: str, calls: int, expansions: int) -> None:
    """Count calls, and the expansions among them, in a session's budgets."""
    connection.execute(
        "UPDATE sessions SET calls_asked = calls_asked + ?, expansions_asked = expansions_asked + ? WHERE id = ?",
        (calls, expansions, session_id),
    )


def insert(connection: sqlite3.Connection, session: Session) -> None:
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


def append(connection: sqlite3.Connection, session: Session, line: bytes, key: str | None) -> int | None:
    """Store a call; its number. None where the session is not the one that was opened then by this owner.

    Raises:
        sqlite3.IntegrityError: a call with this key is kept already.
    """
    found = connection.execute(
        """
        INSERT INTO calls (session, number, line, key)
        SELECT id, coalesce((SELECT max(number) FROM calls WHERE session = sessions.id), 0) + 1, ?, ?
        FROM sessions WHERE id = ? AND opened = ? AND owner = ?
        RETURNING number
        """,
        (line, key, session.id, session.opened, session.owner),
    ).fetchall()
    return int(found[0][0]) if found else None


def kept(connection: sqlite3.Connection, session_id: str, key: str | None) -> int | None:
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


def read_session(connection: sqlite3.Connection, session_id: str) -> Session | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else _session_of(row)


def facts(connection: sqlite3.Connection, rest: str, *params: str) -> list[SessionFacts]:
    counted = "(SELECT count(*) FROM calls WHERE session = sessions.id)"
    rows = connection.execute(
        f"SELECT {_COLUMNS}, {counted}, used, lost FROM sessions {rest}", params
    ).fetchall()
    return [SessionFacts(_session_of(row), row[7], row[8], row[9]) for row in rows]
