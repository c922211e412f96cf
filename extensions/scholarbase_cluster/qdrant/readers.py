"""Uploading from several processes: Qdrant Edge holds Python's global lock while it converts points, which takes most
of the time of an upload.

A worker (:mod:`scholarbase.workers`) uploads every n-th block of points. Its messages are numbers of stored points.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any, Final

from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.indexes.vectors.nodes import Nodes
from scholarbase.memory import cores
from scholarbase.workers import Send, run_workers, work
from scholarbase_cluster.qdrant.collection import Collection
from scholarbase_cluster.qdrant.upload import Uploader

SUBPROCESS_POINTS: Final = 50_000
"""Points from which on several processes are faster: one takes a second to start."""
MOST_PROCESSES: Final = 8


def processes_for(points: int) -> int:
    """The number of processes for an upload of so many points; 1 is this process alone."""
    return min(MOST_PROCESSES, cores()) if points >= SUBPROCESS_POINTS and sys.executable else 1


def send(
    edge: EdgeIndex,
    collection: Collection,
    stored: Callable[[int], None],
    *,
    at_once: int,
    size: int,
    block: int,
    part: int = 0,
    parts: int = 1,
) -> None:
    """Send the points that a collection does not have, ``size`` in a batch.

    Blocks of points are looked up together; every ``parts``-th is sent, from number ``part`` on. ``stored`` is called
    with the number of points of each batch that is stored, or was before.

    Raises:
        VectorIndexError: as :meth:`.Uploader.send`.
    """
    is_new = collection.count() == 0

    def batches() -> Iterator[list[Any]]:
        for number, records in enumerate(edge.records(block, vectors=False)):
            if number % parts != part:
                continue
            ids = [record.id for record in records]
            if is_new or collection.count(ids) < len(ids):
                yield from _between(edge, ids[0], ids[-1], size)
            else:
                stored(len(ids))

    with Uploader.open(collection.nodes, collection.name, at_once) as uploader:
        uploader.send(batches(), stored)


def _between(edge: EdgeIndex, first: int, last: int, size: int) -> Iterator[list[Any]]:
    for records in edge.records(size, start=first, payload=True):
        if records[-1].id >= last:
            yield [record for record in records if record.id <= last]
            return
        yield records


def send_from_processes(
    edge: EdgeIndex,
    collection: Collection,
    stored: Callable[[int], None],
    *,
    processes: int,
    at_once: int,
    size: int,
    block: int,
) -> None:
    """As :func:`send`, from several processes. Raises also if one ends."""
    lock = Lock()
    header = {
        "shard": str(edge.path),
        "addresses": collection.nodes.listed,
        "connection": {
            "api_key": collection.nodes.api_key,
            "connect_seconds": collection.nodes.connect_seconds,
            "read_seconds": collection.nodes.read_seconds,
        },
        "alias": collection.alias,
        "snapshot": collection.snapshot,
        "parts": processes,
        "at_once": max(1, at_once // processes),
        "size": size,
        "block": block,
    }

    def received(_: int, count: int) -> None:
        with lock:
            stored(count)

    run_workers(__name__, [header | {"part": part} for part in range(processes)], received, what="the upload")


def _upload(job: dict[str, Any], stored: Send) -> None:
    with (
        closing(EdgeIndex.open(Path(job["shard"]))) as edge,
        closing(Nodes(job["addresses"], **job["connection"])) as nodes,
    ):
        collection = Collection(nodes, job["alias"], job["snapshot"], edge.config)
        send(edge, collection, stored, **{name: job[name] for name in _OPTIONS})


_OPTIONS: Final = ("at_once", "size", "block", "part", "parts")

if __name__ == "__main__":
    work(_upload)
