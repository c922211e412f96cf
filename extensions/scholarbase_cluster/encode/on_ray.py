"""Partitions encoded by the workers of a Ray cluster, with Ray Data.

Each worker is a process that opens the encoder once, reads the papers of a partition from the catalogue, and writes the
partition's file: the folder must be on a disk that all of them share. A worker that dies is started again, and repeats
the partitions that it had not written.

Ray's usage statistics are off, and a cluster that this process starts ends with it.
"""

from __future__ import annotations

import logging
import math
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scholarbase import errors
from scholarbase.encoders import open_encoder
from scholarbase.errors import EncoderError, EncoderMismatch, InvalidRequest, ScholarBaseError, StorageError
from scholarbase.extras import check_installed, require
from scholarbase.models.encoders import EncoderSpec
from scholarbase_cluster.encode.partitions import Partition, PartitionEncoder
from scholarbase_cluster.encode.ray_cluster import connected

log = logging.getLogger("scholarbase.ingest")

MOST_BLOCKS: Final = 4_000
"""Blocks of partitions: Ray keeps an object and a task for each."""
MOST_DEATHS: Final = 3
"""Deaths of a worker, and repetitions of a partition, which Ray would not limit."""


@dataclass(frozen=True, slots=True)
class RayOptions:
    """The cluster, and its workers.

    ``address`` is ``local``, ``auto`` or ``host:port``. ``workers`` is their number, None for as many as the cluster
    has room for. Each takes ``cpus`` and ``gpus``, which may be fractions.
    """

    address: str
    workers: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        finite = math.isfinite(self.cpus) and math.isfinite(self.gpus)
        if (self.workers is not None and self.workers < 1) or not finite or self.cpus <= 0 or self.gpus < 0:
            raise InvalidRequest(
                f"{self.workers} workers with {self.cpus:g} CPUs and {self.gpus:g} GPUs are not possible: give at "
                "least one worker, and more than 0 CPUs."
            )


@dataclass(frozen=True, slots=True)
class WorkerEncoder:
    """How a worker opens its encoder, and which one it must be."""

    name: str
    spec: EncoderSpec
    device: str | None = None
    api_key: str | None = field(default=None, repr=False)
    requests: int = 1

    def open(self) -> Any:
        """Raises EncoderMismatch: the worker's encoder is another one."""
        encoder = open_encoder(self.name, device=self.device, api_key=self.api_key, requests=self.requests)
        if encoder.spec != self.spec:
            encoder.close()
            raise EncoderMismatch(
                f"The encoder {self.name} on {socket.gethostname()} is {encoder.spec}, and {self.spec} where the job "
                "was started: use the same model on all machines."
            )
        return encoder


def encode_on_ray(
    catalog: Path, out: Path, todo: Sequence[Partition], *, encoder: WorkerEncoder, options: RayOptions
) -> Iterator[Partition]:
    """Encode partitions on Ray. Yields each when its file is written.

    Raises:
        EncoderError, StorageError: a worker could not encode a partition, or write its file. Also where the cluster
            cannot be reached.
        InvalidRequest: the cluster has no room for a worker.
        MissingExtra: ray is not installed.
    """
    if not todo:
        return
    check_installed("ray", "Encoding on Ray")
    cpus = None if options.workers is None else options.workers * options.cpus
    with connected(options.address, cpus) as ray:
        data = require("ray.data", "ray", "Encoding on Ray")
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        workers = _workers(ray, options, len(todo))
        log.info("Encoding on Ray with %d workers.", workers)
        dataset = data.from_items(
            [partition._asdict() for partition in todo], override_num_blocks=min(len(todo), MOST_BLOCKS)
        ).map_batches(
            _Worker,
            batch_size=1,
            fn_constructor_args=(catalog.absolute(), out.absolute(), encoder),
            compute=data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=2),
            num_cpus=options.cpus,
            num_gpus=options.gpus or None,
            max_restarts=MOST_DEATHS,
            max_task_retries=MOST_DEATHS,
        )
        try:
            for row in dataset.iter_rows():
                if row["kind"]:
                    raise _error(row["kind"], row["message"])
                done = Partition(int(row["number"]), int(row["after"]), int(row["papers"]))
                if not (out / done.file_name).exists():
                    raise StorageError(
                        f"A worker on {row['host']} wrote {done.file_name}, and it is not in {out} here: give --out a "
                        "folder on a disk that all machines of the cluster share."
                    )
                yield done
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise EncoderError(
                f"A worker on Ray failed ({reason}): see Ray's log, and run the same command again. Partitions that "
                "are written are kept."
            ) from error


class _Worker:
    """Encodes partitions in a process of its own. Errors are returned: Ray would bury their sentences."""

    def __init__(self, catalog: Path, out: Path, encoder: WorkerEncoder) -> None:
        self._arguments = catalog, out, encoder
        self._partitions: PartitionEncoder | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        [number], [after], [papers] = batch["number"], batch["after"], batch["papers"]
        row = {"number": number, "after": after, "papers": papers, "host": socket.gethostname()}
        kind = message = ""
        try:
            if self._partitions is None:
                catalog, out, encoder = self._arguments
                if not catalog.exists():
                    raise StorageError(
                        f"{catalog} is not on {row['host']}: give --out a folder on a disk that all machines of the "
                        "cluster share."
                    )
                self._partitions = PartitionEncoder(catalog, out, encoder.open())
            self._partitions.encode(Partition(int(number), int(after), int(papers)))
        except (ScholarBaseError, OSError) as error:
            kind, message = type(error).__name__, str(error)
        return {name: [value] for name, value in (row | {"kind": kind, "message": message}).items()}


def _error(kind: str, message: str) -> ScholarBaseError:
    known = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, ScholarBaseError):
        return known(message)
    return StorageError(f"A worker on Ray cannot read or write its files ({message}).")


def _workers(ray: Any, options: RayOptions, partitions: int) -> int:
    """The number of workers. Raises InvalidRequest: the cluster has no room for one."""
    has = ray.cluster_resources()
    room = int(has.get("CPU", 0) // options.cpus)
    if options.gpus:
        room = min(room, int(has.get("GPU", 0) // options.gpus))
    if room < (options.workers or 1):
        raise InvalidRequest(
            f"The Ray cluster has {has.get('CPU', 0):g} CPUs and {has.get('GPU', 0):g} GPUs, not enough for "
            f"{options.workers or 1} workers with {options.cpus:g} CPUs and {options.gpus:g} GPUs each: give fewer "
            "--workers, or start more nodes first."
        )
    return min(options.workers or room, partitions)
