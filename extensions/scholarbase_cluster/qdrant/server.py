"""The vector index on Qdrant servers, open for searching.

The points of a snapshot are in a collection of their own, named after an alias and the snapshot, which
``scholarbase load`` fills. Searching it is what ``EdgeIndex`` does on the library's own shard, and returns
the same scores. Requests use gRPC, and responses are read without objects of qdrant-client.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from qdrant_client import grpc
from qdrant_client.conversions.conversion import value_to_json

from scholarbase.errors import LibraryCorrupt, VectorIndexError
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import (
    DENSE,
    QueryVector,
    ScoredId,
    Search,
    SparseVector,
    VectorConfig,
    foreign_id,
    qdrant_filter,
    scored_id,
)
from scholarbase.indexes.vectors.index import (
    EXTRA_HITS,
    HNSW_EF,
    LONG_EXCLUSION,
    VectorIndex,
    has_few,
    search_params,
)
from scholarbase.settings import Settings
from scholarbase_cluster.qdrant.nodes import Nodes, open_nodes

SNAPSHOT: Final = "snapshot"
COMPLETE: Final = "complete"
LAYOUT: Final = "layout"
"""The keys of a collection's metadata: its snapshot, whether all points are loaded, and its :class:`VectorConfig`."""
SNAPSHOT_DIGITS: Final = 16
"""Digits of the snapshot's id in the name of its collection."""


_READ_WITH_HITS: Final = 2_000
"""Hits of an exact search whose vectors are in its response."""


class _Known(NamedTuple):
    """What a request has read: hits, or the error, by the serialized query; and all vectors that a point was read with,
    by name and id."""

    hits: dict[bytes, list[ScoredId] | VectorIndexError]
    vectors: dict[str, dict[int, Any]]


_KNOWN: Final[ContextVar[_Known | None]] = ContextVar("scholarbase-qdrant-known", default=None)


def collection_name(alias: str, snapshot: str) -> str:
    """The name of a snapshot's collection, such as ``papers-0123456789abcdef``."""
    return f"{alias}-{snapshot[:SNAPSHOT_DIGITS]}"


def open_collection(snapshot: str, settings: Settings) -> ServerIndex:
    """The collection of a library's snapshot on the server of the settings. Raises as :meth:`ServerIndex.open`."""
    nodes = open_nodes(settings.qdrant_url, settings)
    try:
        return ServerIndex.open(nodes, settings.qdrant_alias, snapshot)
    except BaseException:
        nodes.close()
        raise


class ServerIndex(VectorIndex):
    """A collection open for searching. Safe to share between threads."""

    is_remote: ClassVar[bool] = True

    def __init__(self, nodes: Nodes, collection: str, config: VectorConfig) -> None:
        super().__init__(config)
        self.collection = collection
        self._nodes = nodes

    @classmethod
    def open(cls, nodes: Nodes, alias: str, snapshot: str) -> ServerIndex:
        """Open the collection that ``alias`` points to, which must be that of the library's ``snapshot``.

        The index keeps using that collection when the alias is switched later, until the collection is deleted.
        ``close`` closes the connections.

        Raises:
            VectorIndexError: no node can be reached, or there is no such alias.
            LibraryCorrupt: the alias points to another snapshot, or to one that is not completely loaded.
        """
        action = f"open {alias!r}"
        asked = grpc.CollectionExistsRequest(collection_name=alias)
        if not nodes.ask(action, lambda node: node.collections.CollectionExists, asked).result.exists:
            raise VectorIndexError(
                f"The Qdrant server has no collection {alias!r}: load the library's vectors into it first, or open "
                f"the library without a server."
            )
        about = grpc.GetCollectionInfoRequest(collection_name=alias)
        config = nodes.ask(action, lambda node: node.collections.Get, about).result.config
        metadata = {name: value_to_json(value) for name, value in config.metadata.items()}
        if metadata.get(SNAPSHOT) != snapshot:
            raise LibraryCorrupt(
                f"{alias!r} on the Qdrant server has the vectors of snapshot {metadata.get(SNAPSHOT)!r}, but this "
                f"library is {snapshot!r}: load this library's vectors, or open the library they belong to."
            )
        if metadata.get(COMPLETE) is not True:
            raise LibraryCorrupt(
                f"{alias!r} on the Qdrant server is not completely loaded: load the vectors again."
            )
        return cls(nodes, collection_name(alias, snapshot), VectorConfig.from_dict(metadata[LAYOUT]))

    def search_dense(
        self,
        vector: npt.NDArray[np.float32],
        limit: int,
        filters: ResolvedFilters,
        *,
        exact: bool = False,
        ef: int = HNSW_EF,
    ) -> list[ScoredId]:
        with self._known():
            return super().search_dense(vector, limit, filters, exact=exact, ef=ef)

    def nearest(
        self, name: str, vector: QueryVector, limit: int, filters: ResolvedFilters, *, ef: int | None
    ) -> Sequence[ScoredId]:
        query = self._query(name, vector, limit, filters, ef)
        known = _KNOWN.get()
        hits = None if known is None else known.hits.get(query.SerializeToString(deterministic=True))
        if isinstance(hits, VectorIndexError):
            raise hits
        if hits is not None:
            return hits
        if known is not None and (names := _for_exact_scores(query)):
            query.with_vectors.CopyFrom(_named(names))
        [points] = self._nearest([query], _key(vector))
        if known is not None:
            _keep(known, points, query.with_vectors.include.names)
        return _hits(points)

    @contextmanager
    def _known(self) -> Iterator[_Known]:
        """What this block has read. A block within another one shares what the outer one has read."""
        known = _KNOWN.get()
        if known is not None:
            yield known
            return
        token = _KNOWN.set(known := _Known({}, {}))
        try:
            yield known
        finally:
            _KNOWN.reset(token)

    @contextmanager
    def ahead(self, searches: Sequence[Search]) -> Iterator[None]:
        """As :meth:`.VectorIndex.ahead`. An error is raised by each of the searches."""
        made = [search for search in searches if len(search.filters.exclude) <= LONG_EXCLUSION]
        vectors = [
            search.vector.tolist() if isinstance(search.vector, np.ndarray) else search.vector
            for search in made
        ]
        queries = [
            self._query(
                search.name,
                vector,
                search.limit + EXTRA_HITS,
                search.filters,
                HNSW_EF if search.name == DENSE and not (search.exact or has_few(search.filters)) else None,
            )
            for search, vector in zip(made, vectors, strict=True)
        ]
        keys = [query.SerializeToString(deterministic=True) for query in queries]
        with self._known() as known:
            for query, search in zip(queries, made, strict=True):
                if names := search.vectors or _for_exact_scores(query):
                    query.with_vectors.CopyFrom(_named(names))
            try:
                results = self._nearest(queries, _key(vectors[0])) if queries else []
                for key, points, query in zip(keys, results, queries, strict=True):
                    known.hits[key] = _hits(points)
                    _keep(known, points, query.with_vectors.include.names)
            except VectorIndexError as error:
                known.hits.update(dict.fromkeys(keys, error))
            yield

    def _nearest(self, queries: Sequence[Any], key: int) -> list[Any]:
        """The points of each query."""
        request = grpc.QueryBatchPoints(collection_name=self.collection, query_points=queries)
        action = f"search {self.collection!r}"
        response = self._nodes.ask(action, lambda node: node.points.QueryBatch, request, key)
        return [batch.result for batch in response.result]

    def _query(
        self, name: str, vector: QueryVector, limit: int, filters: ResolvedFilters, ef: int | None
    ) -> Any:
        """A search as the message of gRPC, the same bytes for the same search."""
        if isinstance(vector, list):
            near = grpc.VectorInput(dense=grpc.DenseVector(data=vector))
        else:
            indices, values = np.array(vector.indices, np.uint32), np.array(vector.values, np.float32)
            order = np.argsort(indices)
            sparse = grpc.SparseVector(indices=indices[order].tolist(), values=values[order].tolist())
            near = grpc.VectorInput(sparse=sparse)
        return grpc.QueryPoints(
            collection_name=self.collection,
            query=grpc.Query(nearest=near),
            using=name,
            limit=limit,
            filter=_filter(filters),
            params=search_params(grpc, name, limit, ef),
            with_payload=_selected(False),
        )

    def count_points(self, filters: ResolvedFilters, vector: str | None) -> int:
        request = grpc.CountPoints(
            collection_name=self.collection, filter=_filter(filters, vector), exact=True
        )
        action = f"count the points of {self.collection!r}"
        return int(self._nodes.ask(action, lambda node: node.points.Count, request).result.count)

    def values(self, field: str, most: int) -> dict[str, int]:
        request = grpc.FacetCounts(collection_name=self.collection, key=field, limit=most)
        action = f"count the values of {self.collection!r}"
        hits = self._nodes.ask(action, lambda node: node.points.Facet, request).hits
        return {hit.value.string_value: hit.count for hit in hits}

    def retrieve(self, name: str, ids: Sequence[int]) -> list[Any]:
        known = _KNOWN.get()
        read = {} if known is None else known.vectors.get(name, {})
        records = [
            SimpleNamespace(id=point_id, vector=read[point_id]) for point_id in ids if point_id in read
        ]
        unknown = [point_id for point_id in ids if point_id not in read]
        if not unknown:
            return records
        request = grpc.GetPoints(
            collection_name=self.collection,
            ids=_points(unknown),
            with_payload=_selected(False),
            with_vectors=_named((name,)),
        )
        action = f"read vectors of {self.collection!r}"
        points = self._nodes.ask(action, lambda node: node.points.Get, request).result
        return records + list(map(_record, points))

    def first(self, filters: ResolvedFilters, order: tuple[str, bool] | None = None) -> dict[str, Any] | None:
        by = None
        if order is not None:
            by = grpc.OrderBy(key=order[0], direction=grpc.Direction.Desc if order[1] else grpc.Direction.Asc)
        records = self._scroll(1, filter=_filter(filters), order_by=by, with_payload=_selected(True)).result
        return _record(records[0]).payload if records else None

    def scroll(self, offset: Any, limit: int, *, payload: bool, vectors: bool) -> tuple[list[Any], Any]:
        response = self._scroll(
            limit,
            offset=None if offset is None else grpc.PointId(num=offset),
            with_payload=_selected(payload),
            with_vectors=grpc.WithVectorsSelector(enable=vectors),
        )
        following = response.next_page_offset.num if response.HasField("next_page_offset") else None
        return list(map(_record, response.result)), following

    def _scroll(self, limit: int, **options: Any) -> Any:
        request = grpc.ScrollPoints(collection_name=self.collection, limit=limit, **options)
        action = f"read the points of {self.collection!r}"
        return self._nodes.ask(action, lambda node: node.points.Scroll, request)

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()


# -- messages -------------------------------------------------------------------------------------------


def _filter(filters: ResolvedFilters, vector: str | None = None) -> Any:
    conditions = qdrant_filter(filters, vector)
    return None if conditions is None else _clauses(conditions)


def _clauses(written: dict[str, Any]) -> Any:
    clauses: dict[str, Any] = {name: map(_condition, conditions) for name, conditions in written.items()}
    return grpc.Filter(**clauses)


def _condition(written: dict[str, Any]) -> Any:
    """A condition of :func:`qdrant_filter` as one of gRPC."""
    if "has_id" in written:
        return grpc.Condition(has_id=grpc.HasIdCondition(has_id=_points(written["has_id"])))
    if "has_vector" in written:
        return grpc.Condition(has_vector=grpc.HasVectorCondition(has_vector=written["has_vector"]))
    if "range" in written:
        field = grpc.FieldCondition(key=written["key"], range=grpc.Range(**written["range"]))
        return grpc.Condition(field=field)
    if "match" in written:
        words = grpc.Match(keywords=grpc.RepeatedStrings(strings=written["match"]["any"]))
        return grpc.Condition(field=grpc.FieldCondition(key=written["key"], match=words))
    return grpc.Condition(filter=_clauses(written))


def _points(ids: Iterable[int]) -> list[Any]:
    return [grpc.PointId(num=number) for number in ids]


def _selected(payload: bool) -> Any:
    return grpc.WithPayloadSelector(enable=payload)


def _named(names: Sequence[str]) -> Any:
    return grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=names))


def _key(vector: QueryVector) -> int:
    """A number of a query. Replicas have graphs of their own, which may miss other papers: the same query goes to the
    same node."""
    numbers = vector if isinstance(vector, list) else sorted(vector.indices)
    return zlib.crc32(np.array(numbers).tobytes())


def _hits(points: Any) -> list[ScoredId]:
    hits = [scored_id((point.id.num, point.score)) for point in points]
    for number, hit in enumerate(hits):
        if hit.id == 0:
            _number(points[number])
    return hits


def _for_exact_scores(query: Any) -> tuple[str, ...]:
    """The vectors that give the exact scores of an exact search, unless they are too many for one response."""
    return (DENSE,) if query.params.exact and query.limit <= _READ_WITH_HITS else ()


def _keep(known: _Known, points: Any, names: Sequence[str]) -> None:
    """Keep the vectors of these names; a point without is kept as such."""
    for point in points if names else ():
        vectors = _vectors(point)
        for name in names:
            known.vectors.setdefault(name, {})[point.id.num] = vectors


def _record(point: Any) -> Any:
    payload = {name: value_to_json(value) for name, value in point.payload.items()}
    return SimpleNamespace(id=_number(point), payload=payload, vector=_vectors(point))


def _number(point: Any) -> int:
    if point.id.uuid:
        raise foreign_id(point.id.uuid)
    return int(point.id.num)


def _vectors(point: Any) -> dict[str, npt.NDArray[np.float32] | SparseVector]:
    """The vectors of a point by name, dense ones as arrays."""
    vectors: dict[str, npt.NDArray[np.float32] | SparseVector] = {}
    for name, vector in point.vectors.vectors.vectors.items():
        if vector.HasField("dense"):
            # The numbers are the last bytes: many times as fast as one after the other.
            count = len(vector.dense.data)
            written = vector.dense.SerializeToString()
            vectors[name] = np.frombuffer(written, "<f4", count, len(written) - 4 * count)
        elif vector.HasField("sparse"):
            vectors[name] = SparseVector(list(vector.sparse.indices), list(vector.sparse.values))
        elif vector.HasField("indices"):  # older servers
            vectors[name] = SparseVector(list(vector.indices.data), list(vector.data))
        else:
            vectors[name] = np.array(vector.data, np.float32)
    return vectors
