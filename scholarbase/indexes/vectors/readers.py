"""Uploading from several processes: Qdrant Edge holds Python's global lock while it converts points, which takes most
of the time of an upload.

A process runs this module as a command, and uploads every n-th block of points. A line of input says which; a line of
output is a number of stored points, or an error. A process ends with its input, so also when the process that started
it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Final

import orjson

from scholarbase.errors import ScholarBaseError, VectorIndexError
from scholarbase.indexes.vectors.collection import Collection
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.indexes.vectors.nodes import Nodes
from scholarbase.indexes.vectors.upload import Uploader

SUBPROCESS_POINTS: Final = 50_000
"""Points from which on several processes are faster: one takes a second to start."""
MOST_PROCESSES: Final = 8


def processes_for(points: int) -> int:
    """The number of processes for an upload of so many points; 1 is this process alone."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(MOST_PROCESSES, cores) if points >= SUBPROCESS_POINTS and sys.executable else 1


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
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
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

    def run(part: int) -> None:
        process = started[part]
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # its output says why
            process.stdin.write(orjson.dumps(header | {"part": part}) + b"\n")
            process.stdin.flush()
        for line in process.stdout:
            said = orjson.loads(line)
            if isinstance(said, str):
                raise VectorIndexError(said)
            with lock:
                stored(said)
        if process.wait() != 0:
            raise VectorIndexError(
                f"A process of the upload ended with status {process.returncode}: run the same command again."
            )

    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(processes):
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", __name__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                    process_group=0,  # Ctrl-C ends the job, which ends it
                )
            )
        with ThreadPoolExecutor(processes) as pool:
            running = [pool.submit(run, part) for part in range(processes)]
            try:
                for one in running:
                    one.result()
            finally:
                for process in started:
                    process.kill()
    finally:
        for process in started:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()


def _main() -> None:
    header = orjson.loads(sys.stdin.buffer.readline())
    lock = Lock()

    def say(line: int | str) -> None:
        with lock:
            sys.stdout.buffer.write(orjson.dumps(line) + b"\n")
            sys.stdout.buffer.flush()

    def end_with_input() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    Thread(target=end_with_input, daemon=True).start()
    try:
        with (
            closing(EdgeIndex.open(Path(header["shard"]))) as edge,
            closing(Nodes(header["addresses"], **header["connection"])) as nodes,
        ):
            collection = Collection(nodes, header["alias"], header["snapshot"], edge.config)
            send(edge, collection, say, **{name: header[name] for name in _OPTIONS})
    except ScholarBaseError as error:
        say(str(error))
        sys.exit(1)


_OPTIONS: Final = ("at_once", "size", "block", "part", "parts")

if __name__ == "__main__":
    _main()
