"""The vector index in the process: a Qdrant Edge shard in the library's folder.

The shard is built without a write-ahead log: what was upserted is durable once ``flush`` returns, and a job
that was killed repeats its upserts from its last flush. Points are sealed into immutable segments (HNSW graph,
2-bit codes, compressed posting lists) of so many points each, which is what is served: building a segment takes
memory for its points alone, however large the library grows, and a search reads several segments at once.
All that is large lies in mapped files, so that processes which serve one library share it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import qdrant_edge as qdrant

from scholarbase.errors import ScholarBaseError, StorageError, VectorIndexError
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
    TURBO2,
    EngineVector,
    ScoredId,
    SparseVector,
    VectorConfig,
    VectorPoint,
)
from scholarbase.indexes.vectors.cut import (
    best,
    check_dense,
    check_limit,
    check_points,
    check_sparse,
    check_vector_name,
)
from scholarbase.indexes.vectors.payload import (
    INTEGER_FIELDS,
    KEYWORD_FIELDS,
    ascending,
    payload_dict,
    payload_of,
    point_id,
)
from scholarbase.indexes.vectors.shard_view import ShardView
from scholarbase.indexes.vectors.space import check_space, required_bytes

HNSW_EF: Final = 384
"""Candidates held while the graph is walked. Among 600,000 vectors of 1,024 dimensions 350 found 0.980 of the true top
100 of real questions, 384 found 0.982, and 448 found 0.986."""
OVERSAMPLING: Final = 2.0
"""Candidates by codes, for each hit wanted, that are scored again with the stored vectors. Twice as many found 0.995 of
the true top 1,000 among 48,384 MiniLM vectors, one and a half times as many 0.974."""
FULL_SCAN_KB: Final = 10_000
"""Below so many kilobytes of vectors Qdrant compares with all of them rather than walk the graph, to which it adds no
links for filters that leave fewer. With a tenth of this, 50,000 vectors took twice as long to build and to search."""

SPARSE_FULL_SCAN: Final = 20_000
"""Up to so many points of a segment that pass a filter are scored one by one, instead of walking the posting lists. By
Qdrant's default, 5,000, one year of 1.3 million papers took 5.0 ms; now 4.2."""

EXACT_WITHIN: Final = 10_000
"""Up to so many ids in ``within``, all of them are compared: the graph has no links between them to walk, so that
it may miss some."""

SEGMENT_POINTS: Final = 100_000
"""Points of a segment without dense vectors: 0.4 GB while it is built."""
DENSE_SEGMENT_POINTS: Final = 1_000_000
"""Points of a segment with dense vectors: walking one graph of all is faster than several, but building one of 600,000
vectors of 1,024 dimensions holds 7 GB of memory, mapped files counted."""

_IDS_AT_ONCE: Final = 10_000
_MANY_SEGMENTS: Final = 1_000_000
"""Up to so many Qdrant would not merge them."""


class EdgeIndex:
    """A shard open for searching. Safe to share between threads; queries of one process take turns."""

    def __init__(
        self, shard: qdrant.EdgeShard, path: Path, config: VectorConfig, view: ShardView | None = None
    ):
        self.path = path
        self.config = config
        self._shard = shard
        self._view = view
        self._closed = False

    @classmethod
    def open(
        cls, path: Path, *, view: bool = True, temporary: Path | None = None, threads: int | None = None
    ) -> EdgeIndex:
        """Open the shard at ``path``.

        Qdrant rewrites small files of a shard that it opens. With ``view`` it is given a private folder that
        shares the large files with the shard, so that the shard itself never changes and may be read-only;
        without, the shard must belong to this process alone. ``temporary`` is where a view goes that cannot be
        made beside the shard.

        Raises:
            VectorIndexError: no shard there, or one that cannot be read.
            StorageError: no room for the view.
        """
        path = Path(path)
        config = read_config(path)
        private = ShardView.open(path, temporary) if view else None
        try:
            with engine(path, "be opened"):
                shard = qdrant.EdgeShard.load(
                    str(private.path if private else path), edge_config(config, threads=threads)
                )
        except BaseException:
            if private:
                private.close()
            raise
        return cls(shard, path, config, private)

    def search_dense(
        self, vector: npt.NDArray[np.float32], limit: int, filters: ResolvedFilters, *, exact: bool = False
    ) -> list[ScoredId]:
        """See :class:`VectorIndex`. Without ``exact`` a hit may be missed, except among few ids ``within``."""
        check_limit(limit)
        exact = exact or is_exact(filters)
        query = check_dense(vector, self.config.dimensions, "The query").tolist()
        if filters.within is not None and not filters.within:
            return []
        nearest = qdrant.Query.Nearest(query, using=DENSE)
        condition = edge_filter(filters)

        def fetch(count: int) -> list[ScoredId]:
            if exact:
                params = qdrant.SearchParams(
                    exact=True, quantization=qdrant.QuantizationSearchParams(ignore=True)
                )
            else:
                params = qdrant.SearchParams(
                    hnsw_ef=max(HNSW_EF, count),
                    quantization=qdrant.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING),
                )
            return self._query(nearest, count, condition, params)

        return best(fetch, limit)

    def search_sparse(
        self, name: str, vector: SparseVector, limit: int, filters: ResolvedFilters
    ) -> list[ScoredId]:
        """See :class:`VectorIndex`. An empty query vector has no results. Always exact."""
        check_limit(limit)
        indices, values = check_sparse(name, vector, self.config, "The query")
        if not len(indices) or (filters.within is not None and not filters.within):
            return []
        query = qdrant.SparseVector([int(i) for i in indices], [float(v) for v in values])
        nearest = qdrant.Query.Nearest(query, using=name)
        condition = edge_filter(filters)
        hits = best(lambda count: self._query(nearest, count, condition, None), limit)
        return [hit for hit in hits if hit.score > 0]

    def _query(
        self,
        query: qdrant.Query,
        limit: int,
        condition: qdrant.Filter | None,
        params: qdrant.SearchParams | None,
    ) -> list[ScoredId]:
        with engine(self.path, "answer a query"):
            found = self._shard.query(
                qdrant.QueryRequest(limit=limit, query=query, filter=condition, params=params)
            )
        return [ScoredId(point_id(point.id), point.score) for point in found]

    def count(self, filters: ResolvedFilters, *, vector: str | None = None) -> int:
        """See :class:`VectorIndex`. The count is exact."""
        if vector is not None:
            check_vector_name(vector, self.config)
        if filters.within is not None and not filters.within:
            return 0
        with engine(self.path, "count its points"):
            return self._shard.count(qdrant.CountRequest(exact=True, filter=edge_filter(filters, vector)))

    def sparse_vectors(self, name: str, ids: Sequence[int]) -> dict[int, SparseVector]:
        """See :class:`VectorIndex`."""
        check_vector_name(name, self.config)
        with engine(self.path, "give vectors"):
            records = self._shard.retrieve(list(ids), with_payload=False, with_vector=[name])
        found = {}
        for record in records:
            vector = record.vector.get(name) if isinstance(record.vector, dict) else None
            if isinstance(vector, EngineVector):
                found[point_id(record.id)] = ascending(vector.indices, vector.values)
        return found

    def ids(self) -> Iterator[int]:
        """See :class:`VectorIndex`."""
        for records in self._scroll(_IDS_AT_ONCE, whole=False):
            for record in records:
                yield point_id(record.id)

    def points(self, batch: int = 1000, *, start: int = 0) -> Iterator[list[VectorPoint]]:
        """See :class:`VectorIndex`; from the id ``start`` on. Dense vectors come as they are stored: float16
        precision, unit length."""
        for records in self._scroll(batch, whole=True, start=start):
            yield [_vector_point(record) for record in records]

    def _scroll(self, batch: int, *, whole: bool, start: int = 0) -> Iterator[list[qdrant.Record]]:
        offset: Any = start
        while True:
            with engine(self.path, "list its points"):
                records, offset = self._shard.scroll(
                    qdrant.ScrollRequest(offset=offset, limit=batch, with_payload=whole, with_vector=whole)
                )
            if records:
                yield records
            if offset is None:
                return

    def close(self) -> None:
        """Close the shard and remove its view. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            with engine(self.path, "be closed"):
                self._shard.close()
        finally:
            if self._view:
                self._view.close()


class EdgeWriter:
    """A shard being built, by one process alone."""

    def __init__(self, shard: qdrant.EdgeShard, path: Path, config: VectorConfig) -> None:
        self.path = path
        self.config = config
        self._shard = shard
        self._closed = False

    @property
    def segment_points(self) -> int:
        """After so many points ``seal`` is due."""
        return SEGMENT_POINTS if self.config.dimensions is None else DENSE_SEGMENT_POINTS

    @classmethod
    def open(cls, path: Path, config: VectorConfig) -> EdgeWriter:
        """Create a shard at ``path``, or go on with the one that a killed job left there.

        A new shard appears at ``path`` whole, with its payload indexes, or not at all.

        Raises:
            VectorIndexError: a shard with another layout is there, or one that cannot be read.
            StorageError: the folder cannot be made, or the disk is full.
        """
        path = Path(path)
        check_space(path, required_bytes(config, 0))
        if not path.exists():
            _create(path, config)
        found = read_config(path)
        if (found.dimensions, found.learned) != (config.dimensions, config.learned):
            raise VectorIndexError(
                f"The vector index at {path} was begun as {found}, not as {config}: remove it to begin anew."
            )
        # What a build that was killed had begun: nothing refers to it, and Qdrant would leave it there.
        shutil.rmtree(path / "temp_segments", ignore_errors=True)
        with engine(path, "be opened for writing"):
            shard = qdrant.EdgeShard.load(str(path), edge_config(config))
        return cls(shard, path, config)

    def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Add points, or replace those with the same ids.

        Raises:
            VectorIndexError: a vector that cannot stand in this index; then none of ``points`` is added.
            StorageError: the disk is full.
        """
        check_points(points, self.config)
        if not points:
            return
        check_space(self.path, required_bytes(self.config, len(points)))
        with engine(self.path, "take points"):
            self._shard.update(qdrant.UpdateOperation.upsert_points([_edge_point(point) for point in points]))

    def flush(self) -> None:
        """See :class:`VectorWriter`."""
        with engine(self.path, "write its points to disk"):
            self._shard.flush()

    def seal(self) -> None:
        """Build the search structures of all points that have none yet, as one segment, and make it durable.

        Record before it how far the work has come, and repeat it where it was cut off: points that are upserted
        again once they are sealed make their segment be built anew. Sealing what is sealed does nothing.
        """
        self.flush()
        with engine(self.path, "build its search structures"):
            self._shard.optimize()
        self.flush()

    def finish(self) -> None:
        """See :class:`VectorWriter`. Finishing what is finished does nothing."""
        self.seal()

    def close(self) -> None:
        """Close the shard. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        with engine(self.path, "be closed"):
            self._shard.close()


def _create(path: Path, config: VectorConfig) -> None:
    """Make an empty shard beside ``path`` and move it there: a killed job leaves a whole shard or none."""
    growing = path.with_name(f"{path.name}.new")
    try:
        if growing.exists():
            shutil.rmtree(growing)
        growing.mkdir(parents=True)
    except OSError as error:
        raise StorageError(f"No folder for the vector index can be made at {growing}: {error}.") from error
    with engine(path, "be created"):
        shard = qdrant.EdgeShard.create(str(growing), edge_config(config))
        # Before any point: an index made later would leave the points that are there to a slower way.
        for field in INTEGER_FIELDS:
            number = qdrant.IntegerIndexParams(lookup=False, range=True, memory=qdrant.Memory.Cold)
            shard.update(qdrant.UpdateOperation.create_field_index(field, number))
        for field in KEYWORD_FIELDS:
            keyword = qdrant.KeywordIndexParams(memory=qdrant.Memory.Cold)
            shard.update(qdrant.UpdateOperation.create_field_index(field, keyword))
        shard.flush()
        shard.close()
    growing.rename(path)


def edge_config(config: VectorConfig, *, threads: int | None = None) -> qdrant.EdgeConfig:
    """The layout in Qdrant's words. ``threads`` is how many search at once, by default as many as there are cores."""
    dense = None
    if config.dimensions is not None:
        dense = {
            DENSE: qdrant.EdgeVectorParams(
                size=config.dimensions,
                distance=qdrant.Distance.Cosine,
                datatype=qdrant.VectorStorageDatatype.Float16,
                hnsw_config=qdrant.HnswIndexConfig(
                    m=config.m, ef_construct=config.ef_construct, full_scan_threshold=FULL_SCAN_KB
                ),
                quantization_config=qdrant.TurboQuantQuantizationConfig(bits=qdrant.TurboQuantBitSize.Bits2)
                if config.quantization
                else None,
            )
        }
    # Cold is mapped and read when it is wanted; by default each process holds posting lists of its own.
    lists: dict[str, Any] = {"full_scan_threshold": SPARSE_FULL_SCAN, "memory": qdrant.Memory.Cold}
    sparse = {BM25: qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf, **lists)}
    if config.learned:
        sparse[LEARNED] = qdrant.EdgeSparseVectorParams(**lists)
    return qdrant.EdgeConfig(
        vectors=dense,
        sparse_vectors=sparse,
        # Sealed however small, and never merged: merging takes memory for all. A segment with a dead copy of a point
        # that was upserted again is built anew: the copy would count in document frequencies.
        optimizers=qdrant.EdgeOptimizersConfig(
            indexing_threshold=1,
            default_segment_number=_MANY_SEGMENTS,
            deleted_threshold=1e-9,
            vacuum_min_vector_number=1,
        ),
        # Ten times as fast to find points by id as in a mapped file, which long lists within or to exclude need.
        id_tracker_memory=qdrant.Memory.Pinned,
        max_search_threads=threads,
        wal_enabled=False,
    )


def read_config(path: Path) -> VectorConfig:
    """The layout of the shard at ``path``, as Qdrant itself wrote it down.

    Raises:
        VectorIndexError: no shard there, or its ``edge_config.json`` cannot be understood.
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
        )
    except FileNotFoundError as error:
        raise VectorIndexError(
            f"No vector index at {path}: the library is not whole. Build it again with `scholarbase ingest`."
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise VectorIndexError(f"{file} cannot be read as a vector index's layout: {error!r}.") from error


def _quantization(path: Path, written: Any) -> str | None:
    """Raises VectorIndexError: codes of a kind that is not made here."""
    if written is None:
        return None
    if written != {"turbo": {"bits": "bits2"}}:
        raise VectorIndexError(
            f"The vector index at {path} has codes of another kind, {json.dumps(written)}: build the library again "
            "with `scholarbase ingest`."
        )
    return TURBO2


def is_exact(filters: ResolvedFilters) -> bool:
    """Whether the filters leave so few ids that all of them are compared."""
    return filters.within is not None and len(filters.within) <= EXACT_WITHIN


def edge_filter(filters: ResolvedFilters, vector: str | None = None) -> qdrant.Filter | None:
    """The filters as Qdrant's conditions. A field that a point lacks fails every condition on it."""
    must: list[Any] = []
    if filters.first_day is not None:
        must.append(qdrant.FieldCondition("first_day", range=qdrant.RangeFloat(gte=filters.first_day)))
    if filters.last_day is not None:
        must.append(qdrant.FieldCondition("last_day", range=qdrant.RangeFloat(lte=filters.last_day)))
    if filters.min_citations is not None:
        must.append(
            qdrant.FieldCondition("citation_count", range=qdrant.RangeFloat(gte=filters.min_citations))
        )
    if filters.categories:
        must.append(qdrant.FieldCondition("categories", match=qdrant.MatchAny(list(filters.categories))))
    if filters.venues:
        must.append(qdrant.FieldCondition("venue", match=qdrant.MatchAny(list(filters.venues))))
    if filters.within is not None:
        must.append(qdrant.HasIdCondition(set(filters.within)))
    if vector is not None:
        must.append(qdrant.HasVectorCondition(vector))
    must_not: list[Any] = [qdrant.HasIdCondition(set(filters.exclude))] if filters.exclude else []
    if not must and not must_not:
        return None
    return qdrant.Filter(must=must or None, must_not=must_not or None)


@contextmanager
def engine(path: Path, action: str) -> Iterator[None]:
    """Every failure of the engine as a sentence. It raises bare exceptions, and panics of its own kind."""
    try:
        yield
    except ScholarBaseError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if "No space left" in str(error) or "Not enough space" in str(error):
            raise StorageError(
                f"The disk under {path} is full: free some space and start again ({error})."
            ) from error
        raise VectorIndexError(f"The vector index at {path} failed to {action}: {error}") from error


def _edge_point(point: VectorPoint) -> qdrant.Point:
    vectors: dict[str, Any] = {
        # A vector without terms is no vector: it could never be found, and must not count as one.
        name: _edge_vector(vector)
        for name, vector in point.sparse.items()
        if len(vector.indices)
    }
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    return qdrant.Point(point.id, vectors, payload_dict(point.payload))


def _edge_vector(vector: SparseVector | EngineVector) -> EngineVector:
    if isinstance(vector, EngineVector):
        return vector
    return EngineVector([int(i) for i in vector.indices], [float(v) for v in vector.values])


def _vector_point(record: qdrant.Record) -> VectorPoint:
    vectors: Mapping[str, Any] = record.vector if isinstance(record.vector, dict) else {}
    dense = vectors.get(DENSE)
    sparse = {
        name: ascending(vector.indices, vector.values)
        for name, vector in sorted(vectors.items())
        if name != DENSE
    }
    return VectorPoint(
        id=point_id(record.id),
        payload=payload_of(record.payload),
        dense=None if dense is None else np.asarray(dense, dtype=np.float32),
        sparse=sparse,
    )
