"""The statements of sessions and calls, for SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import orjson

from scholarbase.sessions.session import Limits, Session, now
from scholarbase.sessions.storage import Connection


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session as a list shows it."""

    session: Session
    calls: int
    used: str
    lost: int

    def to_dict(self) -> dict[str, Any]:
        return {**self.session.to_dict(), "calls": self.calls, "used": self.used, "lost": self.lost}


# -- sessions -------------------------------------------------------------------------------------------

_COLUMNS: Final = "id, query_id, query, as_of, limits, owner, opened"


def _session_of(row: Sequence[Any]) -> Session:
    limits = Limits.from_dict(orjson.loads(row[4]))
    return Session(row[0], row[1], row[2], row[3], limits, row[5], row[6])


def insert_session(connection: Connection, session: Session) -> None:
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


def read_session(connection: Connection, session_id: str) -> Session | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,)).fetchone()
    return None if row is None else _session_of(row)


def read_session_and_last_number(connection: Connection, session_id: str) -> tuple[Session | None, int]:
    """A session, and the number of its last call; 0 without calls."""
    last = "(SELECT coalesce(max(number), 0) FROM calls WHERE session = sessions.id)"
    row = connection.execute(
        f"SELECT {_COLUMNS}, {last} FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    return (None, 0) if row is None else (_session_of(row), int(row[7]))


def ensure_session(connection: Connection, session: Session) -> Session:
    """The session of this name, inserted again where it was deleted."""
    current = read_session(connection, session.id)
    if current is None:
        # Its calls are numbered from 1 again, so this is another session to every process that knew it.
        current = replace(session, opened=now())
        insert_session(connection, current)
    return current


def session_facts(connection: Connection, rest: str, *params: str) -> list[SessionFacts]:
    """Sessions with their numbers of calls; ``rest`` is the statement's end, from WHERE on."""
    counted = "(SELECT coalesce(max(number), 0) FROM calls WHERE session = sessions.id)"
    rows = connection.execute(
        f"SELECT {_COLUMNS}, {counted}, used, lost FROM sessions {rest}", params
    ).fetchall()
    return [SessionFacts(_session_of(row), row[7], row[8], row[9]) for row in rows]


def set_used(connection: Connection, session_id: str) -> None:
    connection.execute("UPDATE sessions SET used = ? WHERE id = ?", (now(), session_id))


def add_lost(connection: Connection, session: Session, calls: int) -> None:
    """Count calls that were dropped while the file could not be written."""
    ensure_session(connection, session)
    connection.execute("UPDATE sessions SET lost = lost + ? WHERE id = ?", (calls, session.id))


def delete_sessions(connection: Connection, session_ids: Sequence[str]) -> int:
    """Delete sessions with their calls; how many there were."""
    deleted = 0
    for session_id in session_ids:
        connection.execute("DELETE FROM admitted WHERE session = ?", (session_id,))
        connection.execute("DELETE FROM calls WHERE session = ?", (session_id,))
        deleted += connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,)).rowcount
    return deleted


def delete_unused(connection: Connection, before: str) -> list[str]:
    """Delete sessions last used before a time; their ids."""
    old = [row[0] for row in connection.execute("SELECT id FROM sessions WHERE used < ?", (before,))]
    delete_sessions(connection, old)
    return old


# -- calls ----------------------------------------------------------------------------------------------


def sessions_of(connection: Connection, owner: str) -> int:
    """The number of a key's sessions."""
    row = connection.execute("SELECT sessions FROM owners WHERE owner = ?", (owner,)).fetchone()
    return 0 if row is None else int(row[0])


def append_call(
    connection: Connection, session: Session, line: bytes, ended: int, key: str | None
) -> int | None:
    """Insert a call; its number. None: no session of this name was opened at this time by this owner, or a call with
    this key is recorded already."""
    found = connection.execute(
        """
        INSERT INTO calls (session, number, line, key, ended)
        SELECT id, coalesce((SELECT max(number) FROM calls WHERE session = sessions.id), 0) + 1, ?, ?, ?
        FROM sessions WHERE id = ? AND opened = ? AND owner = ?
        ON CONFLICT (session, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING number
        """,
        (line, key, ended, session.id, session.opened, session.owner),
    ).fetchall()
    return int(found[0][0]) if found else None


def replace_call(
    connection: Connection, session_id: str, old: str, line: bytes, ended: int, key: str | None
) -> int | None:
    """Replace one of the calls whose keys begin with ``old``; its number, or None where there is none."""
    found = connection.execute(
        """
        UPDATE calls SET line = ?, ended = ?, key = ? WHERE session = ? AND number =
        (SELECT min(number) FROM calls WHERE session = ? AND substr(key, 1, length(?)) = ?)
        RETURNING number
        """,
        (line, ended, key, session_id, session_id, old, old),
    ).fetchall()
    return int(found[0][0]) if found else None


def number_of_key(connection: Connection, session_id: str, key: str | None) -> int | None:
    """The number of the call recorded with this key."""
    if key is None:
        return None
    row = connection.execute(
        "SELECT number FROM calls WHERE session = ? AND key = ?", (session_id, key)
    ).fetchone()
    return None if row is None else int(row[0])


def calls_after(connection: Connection, session_id: str, number: int) -> Iterable[tuple[int, bytes]]:
    """Numbers and lines of the calls after one, by their numbers."""
    return connection.execute(
        "SELECT number, line FROM calls WHERE session = ? AND number > ? ORDER BY number",
        (session_id, number),
    )


def numbers_by_end(connection: Connection, session_id: str) -> list[int]:
    """The numbers of all calls, in the order in which the calls ended."""
    return [
        row[0]
        for row in connection.execute(
            "SELECT number FROM calls WHERE session = ? ORDER BY ended, number", (session_id,)
        )
    ]


def calls_numbered(
    connection: Connection, session_id: str, numbers: Sequence[int]
) -> dict[int, tuple[int, bytes]]:
    """The end and the line of the calls with these numbers, without those that were deleted."""
    found = connection.execute(
        f"SELECT number, ended, line FROM calls WHERE session = ? AND number IN ({', '.join('?' * len(numbers))})",
        (session_id, *numbers),
    )
    return {number: (ended, line) for number, ended, line in found}


def count_calls(connection: Connection, session_id: str, calls: int, expansions: int) -> None:
    """Count calls, and the expansions among them, in a session's budgets."""
    connection.execute(
        "UPDATE sessions SET calls_asked = calls_asked + ?, expansions_asked = expansions_asked + ? WHERE id = ?",
        (calls, expansions, session_id),
    )


def counted_calls(connection: Connection, session_id: str) -> tuple[int, int]:
    """The calls and expansions counted in a session's budgets."""
    [calls, expansions] = connection.execute(
        "SELECT calls_asked, expansions_asked FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    return calls, expansions
