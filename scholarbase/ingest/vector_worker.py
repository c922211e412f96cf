"""The workers that index and hash the papers' vectors, while the job indexes authors and full text.

Qdrant Edge holds Python's global lock while it converts points, so a thread would delay the others. Several shards are
divided among as many workers as there are cores. A small library is made in the job's own process.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.databases import open_for_reading, open_for_writing
from scholarbase.files import atomic_write, locked
from scholarbase.indexes.catalog import FILE_NAME as CATALOG
from scholarbase.indexes.content_hash import combined, vector_sums
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.bm25 import Bm25Parameters
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.indexes.vectors.shards import shard_folder, shard_folders
from scholarbase.ingest.checkpoint import Checkpoint, paper_counts
from scholarbase.ingest.dense import DenseParts
from scholarbase.ingest.folder import DENSE, VECTOR_WORK, VECTORS, BuildFolder, build_errors
from scholarbase.ingest.vectors import index_vectors
from scholarbase.memory import cores, rare_collections
from scholarbase.progress import Reporter, Tracker
from scholarbase.workers import Message, Send, Worker, pays_off, work

_SUMS: Final = "sums.json"
_TERMS: Final = "terms"


@dataclass(frozen=True, slots=True)
class Task:
    """The job of a worker: the folders of the library and of the build, the parameters of the index, the number of
    all shards and the numbers of those that it makes."""

    library: str
    folder: str
    config: dict[str, Any]
    bm25: dict[str, Any]
    shards: int = 1
    numbers: Sequence[int] = (0,)


class VectorWork:
    """The vectors of a build, and what is derived from them."""

    def __init__(self, folder: BuildFolder, shards: int) -> None:
        self._folder = folder
        self._shards = shards

    def sums(self) -> dict[str, int] | None:
        """The sums of the vectors, None before they are complete."""
        paths = [folder / _SUMS for folder in shard_folders(self._folder.vector_work, self._shards)]
        if not all(path.exists() for path in paths):
            return None
        parts = [orjson.loads(path.read_bytes()) for path in paths]
        return {name: combined(*(int(part[name], 16) for part in parts)) for name in parts[0]}

    @property
    def terms(self) -> Path:
        """A folder with the counted document frequencies of all shards (:class:`.FrequencyCounter`)."""
        return self._folder.vector_work

    def make(
        self,
        papers: int,
        config: VectorConfig,
        bm25: Bm25Parameters,
        reporter: Reporter,
    ) -> None:
        """Index the encoded papers, or continue.

        Raises:
            StorageError: the disk is full.
            VectorIndexError: the index cannot be written, or the worker ended early.
        """
        count = min(self._shards, cores()) if pays_off(papers) else 1
        tasks = [
            Task(
                str(self._folder.library),
                str(self._folder.path),
                config.to_dict(),
                bm25.to_dict(),
                self._shards,
                [*range(first, self._shards, count)],
            )
            for first in range(count)
        ]
        if not pays_off(papers):
            make(tasks[0], reporter)
            return
        # Workers are killed before the threads that read their messages are joined.
        with ThreadPoolExecutor(count) as threads, ExitStack() as stack:
            workers = [stack.enter_context(closing(Worker(__name__, asdict(task)))) for task in tasks]
            shown = [
                threads.submit(_show, worker.messages("the vector index"), reporter) for worker in workers
            ]
            wait(shown, return_when=FIRST_EXCEPTION)
            for future in shown:
                if future.done():
                    future.result()


def make(task: Task, reporter: Reporter) -> None:
    """Make the vectors of the shards, or continue them. Raises as :meth:`VectorWork.make`."""
    for number in task.numbers:
        if not (shard_folder(Path(task.folder) / VECTOR_WORK, number, task.shards) / _SUMS).exists():
            _make_shard(task, number, reporter)


def _make_shard(task: Task, number: int, reporter: Reporter) -> None:
    folder, shards = Path(task.folder), task.shards
    path = shard_folder(folder / VECTOR_WORK, number, shards)
    catalog, vectors = folder / CATALOG, folder / VECTORS
    path.mkdir(parents=True, exist_ok=True)
    with (
        build_errors(Path(task.library)),
        rare_collections(),
        locked(path),  # waits for a worker of a killed build
        closing(open_for_reading(catalog)) as db,
        closing(open_for_writing(path / "state.sqlite")) as state,
    ):
        config, bm25 = VectorConfig.from_dict(task.config), Bm25Parameters.from_dict(task.bm25)
        lookup = DenseParts(folder / DENSE).open()
        index_vectors(
            catalog, db, Checkpoint(state), vectors, config, bm25, lookup, reporter, number, shards,
        )  # fmt: skip
        shutil.rmtree(path / _TERMS, ignore_errors=True)
        (path / _TERMS).mkdir()
        counter = FrequencyCounter(db, path / _TERMS)
        with (
            closing(EdgeIndex.open(shard_folder(vectors, number, shards), view=False)) as index,
            reporter.stage("hash vectors", "papers", paper_counts(db, 0, number, shards)[0]) as tracker,
        ):
            sums = vector_sums(index, counter, tracker.advance)
        counter.save()
        with atomic_write(path / _SUMS) as file:
            file.write(orjson.dumps({name: f"{total:x}" for name, total in sums.items()}))


# -- progress -------------------------------------------------------------------------------------------


class _SentStages:
    """A reporter and tracker that send what they are called with as messages."""

    def __init__(self, send: Send) -> None:
        self._send = send

    @contextmanager
    def stage(self, name: str, unit: str | None, total: int | None, done: int = 0) -> Iterator[_SentStages]:
        self._send({"stage": [name, unit, total, done]})
        yield self
        self._send({"end": name})

    def advance(self, count: int) -> None:
        self._send({"advance": count})

    def at(self, done: int) -> None:
        self._send({"at": done})


def _show(messages: Iterable[Message], reporter: Reporter) -> None:
    """Show the stages of a worker, which may be nested."""
    stages: list[tuple[ExitStack, Tracker]] = []
    with ExitStack() as outer:
        for message, _ in messages:
            for name, value in message.items():
                if name == "stage":
                    stack = outer.enter_context(ExitStack())
                    stages.append((stack, stack.enter_context(reporter.stage(*value))))
                elif name == "end":
                    stages.pop()[0].close()
                else:
                    getattr(stages[-1][1], name)(value)


if __name__ == "__main__":
    work(lambda job, send: make(Task(**job), _SentStages(send)))
