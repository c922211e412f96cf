"""The tables of ``sessions.sqlite``, as migrations, so that a newer ScholarBase can use an older file.

========  ======================================================================================
sessions  what is fixed when one opens, when it was last used, and the calls that budgets counted
calls     one row a call: its number within the session, its line of the trajectory, the client's key, and when it ended
          in microseconds since 1970
admitted  calls that budgets counted and that are not in ``calls`` yet, by the process that runs them
owners    the number of sessions of each key
========  ======================================================================================
"""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

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


@migrations()
def m002_ends(db: Database) -> None:
    """Calls without an end have that of their line: when they began, and how long they took."""
    db.execute("ALTER TABLE calls ADD COLUMN ended INTEGER NOT NULL DEFAULT 0")
    db.execute(
        """
        UPDATE calls SET ended = round(
            (julianday(json_extract(CAST(line AS TEXT), '$.time')) - 2440587.5) * 86400000) * 1000
            + round(coalesce(json_extract(CAST(line AS TEXT), '$.seconds'), 0) * 1000000)
        """
    )
    db.execute("CREATE INDEX calls_by_end ON calls (session, ended)")


@migrations()
def m003_admitted(db: Database) -> None:
    db.execute(
        """
        CREATE TABLE admitted (
            id INTEGER PRIMARY KEY, session TEXT NOT NULL, process TEXT NOT NULL, calls INTEGER NOT NULL,
            line BLOB NOT NULL, began INTEGER NOT NULL
        )
        """
    )


@migrations()
def m004_owners(db: Database) -> None:
    db.execute("CREATE TABLE owners (owner TEXT PRIMARY KEY, sessions INTEGER NOT NULL) WITHOUT ROWID")
    db.execute("INSERT INTO owners SELECT owner, count(*) FROM sessions GROUP BY owner")
    db.execute(
        """
        CREATE TRIGGER session_opened AFTER INSERT ON sessions BEGIN
            INSERT INTO owners VALUES (NEW.owner, 1) ON CONFLICT (owner) DO UPDATE SET sessions = sessions + 1;
        END
        """
    )
    db.execute(
        """
        CREATE TRIGGER session_deleted AFTER DELETE ON sessions BEGIN
            UPDATE owners SET sessions = sessions - 1 WHERE owner = OLD.owner;
        END
        """
    )


@migrations()
def m005_no_index_of_ends(db: Database) -> None:
    """It made recording a call a quarter slower. Reading a trajectory reads all rows of its session in any case."""
    db.execute("DROP INDEX IF EXISTS calls_by_end")


def migrate(connection: sqlite3.Connection) -> None:
    """Create the tables, or migrate them to the newest version."""
    migrations.apply(Database(connection))
