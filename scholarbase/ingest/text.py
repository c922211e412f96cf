"""What threads make of a catalogue beside encoding: the indexes of authors and of the full text, and the sums of its
tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Final

from scholarbase.databases import open_for_reading
from scholarbase.indexes import fulltext
from scholarbase.indexes.author_index import AuthorIndex
from scholarbase.indexes.content_hash import table_sums
from scholarbase.indexes.schema import open_for_building
from scholarbase.ingest.checkpoint import Checkpoint, paper_counts
from scholarbase.memory import cores
from scholarbase.progress import Reporter

ROWS_PER_COMMIT: Final = 10_000
_CACHE: Final = "PRAGMA cache_size = -65536"
"""64 MB: rows come in the order of the index, so that few pages are needed again."""


@contextmanager
def indexing_text(catalog: Path, reporter: Reporter) -> Iterator[Callable[[], dict[str, int]]]:
    """Index a catalogue's authors and text and hash its tables, with connections of its own: beside each other, if a
    third core is left for the vectors, which take longest.

    Gives a function that waits for the end and returns the sums of the tables, or raises the error of a thread. If the
    block raises, the threads are interrupted. After a kill, authors are indexed again unless they were complete, and
    text from the last committed batch on.
    """
    stopped = Event()
    with (
        closing(open_for_building(catalog)) as db,
        closing(open_for_reading(catalog)) as reading,
        ThreadPoolExecutor(2 if cores() > 2 else 1, thread_name_prefix="full-text") as threads,
    ):
        db.execute(_CACHE)
        indexed = threads.submit(_index, db, catalog, reporter, stopped)
        hashed = threads.submit(_hash, reading, reporter)
        running: list[Future[Any]] = [indexed, hashed]

        def finish() -> dict[str, int]:
            indexed.result()
            return hashed.result()

        try:
            yield finish
        except BaseException:
            stopped.set()
            hashed.cancel()
            while wait(running, 0.1).not_done:
                db.interrupt()
                reading.interrupt()
            raise


def _index(db: sqlite3.Connection, catalog: Path, reporter: Reporter, stopped: Event) -> None:
    checkpoint = Checkpoint(db)
    if not checkpoint.get("authors_indexed"):
        with TemporaryDirectory(prefix="authors-", dir=catalog.parent) as temporary, ExitStack() as stack:
            total = db.execute("SELECT count(authors) FROM papers").fetchone()[0]
            with reporter.stage("list authors", "papers", total) as tracker:
                authors = stack.enter_context(AuthorIndex(db, Path(temporary), tracker.advance))
            with (
                reporter.stage("index authors", "authors", authors.count) as tracker,
                checkpoint.transaction(),
            ):
                authors.write(tracker.advance)
                checkpoint.set("authors_indexed", True)
    if checkpoint.get("fulltext_done"):
        return
    last = int(checkpoint.get("fulltext", 0))
    total, done = paper_counts(db, last)
    with reporter.stage("index full text", "papers", total, done) as tracker:
        while not stopped.is_set() and (end := _nth_id_after(db, last, ROWS_PER_COMMIT)) is not None:
            with checkpoint.transaction():
                count = fulltext.index_range(db, last + 1, end)
                checkpoint.set("fulltext", end)
            tracker.advance(count)
            last = end
        if not stopped.is_set():
            with checkpoint.transaction():
                fulltext.optimize(db)
                checkpoint.set("fulltext_done", True)


def _hash(db: sqlite3.Connection, reporter: Reporter) -> dict[str, int]:
    with reporter.stage("hash tables", "rows", None) as tracker:
        return table_sums(db, tracker.advance)


def _nth_id_after(db: sqlite3.Connection, last: int, count: int) -> int | None:
    """The greatest of the next ``count`` ids, None after the last."""
    row = db.execute(
        "SELECT max(id) FROM (SELECT id FROM papers WHERE id > ? ORDER BY id LIMIT ?)", (last, count)
    ).fetchone()
    return None if row[0] is None else int(row[0])
