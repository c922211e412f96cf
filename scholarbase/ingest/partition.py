"""One partition of a build, made by a worker process: the vectors of the papers with numbers in a range.

A partition has a folder of its own, with a shard, the vectors that it encodes, and a database with its progress, so
that a killed build continues in each partition where it was. The document frequencies of its papers are in sorted
files, which the build merges. ``result.json``, written last, has the sums of its vectors.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.databases import open_for_reading, open_for_writing
from scholarbase.files import atomic_write, locked
from scholarbase.indexes.content_hash import vector_sums
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.bm25 import Bm25Parameters
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.ingest.checkpoint import Checkpoint, Range
from scholarbase.ingest.dense import DenseLookup, DenseParts
from scholarbase.ingest.encoding import encode_with
from scholarbase.ingest.folder import VECTORS, build_errors
from scholarbase.ingest.messages import SentReporter
from scholarbase.ingest.vectors import index_vectors
from scholarbase.progress import Reporter
from scholarbase.workers import work

RESULT: Final = "result.json"
TERMS: Final = "terms"


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition in its folder. The folder of the build is above it."""

    path: Path
    among: Range

    @property
    def shard(self) -> Path:
        return self.path / VECTORS

    @property
    def terms(self) -> Path:
        """The files of document frequencies (:class:`.FrequencyCounter`)."""
        return self.path / TERMS

    def result(self) -> dict[str, int] | None:
        """The sums of its vectors, None before it is complete."""
        path = self.path / RESULT
        if not path.exists():
            return None
        return {name: int(total, 16) for name, total in orjson.loads(path.read_bytes()).items()}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder. This waits for a worker of a killed build."""
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path):
            yield


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker needs to make a partition.

    ``dense`` is a folder of vectors encoded before. ``encoder`` is the folder of a static encoder, with its
    ``fingerprint``, which encodes the papers here. ``tokenizer`` allows a subprocess for BM25 vectors.
    """

    library: str
    catalog: str
    path: str
    first: int
    last: int
    config: dict[str, Any]
    bm25: dict[str, Any]
    dense: str | None
    encoder: str | None
    fingerprint: str | None
    tokenizer: bool


def make(task: Task, reporter: Reporter) -> None:
    """Make a partition, or continue it.

    Raises:
        StorageError: the disk is full.
        VectorIndexError: the index cannot be written.
        EncoderMismatch: the encoder's files changed.
    """
    partition = Partition(Path(task.path), Range(task.first, task.last))
    with (
        build_errors(Path(task.library)),
        partition.locked(),
        closing(open_for_reading(Path(task.catalog))) as db,
        closing(open_for_writing(partition.path / "state.sqlite")) as own,
    ):
        checkpoint = Checkpoint(own)
        lookup = _lookup(task, partition, db, reporter)
        config = VectorConfig.from_dict(task.config)
        index_vectors(
            db, checkpoint, Path(task.catalog), partition.shard, config, Bm25Parameters.from_dict(task.bm25), lookup,
            reporter, partition.among, tokenizer=task.tokenizer,
        )  # fmt: skip
        shutil.rmtree(partition.terms, ignore_errors=True)
        partition.terms.mkdir()
        counter = FrequencyCounter(db, partition.terms)
        with (
            closing(EdgeIndex.open(partition.shard, view=False)) as index,
            reporter.stage("hash content", "papers", None) as tracker,
        ):
            sums = vector_sums(index, counter, tracker.advance)
        counter.save()
        with atomic_write(partition.path / RESULT) as file:
            file.write(orjson.dumps({name: f"{total:x}" for name, total in sums.items()}))


def _lookup(task: Task, partition: Partition, db: sqlite3.Connection, reporter: Reporter) -> DenseLookup:
    if task.dense is not None:
        return DenseParts(Path(task.dense)).open(partition.among)
    parts = DenseParts(partition.path / "dense")
    if task.encoder is not None:
        encode_with(task.encoder, task.fingerprint, db, parts, reporter, partition.among)
    return parts.open()


if __name__ == "__main__":
    work(lambda job, send: make(Task(**job), SentReporter(send)))
