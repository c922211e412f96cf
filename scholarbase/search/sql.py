"""SQL statements of a library, which an extension runs."""

from __future__ import annotations

from threading import Lock
from typing import Any, Protocol

from scholarbase.errors import ExtensionError
from scholarbase.extensions import added_list, missing
from scholarbase.models.sql import SqlBody, SqlResponse
from scholarbase.search.lookup import Lookup
from scholarbase.search.opening import Opened


class SqlRunner(Protocol):
    """Runs the SQL statements of an open library. Thread-safe."""

    def run(self, request: SqlBody) -> SqlResponse:
        """Run a statement. Raises as ``Library.sql``."""
        ...

    def schema(self) -> dict[str, Any]:
        """The views, functions and limits of SQL statements, for a model to read."""
        ...

    def close(self) -> None:
        """End its processes. A second call does nothing."""
        ...


class Statements:
    """The runner of an open library, which an extension opens with the first statement."""

    def __init__(self, opened: Opened, lookup: Lookup) -> None:
        self._opened = opened
        self._lookup = lookup
        self._lock = Lock()
        self._runner: SqlRunner | None = None

    def runner(self) -> SqlRunner:
        """The runner. Raises ExtensionError: no extension runs SQL."""
        with self._lock:
            if self._runner is None:
                if not (runners := added_list("sql_runners")):
                    raise ExtensionError(f"SQL statements cannot be run: {missing('sql')}.")
                self._runner = runners[0](self._opened, self._lookup)
            return self._runner

    def close(self) -> None:
        """Close the runner. A second call does nothing."""
        if self._runner is not None:
            self._runner.close()
