"""A build in partitions: worker processes encode, index and hash the papers of one range of numbers each.

A paper's number is computed from its ids (:mod:`.numbering`), and what belongs to a paper alone is made with it: its
text, vectors and payload. Merging records, citations and the index of authors need all papers, so one process does that
and writes the one catalogue, where an edge is stored once and found from both of its ends. At the end the segments of
all partitions are moved into one shard, and their sums added.
"""

from __future__ import annotations

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
from scholarbase.indexes.vectors.edge import segment_points
from scholarbase.indexes.vectors.space import check_space, required_bytes
from scholarbase.ingest import partition as worker
from scholarbase.ingest.checkpoint import Checkpoint, Range
from scholarbase.ingest.folder import BuildFolder
from scholarbase.ingest.messages import ShownStages
from scholarbase.ingest.partition import Partition, Task
from scholarbase.memory import cores, physical_memory
from scholarbase.progress import Reporter
from scholarbase.workers import pays_off, run_workers

MOST: Final = 256
_KEY: Final = "partitions"
WORKER_BYTES: Final = 350 << 20
"""Memory of a worker besides the segment that it builds."""


def check_number(partitions: int) -> None:
    """Raises InvalidRequest: a number of partitions that no build can have."""
    if not 1 <= partitions <= MOST:
        raise InvalidRequest(f"--partitions is {partitions}: it must be a number from 1 to {MOST}.")


def check_memory(partitions: int, papers: int, config: VectorConfig) -> None:
    """Raises OutOfMemory: the machine has less memory than workers need that build a segment each at the same time."""
    if partitions == 1:  # which is needed anyway
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
        self._all = [
            Partition(folder.partitions / f"{number:03d}", Range(*ends)) for number, ends in enumerate(ranges)
        ]

    @classmethod
    def divide(
        cls, folder: BuildFolder, checkpoint: Checkpoint, db: sqlite3.Connection, number: int
    ) -> Partitions:
        """Divide the papers of a catalogue into ranges of equal size, and record them. A build that is continued keeps
        those that it has.

        Raises:
            InvalidRequest: there are fewer papers than partitions.
        """
        ranges = checkpoint.get(_KEY)
        if ranges is None:
            ranges = _ranges(db, number)
            with checkpoint.transaction():
                checkpoint.set(_KEY, ranges)
        return cls(folder, ranges)

    def need_processes(self, papers: int) -> bool:
        """Whether workers make the partitions, and not this process."""
        return len(self._all) > 1 or pays_off(papers)

    def make(
        self,
        papers: int,
        config: VectorConfig,
        bm25: Bm25Parameters,
        dense: Path | None,
        encoder: tuple[Path, str | None] | None,
        number: int,
        reporter: Reporter,
    ) -> None:
        """Make the partitions that are not complete, ``number`` at a time, and join them.

        Args:
            papers: the papers of all partitions.
            dense: the folder of vectors encoded before.
            encoder: the folder and fingerprint of a static encoder, with which each worker encodes its papers.

        Raises:
            StorageError: there is not enough disk space.
            ScholarBaseError: the error of a worker.
        """
        missing = [place for place, each in enumerate(self._all) if each.result() is None]
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
                tokenizer=cores() >= 2 * min(number, len(self._all)),
            )
            for each in (self._all[place] for place in missing)
        ]
        # Each worker checks the space for its own papers alone.
        check_space(self._folder.path, required_bytes(config, papers * len(missing) // len(self._all)))
        if not self.need_processes(papers):
            for task in tasks:
                worker.make(task, reporter)
        else:
            for start in range(0, len(tasks), number):
                self._run(tasks[start : start + number], missing[start : start + number], reporter)
        self._join()

    def _run(self, tasks: Sequence[Task], places: Sequence[int], reporter: Reporter) -> None:
        """Run a worker for each task, which makes the partition at one of ``places``."""
        total = len(self._all)
        with ExitStack() as stack:
            shown = [
                ShownStages(
                    stack.enter_context(ExitStack()), reporter, f"{place + 1}/{total}" if total > 1 else ""
                )
                for place in places
            ]
            run_workers(
                worker.__name__,
                [asdict(task) for task in tasks],
                lambda number, message: shown[number].receive(message),
                what="a partition",
            )

    def _join(self) -> None:
        """Make the first shard that of all partitions, with the segments of the others. After a kill, another call
        moves the rest."""
        first, *others = self._all
        if not self._folder.vectors.exists():
            first.shard.replace(self._folder.vectors)
        target = self._folder.vectors / "segments"
        for each in others:
            for segment in sorted((each.shard / "segments").iterdir()):
                if _has_points(segment):
                    segment.replace(target / segment.name)
        sync_folder(target)

    def sums(self, points: int, papers: int) -> dict[str, int]:
        """The sums of the vectors of all partitions, which have so many ``points``.

        Raises:
            VectorIndexError: they have not one for each paper.
        """
        if points != papers:
            raise VectorIndexError(
                f"The partitions have {points:,} points, and the library has {papers:,} papers: run the same "
                "command with --restart, and report this."
            )
        found = [each.result() or {} for each in self._all]
        return {name: combined(*(sums[name] for sums in found)) for name in found[0]}

    def count(self, counter: FrequencyCounter) -> None:
        """Add the document frequencies of all partitions."""
        for each in self._all:
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


def _has_points(segment: Path) -> bool:
    """Whether a segment has points, whose ids it then lists. Qdrant keeps an empty one for the next points."""
    return any(segment.glob("*id_tracker.mappings"))
