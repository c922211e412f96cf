"""The vector stage: papers with their BM25, dense and learned sparse vectors to the vector index."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.base import (
    BM25,
    LEARNED,
    PAYLOAD_COLUMNS,
    EngineVector,
    Payload,
    SparseVector,
    VectorConfig,
    VectorPoint,
)
from scholarbase.indexes.vectors.bm25 import Bm25Parameters
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.space import check_engine_memory, check_space, required_bytes
from scholarbase.ingest.checkpoint import Checkpoint, paper_counts
from scholarbase.ingest.dense import DenseLookup, Vectors
from scholarbase.ingest.terms import bm25_vectors
from scholarbase.progress import Reporter

POINTS_PER_UPSERT: Final = 2_000
UPSERTS_PER_FLUSH: Final = 10
BUILD_BYTES: Final = 512 << 20
"""Address space of a build besides its points and the engine. Measured in all: 1,190 MB for the sample."""


def index_vectors(
    db: sqlite3.Connection,
    checkpoint: Checkpoint,
    catalog: Path,
    shard: Path,
    config: VectorConfig,
    bm25: Bm25Parameters,
    lookup: DenseLookup,
    reporter: Reporter,
) -> None:
    """Index the papers of the catalogue ``db``, the file ``catalog``, with the dense vectors in ``lookup``.

    After a kill, indexing continues behind the last point that was flushed.

    Raises:
        VectorIndexError: the index cannot be written.
        StorageError: there is not enough disk space.
        OutOfMemory: there is not enough address space.
    """
    if checkpoint.get("vectors_done"):
        return
    last = int(checkpoint.get("vectors", 0))
    if last == 0 and shard.exists():
        shutil.rmtree(shard)
    total, done = paper_counts(db, last)
    check_space(shard, required_bytes(config, total - done))
    # Twice, because a segment is in memory and mapped while it is built. The files grow in steps.
    check_engine_memory(BUILD_BYTES + 2 * required_bytes(config, total))
    writer = EdgeWriter.open(shard, config)
    try:
        with (
            reporter.stage("index vectors", "papers", total, done) as tracker,
            bm25_vectors(catalog, last, bm25, total - done) as terms,
        ):
            unflushed = 0
            while True:
                if done and done % writer.segment_points == 0:
                    # At the start of the loop, so that a job killed while sealing seals again. Progress was recorded
                    # before, so that no sealed point is upserted again.
                    writer.seal()
                room = writer.segment_points - done % writer.segment_points
                points = _points(db, last, min(room, POINTS_PER_UPSERT), lookup, terms)
                writer.upsert(points)
                unflushed += 1
                done += len(points)
                if not points or unflushed == UPSERTS_PER_FLUSH or done % writer.segment_points == 0:
                    writer.flush()
                    with checkpoint.transaction():
                        checkpoint.set("vectors", points[-1].id if points else last)
                    unflushed = 0
                if not points:
                    break
                last = points[-1].id
                tracker.at(done)
                tracker.advance(len(points))
        with reporter.stage("optimize vectors", "papers", total) as tracker:
            writer.finish()
            tracker.advance(total)
    finally:
        writer.close()
    with checkpoint.transaction():
        checkpoint.set("vectors_done", True)


def point_of(number: int, payload: Payload, bm25: EngineVector, vectors: Vectors) -> VectorPoint:
    """A point with these vectors."""
    dense, learned = vectors
    sparse: dict[str, SparseVector | EngineVector] = {BM25: bm25}
    if learned is not None:
        sparse[LEARNED] = learned
    return VectorPoint(number, payload, dense, sparse)


def _points(
    db: sqlite3.Connection,
    after: int,
    count: int,
    lookup: DenseLookup,
    terms: Iterator[tuple[int, EngineVector]],
) -> list[VectorPoint]:
    """The points of the next ``count`` papers, whose BM25 vectors are next in ``terms``."""
    rows = db.execute(
        f"SELECT id, {PAYLOAD_COLUMNS} FROM papers WHERE id > ? ORDER BY id LIMIT ?",
        (after, count),
    )
    points = []
    for paper_id, *fields in rows:
        vector_id, vector = next(terms)
        if vector_id != paper_id:
            raise VectorIndexError(
                f"The BM25 vector of paper {vector_id} came where that of paper {paper_id} was expected."
            )
        points.append(point_of(paper_id, Payload.of_paper(*fields), vector, lookup.get(paper_id)))
    return points
