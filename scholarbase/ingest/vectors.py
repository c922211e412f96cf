"""The vector stage: papers with their BM25, dense and learned sparse vectors to the vector index."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

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
from scholarbase.indexes.vectors.shards import shard_folder
from scholarbase.indexes.vectors.space import check_engine_memory, check_space, required_bytes
from scholarbase.ingest.bm25_vectors import Texts, bm25_vectors
from scholarbase.ingest.checkpoint import Checkpoint, paper_counts
from scholarbase.ingest.dense import DenseLookup, Vectors
from scholarbase.progress import Reporter

_ROWS: Final = f"SELECT id, {PAYLOAD_COLUMNS} FROM papers WHERE id > ? AND id % ? = ? ORDER BY id LIMIT ?"
"""The SQL of the next papers of a shard: :func:`.shards.shard_of` is the same rule."""
POINTS_PER_UPSERT: Final = 2_000
UPSERTS_PER_FLUSH: Final = 10
BUILD_BYTES: Final = 512 << 20
"""Address space of a build besides its points and the engine. Measured in all: 1,190 MB for the sample."""


def index_vectors(
    catalog: Path,
    db: sqlite3.Connection,
    checkpoint: Checkpoint,
    vectors: Path,
    config: VectorConfig,
    bm25: Bm25Parameters,
    lookup: DenseLookup,
    reporter: Reporter,
    number: int = 0,
    shards: int = 1,
) -> None:
    """Index the papers of the catalogue, which is open as ``db``, with the dense vectors in ``lookup``: those of the
    shard ``number``.

    After a kill, indexing continues behind the last point that was flushed.

    Raises:
        VectorIndexError: the index cannot be written.
        StorageError: there is not enough disk space.
        OutOfMemory: there is not enough address space.
    """
    if checkpoint.get("vectors_done"):
        return
    shard = shard_folder(vectors, number, shards)
    last = int(checkpoint.get("vectors", 0))
    if last == 0 and shard.exists():
        shutil.rmtree(shard)
    total, done = paper_counts(db, last, number, shards)
    check_space(shard, required_bytes(config, total - done))
    # Twice, because a segment is in memory and mapped while it is built. The files grow in steps.
    check_engine_memory(BUILD_BYTES + 2 * required_bytes(config, total))
    writer = EdgeWriter.open(shard, config)
    try:
        with (
            closing(
                bm25_vectors(Texts(str(catalog), bm25.to_dict(), last, number, shards), total - done)
            ) as made,
            reporter.stage("index vectors", "papers", total, done) as tracker,
        ):
            unflushed = 0
            while True:
                if done and done % writer.segment_points == 0:
                    # At the start of the loop, so that a job killed while sealing seals again. Progress was recorded
                    # before, so that no sealed point is upserted again.
                    with reporter.stage("build vector graph", None, None):
                        writer.seal()
                room = writer.segment_points - done % writer.segment_points
                rows = db.execute(_ROWS, (last, shards, number, min(room, POINTS_PER_UPSERT))).fetchall()
                points = [
                    point_of(paper, Payload.of_paper(*fields), next(made), lookup.get(paper))
                    for paper, *fields in rows
                ]
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
                tracker.advance(len(points))
        with reporter.stage("build vector graph", None, None):
            writer.finish()
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
