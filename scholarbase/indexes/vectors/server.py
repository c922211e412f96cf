"""The vector index on a Qdrant server: one collection per snapshot, served under an alias.

The collection of a snapshot is named after both: the alias ``papers`` points to ``papers-0123456789abcdef``. A new
snapshot is loaded into a collection of its own; when it is complete, the alias is switched atomically. The collection's
metadata records the snapshot and whether it is complete, so that a library never searches another one's vectors.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from qdrant_client import QdrantClient, models
from qdrant_client.local.qdrant_local import QdrantLocal

from scholarbase.errors import LibraryCorrupt, ScholarBaseError, VectorIndexError
from scholarbase.indexes.filters import ResolvedFilters
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    INTEGER_FIELDS,
    KEYWORD_FIELDS,
    LEARNED,
    EngineVector,
    SparseVector,
    VectorConfig,
    VectorPoint,
)
from scholarbase.indexes.vectors.checks import check_points
from scholarbase.indexes.vectors.index import HNSW_EF, OVERSAMPLING, VectorIndex
from scholarbase.models.status import ACTIVE, other_statuses

_BUILD_TIMEOUT_SECONDS: Final = 6 * 3600


def connect(
    address: str, *, api_key: str | None = None, prefer_grpc: bool = False, timeout_seconds: int = 30
) -> QdrantClient:
    """A client of the server at ``address``, such as ``http://localhost:6333``. Connects on the first request.

    Raises:
        VectorIndexError: ``address`` is not a valid URL.
    """
    with server_errors(address, "be used"):
        return QdrantClient(
            url=address,
            api_key=api_key,
            prefer_grpc=prefer_grpc,
            timeout=timeout_seconds,
            check_compatibility=False,
        )


def collection_name(alias: str, snapshot: str) -> str:
    """The name of a snapshot's collection."""
    return f"{alias}-{snapshot[:16]}"


class ServerIndex(VectorIndex):
    """A collection open for searching. Safe to share between threads."""

    def __init__(self, client: QdrantClient, collection: str, config: VectorConfig) -> None:
        super().__init__(config)
        self.collection = collection
        self.address = address_of(client)
        self._client = client
        self._local = is_local(client)

    @classmethod
    def open(cls, client: QdrantClient, alias: str, snapshot: str) -> ServerIndex:
        """Open the collection that ``alias`` points to, which must be that of the library's ``snapshot``.

        The index keeps using that collection when the alias is switched later, until the collection is deleted.
        ``close`` closes the client.

        Raises:
            VectorIndexError: the server cannot be reached, or has no such alias.
            LibraryCorrupt: the alias points to another snapshot, or to one that is not completely loaded.
        """
        address = address_of(client)
        with server_errors(address, f"open {alias!r}"):
            if not client.collection_exists(alias):
                raise VectorIndexError(
                    f"The Qdrant server at {address} has no collection {alias!r}: load the library's vectors "
                    f"into it first, or open the library without a server."
                )
            metadata = client.get_collection(alias).config.metadata or {}
        if metadata.get("snapshot") != snapshot:
            raise LibraryCorrupt(
                f"{alias!r} at {address} has the vectors of snapshot {metadata.get('snapshot')!r}, but this library is "
                f"{snapshot!r}: load this library's vectors, or open the library they belong to."
            )
        if metadata.get("complete") is not True:
            raise LibraryCorrupt(f"{alias!r} at {address} is not completely loaded: load the vectors again.")
        return cls(client, collection_name(alias, snapshot), VectorConfig.from_dict(metadata["layout"]))

    @staticmethod
    def _condition(filters: ResolvedFilters, vector: str | None = None) -> models.Filter | None:
        must: list[Any] = []
        if filters.first_day is not None:
            must.append(models.FieldCondition(key="first_day", range=models.Range(gte=filters.first_day)))
        if filters.last_day is not None:
            must.append(models.FieldCondition(key="last_day", range=models.Range(lte=filters.last_day)))
        if filters.min_citations is not None:
            at_least = models.Range(gte=filters.min_citations)
            must.append(models.FieldCondition(key="citation_count", range=at_least))
        if filters.categories:
            categories = models.MatchAny(any=list(filters.categories))
            must.append(models.FieldCondition(key="categories", match=categories))
        if filters.venues:
            must.append(models.FieldCondition(key="venue", match=models.MatchAny(any=list(filters.venues))))
        among: list[Any] = []
        if filters.within is not None:
            among.append(models.HasIdCondition(has_id=sorted(filters.within)))
        if filters.sets:
            among.append(models.FieldCondition(key="sets", match=models.MatchAny(any=list(filters.sets))))
        must += among if len(among) < 2 else [models.Filter(should=among)]
        if vector is not None:
            must.append(models.HasVectorCondition(has_vector=vector))
        must_not: list[Any] = (
            [models.HasIdCondition(has_id=sorted(filters.exclude))] if filters.exclude else []
        )
        # Points of active papers have no status.
        if filters.statuses and ACTIVE not in filters.statuses:
            must.append(
                models.FieldCondition(key="status", match=models.MatchAny(any=list(filters.statuses)))
            )
        elif others := filters.statuses and other_statuses(filters.statuses):
            must_not.append(models.FieldCondition(key="status", match=models.MatchAny(any=list(others))))
        if not must and not must_not:
            return None
        return models.Filter(must=must or None, must_not=must_not or None)

    def _nearest(
        self,
        name: str,
        vector: list[float] | SparseVector | EngineVector,
        limit: int,
        condition: models.Filter | None,
        *,
        exact: bool,
    ) -> list[models.ScoredPoint]:
        params = None
        # qdrant-client's local mode is always exact and warns about search parameters.
        if name == DENSE and exact and not self._local:
            params = models.SearchParams(
                exact=True, quantization=models.QuantizationSearchParams(ignore=True)
            )
        elif name == DENSE and not self._local:
            params = models.SearchParams(
                hnsw_ef=max(HNSW_EF, limit),
                quantization=models.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING),
            )
        with server_errors(self.address, f"search {self.collection!r}"):
            return self._client.query_points(
                self.collection,
                query=vector if isinstance(vector, list) else _sparse_vector(vector),
                using=name,
                limit=limit,
                query_filter=condition,
                search_params=params,
                with_payload=False,
            ).points

    def _count(self, condition: models.Filter | None) -> int:
        with server_errors(self.address, f"count the points of {self.collection!r}"):
            return self._client.count(self.collection, count_filter=condition, exact=True).count

    def _retrieve(self, name: str, ids: Sequence[int]) -> list[models.Record]:
        with server_errors(self.address, f"read vectors of {self.collection!r}"):
            return self._client.retrieve(self.collection, list(ids), with_payload=False, with_vectors=[name])

    def _scroll(
        self, offset: Any, limit: int, *, payload: bool, vectors: bool
    ) -> tuple[list[models.Record], Any]:
        with server_errors(self.address, f"list the points of {self.collection!r}"):
            return self._client.scroll(
                self.collection, limit=limit, offset=offset, with_payload=payload, with_vectors=vectors
            )

    def close(self) -> None:
        """Close the client."""
        self._client.close()


class ServerWriter:
    """A collection being loaded. The alias points to it only after ``finish``."""

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
        """Create the snapshot's collection, or resume an interrupted load of it.

        ``finish`` deletes the alias's other collections unless ``keep_old``.

        Raises:
            VectorIndexError: the server cannot be reached, the alias is the name of a collection, or the
                collection was created with another layout.
        """
        writer = cls(client, alias, snapshot, config, keep_old=keep_old)
        with server_errors(writer.address, f"create {writer.collection!r}"):
            if any(found.name == alias for found in client.get_collections().collections):
                raise VectorIndexError(
                    f"The Qdrant server at {writer.address} has a collection named {alias!r}, which cannot also be an "
                    f"alias: choose another name, or delete the collection."
                )
            if client.collection_exists(writer.collection):
                writer._check_existing(snapshot)
            else:
                writer._create(snapshot)
            if not is_local(client):  # they have no effect in local mode
                for field in INTEGER_FIELDS:
                    client.create_payload_index(writer.collection, field, models.PayloadSchemaType.INTEGER)
                for field in KEYWORD_FIELDS:
                    client.create_payload_index(writer.collection, field, models.PayloadSchemaType.KEYWORD)
        return writer

    def _check_existing(self, snapshot: str) -> None:
        metadata = self._client.get_collection(self.collection).config.metadata or {}
        if metadata.get("snapshot") != snapshot or metadata.get("layout") != self.config.to_dict():
            raise VectorIndexError(
                f"{self.collection!r} at {self.address} was created as {metadata}, not as snapshot {snapshot!r} with "
                f"{self.config.to_dict()}: delete the collection to load it again."
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
                    full_scan_threshold=self.config.full_scan_kb,
                ),
                quantization_config=models.TurboQuantization(turbo=two_bits)
                if self.config.quantization
                else None,
            )
        # No IDF modifier: it counts within one shard. The weights of queries have the library's IDF.
        sparse = {BM25: models.SparseVectorParams()}
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
            VectorIndexError: a vector is not valid in this index, or the server fails.
        """
        check_points(points, self.config)
        if not points:
            return
        with server_errors(self.address, f"add points to {self.collection!r}"):
            self._client.upsert(self.collection, [_server_point(point) for point in points], wait=True)

    def missing(self, ids: Sequence[int]) -> list[int]:
        """The ids that are not in the collection yet."""
        with server_errors(self.address, f"look up points of {self.collection!r}"):
            found = self._client.retrieve(self.collection, list(ids), with_payload=False, with_vectors=False)
        loaded = {point.id for point in found}
        return [number for number in ids if number not in loaded]

    def count(self) -> int:
        """The number of points in the collection."""
        with server_errors(self.address, f"count the points of {self.collection!r}"):
            return self._client.count(self.collection, exact=True).count

    def finish(self) -> None:
        """Wait until the server has built its indexes, mark the collection complete and switch the alias to it.

        Raises:
            VectorIndexError: the server reports a failed optimization, or fails.
        """
        with server_errors(self.address, f"finish {self.collection!r}"):
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
                self._delete_old()

    def _wait_until_built(self) -> None:
        pause = 0.05
        deadline = time.monotonic() + _BUILD_TIMEOUT_SECONDS
        while (
            status := self._client.get_collection(self.collection).status
        ) != models.CollectionStatus.GREEN:
            if status == models.CollectionStatus.RED:
                raise VectorIndexError(
                    f"The Qdrant server at {self.address} failed to build {self.collection!r}: see its log."
                )
            if time.monotonic() > deadline:
                raise VectorIndexError(
                    f"The Qdrant server at {self.address} has not built {self.collection!r} in "
                    f"{_BUILD_TIMEOUT_SECONDS // 3600} hours (its status is {status}): see its log."
                )
            time.sleep(pause)
            pause = min(pause * 2, 5.0)

    def _delete_old(self) -> None:
        of_this_alias = re.compile(re.escape(self.alias) + r"-[0-9a-f]{16}")
        for found in self._client.get_collections().collections:
            if found.name != self.collection and of_this_alias.fullmatch(found.name):
                self._client.delete_collection(found.name)


def address_of(client: QdrantClient) -> str:
    """The server's address, for error messages."""
    if is_local(client):
        return "local memory"
    return str(getattr(client._client, "rest_uri", "an unknown address"))


def is_local(client: QdrantClient) -> bool:
    """Whether the client is in qdrant-client's local mode, a brute-force index in numpy."""
    return isinstance(client._client, QdrantLocal)


@contextmanager
def server_errors(address: str, action: str) -> Iterator[None]:
    """Turn exceptions of the client inside the block into errors that name the server's address, but not to clients."""
    try:
        yield
    except ScholarBaseError:
        raise
    except Exception as error:
        detail = str(error).strip() or type(error).__name__
        failure = VectorIndexError(
            f"The Qdrant server at {address} could not {action}: {detail}. Check that it is running and reachable."
        )
        failure.public = "The Qdrant server failed, or could not be reached: retry later."
        raise failure from error


def _server_point(point: VectorPoint) -> models.PointStruct:
    vectors: dict[str, Any] = {
        # An empty vector is not stored: it could never be found, and would be counted.
        name: _sparse_vector(vector)
        for name, vector in point.sparse.items()
        if len(vector.indices)
    }
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload.to_dict())


def _sparse_vector(vector: SparseVector | EngineVector) -> models.SparseVector:
    return models.SparseVector(
        indices=[int(i) for i in vector.indices], values=[float(v) for v in vector.values]
    )
