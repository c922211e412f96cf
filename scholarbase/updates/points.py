"""Applies changes of papers to the vector index: the points of changed papers are replaced, all others stay.

A paper whose text did not change keeps its vectors, also if its number changed (:mod:`.vectors.halves`).
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

from scholarbase.encoders import Encoder, document_text
from scholarbase.indexes.content_hash import combined, dense_row, sparse_row, sum_of
from scholarbase.indexes.frequencies import FrequencyChanges
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
    PAYLOAD_COLUMNS,
    Payload,
    SparseVector,
    VectorConfig,
    VectorPoint,
    ascending,
)
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.halves import restored
from scholarbase.indexes.vectors.index import VectorIndex
from scholarbase.indexes.vectors.shards import ShardWriters, open_local
from scholarbase.ingest.batches import batched
from scholarbase.ingest.dense import Vectors, vectors_of
from scholarbase.ingest.vectors import point_of
from scholarbase.progress import Tracker
from scholarbase.updates.rows import Changed, text_key

_AT_ONCE: Final = 2_000
"""Points that are read, encoded and written at once."""
_DELETED_SHARE: Final = 0.2
"""The share of deleted points from which on a segment is built again. Their place on disk is lost until then."""


class PointChanges:
    """Changes the points of shards, and keeps the sums of its vectors."""

    def __init__(
        self,
        db: sqlite3.Connection,
        config: VectorConfig,
        bm25: Bm25Parameters,
        encoder: Encoder | None,
        title_weight: int,
        sums: dict[str, int],
    ) -> None:
        self._db = db
        self._config = config
        self._text = Bm25Text(bm25)
        self._encoder = encoder
        self._title_weight = title_weight
        self._sums = sums
        self.counts: Counter[str] = Counter(papers_encoded=0)
        self.frequencies = FrequencyChanges()

    def apply(
        self, old_vectors: Path, vectors: Path, shards: int, changed: Changed, tracker: Tracker
    ) -> None:
        """Change the points of ``vectors``, a copy of ``old_vectors`` with as many ``shards``.

        Raises:
            EncoderError: the encoder fails.
            VectorIndexError: a shard cannot be read or written.
        """
        points = sorted(changed.points)
        with (
            closing(open_local(old_vectors)) as old,
            closing(ShardWriters.open(vectors, shards, self._config, deleted_share=_DELETED_SHARE)) as writer,
        ):
            for batch in batched(sorted(changed.removed), _AT_ONCE):
                self._subtract(old, batch, changed)
                writer.delete(batch)
            for batch in batched(points, _AT_ONCE):
                self._subtract(old, batch, changed)
                writer.upsert(self._points(old, batch, changed))
                tracker.advance(len(batch))
            writer.finish()
        with closing(open_local(vectors, view=False)) as new:
            for batch in batched(points, _AT_ONCE):
                self._add(new, batch)

    # -- new points -------------------------------------------------------------------------------------

    def _points(self, old: VectorIndex, numbers: Sequence[int], changed: Changed) -> list[VectorPoint]:
        rows = self._db.execute(
            f"""
            SELECT id, title, abstract, {PAYLOAD_COLUMNS} FROM papers LEFT JOIN abstracts ON paper_id = id
            WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
            """,
            (orjson.dumps(list(numbers)).decode(),),
        ).fetchall()
        vectors = self._vectors(old, rows, changed) if self._encoder is not None else {}
        return [
            point_of(
                number,
                Payload.of_paper(*fields),
                self._text.document(title, abstract),
                vectors.get(number, (None, None)),
            )
            for number, title, abstract, *fields in rows
        ]

    def _vectors(
        self, old: VectorIndex, rows: Sequence[tuple[int, str, str | None]], changed: Changed
    ) -> dict[int, Vectors]:
        """The encoder's vectors of these papers: those of the old library for texts that it has."""
        assert self._encoder is not None
        sources: dict[int, int] = {}
        new: list[tuple[int, str]] = []
        for number, title, abstract, *_ in rows:
            source = (
                number if number not in changed.texts else changed.old_texts.get(text_key(title, abstract))
            )
            if source is None:
                new.append((number, document_text(title, abstract, self._title_weight)))
            else:
                sources[number] = source
        dense, learned = self._stored(old, sorted(set(sources.values())))
        vectors: dict[int, Vectors] = {
            n: (dense.get(source), learned.get(source)) for n, source in sources.items()
        }
        if new:
            encodings = self._encoder.encode_documents([text for _, text in new])
            self.counts["papers_encoded"] += len(new)
            vectors.update(
                (number, vectors_of(encodings, position)) for position, (number, _) in enumerate(new)
            )
        self.counts["vectors_kept"] += len(sources)
        return vectors

    def _stored(
        self, old: VectorIndex, numbers: Sequence[int]
    ) -> tuple[dict[int, npt.NDArray[np.float32]], dict[int, SparseVector]]:
        dense = {number: restored(vector) for number, vector in old.dense_vectors(numbers).items()}
        return dense, _ascending(old, LEARNED, numbers) if self._config.learned else {}

    # -- sums -------------------------------------------------------------------------------------------

    def _subtract(self, old: VectorIndex, numbers: Sequence[int], changed: Changed) -> None:
        had = [number for number in numbers if number in changed.days]
        for name, rows in self._rows(old, had, changed.days, -1).items():
            self._sums[name] = combined(self._sums[name], without=sum_of(rows))

    def _add(self, new: VectorIndex, numbers: Sequence[int]) -> None:
        days = dict(
            self._db.execute(
                "SELECT id, last_day FROM papers WHERE id IN (SELECT value FROM json_each(?))",
                (orjson.dumps(list(numbers)).decode(),),
            ).fetchall()
        )
        for name, rows in self._rows(new, numbers, days, 1).items():
            self._sums[name] = combined(self._sums[name], sum_of(rows))

    def _rows(
        self, index: VectorIndex, numbers: Sequence[int], days: dict[int, int | None], sign: int
    ) -> dict[str, list[bytes]]:
        """The rows of the content's parts for these points; their terms are counted."""
        rows: dict[str, list[bytes]] = {}
        for name in self._config.sparse_names:
            vectors = _ascending(index, name, numbers)
            rows[name] = [sparse_row(number, *vector) for number, vector in vectors.items()]
            if name == BM25:
                for number, vector in vectors.items():
                    self.frequencies.add(days[number], vector.indices, sign)
        if self._config.dimensions is not None:
            rows[DENSE] = [
                dense_row(number, v.tolist()) for number, v in index.dense_vectors(numbers).items()
            ]
        return rows


def _ascending(index: VectorIndex, name: str, numbers: Sequence[int]) -> dict[int, SparseVector]:
    return {number: ascending(vector) for number, vector in index.sparse_vectors(name, numbers).items()}
