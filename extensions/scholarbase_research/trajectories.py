"""Writes the trajectory of any agent, for ``scholarbase eval trajectory``. docs/trajectories.md describes the keys.

with TrajectoryWriter(path) as writer:
    writer.append("q1", "search_papers", ids, arguments={"q": "speculative decoding"})
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from scholarbase.errors import InvalidRequest, QueryFileError, RunExists
from scholarbase.files import storage_errors
from scholarbase_research.trajectory_lines import raw_call, read_trajectory


class TrajectoryWriter:
    """Writes a trajectory call by call, unbuffered, so that a killed process loses no earlier call. Thread-safe. Use it
    in a ``with`` block, or ``close`` it.

    Args:
        path: the file, in an existing folder.
        append: append to an existing file. Without it, an existing file is an error.
        snapshot, session: written to every line unless None.

    Raises:
        RunExists: the file exists, and ``append`` is off.
        QueryFileError: ``append`` is on, and the file cannot be read or its last line is incomplete.
    """

    def __init__(
        self, path: Path, *, append: bool = False, snapshot: str | None = None, session: str | None = None
    ) -> None:
        self._path = path
        self._common = {"snapshot": snapshot, "session": session}
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._canonical: dict[str, str] = {}
        if path.exists():
            if not append:
                raise RunExists(f"{path} already exists: give another file, or append to it by append=True.")
            self._read_existing()
        with storage_errors(path):
            self._file = path.open("ab", buffering=0)

    def _read_existing(self) -> None:
        if not self._path.stat().st_size:
            return
        for raw in read_trajectory(self._path):
            if raw.call is None:
                raise QueryFileError(
                    f"{raw.where} lacks call: only a file with call numbers can be appended to."
                )
            self._last[raw.query_id] = max(raw.call, self._last.get(raw.query_id, 0))
        with self._path.open("rb") as file:
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                raise QueryFileError(f"The last line of {self._path} is incomplete: remove or complete it.")

    def append(self, query_id: str, tool: str, ids: Sequence[str], **keys: Any) -> int:
        """Write one call, with the other keys of the format as arguments. ``time`` defaults to now.

        Returns: the call's number, for the ``parent`` of later calls.

        Raises:
            InvalidRequest: the call is invalid; nothing is written.
            StorageError: the file cannot be written; earlier calls are complete.
        """
        began = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._lock:
            number = self._last.get(query_id, 0) + 1
            fields = {
                "query_id": query_id,
                "call": number,
                "tool": tool,
                "ids": ids,
                "time": began,
                **keys,
                **self._common,
            }
            line = {key: _as_json(value) for key, value in fields.items() if value is not None}
            raw_call(line, "the call", self._canonical)
            parent = line.get("parent")
            if parent is not None and parent >= number:
                raise InvalidRequest(
                    f"parent is {parent}, and this is call {number}: give the number of an earlier call."
                )
            try:
                written = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
            except TypeError as failure:
                raise InvalidRequest(f"arguments cannot be written as JSON: {failure}.") from failure
            self._write(written)
            self._last[query_id] = number
        return number

    def _write(self, line: bytes) -> None:
        with storage_errors(self._path):
            whole = os.fstat(self._file.fileno()).st_size
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError:
                # A partly written line would make the file unreadable.
                self._file.truncate(whole)
                raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _as_json(value: Any) -> Any:
    """A value with the types of JSON, for tuples and other mappings."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value
