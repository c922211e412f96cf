"""SQL statements of a library: one SELECT over documented views, in a process of its own.

A process, since SQLite has no limit that stops every statement: ``sqlite3_interrupt`` works between the steps of its
virtual machine, and not inside ``replace`` or a regular expression, ``hard_heap_limit`` holds for all connections of a
process, and Python's own functions take memory that SQLite does not count. A process can be killed at any point.
"""

from __future__ import annotations

import sqlite3
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from scholarbase.databases import attach_immutable, open_for_writing
from scholarbase.deadlines import check, turn
from scholarbase.documents import schema
from scholarbase.errors import LibraryCorrupt, StorageError
from scholarbase.indexes import catalog
from scholarbase.indexes.catalog import id_columns
from scholarbase.models.sql import DEFAULT_ROWS, MAX_ROWS, SqlBody, SqlResponse
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened
from scholarbase.timing import stages
from scholarbase_sql import views
from scholarbase_sql.processes import Workers
from scholarbase_sql.worker import CELL_CHARACTERS, FUNCTIONS, RESPONSE_BYTES, VALUE_BYTES

_PREPARING: Final = ("Preparing the views", "send the statement again in a moment")


_CREATE: Final = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE ids (paper INTEGER PRIMARY KEY, paper_id TEXT NOT NULL, last_day INTEGER);
CREATE TABLE pages (page_id INTEGER PRIMARY KEY, document INTEGER NOT NULL, number INTEGER NOT NULL);
CREATE TABLE figures (
    document INTEGER NOT NULL, place INTEGER NOT NULL, page_id INTEGER, PRIMARY KEY (document, place)
) WITHOUT ROWID;
INSERT INTO ids
WITH found (paper, last_day, arxiv_id, corpus_id, other) AS (
    SELECT p.id, p.last_day, {id_columns("p")} FROM catalogue.papers AS p ORDER BY p.id
) SELECT paper, coalesce('arXiv:' || arxiv_id, 'CorpusId:' || corpus_id, other), last_day FROM found;
CREATE INDEX ids_by_id ON ids (paper_id);
INSERT INTO pages (document, number) SELECT document, number FROM texts.pages ORDER BY document, number;
CREATE UNIQUE INDEX pages_by_number ON pages (document, number);
INSERT INTO figures SELECT f.document, f.place, k.page_id FROM texts.figures AS f
    JOIN texts.documents AS d ON d.id = f.document
    LEFT JOIN main.pages AS k ON k.number = f.page AND k.document = iif(d.source = 'pdf', d.id, (
        SELECT min(p.id) FROM texts.documents AS p WHERE p.paper = d.paper AND p.source = 'pdf'
            AND coalesce(p.version, d.version, 0) = coalesce(d.version, p.version, 0)
    ));
CREATE INDEX figures_by_page ON figures (page_id);
"""
"""The keys of the views: a temporary database with every paper's canonical id, and the numbers of pages.

A view's ``paper_id`` is computed from several columns of the catalogue, so no index of the catalogue finds one. This
file has them with an index, and makes joins by paper and page take a tenth of a millisecond. It is written before the
first SQL statement on an open library: 3 s and 64 MB for a million papers and 20,000 documents of ten pages.
"""
_HIDDEN: Final = frozenset({"document_text", "regexp", *(name.partition("(")[0] for name in views.FUNCTIONS)})


class SqlRunner:
    """The processes of an open library, and the keys of its views, which are made before the first statement.

    The settings decide how many statements run at once, how long, and where the keys are written.
    """

    def __init__(self, opened: Opened, lookup: Lookup) -> None:
        self._lookup = lookup
        self._seconds = opened.settings.timeout
        self._catalogue = opened.path / catalog.FILE_NAME
        self._texts = opened.path / schema.FILE_NAME
        self._snapshot = opened.snapshot
        self._temporary = opened.settings.runtime_dir
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files: dict[str, str] | None = None
        self._lock = threading.Lock()
        self._workers = Workers(max(1, opened.settings.readers // 4), self._paths, self._check)

    def run(self, request: SqlBody) -> SqlResponse:
        """Run a statement. Raises as ``sql``."""
        start = perf_counter()
        seconds = self._seconds if request.timeout is None else request.timeout
        day = self._lookup.day(request.as_of)
        self._paths()
        answer = self._workers.run({"query": request.query, "limit": request.limit, "day": day}, seconds)
        stages().append(("sql", start, perf_counter()))
        return SqlResponse(
            self._snapshot,
            tuple(answer["columns"]),
            tuple(map(tuple, answer["rows"])),
            answer["truncated"],
            len(answer["rows"]),
            tuple(answer["warnings"]),
        )

    def schema(self) -> dict[str, Any]:
        """The views, functions and limits of SQL statements, for a model to read."""
        return {
            "snapshot": self._snapshot,
            "dialect": "SQLite",
            "description": "One SELECT, WITH ... SELECT or VALUES. LIKE ignores the case of ASCII letters. Texts "
            "are in single quotes, names in double quotes. JSON lists are read with json_each(list) or list ->> 0.",
            "views": list(views.described()),
            "functions": {"own": views.FUNCTIONS, "sqlite": sorted(FUNCTIONS - _HIDDEN)},
            "limits": {
                "seconds": self._seconds,
                "rows": MAX_ROWS,
                "default_rows": DEFAULT_ROWS,
                "bytes": RESPONSE_BYTES,
                "value_characters": CELL_CHARACTERS,
                "value_bytes": VALUE_BYTES,
            },
            "examples": list(views.EXAMPLES),
        }

    def close(self) -> None:
        """End the processes, and remove the keys. A second call does nothing."""
        self._workers.close()
        with self._lock:
            if self._folder is not None:
                self._folder.cleanup()

    def _check(self, snapshot: str) -> None:
        if snapshot != self._snapshot:
            raise LibraryCorrupt(
                f"{self._catalogue} was replaced by that of another library while it is open: open the library again."
            )

    def _paths(self) -> dict[str, str]:
        """The files of a process. The first call makes the keys, also beyond its time limit.

        Raises:
            TimeLimit, Cancelled: the deadline ended while another call made them.
            StorageError: they cannot be written.
        """
        check(*_PREPARING)
        with turn(self._lock):
            if self._files is None:
                try:
                    self._folder = tempfile.TemporaryDirectory(prefix="scholarbase-sql-", dir=self._temporary)
                    keys, texts = build_keys(self._catalogue, self._texts, Path(self._folder.name))
                except (OSError, sqlite3.Error) as error:
                    raise StorageError(
                        f"The views for SQL cannot be prepared ({error}): free some disk space, and retry."
                    ) from error
                self._files = {"catalogue": str(self._catalogue), "texts": str(texts), "keys": str(keys)}
            return self._files


def build_keys(catalogue: Path, texts: Path, folder: Path) -> tuple[Path, Path]:
    """Write the keys into an empty folder.

    Returns:
        The file with the keys, and that with the full texts: an empty one in ``folder`` for a library without.
    """
    keys = folder / "keys.sqlite"
    if not texts.is_file():
        texts = folder / schema.FILE_NAME
        schema.open_for_building(texts).close()
    with closing(open_for_writing(keys)) as connection:
        attach_immutable(connection, catalogue, "catalogue")
        attach_immutable(connection, texts, "texts")
        connection.executescript(_CREATE)
    return keys, texts
