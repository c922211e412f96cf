"""Building the embedded vector index: a Qdrant Edge shard in the library's folder.

A shard is built without a write-ahead log: points are durable once ``flush`` returns, and a resumed job repeats its
upserts since its last flush. Points are sealed into immutable segments (HNSW graph, 2-bit codes, compressed posting
lists) of a fixed number of points, so that the memory of a build does not grow with the library.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import qdrant_edge as qdrant

from scholarbase.errors import StorageError, VectorIndexError
from scholarbase.indexes.vectors.base import (
    DENSE,
    INTEGER_FIELDS,
    KEYWORD_FIELDS,
    SparseVector,
    VectorConfig,
    VectorPoint,
    check_sparse,
    edge_config,
    engine_vector,
    read_config,
)
from scholarbase.indexes.vectors.index import check_dense, engine_errors
from scholarbase.indexes.vectors.space import check_space, required_bytes

SEGMENT_POINTS: Final = 100_000
"""Points per segment without dense vectors, and of passages: building one takes 0.4 to 0.5 GB of memory."""
DENSE_SEGMENT_POINTS: Final = 1_000_000
"""Points per segment with dense vectors: searching one graph is faster than searching several, but building one of
600,000 vectors of 1,024 dimensions takes 7 GB of memory, mapped files included."""


class EdgeWriter:
    """A shard being built. No other process may have it open."""

    def __init__(self, path: Path, config: VectorConfig, layout: qdrant.EdgeConfig) -> None:
        self.path = path
        self.config = config
        self._layout = layout
        self._shard = self._load("open for writing")
        self._closed = False

    def _load(self, action: str) -> qdrant.EdgeShard:
        with engine_errors(self.path, action):
            return qdrant.EdgeShard.load(str(self.path), self._layout)

    @property
    def segment_points(self) -> int:
        """The number of points after which to call ``seal``."""
        return SEGMENT_POINTS if self.config.dimensions is None else DENSE_SEGMENT_POINTS

    @classmethod
    def open(cls, path: Path, config: VectorConfig, *, deleted_share: float = 0.0) -> EdgeWriter:
        """Create a shard at ``path``, atomically and with its payload indexes, or resume the one already there.

        A segment of which more than ``deleted_share`` are deleted points is built again when the shard is sealed.

        Raises:
            VectorIndexError: the existing shard has another layout or cannot be read.
            StorageError: the folder cannot be created, or the disk is full.
        """
        path = Path(path)
        check_space(path, required_bytes(config, 0))
        if not path.exists():
            _create(path, config)
        existing = read_config(path)
        if (existing.dimensions, existing.learned) != (config.dimensions, config.learned):
            raise VectorIndexError(
                f"The vector index at {path} has the layout {existing}, not {config}: remove it to build a new one."
            )
        # Qdrant does not remove the unfinished segment of a killed build.
        shutil.rmtree(path / "temp_segments", ignore_errors=True)
        return cls(path, config, edge_config(config, deleted_share=deleted_share))

    def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Add points, or replace those with the same ids.

        Raises:
            VectorIndexError: a vector is not valid in this index; then none of ``points`` is added.
            StorageError: the disk is full.
        """
        check_points(points, self.config)
        if not points:
            return
        check_space(self.path, required_bytes(self.config, len(points)))
        with engine_errors(self.path, "add points"):
            self._shard.update(qdrant.UpdateOperation.upsert_points([_edge_point(point) for point in points]))

    def delete(self, ids: Sequence[int]) -> None:
        """Delete points. Those that do not exist are no error."""
        if ids:
            with engine_errors(self.path, "delete points"):
                self._shard.update(qdrant.UpdateOperation.delete_points(list(ids)))

    def flush(self) -> None:
        """Make all previous upserts durable."""
        with engine_errors(self.path, "write its points to disk"):
            self._shard.flush()

    def seal(self) -> None:
        """Build an immutable segment of the points added since the last call, and make it durable.

        A job must record its progress before this call, and repeat the call when it resumes: upserting sealed points
        again rebuilds their segment. Without new points it does nothing.
        """
        self.finish()
        # Without the pages of the segments that are written, which stay mapped.
        with engine_errors(self.path, "close"):
            self._shard.close()
        self._shard = self._load("open again")

    def finish(self) -> None:
        """Seal the last points. A second call does nothing."""
        self.flush()
        with engine_errors(self.path, "build a segment"):
            self._shard.optimize()
        self.flush()

    def close(self) -> None:
        """Close the shard. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        with engine_errors(self.path, "close"):
            self._shard.close()


def _create(path: Path, config: VectorConfig) -> None:
    """Create an empty shard under another name, then rename it to ``path``."""
    unfinished = path.with_name(f"{path.name}.new")
    try:
        if unfinished.exists():
            shutil.rmtree(unfinished)
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise StorageError(
            f"Cannot create a folder for the vector index at {unfinished}: {error}."
        ) from error
    with engine_errors(path, "be created"):
        shard = qdrant.EdgeShard.create(str(unfinished), edge_config(config))
        # Before any point: points added before an index was created are filtered more slowly.
        for field in INTEGER_FIELDS:
            number = qdrant.IntegerIndexParams(lookup=False, range=True, memory=qdrant.Memory.Cold)
            shard.update(qdrant.UpdateOperation.create_field_index(field, number))
        for field in KEYWORD_FIELDS:
            keyword = qdrant.KeywordIndexParams(memory=qdrant.Memory.Cold)
            shard.update(qdrant.UpdateOperation.create_field_index(field, keyword))
        shard.flush()
        shard.close()
    unfinished.rename(path)


def check_points(points: Sequence[VectorPoint], config: VectorConfig) -> None:
    """Raises VectorIndexError: a point's id or one of its vectors is not valid in an index with this layout."""
    names = config.sparse_names
    for point in points:
        what = f"Paper {point.id}"
        if isinstance(point.id, bool) or not isinstance(point.id, int) or point.id < 0:
            raise VectorIndexError(
                f"{point.id!r} is not a valid point id: use the paper's integer id in the catalogue."
            )
        if point.dense is not None:
            check_dense(point.dense, config.dimensions, what)
        for name, sparse in point.sparse.items():
            if not isinstance(sparse, SparseVector):  # Qdrant's own vectors are always valid
                continue
            if name not in names:
                raise VectorIndexError(
                    f"{what} has a sparse vector named {name!r}, but this index has {' and '.join(names)}."
                )
            check_sparse(name, sparse, what)


def _edge_point(point: VectorPoint) -> qdrant.Point:
    vectors: dict[str, Any] = {
        # An empty vector is not stored: it could never be found, and would be counted.
        name: engine_vector(vector)
        for name, vector in point.sparse.items()
        if len(vector.indices)
    }
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    return qdrant.Point(point.id, vectors, point.payload.to_dict())
