"""The embedded vector index: a Qdrant Edge shard in the library's folder.

A shard is built without a write-ahead log: points are durable once ``flush`` returns, and a resumed job repeats its
upserts since its last flush. Points are sealed into immutable segments (HNSW graph, 2-bit codes, compressed posting
lists) of a fixed number of points, so that the memory of a build does not grow with the library. A search reads the
segments in parallel. Large files are memory-mapped, so that processes serving one library share their pages.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import qdrant_edge as qdrant

from scholarbase.errors import ScholarBaseError, StorageError, VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS, ResolvedFilters
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    INTEGER_FIELDS,
    KEYWORD_FIELDS,
    LEARNED,
    TURBO2,
    EngineVector,
    SparseVector,
    VectorConfig,
    VectorPoint,
    qdrant_filter,
)
from scholarbase.indexes.vectors.index import OVERSAMPLING, VectorIndex, check_points
from scholarbase.indexes.vectors.shard_view import ShardView
from scholarbase.indexes.vectors.space import check_engine_memory, check_space, required_bytes

SPARSE_FULL_SCAN: Final = 20_000
"""Up to this many points of a segment that pass a filter are scored one by one, instead of reading the posting lists.
With Qdrant's default, 5,000, one year of 1.3 million papers took 5.0 ms; with this, 4.2."""

SEGMENT_POINTS: Final = 100_000
"""Points per segment without dense vectors, and of passages: building one takes 0.4 to 0.5 GB of memory."""
DENSE_SEGMENT_POINTS: Final = 1_000_000
"""Points per segment with dense vectors: searching one graph is faster than searching several, but building one of
600,000 vectors of 1,024 dimensions takes 7 GB of memory, mapped files included."""


_MAX_SEGMENTS: Final = 1_000_000
"""Qdrant merges segments above this number."""


class EdgeIndex(VectorIndex):
    """A shard open for searching. Safe to share between threads; searches of one process run one at a time."""

    def __init__(
        self, shard: qdrant.EdgeShard, path: Path, config: VectorConfig, view: ShardView | None = None
    ):
        super().__init__(config)
        self.path = path
        self._shard = shard
        self._view = view
        self._closed = False

    @classmethod
    def open(
        cls, path: Path, *, view: bool = True, temporary: Path | None = None, threads: int | None = None
    ) -> EdgeIndex:
        """Open the shard at ``path``.

        Args:
            view: open a :class:`ShardView`, so that the shard is never written to. Without, no other process may
                have the shard open.
            temporary: the folder for a view that cannot be created beside the shard.
            threads: threads that search; by default as many as there are cores.

        Raises:
            VectorIndexError: the shard is missing or cannot be read.
            StorageError: no space for the view.
            OutOfMemory: there is not enough address space.
        """
        path = Path(path)
        config = read_config(path)
        check_engine_memory(sum(file.stat().st_size for file in path.rglob("*") if file.is_file()))
        private = ShardView.open(path, temporary) if view else None
        try:
            with engine_errors(path, "open"):
                shard = qdrant.EdgeShard.load(
                    str(private.path if private else path), edge_config(config, threads=threads)
                )
        except BaseException:
            if private:
                private.close()
            raise
        return cls(shard, path, config, private)

    def nearest(
        self,
        name: str,
        vector: list[float] | SparseVector | EngineVector,
        limit: int,
        filters: ResolvedFilters,
        *,
        ef: int | None,
    ) -> list[qdrant.ScoredPoint]:
        if name != DENSE:
            params = None
        elif ef is None:
            params = qdrant.SearchParams(
                exact=True, quantization=qdrant.QuantizationSearchParams(ignore=True)
            )
        else:
            params = qdrant.SearchParams(
                hnsw_ef=max(ef, limit),
                quantization=qdrant.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING),
            )
        if isinstance(vector, SparseVector):
            vector = _engine_vector(vector)
        query = qdrant.Query.Nearest(vector, using=name)
        with engine_errors(self.path, "search"):
            return self._shard.query(
                qdrant.QueryRequest(limit=limit, query=query, filter=_engine_filter(filters), params=params)
            )

    def count_points(self, filters: ResolvedFilters, vector: str | None) -> int:
        with engine_errors(self.path, "count its points"):
            return self._shard.count(qdrant.CountRequest(exact=True, filter=_engine_filter(filters, vector)))

    def retrieve(self, name: str, ids: Sequence[int]) -> list[qdrant.Record]:
        with engine_errors(self.path, "read vectors"):
            return self._shard.retrieve(list(ids), with_payload=False, with_vector=[name])

    def records(
        self, batch: int, *, start: int = 0, payload: bool = False, vectors: bool = True
    ) -> Iterator[list[Any]]:
        read = 0
        for records in super().records(batch, start=start, payload=payload, vectors=vectors):
            yield records
            read += len(records)
            # Pages once read stay mapped, in the end the whole index. A view is open for searches beside this.
            if self._view is None and read >= SEGMENT_POINTS:
                with engine_errors(self.path, "open again"):
                    self._shard.close()
                    self._shard = qdrant.EdgeShard.load(str(self.path), edge_config(self.config))
                read = 0

    def scroll(
        self, offset: Any, limit: int, *, payload: bool, vectors: bool
    ) -> tuple[list[qdrant.Record], Any]:
        with engine_errors(self.path, "list its points"):
            return self._shard.scroll(
                qdrant.ScrollRequest(offset=offset, limit=limit, with_payload=payload, with_vector=vectors)
            )

    def sample(self, count: int) -> list[Any]:
        """The records of up to ``count`` random points, with ``id``, ``payload`` and ``vector``."""
        with engine_errors(self.path, "read points"):
            random = qdrant.QueryRequest(
                limit=count, query=qdrant.Sample.Random, with_payload=True, with_vector=True
            )
            return self._shard.query(random)

    def close(self) -> None:
        """Close the shard and remove its view. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            with engine_errors(self.path, "close"):
                self._shard.close()
        finally:
            if self._view:
                self._view.close()


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
        found = read_config(path)
        if (found.dimensions, found.learned) != (config.dimensions, config.learned):
            raise VectorIndexError(
                f"The vector index at {path} has the layout {found}, not {config}: remove it to build a new one."
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


def edge_config(
    config: VectorConfig, *, threads: int | None = None, deleted_share: float = 0.0
) -> qdrant.EdgeConfig:
    """The layout as Qdrant's configuration. ``threads`` search, by default as many as there are cores.

    A segment of which more than ``deleted_share`` are deleted points is built again."""
    dense = None
    if config.dimensions is not None:
        dense = {
            DENSE: qdrant.EdgeVectorParams(
                size=config.dimensions,
                distance=qdrant.Distance.Cosine,
                datatype=qdrant.VectorStorageDatatype.Float16,
                hnsw_config=qdrant.HnswIndexConfig(
                    m=config.m, ef_construct=config.ef_construct, full_scan_threshold=config.full_scan_kb
                ),
                quantization_config=qdrant.TurboQuantQuantizationConfig(bits=qdrant.TurboQuantBitSize.Bits2)
                if config.quantization
                else None,
            )
        }
    # Cold files are memory-mapped and read on demand; by default each process loads its own posting lists.
    lists: dict[str, Any] = {"full_scan_threshold": SPARSE_FULL_SCAN, "memory": qdrant.Memory.Cold}
    # No IDF modifier: it counts within one shard. The weights of queries have the library's IDF.
    sparse = {BM25: qdrant.EdgeSparseVectorParams(**lists)}
    if config.learned:
        sparse[LEARNED] = qdrant.EdgeSparseVectorParams(**lists)
    return qdrant.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse,
        # Segments of any size are sealed and never merged, since merging needs memory for all points. A segment with
        # a deleted point is rebuilt, so that a resumed build leaves no deleted points on disk.
        optimizers=qdrant.EdgeOptimizersConfig(
            indexing_threshold=1,
            default_segment_number=_MAX_SEGMENTS,
            deleted_threshold=max(deleted_share, 1e-9),
            vacuum_min_vector_number=1,
        ),
        # Looking up ids in memory is ten times as fast as in a mapped file, which long lists of ids need.
        id_tracker_memory=qdrant.Memory.Pinned,
        max_search_threads=threads,
        wal_enabled=False,
    )


def read_config(path: Path) -> VectorConfig:
    """Read the layout of the shard at ``path`` from Qdrant's own ``edge_config.json``.

    Raises:
        VectorIndexError: the shard is missing, or the file cannot be read.
    """
    file = path / "edge_config.json"
    try:
        written = json.loads(file.read_bytes())
        dense = (written.get("vectors") or {}).get(DENSE)
        learned = LEARNED in written["sparse_vectors"]
        if dense is None:
            return VectorConfig(learned=learned)
        return VectorConfig(
            dimensions=dense["size"],
            learned=learned,
            m=dense["hnsw_config"]["m"],
            ef_construct=dense["hnsw_config"]["ef_construct"],
            quantization=_quantization(path, dense.get("quantization_config")),
            full_scan_kb=dense["hnsw_config"]["full_scan_threshold"],
        )
    except FileNotFoundError as error:
        raise VectorIndexError(
            f"No vector index at {path}: the library is incomplete. Build it again with `scholarbase ingest`."
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise VectorIndexError(f"{file} is not a valid layout of a vector index: {error!r}.") from error


def _quantization(path: Path, written: Any) -> str | None:
    if written is None:
        return None
    if written != {"turbo": {"bits": "bits2"}}:
        raise VectorIndexError(
            f"The vector index at {path} has an unsupported quantization, {json.dumps(written)}: build the library "
            "again with `scholarbase ingest`."
        )
    return TURBO2


@contextmanager
def engine_errors(path: Path, action: str) -> Iterator[None]:
    """Turn exceptions and panics of Qdrant Edge inside the block into errors that name the index."""
    try:
        yield
    except ScholarBaseError:
        raise
    except BaseException as error:
        # PyO3's PanicException derives from BaseException: https://docs.rs/pyo3/latest/pyo3/panic/struct.PanicException.html
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if "No space left" in str(error) or "Not enough space" in str(error):
            raise StorageError(
                f"The disk with {path} is full: free some space and start again ({error})."
            ) from error
        raise VectorIndexError(f"The vector index at {path} failed to {action}: {error}") from error


def _edge_point(point: VectorPoint) -> qdrant.Point:
    vectors: dict[str, Any] = {
        # An empty vector is not stored: it could never be found, and would be counted.
        name: _engine_vector(vector)
        for name, vector in point.sparse.items()
        if len(vector.indices)
    }
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    return qdrant.Point(point.id, vectors, point.payload.to_dict())


def _engine_filter(filters: ResolvedFilters, vector: str | None = None) -> qdrant.Filter | None:
    if filters is NO_FILTERS and vector is None:
        return None
    conditions = qdrant_filter(filters, vector)
    return None if conditions is None else _engine_condition(conditions)


def _engine_condition(written: dict[str, Any]) -> Any:
    """A condition of :func:`qdrant_filter` as Qdrant Edge's."""
    if "has_id" in written:
        return qdrant.HasIdCondition(set(written["has_id"]))
    if "has_vector" in written:
        return qdrant.HasVectorCondition(written["has_vector"])
    if "range" in written:
        return qdrant.FieldCondition(written["key"], range=qdrant.RangeFloat(**written["range"]))
    if "match" in written:
        return qdrant.FieldCondition(written["key"], match=qdrant.MatchAny(written["match"]["any"]))
    must, must_not, should = (
        [_engine_condition(one) for one in written.get(name, ())] or None
        for name in ("must", "must_not", "should")
    )
    return qdrant.Filter(must=must, must_not=must_not, should=should)


def _engine_vector(vector: SparseVector | EngineVector) -> EngineVector:
    if isinstance(vector, EngineVector):
        return vector
    return EngineVector([int(i) for i in vector.indices], [float(v) for v in vector.values])
