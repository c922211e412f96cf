"""The vector index over the network: a collection of a Qdrant server.

A library's points lie in a collection of their own, named after the snapshot, and an alias leads to it:
``papers`` to ``papers-0123456789abcdef``. A new snapshot is loaded beside the old one; once it is whole the
alias is swapped in one step. The collection's metadata says which snapshot it holds and whether it is whole, so
that a library never searches another one's vectors.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from qdrant_client import QdrantClient, models
from qdrant_client.local.qdrant_local import QdrantLocal

from scholarbase.errors import LibraryCorrupt, ScholarBaseError, VectorIndexError
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
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
from scholarbase.indexes.vectors.edge import FULL_SCAN_KB, HNSW_EF, OVERSAMPLING, is_exact
from scholarbase.indexes.vectors.payload import (
    INTEGER_FIELDS,
    KEYWORD_FIELDS,
    ascending,
    payload_dict,
    payload_of,
    point_id,
)

_IDS_AT_ONCE: Final = 10_000
_READY_SECONDS: Final = 6 * 3600


def connect(
    address: str, *, api_key: str | None = None, prefer_grpc: bool = False, timeout_seconds: int = 30
) -> QdrantClient:
    """A client of the server at ``address``, such as ``http://localhost:6333``. It does not connect yet.

    Raises:
        VectorIndexError: ``address`` is no URL.
    """
    with talking(address, "be used"):
        return QdrantClient(
            url=address,
            api_key=api_key,
            prefer_grpc=prefer_grpc,
            timeout=timeout_seconds,
            check_compatibility=False,
        )


def collection_name(alias: str, snapshot: str) -> str:
    """The collection that holds a snapshot's points."""
    return f"{alias}-{snapshot[:16]}"


class ServerIndex:
    """A collection open for searching. Safe to share between threads."""

    def __init__(self, client: QdrantClient, collection: str, config: VectorConfig) -> None:
        self.collection = collection
        self.config = config
        self.address = address_of(client)
        self._client = client
        self._local = is_local(client)

    @classmethod
    def open(cls, client: QdrantClient, alias: str, snapshot: str) -> ServerIndex:
        """Open what ``alias`` leads to, provided it holds the library's ``snapshot``, whole.

        The index goes on with that collection when the alias is swapped later, as long as it exists.

        Raises:
            VectorIndexError: the server cannot be reached, or knows no such alias.
            LibraryCorrupt: the alias leads to another snapshot, or to one that is not loaded whole.
        """
        address = address_of(client)
        with talking(address, f"open {alias!r}"):
            if not client.collection_exists(alias):
                raise VectorIndexError(
                    f"The Qdrant server at {address} has no collection {alias!r}: load the library's vectors "
                    f"into it first, or open the library with its own."
                )
            metadata = client.get_collection(alias).config.metadata or {}
        if metadata.get("snapshot") != snapshot:
            raise LibraryCorrupt(
                f"{alias!r} at {address} holds the vectors of snapshot {metadata.get('snapshot')!r}, but this library "
                f"is {snapshot!r}: load this library's vectors, or open the library they belong to."
            )
        if metadata.get("complete") is not True:
            raise LibraryCorrupt(f"{alias!r} at {address} is not loaded whole: load the vectors again.")
        return cls(client, collection_name(alias, snapshot), VectorConfig.from_dict(metadata["layout"]))

    def search_dense(
        self, vector: npt.NDArray[np.float32], limit: int, filters: ResolvedFilters, *, exact: bool = False
    ) -> list[ScoredId]:
        """See :class:`VectorIndex`. Without ``exact`` a hit may be missed, except among few ids ``within``."""
        check_limit(limit)
        exact = exact or is_exact(filters)
        query = check_dense(vector, self.config.dimensions, "The query").tolist()
        if filters.within is not None and not filters.within:
            return []
        condition = server_filter(filters)

        def fetch(count: int) -> list[ScoredId]:
            return self._query(query, DENSE, count, condition, self._params(count, exact))

        return best(fetch, limit)

    def search_sparse(
        self, name: str, vector: SparseVector, limit: int, filters: ResolvedFilters
    ) -> list[ScoredId]:
        """See :class:`VectorIndex`. An empty query vector has no results. Always exact."""
        check_limit(limit)
        indices, values = check_sparse(name, vector, self.config, "The query")
        if not len(indices) or (filters.within is not None and not filters.within):
            return []
        query = models.SparseVector(indices=[int(i) for i in indices], values=[float(v) for v in values])
        condition = server_filter(filters)
        hits = best(lambda count: self._query(query, name, count, condition, None), limit)
        return [hit for hit in hits if hit.score > 0]

    def _params(self, count: int, exact: bool) -> models.SearchParams | None:
        if self._local:  # always exact, and warns of parameters that it has no use for
            return None
        if exact:
            return models.SearchParams(exact=True, quantization=models.QuantizationSearchParams(ignore=True))
        return models.SearchParams(
            hnsw_ef=max(HNSW_EF, count),
            quantization=models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING),
        )

    def _query(
        self,
        query: list[float] | models.SparseVector,
        using: str,
        limit: int,
        condition: models.Filter | None,
        params: models.SearchParams | None,
    ) -> list[ScoredId]:
        with talking(self.address, f"answer a query of {self.collection!r}"):
            found = self._client.query_points(
                self.collection,
                query=query,
                using=using,
                limit=limit,
                query_filter=condition,
                search_params=params,
                with_payload=False,
            )
        return [ScoredId(point_id(point.id), point.score) for point in found.points]

    def count(self, filters: ResolvedFilters, *, vector: str | None = None) -> int:
        """See :class:`VectorIndex`. The count is exact."""
        if vector is not None:
            check_vector_name(vector, self.config)
        if filters.within is not None and not filters.within:
            return 0
        with talking(self.address, f"count the points of {self.collection!r}"):
            return self._client.count(
                self.collection, count_filter=server_filter(filters, vector), exact=True
            ).count

    def sparse_vectors(self, name: str, ids: Sequence[int]) -> dict[int, SparseVector]:
        """See :class:`VectorIndex`."""
        check_vector_name(name, self.config)
        with talking(self.address, f"give vectors of {self.collection!r}"):
            records = self._client.retrieve(
                self.collection, list(ids), with_payload=False, with_vectors=[name]
            )
        found = {}
        for record in records:
            vector = record.vector.get(name) if isinstance(record.vector, dict) else None
            if isinstance(vector, models.SparseVector):
                found[point_id(record.id)] = ascending(vector.indices, vector.values)
        return found

    def ids(self) -> Iterator[int]:
        """See :class:`VectorIndex`."""
        for records in self._scroll(_IDS_AT_ONCE, whole=False):
            for record in records:
                yield point_id(record.id)

    def points(self, batch: int = 1000, *, start: int = 0) -> Iterator[list[VectorPoint]]:
        """See :class:`VectorIndex`; from the id ``start`` on. Dense vectors come as they are stored."""
        for records in self._scroll(batch, whole=True, start=start):
            yield [_vector_point(record) for record in records]

    def _scroll(self, batch: int, *, whole: bool, start: int = 0) -> Iterator[list[models.Record]]:
        offset: Any = start
        while True:
            with talking(self.address, f"list the points of {self.collection!r}"):
                records, offset = self._client.scroll(
                    self.collection, limit=batch, offset=offset, with_payload=whole, with_vectors=whole
                )
            if records:
                yield records
            if offset is None:
                return

    def close(self) -> None:
        """Close the client too: an index that is opened has it for its own."""
        self._client.close()


class ServerWriter:
    """A collection being loaded. Nothing is seen through the alias before ``finish``."""

    def __init__(
        self, client: QdrantClient, alias: str, snapshot: str, config: VectorConfig, *, keep_old: bool
    ) -> None:
        self.alias = alias
        self.collection = collection_name(alias, snapshot)
        self.config = config
        self.address = address_of(client)
        self._client = client
        self._keep_old = keep_old

    @classmethod
    def open(
        cls, client: QdrantClient, alias: str, snapshot: str, config: VectorConfig, *, keep_old: bool = False
    ) -> ServerWriter:
        """Create the snapshot's collection, or go on with the one that a load broken off left there.

        ``keep_old`` keeps the alias's other collections when ``finish`` has swapped it; else they are removed.

        Raises:
            VectorIndexError: the server cannot be reached, the alias is the name of a collection, or the
                collection was begun with another layout.
        """
        writer = cls(client, alias, snapshot, config, keep_old=keep_old)
        with talking(writer.address, f"make {writer.collection!r}"):
            if any(found.name == alias for found in client.get_collections().collections):
                raise VectorIndexError(
                    f"The Qdrant server at {writer.address} has a collection named {alias!r}, so that cannot be an "
                    f"alias: choose another name, or remove the collection."
                )
            if client.collection_exists(writer.collection):
                writer._check_begun(snapshot)
            else:
                writer._create(snapshot)
            if not is_local(client):  # there they have no effect
                for field in INTEGER_FIELDS:
                    client.create_payload_index(writer.collection, field, models.PayloadSchemaType.INTEGER)
                for field in KEYWORD_FIELDS:
                    client.create_payload_index(writer.collection, field, models.PayloadSchemaType.KEYWORD)
        return writer

    def _check_begun(self, snapshot: str) -> None:
        metadata = self._client.get_collection(self.collection).config.metadata or {}
        if metadata.get("snapshot") != snapshot or metadata.get("layout") != self.config.to_dict():
            raise VectorIndexError(
                f"{self.collection!r} at {self.address} was begun as {metadata}, not as snapshot {snapshot!r} with "
                f"{self.config.to_dict()}: remove the collection to begin anew."
            )

    def _create(self, snapshot: str) -> None:
        dense = {}
        if self.config.dimensions is not None:
            two_bits = models.TurboQuantQuantizationConfig(bits=models.TurboQuantBitSize.BITS2)
            dense[DENSE] = models.VectorParams(
                size=self.config.dimensions,
                distance=models.Distance.COSINE,
                datatype=models.Datatype.FLOAT16,
                hnsw_config=models.HnswConfigDiff(
                    m=self.config.m,
                    ef_construct=self.config.ef_construct,
                    full_scan_threshold=FULL_SCAN_KB,
                ),
                quantization_config=models.TurboQuantization(turbo=two_bits)
                if self.config.quantization
                else None,
            )
        sparse = {BM25: models.SparseVectorParams(modifier=models.Modifier.IDF)}
        if self.config.learned:
            sparse[LEARNED] = models.SparseVectorParams()
        self._client.create_collection(
            self.collection,
            vectors_config=dense,
            sparse_vectors_config=sparse,
            metadata={"snapshot": snapshot, "complete": False, "layout": self.config.to_dict()},
        )

    def upsert(self, points: Sequence[VectorPoint]) -> None:
        """Add points, or replace those with the same ids. They are durable when this returns.

        Raises:
            VectorIndexError: a vector that cannot stand in this index, or the server fails.
        """
        check_points(points, self.config)
        if not points:
            return
        with talking(self.address, f"take points for {self.collection!r}"):
            self._client.upsert(self.collection, [_server_point(point) for point in points], wait=True)

    def missing(self, ids: Sequence[int]) -> list[int]:
        """Those of the ids that the collection does not hold yet."""
        with talking(self.address, f"look up points of {self.collection!r}"):
            found = self._client.retrieve(self.collection, list(ids), with_payload=False, with_vectors=False)
        held = {point.id for point in found}
        return [number for number in ids if number not in held]

    def count(self) -> int:
        """How many points the collection holds."""
        with talking(self.address, f"count the points of {self.collection!r}"):
            return self._client.count(self.collection, exact=True).count

    def flush(self) -> None:
        """Does nothing: the server has written every upsert to its log before it answers."""

    def finish(self) -> None:
        """Wait until the server has built its indexes, mark the collection whole, swap the alias to it, and
        remove the alias's other collections.

        Raises:
            VectorIndexError: the server reports a failed optimization, or fails.
        """
        with talking(self.address, f"finish {self.collection!r}"):
            self._wait_until_built()
            self._client.update_collection(self.collection, metadata={"complete": True})
            operations: list[Any] = []
            if any(found.alias_name == self.alias for found in self._client.get_aliases().aliases):
                operations.append(
                    models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self.alias))
                )
            operations.append(
                models.CreateAliasOperation(
                    create_alias=models.CreateAlias(collection_name=self.collection, alias_name=self.alias)
                )
            )
            self._client.update_collection_aliases(operations)
            if not self._keep_old:
                self._remove_old()

    def _wait_until_built(self) -> None:
        pause = 0.05
        give_up = time.monotonic() + _READY_SECONDS
        while (
            status := self._client.get_collection(self.collection).status
        ) != models.CollectionStatus.GREEN:
            if status == models.CollectionStatus.RED:
                raise VectorIndexError(
                    f"The Qdrant server at {self.address} failed to build {self.collection!r}: see its log."
                )
            if time.monotonic() > give_up:
                raise VectorIndexError(
                    f"The Qdrant server at {self.address} has not built {self.collection!r} in "
                    f"{_READY_SECONDS // 3600} hours (its status is {status}): see its log."
                )
            time.sleep(pause)
            pause = min(pause * 2, 5.0)

    def _remove_old(self) -> None:
        of_this_alias = re.compile(re.escape(self.alias) + r"-[0-9a-f]{16}")
        for found in self._client.get_collections().collections:
            if found.name != self.collection and of_this_alias.fullmatch(found.name):
                self._client.delete_collection(found.name)

    def close(self) -> None:
        """Does nothing: the client belongs to who made it."""


def server_filter(filters: ResolvedFilters, vector: str | None = None) -> models.Filter | None:
    """The filters as Qdrant's conditions. A field that a point lacks fails every condition on it."""
    must: list[Any] = []
    if filters.first_day is not None:
        must.append(models.FieldCondition(key="first_day", range=models.Range(gte=filters.first_day)))
    if filters.last_day is not None:
        must.append(models.FieldCondition(key="last_day", range=models.Range(lte=filters.last_day)))
    if filters.min_citations is not None:
        must.append(
            models.FieldCondition(key="citation_count", range=models.Range(gte=filters.min_citations))
        )
    if filters.categories:
        must.append(
            models.FieldCondition(key="categories", match=models.MatchAny(any=list(filters.categories)))
        )
    if filters.venues:
        must.append(models.FieldCondition(key="venue", match=models.MatchAny(any=list(filters.venues))))
    if filters.within is not None:
        must.append(models.HasIdCondition(has_id=sorted(filters.within)))
    if vector is not None:
        must.append(models.HasVectorCondition(has_vector=vector))
    must_not: list[Any] = [models.HasIdCondition(has_id=sorted(filters.exclude))] if filters.exclude else []
    if not must and not must_not:
        return None
    return models.Filter(must=must or None, must_not=must_not or None)


def address_of(client: QdrantClient) -> str:
    """Where the client's server is, for messages."""
    if is_local(client):
        return "local memory"
    return str(getattr(client._client, "rest_uri", "an unknown address"))


def is_local(client: QdrantClient) -> bool:
    """Whether this is qdrant-client's stand-in for a server, which searches by brute force in numpy."""
    return isinstance(client._client, QdrantLocal)


@contextmanager
def talking(address: str, action: str) -> Iterator[None]:
    """Every failure of the client or the server as a sentence that names the address."""
    try:
        yield
    except ScholarBaseError:
        raise
    except Exception as error:
        detail = str(error).strip() or type(error).__name__
        raise VectorIndexError(
            f"The Qdrant server at {address} could not {action}: {detail}. Check that it runs and can be reached."
        ) from error


def _server_point(point: VectorPoint) -> models.PointStruct:
    vectors: dict[str, Any] = {
        # A vector without terms is no vector: it could never be found, and must not count as one.
        name: models.SparseVector(
            indices=[int(i) for i in vector.indices], values=[float(v) for v in vector.values]
        )
        for name, vector in point.sparse.items()
        if len(vector.indices)
    }
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    return models.PointStruct(id=point.id, vector=vectors, payload=payload_dict(point.payload))


def _vector_point(record: models.Record) -> VectorPoint:
    vectors: dict[str, Any] = record.vector if isinstance(record.vector, dict) else {}
    dense = vectors.get(DENSE)
    return VectorPoint(
        id=point_id(record.id),
        payload=payload_of(record.payload),
        dense=None if dense is None else np.asarray(dense, dtype=np.float32),
        sparse={
            name: ascending(vector.indices, vector.values)
            for name, vector in sorted(vectors.items())
            if name != DENSE
        },
    )
