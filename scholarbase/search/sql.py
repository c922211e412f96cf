"""SQL statements of a library: one SELECT over documented views, in a process of its own.

A process, since SQLite has no limit that stops every statement: ``sqlite3_interrupt`` works between the steps of its
virtual machine, and not inside ``replace`` or a regular expression, ``hard_heap_limit`` holds for all connections of a
process, and Python's own functions take memory that SQLite does not count. A process can be killed at any point.
"""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from scholarbase.deadlines import check
from scholarbase.documents import schema
from scholarbase.errors import LibraryCorrupt, ScholarBaseError, StorageError
from scholarbase.indexes import catalog
from scholarbase.models.sql import DEFAULT_ROWS, MAX_ROWS, SqlBody, SqlResponse
from scholarbase.search import sql_keys, sql_views
from scholarbase.search.lookup import Lookup
from scholarbase.search.sql_processes import Workers
from scholarbase.search.sql_worker import CELL_CHARACTERS, FUNCTIONS, RESPONSE_BYTES, VALUE_BYTES
from scholarbase.settings import Settings
from scholarbase.timing import stages

_POLL_SECONDS: Final = 0.02
_PREPARING: Final = ("Preparing the views", "send the statement again in a moment")


_HIDDEN: Final = frozenset(
    {"document_text", "regexp", *(name.partition("(")[0] for name in sql_views.FUNCTIONS)}
)


class SqlRunner:
    """The processes of an open library, and the keys of its views, which are made before the first statement.

    Args:
        path: the library.
        snapshot: its snapshot id.
        lookup: reads the dates of requests.
        settings: decide how many statements run at once, how long, and where the keys are written.
    """

    def __init__(self, path: Path, snapshot: str, lookup: Lookup, settings: Settings) -> None:
        self._lookup = lookup
        self._seconds = settings.timeout
        self._catalogue = path / catalog.FILE_NAME
        self._texts = path / schema.FILE_NAME
        self._snapshot = snapshot
        self._temporary = settings.runtime_dir
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._prepared: Future[dict[str, str]] | None = None
        self._lock = threading.Lock()
        self._workers = Workers(max(1, settings.readers // 4), self._paths, self._check)

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
            "views": list(sql_views.described()),
            "functions": {"own": sql_views.FUNCTIONS, "sqlite": sorted(FUNCTIONS - _HIDDEN)},
            "limits": {
                "seconds": self._seconds,
                "rows": MAX_ROWS,
                "default_rows": DEFAULT_ROWS,
                "bytes": RESPONSE_BYTES,
                "value_characters": CELL_CHARACTERS,
                "value_bytes": VALUE_BYTES,
            },
            "examples": list(sql_views.EXAMPLES),
        }

    def close(self) -> None:
        """End the processes, and remove the keys. A second call does nothing."""
        self._workers.close()
        with self._lock:
            folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    def _check(self, snapshot: str) -> None:
        if snapshot != self._snapshot:
            raise LibraryCorrupt(
                f"{self._catalogue} was replaced by that of another library while it is open: open the library again."
            )

    def _paths(self) -> dict[str, str]:
        """The files of a process, once the keys are there.

        Raises:
            TimeLimit, Cancelled: the deadline ended before. The keys are made all the same.
            StorageError: they cannot be written.
        """
        with self._lock:
            if self._prepared is None or (self._prepared.done() and self._prepared.exception() is not None):
                self._prepared = Future()
                prepare = partial(self._prepare, self._prepared)
                threading.Thread(target=prepare, name="sql-keys", daemon=True).start()
            prepared = self._prepared
        while True:
            try:
                return prepared.result(_POLL_SECONDS)
            except FutureTimeoutError:
                check(*_PREPARING)

    def _prepare(self, prepared: Future[dict[str, str]]) -> None:
        try:
            folder = tempfile.TemporaryDirectory(prefix="scholarbase-sql-", dir=self._temporary)
            with self._lock:
                self._folder = folder
            keys, texts = sql_keys.build(self._catalogue, self._texts, Path(folder.name))
        except ScholarBaseError as error:
            prepared.set_exception(error)
        except Exception as error:
            prepared.set_exception(
                StorageError(
                    f"The views for SQL cannot be prepared ({error}): free some disk space, and retry."
                )
            )
        else:
            prepared.set_result({"catalogue": str(self._catalogue), "texts": str(texts), "keys": str(keys)})
