"""The indexes of authors and of the full text, built in a thread beside encoding: SQLite releases the GIL."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from scholarbase.indexes import fulltext
from scholarbase.indexes.author_index import AuthorIndex
from scholarbase.indexes.schema import open_for_building
from scholarbase.ingest.checkpoint import Checkpoint, paper_counts
from scholarbase.progress import Reporter

ROWS_PER_COMMIT: Final = 20_000


class TextIndexing:
    """Indexes a catalogue's authors and the text of its papers in a thread, with a separate connection.

    After a kill, authors are indexed again unless they were complete, and text from the last committed batch on.
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
        """Interrupt indexing and wait for the thread to end. Uncommitted work is rolled back."""
        self._stopped.set()
        while self._thread.is_alive():
            if self._db is not None:
                self._db.interrupt()
            self._thread.join(0.1)

    def finish(self) -> None:
        """Wait for the thread to end. Raises the error that indexing failed with."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with closing(open_for_building(self._catalog)) as db:
                self._db = db
                try:
                    checkpoint = Checkpoint(db)
                    self._index_authors(db, checkpoint)
                    self._index_text(db, checkpoint)
                finally:
                    self._db = None  # a closed connection cannot be interrupted
        except BaseException as error:
            self._failure = error

    def _index_authors(self, db: sqlite3.Connection, checkpoint: Checkpoint) -> None:
        if checkpoint.get("authors_indexed"):
            return
        with (
            TemporaryDirectory(prefix="authors-", dir=self._catalog.parent) as temporary,
            self._reporter.stage("index authors", "authors", None) as tracker,
            AuthorIndex(db, Path(temporary)) as authors,
            checkpoint.transaction(),
        ):
            tracker.advance(authors.write())
            checkpoint.set("authors_indexed", True)

    def _index_text(self, db: sqlite3.Connection, checkpoint: Checkpoint) -> None:
        if checkpoint.get("fulltext_done"):
            return
        last = int(checkpoint.get("fulltext", 0))
        total, done = paper_counts(db, last)
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
    """The greatest of the next ``count`` ids, None after the last."""
    row = db.execute(
        "SELECT max(id) FROM (SELECT id FROM papers WHERE id > ? ORDER BY id LIMIT ?)", (last, count)
    ).fetchone()
    return None if row[0] is None else int(row[0])
