"""The BM25 vectors of a catalogue's papers, in order; of many papers, in a process of its own.

Qdrant's tokenizer and its shard both hold Python's global lock. So a second process reads the texts and sends their
vectors over a pipe, as fast as they are taken: about as long as it takes to store them. It is a command of this
module rather than a child of ``multiprocessing``, which would run a caller's script again.

A frame on the pipe is ``papers`` and ``terms`` (uint32), then the papers' ids (int64) and how many terms each has
(uint32), then all term numbers (uint32) and weights (float32), little-endian. The last frame has no papers.
"""

from __future__ import annotations

import os
import queue
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, BinaryIO, Final

import numpy as np
import orjson

from scholarbase.databases import open_for_reading
from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.base import EngineVector
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text

PapersTerms = list[tuple[int, EngineVector]]
"""Catalogue ids, ascending, each with its vector."""

WORTH_A_PROCESS: Final = 20_000
"""Papers from which on starting a process pays: it takes half a second."""
_FRAME: Final = 500
"""Papers in a frame: 0.25 MB."""
_AHEAD: Final = 64
"""Frames that are made before they are asked for: while a segment is sealed nothing is."""
_HEADER: Final = struct.Struct("<II")


@contextmanager
def bm25_vectors(
    catalog: Path, after: int, parameters: Bm25Parameters, papers: int
) -> Iterator[Iterator[tuple[int, EngineVector]]]:
    """The vectors of all papers with ids above ``after``, by ascending id. ``papers`` says about how many there are.

    Raises:
        VectorIndexError: the process that makes them ended before its work did.
    """
    if papers < WORTH_A_PROCESS or not sys.executable or len(os.sched_getaffinity(0)) == 1:
        with closing(open_for_reading(catalog)) as db:
            yield (pair for some in _made(db, after, parameters) for pair in some)
        return
    command = [
        sys.executable,
        "-m",
        __name__,
        str(catalog),
        str(after),
        orjson.dumps(parameters.to_dict()).decode(),
    ]
    # It finds this package where this process found it.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            yield _received(process, process.stdout)
        finally:
            process.kill()  # it has nothing to lose, and ends late where it is not read to the end


def _made(db: sqlite3.Connection, after: int, parameters: Bm25Parameters) -> Iterator[PapersTerms]:
    """Vectors made here, some at a time. Each batch is read at once: an open read would hold up the log's
    checkpoints."""
    text = Bm25Text(parameters)
    while True:
        rows = db.execute(
            """
            SELECT id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id
            WHERE id > ? ORDER BY id LIMIT ?
            """,
            (after, _FRAME),
        ).fetchall()
        if not rows:
            return
        yield [(paper, text.engine_document(title, abstract)) for paper, title, abstract in rows]
        after = rows[-1][0]


def _received(process: subprocess.Popen[bytes], pipe: IO[bytes]) -> Iterator[tuple[int, EngineVector]]:
    while True:
        header = pipe.read(_HEADER.size)
        papers, terms = _HEADER.unpack(header) if len(header) == _HEADER.size else (1, 0)
        if not papers:
            return
        body = pipe.read(papers * 12 + terms * 8)
        if not header or len(body) != papers * 12 + terms * 8:
            raise VectorIndexError(
                f"The process that makes the BM25 vectors ended with status {process.wait()} before its work was "
                "done: its messages above say why. Run the command again to go on."
            )
        ids = np.frombuffer(body, "<i8", papers).tolist()
        ends = np.cumsum(np.frombuffer(body, "<u4", papers, papers * 8)).tolist()
        numbers = np.frombuffer(body, "<u4", terms, papers * 12).tolist()
        weights = np.frombuffer(body, "<f4", terms, papers * 12 + terms * 4).tolist()
        start = 0
        for paper, end in zip(ids, ends, strict=True):
            yield paper, EngineVector(numbers[start:end], weights[start:end])
            start = end


def _frame(papers: PapersTerms) -> bytes:
    numbers = [vector.indices for _, vector in papers]
    counts = [len(each) for each in numbers]
    return b"".join(
        (
            _HEADER.pack(len(papers), sum(counts)),
            np.array([paper for paper, _ in papers], "<i8").tobytes(),
            np.array(counts, "<u4").tobytes(),
            np.array([number for each in numbers for number in each], "<u4").tobytes(),
            np.array([weight for _, vector in papers for weight in vector.values], "<f4").tobytes(),
        )
    )


def _send(catalog: str, after: int, parameters: Bm25Parameters, pipe: BinaryIO) -> None:
    """Make all vectors, and write them from a second thread: none is waited for while there are some ahead."""
    frames: queue.Queue[bytes] = queue.Queue(_AHEAD)

    def write() -> None:
        try:
            while frame := frames.get():
                pipe.write(frame)
            pipe.flush()
        except BrokenPipeError:  # nobody wants the rest
            os._exit(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with closing(open_for_reading(Path(catalog))) as db:
            for papers in _made(db, after, parameters):
                frames.put(_frame(papers))
        frames.put(_HEADER.pack(0, 0))
    finally:
        frames.put(b"")
        writer.join()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the job, which ends this process with itself
    with suppress(BrokenPipeError):
        _send(
            sys.argv[1],
            int(sys.argv[2]),
            Bm25Parameters.from_dict(orjson.loads(sys.argv[3])),
            sys.stdout.buffer,
        )
