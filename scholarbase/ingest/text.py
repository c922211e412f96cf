"""The full-text stage, which runs beside the encoding and the vectors: SQLite works outside of Python's lock."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Final

from scholarbase.indexes import fulltext
from scholarbase.indexes.schema import open_for_building
from scholarbase.ingest.checkpoint import Checkpoint
from scholarbase.progress import Reporter

ROWS_PER_COMMIT: Final = 20_000


class TextIndexing:
    """Indexes the papers of a catalogue that is being built, over a connection of its own, in a thread.

    A job that was killed goes on behind the last batch that it committed.
    """

    def __init__(self, catalog: Path, reporter: Reporter) -> None:
        self._catalog = catalog
        self._reporter = reporter
        self._thread = threading.Thread(target=self._run, name="full-text")
        self._stopped = threading.Event()
        self._failure: BaseException | None = None
        self._db: sqlite3.Connection | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Break off, and wait until nothing is written any more. What was not committed is undone."""
        self._stopped.set()
        while self._thread.is_alive():
            if self._db is not None:
                self._db.interrupt()
            self._thread.join(0.1)

    def finish(self) -> None:
        """Wait for the end. Raises what the work failed with."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with closing(open_for_building(self._catalog)) as db:
                self._db = db
                try:
                    self._index(db)
                finally:
                    self._db = None  # a connection that is closed cannot be interrupted
        except BaseException as error:
            self._failure = error

    def _index(self, db: sqlite3.Connection) -> None:
        checkpoint = Checkpoint(db)
        if checkpoint.get("fulltext_done"):
            return
        last = int(checkpoint.get("fulltext", 0))
        total = db.execute("SELECT count(*) FROM papers").fetchone()[0]
        done = db.execute("SELECT count(*) FROM papers WHERE id <= ?", (last,)).fetchone()[0]
        with self._reporter.stage("index full text", "papers", total, done) as tracker:
            while (
                not self._stopped.is_set() and (end := _nth_id_after(db, last, ROWS_PER_COMMIT)) is not None
            ):
                with checkpoint.transaction():
                    count = fulltext.index_range(db, last + 1, end)
                    checkpoint.set("fulltext", end)
                done += count
                tracker.at(done)
                tracker.advance(count)
                last = end
            if self._stopped.is_set():
                return
            with checkpoint.transaction():
                fulltext.optimize(db)
                checkpoint.set("fulltext_done", True)


def _nth_id_after(db: sqlite3.Connection, last: int, count: int) -> int | None:
    """The greatest of the next ``count`` ids, None when there is no next."""
    row = db.execute(
        "SELECT max(id) FROM (SELECT id FROM papers WHERE id > ? ORDER BY id LIMIT ?)", (last, count)
    ).fetchone()
    return None if row[0] is None else int(row[0])
