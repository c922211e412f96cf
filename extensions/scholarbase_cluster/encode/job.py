"""``scholarbase encode``: the vectors of a snapshot's papers, as files for ``ingest --vectors``.

The papers are read as by an ingest, then encoded in partitions. A partition's file is its checkpoint: a killed job
continues with those that have none.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scholarbase.encoders import Encoder
from scholarbase.errors import InvalidRequest, LibraryBusy, LibraryExists
from scholarbase.extras import check_installed, require
from scholarbase.files import locked_folder, storage_errors, unhidden
from scholarbase.ingest.encoded import FILE_NAME, Encoding
from scholarbase.ingest.encoding import DOCUMENTS_PER_PART
from scholarbase.ingest.job import hash_files
from scholarbase.ingest.plans import IngestRules
from scholarbase.ingest.reading import FOLDER, read_texts
from scholarbase.ingest.sources import UNUSED, Columns, Dataset, discover
from scholarbase.models.limits import KeepRule
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_cluster.encode.partitions import PAPERS, Partition, PartitionEncoder, partitions

log = logging.getLogger("scholarbase.ingest")

Runner = Callable[[Path, Path, Sequence[Partition]], Iterator[Partition]]
"""Encodes partitions of a catalogue into files of a folder. Yields each when its file is written."""
MAX_PAPERS: Final = 1 << 20
"""Papers of the largest partition: a process has their texts and vectors in memory."""


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """How papers are encoded.

    ``keep`` and ``columns`` are those of the ingest that takes the vectors. ``papers`` is the size of a partition.
    """

    keep: KeepRule = "text"
    columns: Columns = field(default_factory=dict)
    papers: int = PAPERS
    max_reject_share: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.papers <= MAX_PAPERS or self.papers % DOCUMENTS_PER_PART:
            raise InvalidRequest(
                f"--papers {self.papers} is not a size of partitions: use a multiple of {DOCUMENTS_PER_PART} up to "
                f"{MAX_PAPERS:,}."
            )


def encode(
    sources: Sequence[str | Path],
    out: str | Path,
    encoder: Encoder,
    options: EncodeOptions | None = None,
    *,
    runner: Runner | None = None,
    restart: bool = False,
    reporter: Reporter | None = None,
) -> Encoding:
    """Encode the papers of source files or folders into the folder ``out``, or continue an unfinished call.

    Args:
        runner: encodes the partitions elsewhere, as :func:`.encode_on_ray`; by default this process does.
        restart: delete what the folder has of other sources, or of another encoder.

    Raises:
        InvalidRequest: the encoder has no dense vectors, or an option is invalid.
        LibraryExists: the folder has other files, or vectors of other sources or another encoder.
        LibraryBusy: another process writes to the folder.
        SourceError: a source cannot be read, or (SourceChanged) changed meanwhile.
        EncoderError: the encoder fails. Partitions that are finished are kept.
        StorageError: the disk is full, or the folder is not writable.
        MissingExtra: pyarrow is not installed.
    """
    check_installed("parquet", "Writing vectors")
    out, options, reporter = Path(out), options or EncodeOptions(), reporter or SilentReporter()
    if not encoder.spec.dimensions:
        raise InvalidRequest(
            f"The encoder {encoder.spec.name} has learned term weights only, and vectors computed elsewhere are dense: "
            "let the ingest encode the papers."
        )
    busy = LibraryBusy(f"Another process is writing vectors to {out}: wait until it ends, or stop it.")
    with locked_folder(out, busy), storage_errors(out):
        return _Job(out, encoder, options, runner, reporter).run(sources, restart=restart)


class _Job:
    def __init__(
        self, out: Path, encoder: Encoder, options: EncodeOptions, runner: Runner | None, reporter: Reporter
    ) -> None:
        self._out = out
        self._encoder = encoder
        self._options = options
        self._runner = runner or self._run_here
        self._reporter = reporter

    def run(self, sources: Sequence[str | Path], *, restart: bool) -> Encoding:
        files = [
            file
            for file in discover(sources, self._options.columns)
            if file.dataset not in UNUSED and file.dataset is not Dataset.CITATIONS
        ]
        facts = hash_files([(file.path, file.name, file.kind, file.size) for file in files], self._reporter)
        plan = Encoding(
            tuple(facts), self._options.keep, dict(self._options.columns), self._encoder.spec,
            self._encoder.spec.title_weight, self._options.papers, {},
        )  # fmt: skip
        if (finished := self._begin(plan, restart=restart)) is not None:
            return finished
        rules = IngestRules(
            keep=self._options.keep, records=False, max_reject_share=self._options.max_reject_share
        )
        catalog = read_texts(files, facts, self._options.columns, rules, self._out, self._reporter)
        every = list(partitions(catalog, self._options.papers))
        self._encode(catalog, every)
        done = plan.completed(self._counts(every))
        shutil.rmtree(self._out / FOLDER)
        done.write(self._out)
        return done

    def _begin(self, plan: Encoding, *, restart: bool) -> Encoding | None:
        """Prepare the folder. Returns the encoding that it has, if it is complete."""
        existing = Encoding.read(self._out)
        if existing is None and (others := unhidden(self._out)):
            raise LibraryExists(
                f"{self._out} is not empty and has no {FILE_NAME} (it contains {min(others)!r}): give --out an empty "
                "or a new folder."
            )
        if existing is not None and (difference := existing.difference(plan)):
            if not restart:
                raise LibraryExists(
                    f"{self._out} has vectors of other {difference}: give another --out, or --restart to replace them."
                )
            self._clear()
            existing = None
        for left in self._out.glob(".*.tmp"):  # of killed processes
            left.unlink(missing_ok=True)
        if existing is None:
            plan.write(self._out)
            return None
        if existing.is_whole(self._out):
            log.info("The vectors in %s are already complete.", self._out)
            return existing
        log.info("Continuing the unfinished vectors in %s.", self._out)
        return None

    def _clear(self) -> None:
        """Delete what earlier calls wrote, the record last."""
        shutil.rmtree(self._out / FOLDER, ignore_errors=True)
        for path in self._out.glob("*.parquet"):
            path.unlink()
        (self._out / FILE_NAME).unlink()

    def _encode(self, catalog: Path, every: Sequence[Partition]) -> None:
        todo = [partition for partition in every if not (self._out / partition.file_name).exists()]
        total = sum(partition.papers for partition in every)
        done = total - sum(partition.papers for partition in todo)
        with self._reporter.stage("encode", "papers", total, done) as tracker:
            for partition in self._runner(catalog, self._out, todo):
                done += partition.papers
                tracker.at(done)
                tracker.advance(partition.papers)

    def _run_here(self, catalog: Path, out: Path, todo: Sequence[Partition]) -> Iterator[Partition]:
        worker = PartitionEncoder(catalog, out, self._encoder)
        try:
            for partition in todo:
                worker.encode(partition)
                yield partition
        finally:
            worker.close()

    def _counts(self, every: Sequence[Partition]) -> dict[str, int]:
        pq: Any = require("pyarrow.parquet", "parquet", "Writing vectors")
        vectors = sum(pq.read_metadata(self._out / partition.file_name).num_rows for partition in every)
        papers = sum(partition.papers for partition in every)
        return {"partitions": len(every), "papers": papers, "vectors": vectors}
