"""The tables of ``sessions.sqlite``, as migrations, so that a newer ScholarBase can use an older file.

========  ======================================================================================
sessions  what is fixed when one opens, when it was last used, and the calls that budgets counted
calls     one row a call: its number within the session, its line of the trajectory, the client's key
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


def migrate(connection: sqlite3.Connection) -> None:
    """Create the tables, or migrate them to the newest version."""
    migrations.apply(Database(connection))
