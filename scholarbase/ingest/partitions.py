"""A build in partitions: worker processes encode, index and hash the papers of one range of numbers each.

A paper's number is computed from its ids (:mod:`.numbering`), and what belongs to a paper alone is made with it: its
text, vectors and payload. Merging records, citations and the index of authors need all papers, so one process does that
and writes the one catalogue, where an edge is stored once and found from both of its ends. At the end the segments of
all partitions are moved into one shard, and their sums added.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Final

from scholarbase.errors import InvalidRequest, OutOfMemory, VectorIndexError
from scholarbase.files import sync_folder
from scholarbase.indexes.content_hash import combined
from scholarbase.indexes.frequencies import FrequencyCounter
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.bm25 import Bm25Parameters
from scholarbase.indexes.vectors.edge import EdgeWriter, segment_points
from scholarbase.indexes.vectors.space import check_space, required_bytes
from scholarbase.ingest import partition as worker
from scholarbase.ingest.checkpoint import Checkpoint, Range
from scholarbase.ingest.folder import BuildFolder
from scholarbase.ingest.messages import ShownStages
from scholarbase.ingest.partition import Partition, Task
from scholarbase.memory import cores, physical_memory
from scholarbase.progress import Reporter
from scholarbase.workers import run_workers

MOST: Final = 256
FOLDER: Final = "partitions"
WORKER_BYTES: Final = 350 << 20
"""Memory of a worker besides the segment that it builds."""
_KEY: Final = "partitions"


def check_number(partitions: int) -> None:
    """Raises InvalidRequest: a number of partitions that no build can have."""
    if not 1 <= partitions <= MOST:
        raise InvalidRequest(f"--partitions is {partitions}: it must be a number from 1 to {MOST}.")


def check_memory(partitions: int, papers: int, config: VectorConfig) -> None:
    """Raises OutOfMemory: the machine has less memory than workers need that build a segment each at the same time."""
    if partitions == 1:
        return
    most = physical_memory()
    # Qdrant maps the points and the segment, whose pages the system may write out.
    each = WORKER_BYTES + required_bytes(config, min(-(-papers // partitions), segment_points(config)))
    if partitions * each > most:
        fitting = max(1, most // each)
        raise OutOfMemory(
            f"--partitions {partitions} needs about {partitions * each / 1e9:,.1f} GB of memory, and the machine has "
            f"{most / 1e9:,.1f} GB: give {fitting} or fewer."
        )


class Partitions:
    """The partitions of a build, in order."""

    def __init__(self, folder: BuildFolder, ranges: Sequence[Sequence[int]]) -> None:
        self._folder = folder
        self.all = [
            Partition(folder.path / FOLDER / f"{number:03d}", Range(*ends))
            for number, ends in enumerate(ranges)
        ]

    @classmethod
    def stored(cls, folder: BuildFolder, checkpoint: Checkpoint) -> Partitions | None:
        """Those that a build recorded; None if it has none."""
        ranges = checkpoint.get(_KEY)
        return cls(folder, ranges) if ranges else None

    @classmethod
    def divide(
        cls, folder: BuildFolder, checkpoint: Checkpoint, db: sqlite3.Connection, number: int
    ) -> Partitions:
        """Divide the papers of a catalogue into ranges of equal size, and record them.

        What was made with other partitions, or without, is deleted.

        Raises:
            InvalidRequest: there are fewer papers than partitions.
        """
        ranges = _ranges(db, number)
        before = cls.stored(folder, checkpoint)
        if before is not None and [list(each.among) for each in before.all] == ranges:
            return before
        _forget(folder, checkpoint, before, ranges)
        return cls(folder, ranges)

    @classmethod
    def none(cls, folder: BuildFolder, checkpoint: Checkpoint) -> None:
        """Continue a build without the partitions that it had, if it had any."""
        if (before := cls.stored(folder, checkpoint)) is not None:
            _forget(folder, checkpoint, before, [])

    def make(
        self,
        papers: int,
        config: VectorConfig,
        bm25: Bm25Parameters,
        dense: Path | None,
        encoder: tuple[Path, str | None] | None,
        reporter: Reporter,
    ) -> None:
        """Make the partitions that are not complete, each in a process, and join them.

        Args:
            papers: the papers of all partitions.
            dense: the folder of vectors encoded before.
            encoder: the folder and fingerprint of a static encoder, with which each worker encodes its papers.

        Raises:
            StorageError: there is not enough disk space.
            ScholarBaseError: the error of a worker.
        """
        missing = [(number, each) for number, each in enumerate(self.all, 1) if each.result() is None]
        tasks = [
            Task(
                library=str(self._folder.library),
                catalog=str(self._folder.catalog),
                path=str(each.path),
                first=each.among.first,
                last=each.among.last,
                config=config.to_dict(),
                bm25=bm25.to_dict(),
                dense=None if dense is None else str(dense),
                encoder=None if encoder is None else str(encoder[0]),
                fingerprint=None if encoder is None else encoder[1],
                tokenizer=cores() >= 2 * len(self.all),
            )
            for _, each in missing
        ]
        # Each worker checks the space for its own papers alone.
        check_space(self._folder.path, required_bytes(config, papers * len(missing) // len(self.all)))
        with ExitStack() as stack:
            shown = [
                ShownStages(stack.enter_context(ExitStack()), reporter, f"{number}/{len(self.all)}")
                for number, _ in missing
            ]
            run_workers(
                worker.__name__,
                [asdict(task) for task in tasks],
                lambda number, message: shown[number].receive(message),
                what="a partition",
            )
        self._join(config)

    def _join(self, config: VectorConfig) -> None:
        """Move the segments of all partitions into one shard. After a kill, another call moves the others."""
        EdgeWriter.open(self._folder.vectors, config).close()
        target = self._folder.vectors / "segments"
        for each in self.all:
            for segment in sorted((each.shard / "segments").iterdir()):
                if _has_points(segment):
                    segment.replace(target / segment.name)
        sync_folder(target)

    def check(self, points: int, papers: int) -> None:
        """Raises VectorIndexError: the joined shard lacks points."""
        if points != papers:
            raise VectorIndexError(
                f"The partitions have {points:,} points, and the library has {papers:,} papers: run the same "
                "command with --restart, and report this."
            )

    def sums(self) -> dict[str, int]:
        """The sums of the vectors of all partitions."""
        found = [each.result() or {} for each in self.all]
        return {name: combined(*(sums[name] for sums in found)) for name in found[0]}

    def count(self, counter: FrequencyCounter) -> None:
        """Add the document frequencies of all partitions."""
        for each in self.all:
            counter.merge(each.terms)


def _ranges(db: sqlite3.Connection, number: int) -> list[list[int]]:
    """Ranges of papers with equal counts, give or take one. The first begins at 1, and the last has no end."""
    papers = db.execute("SELECT count(*) FROM papers").fetchone()[0]
    if number > papers:
        raise InvalidRequest(
            f"--partitions is {number}, and the library has {papers:,} papers: give {papers:,} or fewer."
        )
    starts = [
        db.execute(
            "SELECT id FROM papers ORDER BY id LIMIT 1 OFFSET ?", (papers * place // number,)
        ).fetchone()[0]
        for place in range(1, number)
    ]
    return [[first, end - 1] for first, end in zip([1, *starts], [*starts, 2**63], strict=True)]


def _forget(
    folder: BuildFolder, checkpoint: Checkpoint, before: Partitions | None, ranges: list[list[int]]
) -> None:
    for each in before.all if before else []:
        with each.locked():
            shutil.rmtree(each.path)
    shutil.rmtree(folder.path / FOLDER, ignore_errors=True)
    shutil.rmtree(folder.vectors, ignore_errors=True)
    with checkpoint.transaction():
        checkpoint.set(_KEY, ranges)
        checkpoint.set("vectors", 0)


def _has_points(segment: Path) -> bool:
    """Whether a segment has points, whose ids it then lists. Qdrant keeps an empty one for the next points."""
    return any(segment.glob("*id_tracker.mappings"))
