"""The BM25 vectors of a catalogue's papers, computed in a subprocess where there are many.

Qdrant's tokenizer and its shard both hold the GIL, and take about the same time. So a subprocess tokenizes and sends
the vectors over a pipe. It runs this module as a command, because ``multiprocessing`` may run the caller's script
again.

A frame on the pipe is the number of ``papers`` and of ``terms`` (uint32), then the papers' ids (int64) and numbers of
terms (uint32), then all term numbers (uint32) and weights (float32), little-endian. The last frame has no papers.
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
import traceback
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
from scholarbase.workers import end_with_parent, module_command, module_environment, pays_off

PaperVectors = list[tuple[int, EngineVector]]
"""Catalogue ids, ascending, each with its vector."""

_FRAME: Final = 500
"""Papers per frame: 0.25 MB."""
_QUEUED_FRAMES: Final = 64
"""Frames that the subprocess computes ahead, while the reader seals a segment."""
_HEADER: Final = struct.Struct("<II")


@contextmanager
def bm25_vectors(
    catalog: Path, after: int, parameters: Bm25Parameters, papers: int
) -> Iterator[Iterator[tuple[int, EngineVector]]]:
    """The vectors of all papers with ids above ``after``, by ascending id. ``papers`` is about how many there are.

    Raises:
        VectorIndexError: the subprocess ended early.
    """
    if not pays_off(papers):
        with closing(open_for_reading(catalog)) as db:
            yield (pair for batch in _batches(db, after, parameters) for pair in batch)
        return
    command = module_command(__name__, str(catalog), str(after), orjson.dumps(parameters.to_dict()).decode())
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=module_environment()
    ) as process:
        assert process.stdout is not None
        try:
            yield _read_frames(process, process.stdout)
        finally:
            process.kill()  # where not all was read, it would block on the pipe


def _batches(db: sqlite3.Connection, after: int, parameters: Bm25Parameters) -> Iterator[PaperVectors]:
    """Compute vectors in batches. Each batch is fetched whole: an open read would block the WAL's checkpoints."""
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
        yield [(paper, text.document(title, abstract)) for paper, title, abstract in rows]
        after = rows[-1][0]


def _read_frames(process: subprocess.Popen[bytes], pipe: IO[bytes]) -> Iterator[tuple[int, EngineVector]]:
    while True:
        header = pipe.read(_HEADER.size)
        papers, terms = _HEADER.unpack(header) if len(header) == _HEADER.size else (1, 0)
        if not papers:
            return
        body = pipe.read(papers * 12 + terms * 8)
        if not header or len(body) != papers * 12 + terms * 8:
            raise VectorIndexError(
                f"The process that computes the BM25 vectors ended early with status {process.wait()}: see its "
                "messages above. Run the same command again to continue."
            )
        ids = np.frombuffer(body, "<i8", papers).tolist()
        ends = np.cumsum(np.frombuffer(body, "<u4", papers, papers * 8)).tolist()
        numbers = np.frombuffer(body, "<u4", terms, papers * 12).tolist()
        weights = np.frombuffer(body, "<f4", terms, papers * 12 + terms * 4).tolist()
        start = 0
        for paper, end in zip(ids, ends, strict=True):
            yield paper, EngineVector(numbers[start:end], weights[start:end])
            start = end


def _frame(papers: PaperVectors) -> bytes:
    counts = [len(vector.indices) for _, vector in papers]
    return b"".join(
        (
            _HEADER.pack(len(papers), sum(counts)),
            np.array([paper for paper, _ in papers], "<i8").tobytes(),
            np.array(counts, "<u4").tobytes(),
            np.array([number for _, vector in papers for number in vector.indices], "<u4").tobytes(),
            np.array([weight for _, vector in papers for weight in vector.values], "<f4").tobytes(),
        )
    )


def _send(catalog: str, after: int, parameters: Bm25Parameters, pipe: BinaryIO) -> None:
    """Compute all vectors, and write them to the pipe from a second thread."""
    frames: queue.Queue[bytes] = queue.Queue(_QUEUED_FRAMES)

    def write() -> None:
        try:
            while frame := frames.get():
                pipe.write(frame)
            pipe.flush()
        except BrokenPipeError:  # the reader has closed the pipe
            os._exit(0)
        except BaseException:  # without this thread, the other one waits forever for a place in the queue
            traceback.print_exc()
            os._exit(1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with closing(open_for_reading(Path(catalog))) as db:
            for papers in _batches(db, after, parameters):
                frames.put(_frame(papers))
        frames.put(_HEADER.pack(0, 0))
    finally:
        frames.put(b"")
        writer.join()


if __name__ == "__main__":
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # at Ctrl-C the job kills this process
    with suppress(BrokenPipeError):
        _send(
            sys.argv[1],
            int(sys.argv[2]),
            Bm25Parameters.from_dict(orjson.loads(sys.argv[3])),
            sys.stdout.buffer,
        )
