"""A run that is not finished yet: a folder beside the run's own, to which every answered query is appended.

    manifest.json    the run that is being made, and the hash of what is asked
    results.jsonl    a line for every query that was answered, in the order of the answers

A process that is killed leaves at most one torn line, the last; it is thrown away and its query asked again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import orjson

from scholarbase.errors import EvaluationError, InvalidRequest, RunDamaged, RunExists
from scholarbase.evaluation.runs import MANIFEST
from scholarbase.files import atomic_write, storage_errors, temporary_files
from scholarbase.models.queries import sha256_of
from scholarbase.models.runs import JudgedQuery, RankedId, RunManifest

RESULTS: Final = "results.jsonl"
_ATTEMPTS: Final = 100
"""To lock a folder that the process before us may just be removing."""


class Found(NamedTuple):
    """What a search found for a query: its ranking, best first, and the seconds that it took."""

    query_id: str
    ranking: tuple[RankedId, ...]
    seconds: float


def _facts(manifest: RunManifest, queries: Sequence[JudgedQuery]) -> dict[str, str]:
    # The queries as they were resolved: what is asked, and what counts as right.
    return {"identity": manifest.identity, "judged": sha256_of(queries)}


def _same(stored: dict[str, Any], manifest: RunManifest, queries: Sequence[JudgedQuery]) -> bool:
    return all(stored[name] == value for name, value in _facts(manifest, queries).items())


class Partial:
    """The unfinished run of ``folder``, held by this process alone. Use it in a ``with``.

    Leaving the ``with`` keeps what is done for the next attempt; :meth:`clear` is for a run that is written.
    """

    def __init__(self, folder: Path) -> None:
        """Take hold of the unfinished run, or of the place for one.

        Raises:
            InvalidRequest: the folder has no name.
            EvaluationError: another process holds it.
            StorageError: the folder cannot be made.
        """
        if folder.name in ("", ".."):
            raise InvalidRequest(
                f"A run is a folder with a name of its own, and {str(folder)!r} has none: give one."
            )
        self.folder = folder
        self.path: Final = folder.with_name(f".{folder.name}.partial")
        self.done: dict[str, Found] = {}
        """What is done, by query."""
        self._results: int | None = None
        self._ids: dict[str, str] = {}
        with storage_errors(self.path):
            self._lock = self._locked()

    def _locked(self) -> int:
        for _ in range(_ATTEMPTS):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_ino == self.path.stat().st_ino:
                    return lock
            except FileNotFoundError:
                pass
            except BlockingIOError as error:
                os.close(lock)
                raise EvaluationError(
                    f"Another process is making the run at {self.folder}: wait for it, or stop it."
                ) from error
            os.close(lock)
        raise EvaluationError(
            f"{self.path} could not be locked in {_ATTEMPTS} attempts: another process makes and removes it."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._results is not None:
            os.close(self._results)
        # An empty place is no unfinished run.
        if not any(self.path.iterdir()):
            self.path.rmdir()
        os.close(self._lock)

    def open(self, manifest: RunManifest, queries: Sequence[JudgedQuery], *, restart: bool) -> None:
        """Read what is done of this run, and get ready to append to it. ``restart`` throws away what is there.

        Raises:
            RunExists: it is the unfinished run of something else.
            RunDamaged: what is done cannot be read.
            StorageError: the folder cannot be written.
        """
        about = self.path / MANIFEST
        if restart:
            self.clear()
        if (stored := self._stored()) is not None:
            if not _same(stored, manifest, queries):
                raise RunExists(
                    f"At {self.folder} stands the unfinished run of other settings, queries or another snapshot "
                    f"({stored['manifest']['command']}): finish that one, give another name or folder, or begin "
                    "again with --restart."
                )
            self._read({query.id for query in queries})
        else:
            self.clear()
            with storage_errors(about):
                facts = _facts(manifest, queries) | {"replace": restart, "manifest": asdict(manifest)}
                with atomic_write(about) as file:
                    file.write(orjson.dumps(facts))
        with storage_errors(self.path / RESULTS):
            self._results = os.open(
                self.path / RESULTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644
            )

    def holds(
        self, manifest: RunManifest, queries: Sequence[JudgedQuery], *, replacing: bool = False
    ) -> bool:
        """Whether the unfinished run of this identity stands here; ``replacing``: and was begun to replace another.

        Raises:
            RunDamaged: what stands here cannot be read.
        """
        stored = self._stored()
        return (
            stored is not None and _same(stored, manifest, queries) and (stored["replace"] or not replacing)
        )

    def _stored(self) -> dict[str, Any] | None:
        """What the unfinished run began with, None where there is none."""
        about = self.path / MANIFEST
        try:
            stored = orjson.loads(about.read_bytes())
            _ = stored["identity"], stored["judged"], stored["replace"], stored["manifest"]["command"]
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunDamaged(
                f"{about} is not what an unfinished run begins with ({error}): begin again with --restart."
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
                self._take(line, known)
                whole += len(line)
        with storage_errors(path):
            os.truncate(path, whole)

    def _take(self, line: bytes, known: set[str]) -> None:
        try:
            row = orjson.loads(line)
            ids, scores = row["ids"], row["scores"]
            ranking = tuple(RankedId(self.shared(i), s) for i, s in zip(ids, scores, strict=True))
            found = Found(row["id"], ranking, row["seconds"])
            if found.query_id not in known or found.query_id in self.done:
                raise ValueError(f"query {found.query_id!r} is not expected here")
        except (ValueError, KeyError, TypeError) as error:
            raise RunDamaged(
                f"{self.path / RESULTS} holds a line that cannot be read ({error}): begin again with --restart."
            ) from error
        self.done[found.query_id] = found

    def shared(self, paper_id: str) -> str:
        """The id, each text once in memory: a paper is found for many queries."""
        return self._ids.setdefault(paper_id, paper_id)

    def append(self, answered: Sequence[Found]) -> None:
        """Keep what was found. Raises StorageError: it cannot be written; what was kept before still is."""
        assert self._results is not None, "open comes first"
        lines = b"".join(
            orjson.dumps(
                {
                    "id": found.query_id,
                    "ids": [result.id for result in found.ranking],
                    "scores": [result.score for result in found.ranking],
                    "seconds": found.seconds,
                },
                option=orjson.OPT_APPEND_NEWLINE,
            )
            for found in answered
        )
        with storage_errors(self.path / RESULTS):
            whole = os.fstat(self._results).st_size
            try:
                while lines:
                    lines = lines[os.write(self._results, lines) :]
            except OSError:
                # The disk took a part of a line: what is kept after it must not be glued to it.
                os.ftruncate(self._results, whole)
                raise
        self.done |= {found.query_id: found for found in answered}

    def clear(self) -> None:
        """Throw away what is done."""
        self.done = {}
        about = self.path / MANIFEST
        with storage_errors(self.path):
            # The manifest goes last: results without one are thrown away, whatever they are.
            for path in (self.path / RESULTS, *temporary_files(about), about):
                path.unlink(missing_ok=True)
