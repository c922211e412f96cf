"""A job's progress, stored in the catalogue it builds, so that rows and progress commit together."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import orjson

from scholarbase.errors import TooManyRejects
from scholarbase.files import atomic_write, gzip_writer
from scholarbase.ingest.records import REJECTS_ALWAYS_ALLOWED, Conflict, Reject


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit the block's changes together, or none of them."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


class Checkpoint:
    """A job's state (JSON values by key) and rejects, in two tables that are dropped when the library is sealed."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        connection.execute(
            "CREATE TABLE IF NOT EXISTS ingest_state (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID"
        )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS ingest_rejects (file TEXT, dataset TEXT, line INT, reason TEXT, detail TEXT)"
        )

    def transaction(self) -> AbstractContextManager[None]:
        """Commit the block's changes together, or none of them."""
        return transaction(self._db)

    def get(self, key: str, default: Any = None) -> Any:
        row = self._db.execute("SELECT value FROM ingest_state WHERE key = ?", (key,)).fetchone()
        return default if row is None else orjson.loads(row[0])

    def set(self, key: str, value: Any) -> None:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
        self._db.execute("INSERT OR REPLACE INTO ingest_state VALUES (?, ?)", (key, text))

    def add(self, key: str, counts: Iterable[tuple[str, int]]) -> None:
        """Add to counts stored as a dictionary."""
        total: dict[str, int] = self.get(key, {})
        for name, count in counts:
            total[name] = total.get(name, 0) + count
        self.set(key, total)

    def reject(self, file: str, dataset: str, rejects: list[tuple[int, Reject]]) -> None:
        self._db.executemany(
            "INSERT INTO ingest_rejects VALUES (?, ?, ?, ?, ?)",
            [(file, dataset, line, reject.reason, reject.detail) for line, reject in rejects],
        )
        self.add("rejects", [(reject.reason, 1) for _, reject in rejects])

    def note(self, conflicts: Sequence[Conflict]) -> None:
        """Write conflicts into the file of rejects, and count them. They reject no record."""
        self._db.executemany(
            "INSERT INTO ingest_rejects VALUES (?, NULL, ?, ?, ?)",
            [
                (conflict.file, conflict.line, conflict.reject.reason, conflict.reject.detail)
                for conflict in conflicts
            ],
        )
        self.add("counts", [("conflicts", len(conflicts))])

    def first_reject(self) -> str:
        """Where the first reject is and why, empty without one."""
        row = self._db.execute(
            "SELECT file, line, detail FROM ingest_rejects WHERE dataset <> 'scan' ORDER BY rowid LIMIT 1"
        ).fetchone()
        return "" if row is None else "line {1} of {0}: {2}".format(*row)

    def check_rejects(
        self,
        kind: str,
        what: str,
        share: float,
        always: int = REJECTS_ALWAYS_ALLOWED,
        *,
        may_be_all: bool = True,
    ) -> None:
        """Check the share of rejects after all files of a kind: one bad file among many does not fail the job.

        Args:
            what: names the kind in an error.
            always: rejects that are allowed of any number of lines.
            may_be_all: whether all lines may be rejected, if they are not more than ``always``.

        Raises:
            TooManyRejects: there are more than the ``share`` of all lines.
        """
        counts = self.get("counts", {})
        lines, rejects = counts.get(f"lines_{kind}", 0), counts.get(f"rejects_{kind}", 0)
        nothing_left = not may_be_all and rejects == lines
        if nothing_left or rejects > max(always, share * lines):
            file, line, detail = self._db.execute(
                "SELECT file, line, detail FROM ingest_rejects WHERE dataset = ? LIMIT 1", (kind,)
            ).fetchone()
            why = "so that no paper is left" if nothing_left else more_than(share)
            raise TooManyRejects(
                f"{rejects:,} of {lines:,} {what} were rejected, {why}. The first is line {line} of {file}: {detail}"
            )

    def write_rejects(self, path: Path) -> None:
        """Write the rejects as gzip JSON lines, in the order of the sources."""
        rows = self._db.execute("SELECT file, line, reason, detail FROM ingest_rejects ORDER BY rowid")
        with atomic_write(path) as raw, gzip_writer(raw) as packed, io.BufferedWriter(packed) as out:
            for file, line, reason, detail in rows:
                entry = {"file": file, "line": line, "reason": reason, "detail": detail}
                out.write(orjson.dumps(entry) + b"\n")

    def drop(self) -> None:
        self._db.execute("DROP TABLE ingest_state")
        self._db.execute("DROP TABLE ingest_rejects")


def more_than(share: float) -> str:
    return f"more than the share of {share:g} that SCHOLARBASE_MAX_REJECT_SHARE allows"


def paper_counts(db: sqlite3.Connection, last: int = 0, shard: int = 0, shards: int = 1) -> tuple[int, int]:
    """The number of papers of a shard, and of those with ids up to ``last``: a stage's total and what is done."""
    sql = "SELECT count(*), count(*) FILTER (WHERE id <= ?) FROM papers WHERE id % ? = ?"
    total, done = db.execute(sql, (last, shards, shard)).fetchone()
    return total, done
