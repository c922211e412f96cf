"""Checkpoint of an unfinished run: a file in a folder beside the run's folder.

Its first line identifies the run; the others have a finished query each, in the order in which they finished. A killed
process leaves at most one incomplete line, the last; it is removed, and its query searched again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import orjson

from scholarbase.errors import EvaluationError, InvalidRequest, RunDamaged, RunExists
from scholarbase.files import locked_folder, storage_errors
from scholarbase_research.evaluation.queries import sha256_of
from scholarbase_research.evaluation.run_data import JudgedQuery, RankedId, RunManifest

RESULTS: Final = "results.jsonl"


class QueryResult(NamedTuple):
    """A query's ranking, best first, and the seconds of its search."""

    query_id: str
    ranking: tuple[RankedId, ...]
    seconds: float


class Checkpoint:
    """The checkpoint of the run at ``folder``, locked by this process until the ``with`` block ends.

    The results stay for the next attempt, unless :meth:`clear` is called once the run is written.

    Raises:
        InvalidRequest: the folder has no name.
        EvaluationError: another process holds the lock.
        StorageError: the checkpoint's folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        if folder.name in ("", ".."):
            raise InvalidRequest(
                f"{str(folder)!r} has no name of its own: give a named folder for the run, such as runs/sparse."
            )
        self.folder = folder
        self.path: Final = folder.with_name(f".{folder.name}.partial") / RESULTS
        self.done: dict[str, QueryResult] = {}
        """The finished queries, by id."""
        self._size = 0
        self._ids: dict[str, str] = {}
        busy = EvaluationError(
            f"Another process is making the run at {self.folder}: wait for it, or stop it."
        )
        self._stack = ExitStack()
        self._stack.enter_context(locked_folder(self.path.parent, busy))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if not self.path.exists():
                self.path.parent.rmdir()

    def open(self, manifest: RunManifest, queries: Sequence[JudgedQuery]) -> None:
        """Read the finished queries of this run, or start the file of results.

        Raises:
            RunExists: the checkpoint is of another run.
            RunDamaged: the checkpoint cannot be read.
            StorageError: the checkpoint cannot be written.
        """
        facts = {"identity": manifest.identity, "judged": sha256_of(queries)}
        known = {query.id for query in queries}
        with storage_errors(self.path):
            self.path.touch()
            lines = self.path.read_bytes().splitlines(keepends=True)
        for line in lines:
            if not line.endswith(b"\n"):
                break
            try:
                row = orjson.loads(line)
                if self._size:
                    self._add(row, known)
                elif {name: row[name] for name in facts} != facts:
                    raise RunExists(
                        f"{self.folder} has an unfinished run of other settings, queries or another snapshot "
                        f"({row['command']}): finish it, give another name or folder, or start again with --restart."
                    )
            except (ValueError, KeyError, TypeError) as error:
                raise RunDamaged(
                    f"{self.path} has a line that cannot be read ({error}): start again with --restart."
                ) from error
            self._size += len(line)
        if not self._size:
            self._write([facts | {"command": manifest.command}])

    def _add(self, row: dict[str, Any], known: set[str]) -> None:
        scored = zip(row["ids"], row["scores"], strict=True)
        ranking = tuple(RankedId(self.intern(name), score) for name, score in scored)
        if row["id"] not in known or row["id"] in self.done:
            raise ValueError(f"query {row['id']!r} is not expected here")
        self.done[row["id"]] = QueryResult(row["id"], ranking, row["seconds"])

    def intern(self, paper_id: str) -> str:
        """The same id as one object in memory: a paper is found for many queries."""
        return self._ids.setdefault(paper_id, paper_id)

    def append(self, results: Sequence[QueryResult]) -> None:
        """Store results. Raises StorageError: they cannot be written; earlier results are kept."""
        self._write(
            [
                {
                    "id": result.query_id,
                    "ids": [ranked.id for ranked in result.ranking],
                    "scores": [ranked.score for ranked in result.ranking],
                    "seconds": result.seconds,
                }
                for result in results
            ]
        )
        self.done |= {result.query_id: result for result in results}

    def _write(self, rows: Sequence[dict[str, Any]]) -> None:
        lines = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
        with storage_errors(self.path), self.path.open("r+b") as file:
            # Overwrite a line that was written only in part.
            file.seek(self._size)
            file.truncate()
            file.write(lines)
        self._size += len(lines)

    def clear(self) -> None:
        """Remove all results."""
        self.done, self._size = {}, 0
        with storage_errors(self.path):
            self.path.unlink(missing_ok=True)
