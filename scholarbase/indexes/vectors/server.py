"""The vector index on Qdrant servers, open for searching.

The points of a snapshot are in a collection of their own, named after an alias and the snapshot, which
``scholarbase load`` fills. Searching it is what :class:`.index.EdgeIndex` does on the library's own shard, and returns
the same scores. Requests use gRPC, and responses are read without objects of qdrant-client.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
from qdrant_client import grpc, models
from qdrant_client.conversions.conversion import value_to_json

from scholarbase.errors import LibraryCorrupt, VectorIndexError
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import (
    DENSE,
    EngineVector,
    Hits,
    Nearest,
    SparseVector,
    VectorConfig,
    foreign_id,
    qdrant_filter,
)
from scholarbase.indexes.vectors.index import LONG_EXCLUSION, VectorIndex, search_params
from scholarbase.indexes.vectors.nodes import Nodes

SNAPSHOT: Final = "snapshot"
COMPLETE: Final = "complete"
LAYOUT: Final = "layout"
"""The keys of a collection's metadata: its snapshot, whether all points are loaded, and its :class:`VectorConfig`."""
SNAPSHOT_DIGITS: Final = 16
"""Digits of the snapshot's id in the name of its collection."""


def collection_name(alias: str, snapshot: str) -> str:
    """The name of a snapshot's collection, such as ``papers-0123456789abcdef``."""
    return f"{alias}-{snapshot[:SNAPSHOT_DIGITS]}"


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

    def nearest(self, search: Nearest) -> Hits:
        [hits] = self._nearest([search], [self._query(search)])
        return hits

    def ahead(self, searches: Sequence[Nearest]) -> VectorIndex:
        return _Ahead(self, searches)

    def _nearest(self, searches: Sequence[Nearest], queries: Sequence[Any]) -> list[Hits]:
        """The results of searches that are sent together, as these messages."""
        request = grpc.QueryBatchPoints(collection_name=self.collection, query_points=queries)
        # Replicas have graphs of their own, which may miss other papers: the same query goes to the same node.
        vector = next((one.vector for one in searches if one.name == DENSE), searches[0].vector)
        key = zlib.crc32(np.array(vector if isinstance(vector, list) else sorted(vector.indices)).tobytes())
        action = f"search {self.collection!r}"
        response = self._nodes.ask(action, lambda node: node.points.QueryBatch, request, key)
        return [
            _hits(found.result, search.vectors)
            for found, search in zip(response.result, searches, strict=True)
        ]

    def _query(self, search: Nearest) -> Any:
        """A search as the message of gRPC, the same bytes for the same search."""
        vector = search.vector
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
            using=search.name,
            limit=search.limit,
            filter=_filter(search.filters),
            params=search_params(grpc, search),
            with_payload=_selected(False),
            with_vectors=_named(search.vectors) if search.vectors else None,
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
        request = grpc.GetPoints(
            collection_name=self.collection,
            ids=_points(ids),
            with_payload=_selected(False),
            with_vectors=_named((name,)),
        )
        action = f"read vectors of {self.collection!r}"
        return list(map(_record, self._nodes.ask(action, lambda node: node.points.Get, request).result))

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


class _Ahead(ServerIndex):
    """A collection, with the results of some searches of one request. An error of those is raised where they are
    needed."""

    def __init__(self, index: ServerIndex, searches: Sequence[Nearest]) -> None:
        super().__init__(index._nodes, index.collection, index.config)
        searches = [one for one in searches if len(one.filters.exclude) <= LONG_EXCLUSION]
        queries = [self._query(search) for search in searches]
        self._made: dict[bytes, Hits | VectorIndexError] = {}
        self._read: dict[tuple[str, int], Any] = {}
        if not searches:
            return
        try:
            found: Sequence[Hits | VectorIndexError] = self._nearest(searches, queries)
        except VectorIndexError as error:
            found = [error] * len(searches)
        for query, hits in zip(queries, found, strict=True):
            query.ClearField("with_vectors")
            self._made[query.SerializeToString(deterministic=True)] = hits
            if isinstance(hits, Hits):
                for name, vectors in hits.vectors.items():
                    self._read |= {(name, number): vector for number, vector in vectors.items()}

    def nearest(self, search: Nearest) -> Hits:
        query = self._query(search._replace(vectors=()))
        made = self._made.get(query.SerializeToString(deterministic=True))
        if isinstance(made, VectorIndexError):
            raise made
        return super().nearest(search) if made is None else made

    def retrieve(self, name: str, ids: Sequence[int]) -> list[Any]:
        known = [(one, self._read[name, one]) for one in ids if (name, one) in self._read]
        unknown = [one for one in ids if (name, one) not in self._read]
        records = [SimpleNamespace(id=one, vector={name: it}) for one, it in known if it is not None]
        return records + (super().retrieve(name, unknown) if unknown else [])


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


def _hits(points: Any, names: Sequence[str]) -> Hits:
    ids = np.fromiter((point.id.num for point in points), np.int64, len(points))
    scores = np.fromiter((point.score for point in points), np.float64, len(points))
    for position in np.flatnonzero(ids == 0).tolist():
        _number(points[position])
    if not names:
        return Hits(ids, scores)
    found = [_vectors(point) for point in points]
    numbers = ids.tolist()
    return Hits(
        ids,
        scores,
        {name: {one: it.get(name) for one, it in zip(numbers, found, strict=True)} for name in names},
    )


def _record(point: Any) -> Any:
    payload = {name: value_to_json(value) for name, value in point.payload.items()}
    return SimpleNamespace(id=_number(point), payload=payload, vector=_vectors(point))


def _number(point: Any) -> int:
    if point.id.uuid:
        raise foreign_id(point.id.uuid)
    return int(point.id.num)


def _vectors(point: Any) -> dict[str, npt.NDArray[np.float32] | SparseVector]:
    """The vectors of a point by name, dense ones as arrays."""
    found: dict[str, npt.NDArray[np.float32] | SparseVector] = {}
    for name, vector in point.vectors.vectors.vectors.items():
        if vector.HasField("dense"):
            # The numbers are the last bytes: many times as fast as one after the other.
            count = len(vector.dense.data)
            written = vector.dense.SerializeToString()
            found[name] = np.frombuffer(written, "<f4", count, len(written) - 4 * count)
        elif vector.HasField("sparse"):
            found[name] = SparseVector(list(vector.sparse.indices), list(vector.sparse.values))
        elif vector.HasField("indices"):  # older servers
            found[name] = SparseVector(list(vector.indices.data), list(vector.data))
        else:
            found[name] = np.array(vector.data, np.float32)
    return found


def sparse_vector(vector: SparseVector | EngineVector) -> models.SparseVector:
    """A sparse vector as one of qdrant-client."""
    return models.SparseVector(
        indices=[int(i) for i in vector.indices], values=[float(v) for v in vector.values]
    )
