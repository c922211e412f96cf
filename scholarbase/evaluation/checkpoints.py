"""Checkpoint of an unfinished run: a folder beside the run's folder, to which results are appended query by query.

    manifest.json    the manifest of the run, and the hash of its queries
    results.jsonl    one line for each finished query, in the order in which they finished

A killed process leaves at most one incomplete line, the last; it is removed, and its query searched again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import orjson

from scholarbase.errors import EvaluationError, InvalidRequest, RunDamaged, RunExists
from scholarbase.evaluation.runs import MANIFEST
from scholarbase.files import atomic_write, locked_folder, storage_errors, temporary_files
from scholarbase.models.queries import sha256_of
from scholarbase.models.runs import JudgedQuery, RankedId, RunManifest

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
        self.path: Final = folder.with_name(f".{folder.name}.partial")
        self.done: dict[str, QueryResult] = {}
        """The finished queries, by id."""
        self._results = -1
        self._ids: dict[str, str] = {}
        busy = EvaluationError(
            f"Another process is making the run at {self.folder}: wait for it, or stop it."
        )
        self._stack = ExitStack()
        self._stack.enter_context(locked_folder(self.path, busy))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if not any(self.path.iterdir()):
                self.path.rmdir()

    def open(self, manifest: RunManifest, queries: Sequence[JudgedQuery]) -> None:
        """Read the finished queries of this run, and open the file of results.

        Raises:
            RunExists: the checkpoint is of another run.
            RunDamaged: the checkpoint cannot be read.
            StorageError: the checkpoint cannot be written.
        """
        about = self.path / MANIFEST
        facts = {"identity": manifest.identity, "judged": sha256_of(queries)}
        if (stored := self._stored()) is not None:
            if any(stored[name] != value for name, value in facts.items()):
                raise RunExists(
                    f"{self.folder} has an unfinished run of other settings, queries or another snapshot "
                    f"({stored['manifest']['command']}): finish it, give another name or folder, or start again "
                    "with --restart."
                )
            self._read({query.id for query in queries})
        else:
            self.clear()
            with storage_errors(about), atomic_write(about) as file:
                file.write(orjson.dumps(facts | {"manifest": asdict(manifest)}))
        with storage_errors(self.path / RESULTS):
            self._results = os.open(
                self.path / RESULTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644
            )
        self._stack.callback(os.close, self._results)

    def _stored(self) -> dict[str, Any] | None:
        about = self.path / MANIFEST
        try:
            stored = orjson.loads(about.read_bytes())
            _ = stored["identity"], stored["judged"], stored["manifest"]["command"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunDamaged(
                f"{about} is not the manifest of an unfinished run ({error}): start again with --restart."
            ) from error
        else:
            return dict(stored)

    def _read(self, known: set[str]) -> None:
        path = self.path / RESULTS
        if not path.is_file():
            return
        whole = 0
        with path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._add(line, known)
                whole += len(line)
        with storage_errors(path):
            os.truncate(path, whole)

    def _add(self, line: bytes, known: set[str]) -> None:
        try:
            row = orjson.loads(line)
            ids, scores = row["ids"], row["scores"]
            ranking = tuple(RankedId(self.intern(i), s) for i, s in zip(ids, scores, strict=True))
            result = QueryResult(row["id"], ranking, row["seconds"])
            if result.query_id not in known or result.query_id in self.done:
                raise ValueError(f"query {result.query_id!r} is not expected here")
        except (ValueError, KeyError, TypeError) as error:
            raise RunDamaged(
                f"{self.path / RESULTS} has a line that cannot be read ({error}): start again with --restart."
            ) from error
        self.done[result.query_id] = result

    def intern(self, paper_id: str) -> str:
        """The same id as one object in memory: a paper is found for many queries."""
        return self._ids.setdefault(paper_id, paper_id)

    def append(self, results: Sequence[QueryResult]) -> None:
        """Store results. Raises StorageError: they cannot be written; earlier results are kept."""
        lines = b"".join(
            orjson.dumps(
                {
                    "id": result.query_id,
                    "ids": [ranked.id for ranked in result.ranking],
                    "scores": [ranked.score for ranked in result.ranking],
                    "seconds": result.seconds,
                },
                option=orjson.OPT_APPEND_NEWLINE,
            )
            for result in results
        )
        with storage_errors(self.path / RESULTS):
            whole = os.fstat(self._results).st_size
            try:
                while lines:
                    lines = lines[os.write(self._results, lines) :]
            except OSError:
                # Remove the partly written line, so that later lines do not follow it.
                os.ftruncate(self._results, whole)
                raise
        self.done |= {result.query_id: result for result in results}

    def clear(self) -> None:
        """Remove all results."""
        self.done = {}
        manifest = self.path / MANIFEST
        with storage_errors(self.path):
            # The manifest last: results without a manifest are discarded.
            for path in (self.path / RESULTS, *temporary_files(manifest), manifest):
                path.unlink(missing_ok=True)
