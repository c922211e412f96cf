"""The BM25 vectors of a catalogue's papers. A process of its own makes those of many papers.

Making them takes a third of the time of the vector stage, and Qdrant's tokenizer holds Python's global lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from scholarbase.databases import open_for_reading
from scholarbase.indexes.vectors.base import EngineVector
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text, rounded
from scholarbase.memory import rare_collections
from scholarbase.workers import Message, Send, Worker, pays_off, work

_PAPERS_AT_ONCE: Final = 1_000
_TEXTS: Final = """
SELECT id, title, abstract FROM papers LEFT JOIN abstracts ON paper_id = id
WHERE id > ? AND id % ? = ? ORDER BY id LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Texts:
    """The papers of the shard ``number`` of ``shards`` whose ids are above ``last``, and BM25's parameters."""

    catalog: str
    bm25: dict[str, Any]
    last: int
    number: int
    shards: int


def bm25_vectors(texts: Texts, papers: int) -> Generator[EngineVector, None, None]:
    """The vectors of so many papers, in the order of their ids.

    Raises:
        VectorIndexError: the process that makes them ended early.
    """
    if not pays_off(papers):
        yield from _unpacked(_packed(texts))
        return
    with closing(Worker(__name__, asdict(texts))) as worker:
        yield from _unpacked(worker.messages("the BM25 vectors"))


def _packed(texts: Texts) -> Iterator[Message]:
    """The numbers of terms of papers; then the terms of all of them, and the weights of these terms, of 4 bytes."""
    text = Bm25Text(Bm25Parameters.from_dict(texts.bm25))
    with closing(open_for_reading(Path(texts.catalog))) as db:
        for rows in _batches(db, texts):
            vectors = [text.unrounded(title, abstract) for _, title, abstract in rows]
            terms = [vector.indices for vector in vectors]  # each access copies the numbers
            weights = chain.from_iterable(vector.values for vector in vectors)
            numbers = np.fromiter(chain.from_iterable(terms), np.uint32)
            data = numbers.tobytes() + rounded(np.fromiter(weights, np.float64)).astype(np.float32).tobytes()
            yield list(map(len, terms)), data


def _batches(db: sqlite3.Connection, texts: Texts) -> Iterator[list[tuple[int, str, str | None]]]:
    last = texts.last
    while rows := db.execute(_TEXTS, (last, texts.shards, texts.number, _PAPERS_AT_ONCE)).fetchall():
        yield rows
        last = rows[-1][0]


def _unpacked(messages: Iterable[Message]) -> Iterator[EngineVector]:
    for lengths, data in messages:
        half = len(data) // 2
        terms, weights = np.frombuffer(data[:half], np.uint32), np.frombuffer(data[half:], np.float32)
        all_terms, all_weights = terms.tolist(), weights.tolist()
        for start, end in pairwise(accumulate(lengths, initial=0)):
            yield EngineVector(all_terms[start:end], all_weights[start:end])


def _send(job: dict[str, Any], send: Send) -> None:
    with rare_collections():
        for lengths, data in _packed(Texts(**job)):
            send(lengths, data)


if __name__ == "__main__":
    work(_send)
