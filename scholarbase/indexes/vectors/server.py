"""The vector index on Qdrant servers, open for searching.

The points of a snapshot are in a collection of their own, named after an alias and the snapshot, which
``scholarbase load`` fills. Searching it is what :class:`.index.EdgeIndex` does on the library's own shard, and returns
the same scores.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from qdrant_client import AsyncQdrantClient, models

from scholarbase.errors import LibraryCorrupt, VectorIndexError
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import EngineVector, SparseVector, VectorConfig, qdrant_filter
from scholarbase.indexes.vectors.index import VectorIndex, search_params
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
        if not nodes.read(action, lambda client: client.collection_exists(alias)):
            raise VectorIndexError(
                f"The Qdrant server has no collection {alias!r}: load the library's vectors into it first, or open "
                f"the library without a server."
            )
        metadata = nodes.read(action, lambda client: client.get_collection(alias)).config.metadata or {}
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

    def nearest(
        self,
        name: str,
        vector: list[float] | SparseVector | EngineVector,
        limit: int,
        filters: ResolvedFilters,
        *,
        ef: int | None,
    ) -> list[models.ScoredPoint]:
        params = search_params(models, name, limit, ef)
        query = vector if isinstance(vector, list) else sparse_vector(vector)
        condition = _filter(filters)

        async def search(client: AsyncQdrantClient) -> list[models.ScoredPoint]:
            found = await client.query_points(
                self.collection,
                query=query,
                using=name,
                limit=limit,
                query_filter=condition,
                search_params=params,
                with_payload=False,
            )
            return found.points

        # Replicas have graphs of their own, which may miss other papers: the same query goes to the same node.
        key = zlib.crc32(np.array(vector if isinstance(vector, list) else sorted(vector.indices)).tobytes())
        points = self._nodes.read(f"search {self.collection!r}", search, key)
        for point in points:
            point.score = _single(point.score)
        return points

    def count_points(self, filters: ResolvedFilters, vector: str | None) -> int:
        condition = _filter(filters, vector)

        async def count(client: AsyncQdrantClient) -> int:
            return (await client.count(self.collection, count_filter=condition, exact=True)).count

        return self._nodes.read(f"count the points of {self.collection!r}", count)

    def values(self, field: str, most: int) -> dict[str, int]:
        async def count(client: AsyncQdrantClient) -> list[models.FacetValueHit]:
            return (await client.facet(self.collection, field, limit=most)).hits

        hits = self._nodes.read(f"count the values of {self.collection!r}", count)
        return {str(hit.value): hit.count for hit in hits}

    def retrieve(self, name: str, ids: Sequence[int]) -> list[models.Record]:
        records = self._nodes.read(
            f"read vectors of {self.collection!r}",
            lambda client: client.retrieve(
                self.collection, list(ids), with_payload=False, with_vectors=[name]
            ),
        )
        return _as_stored(records)

    def first(self, filters: ResolvedFilters, order: tuple[str, bool] | None = None) -> dict[str, Any] | None:
        directions = models.Direction.ASC, models.Direction.DESC
        by = None if order is None else models.OrderBy(key=order[0], direction=directions[order[1]])
        points, _ = self._nodes.read(
            f"read a point of {self.collection!r}",
            lambda client: client.scroll(
                self.collection, scroll_filter=_filter(filters), limit=1, order_by=by, with_payload=True
            ),
        )
        return (points[0].payload or {}) if points else None

    def scroll(
        self, offset: Any, limit: int, *, payload: bool, vectors: bool
    ) -> tuple[list[models.Record], Any]:
        records, following = self._nodes.read(
            f"list the points of {self.collection!r}",
            lambda client: client.scroll(
                self.collection, limit=limit, offset=offset, with_payload=payload, with_vectors=vectors
            ),
        )
        return _as_stored(records), following

    def close(self) -> None:
        """Close the connections."""
        self._nodes.close()


def _filter(filters: ResolvedFilters, vector: str | None = None) -> models.Filter | None:
    conditions = qdrant_filter(filters, vector)
    return None if conditions is None else models.Filter.model_validate(conditions)


def sparse_vector(vector: SparseVector | EngineVector) -> models.SparseVector:
    """A sparse vector as one of qdrant-client."""
    return models.SparseVector(
        indices=[int(i) for i in vector.indices], values=[float(v) for v in vector.values]
    )


def _single(number: float) -> float:
    """The 32-bit float that a decimal number of a response stands for.

    Qdrant writes as few digits as identify it among 32-bit floats: 1.99609375 as 1.9960938.
    """
    return float(np.float32(number))


def _as_stored(records: list[models.Record]) -> list[models.Record]:
    """Records with the weights that Qdrant has. Dense vectors become arrays of 32-bit floats in any case."""
    for record in records:
        if isinstance(record.vector, dict):
            for vector in record.vector.values():
                if isinstance(vector, models.SparseVector):
                    vector.values = np.array(vector.values, np.float32).tolist()
    return records
