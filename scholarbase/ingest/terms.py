"""The BM25 vectors of a catalogue's papers, computed by a worker where there are many.

Qdrant's tokenizer and its shard both hold the GIL, and take about the same time. A message of the worker has the number
of papers, and as its bytes the papers' ids (int64) and numbers of terms (uint32), then all term numbers (uint32) and
weights (float32), little-endian.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from scholarbase.databases import open_for_reading
from scholarbase.indexes.vectors.base import EngineVector
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.workers import Send, Worker, pays_off, work

PaperVectors = list[tuple[int, EngineVector]]
"""Catalogue ids, ascending, each with its vector."""

_BATCH: Final = 500
"""Papers per message: 0.25 MB."""
_WAITING: Final = 64
"""Messages that the worker computes ahead, while the reader seals a segment."""


@contextmanager
def bm25_vectors(
    catalog: Path, after: int, parameters: Bm25Parameters, papers: int
) -> Iterator[Iterator[tuple[int, EngineVector]]]:
    """The vectors of all papers with ids above ``after``, by ascending id. ``papers`` is about how many there are.

    Raises:
        VectorIndexError: the worker ended early.
    """
    if not pays_off(papers):
        with closing(open_for_reading(catalog)) as db:
            yield (pair for batch in _batches(db, after, parameters) for pair in batch)
        return
    job = {"catalog": str(catalog), "after": after, "parameters": parameters.to_dict()}
    with closing(Worker(__name__, job)) as worker:
        yield (pair for count, data in worker.messages("the BM25 vectors") for pair in _unpacked(count, data))


def _batches(db: sqlite3.Connection, after: int, parameters: Bm25Parameters) -> Iterator[PaperVectors]:
    """Compute vectors in batches. Each batch is fetched whole: an open read would block the WAL's checkpoints."""
    text = Bm25Text(parameters)
    while True:
        rows = db.execute(
            """
            SELECT id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id
            WHERE id > ? ORDER BY id LIMIT ?
            """,
            (after, _BATCH),
        ).fetchall()
        if not rows:
            return
        yield [(paper, text.document(title, abstract)) for paper, title, abstract in rows]
        after = rows[-1][0]


def _unpacked(papers: int, data: bytes) -> Iterator[tuple[int, EngineVector]]:
    terms = (len(data) - papers * 12) // 8
    ids = np.frombuffer(data, "<i8", papers).tolist()
    ends = np.cumsum(np.frombuffer(data, "<u4", papers, papers * 8)).tolist()
    numbers = np.frombuffer(data, "<u4", terms, papers * 12).tolist()
    weights = np.frombuffer(data, "<f4", terms, papers * 12 + terms * 4).tolist()
    start = 0
    for paper, end in zip(ids, ends, strict=True):
        yield paper, EngineVector(numbers[start:end], weights[start:end])
        start = end


def _packed(papers: PaperVectors) -> bytes:
    return b"".join(
        (
            np.array([paper for paper, _ in papers], "<i8").tobytes(),
            np.array([len(vector.indices) for _, vector in papers], "<u4").tobytes(),
            np.array([number for _, vector in papers for number in vector.indices], "<u4").tobytes(),
            np.array([weight for _, vector in papers for weight in vector.values], "<f4").tobytes(),
        )
    )


def _compute(job: dict[str, Any], send: Send) -> None:
    """Compute all vectors, and send them from a second thread."""
    sending: deque[Future[None]] = deque()
    with closing(open_for_reading(Path(job["catalog"]))) as db, ThreadPoolExecutor(1) as thread:
        for papers in _batches(db, job["after"], Bm25Parameters.from_dict(job["parameters"])):
            if len(sending) == _WAITING:
                sending.popleft().result()
            sending.append(thread.submit(send, len(papers), _packed(papers)))
        for sent in sending:
            sent.result()


if __name__ == "__main__":
    work(_compute)
