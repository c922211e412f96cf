"""A Qdrant cluster on loopback that fails on request: real sockets, REST and gRPC, requests checked by the models and
service definitions of qdrant-client, points in its local mode.

All nodes share one storage, so that they return the same points; which node has which replica, and in what state, is
kept beside it. Like Qdrant it stores dense vectors as float16 of unit length, computes with 32-bit floats and writes
those with as few digits as identify them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, RLock
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

from scholarbase.indexes.vectors.base import DENSE, VectorConfig
from scholarbase_cluster.qdrant.server import LAYOUT
from tests.qdrant.shards import RestoredShard, RestoredShards

HANG = "hang"
"""The failure of a request that is accepted and never answered."""


class Failed(Exception):
    """An error response of a node."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Collection:
    """What the local mode does not keep of a collection."""

    created: models.CreateCollection
    shards: int
    replication: int
    states: dict[tuple[int, int], models.ReplicaState]
    """The state of the replica of each shard and peer."""
    lost: dict[tuple[int, int], int] = field(default_factory=dict)
    """Points that a replica lacks."""
    changes: list[models.UpdateCollection] = field(default_factory=list)
    restored: RestoredShards | None = None
    """The shards of snapshots, instead of points in the local mode."""


class Node:
    """One node: its addresses, and how it fails."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.peer = 1000 + number
        self.released = Event()
        self.failure: str | int | None = None
        self.fails: Callable[[str], bool] = lambda path: True
        self.calls: list[str] = []
        self.status = models.CollectionStatus.GREEN
        self.version = "1.18.3"
        self.queued: list[str] = []
        """Optimizers that would run at the next change."""
        self.has_other_graph = False
        """Whether approximate searches of this node miss the best hit."""
        self.reorders = False
        """Whether this node adds the products of a score in another order, as a replica on another processor may."""
        self.stop: Callable[[], None] = lambda: None
        self.start: Callable[[], None] = lambda: None
        self.url = ""

    def fail(self, failure: str | int | None, on: str | None = None) -> None:
        """Hang, or respond with a status, from now on; None ends that. ``on`` is a part of the affected paths."""
        self.released.set()
        self.released = Event()
        self.failure = failure
        self.fails = (lambda path: on in path) if on else (lambda path: True)

    def enter(self, path: str) -> None:
        """Begin a request: raise or wait as this node is to fail."""
        self.calls.append(path)
        self.cluster.on_call(path)
        if self.failure is None or not self.fails(path):
            return
        if self.failure == HANG:
            self.released.wait(120)
            raise Failed(503, "released")
        status = int(self.failure)
        raise Failed(status, f"failure {status} of node {self.peer}")

    @property
    def alive(self) -> bool:
        return self in self.cluster.running


class Cluster:
    """The nodes and what they share."""

    def __init__(
        self,
        nodes: int,
        *,
        batch_seconds: float = 0.0,
        storing: bool = True,
        search_seconds: float | None = None,
    ) -> None:
        self.lock = RLock()
        self.batch_seconds = batch_seconds
        self.search_seconds = search_seconds
        """The time that every search takes the second time. Its response is then a stored one, for measurements."""
        self.answers: dict[tuple[str, bytes], Any] = {}
        self.storing = storing
        self.ids: dict[str, set[int]] = {}
        """Without ``storing``, all that is kept of the points, for measurements of the client."""
        self.local = QdrantClient(":memory:")
        self.collections: dict[str, Collection] = {}
        self.nodes = [Node(self, number) for number in range(nodes)]
        self.running: list[Node] = []
        self.upserts: list[list[int]] = []
        self.on_upsert: Callable[[int], None] = lambda count: None
        """Called before each batch with the number of batches so far."""
        self.on_call: Callable[[str], None] = lambda path: None
        """Called with the path of each request."""
        self.on_upload: Callable[[Node, int], None] = lambda node, received: None
        """Called with the node that receives a snapshot and the number of bytes so far."""
        self.on_copy: Callable[[Node], None] = lambda node: None
        """Called when a node begins to copy a restored shard."""
        self.uploads: list[int] = []
        """The peers that have restored a snapshot."""

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(node.url for node in self.nodes)

    def names(self) -> set[str]:
        """The names of the collections."""
        return {one.name for one in self.local.get_collections().collections}

    def named(self, name: str) -> str:
        """The collection of a name or alias."""
        with self.lock:
            for alias in self.local.get_aliases().aliases:
                if alias.alias_name == name:
                    return alias.collection_name
            if name not in self.collections:
                raise Failed(404, f"Not found: Collection `{name}` doesn't exist!")
            return name

    def exists(self, name: str) -> bool:
        try:
            self.named(name)
        except Failed:
            return False
        return True

    # -- collections ------------------------------------------------------------------------------------

    def create(self, name: str, request: models.CreateCollection) -> None:
        with self.lock:
            if name in self.collections:
                raise Failed(409, f"Wrong input: Collection `{name}` already exists!")
            vectors = request.vectors if isinstance(request.vectors, dict) else {}
            # As dot products, since the vectors are made unit vectors here.
            local = {
                one: models.VectorParams(size=vectors[one].size, distance=models.Distance.DOT)
                for one in vectors
            }
            self.local.create_collection(
                name,
                vectors_config=local,
                sparse_vectors_config=request.sparse_vectors,
                metadata=request.metadata,
            )
            shards = request.shard_number or len(self.nodes)
            copies = request.replication_factor or 1
            peers = [node.peer for node in self.nodes]
            states = {
                (shard, peers[(shard + copy) % len(peers)]): models.ReplicaState.ACTIVE
                for shard in range(shards)
                for copy in range(min(copies, len(peers)))
            }
            self.collections[name] = Collection(request, shards, copies, states)
            self.ids[name] = set()

    def update(self, name: str, request: models.UpdateCollection) -> None:
        with self.lock:
            name = self.named(name)
            self.collections[name].changes.append(request)
            if request.optimizers_config is not None:
                for node in self.nodes:
                    if node.status == models.CollectionStatus.GREY:
                        node.status = models.CollectionStatus.YELLOW
            if request.metadata is not None:
                self.local.update_collection(name, metadata=request.metadata)

    def delete(self, name: str) -> None:
        with self.lock:
            known = self.collections.pop(name, None)
            if known is not None and known.restored is not None:
                known.restored.close()
            self.local.delete_collection(name)

    def info(self, name: str, node: Node) -> models.CollectionInfo:
        with self.lock:
            name = self.named(name)
            info = self.local.get_collection(name)
            known = self.collections[name]
            info.status = node.status
            if node.queued and info.status == models.CollectionStatus.GREEN:
                info.status = models.CollectionStatus.GREY
            info.config.params.shard_number = known.shards
            info.config.params.replication_factor = known.replication
            info.config.params.write_consistency_factor = known.created.write_consistency_factor
            info.config.params.vectors = known.created.vectors
            return info

    def placement(self, name: str, node: Node) -> models.CollectionClusterInfo:
        with self.lock:
            name = self.named(name)
            known = self.collections[name]
            if known.restored is not None:
                self._copy(known, node)
            if known.restored is not None:
                counts = [known.restored.points(shard) for shard in range(known.shards)]
            else:
                counts = [0] * known.shards
                for number in self._all_ids(name):
                    counts[number % known.shards] += 1
            return models.CollectionClusterInfo(
                peer_id=node.peer,
                shard_count=known.shards,
                local_shards=[
                    models.LocalShardInfo(
                        shard_id=shard,
                        points_count=counts[shard] - known.lost.get((shard, peer), 0),
                        state=state,
                    )
                    for (shard, peer), state in known.states.items()
                    if peer == node.peer
                ],
                remote_shards=[
                    models.RemoteShardInfo(shard_id=shard, peer_id=peer, state=state)
                    for (shard, peer), state in known.states.items()
                    if peer != node.peer
                ],
                shard_transfers=[],
            )

    def _all_ids(self, name: str) -> list[int]:
        if not self.storing:
            return list(self.ids[name])
        return [
            int(record.id) for record in self._points(name).scroll(name, limit=10**9, with_payload=False)[0]
        ]

    def _points(self, name: str) -> Any:
        """What has the points of a collection: the local mode, or the shards that were restored."""
        return self.collections[self.named(name)].restored or self.local

    def restore(self, name: str, shard: int, snapshot: Path, node: Node) -> None:
        """Serve a shard of a snapshot. Only ``node`` has it, the others copy it from there."""
        created = self.collections[self.named(name)].created
        try:
            restored = RestoredShard(snapshot, VectorConfig.from_dict((created.metadata or {})[LAYOUT]))
        except Exception as error:
            raise Failed(500, f"Service internal error: {error}") from error
        with self.lock:
            known = self.collections[self.named(name)]
            known.restored = known.restored or RestoredShards()
            known.restored.put(shard, restored)
            self.uploads.append(node.peer)
            for one, peer in known.states:
                if one == shard:
                    is_here = peer == node.peer
                    known.states[one, peer] = (
                        models.ReplicaState.ACTIVE if is_here else models.ReplicaState.DEAD
                    )

    def _copy(self, known: Collection, node: Node) -> None:
        """A step of copying to this node, if it runs and no other one copies."""
        for shard in range(known.shards):
            state = known.states.get((shard, node.peer))
            if state == models.ReplicaState.PARTIAL:
                known.states[shard, node.peer] = models.ReplicaState.ACTIVE
            elif (
                state == models.ReplicaState.DEAD and models.ReplicaState.PARTIAL not in known.states.values()
            ):
                known.states[shard, node.peer] = models.ReplicaState.PARTIAL
                self.on_copy(node)

    # -- points -----------------------------------------------------------------------------------------

    def upsert(self, name: str, points: list[models.PointStruct]) -> None:
        with self.lock:
            name = self.named(name)
            self.on_upsert(len(self.upserts))
            self.upserts.append([int(point.id) for point in points])
            if self.storing:
                for point in points:
                    if isinstance(point.vector, dict) and DENSE in point.vector:
                        point.vector[DENSE] = unit_half(point.vector[DENSE]).tolist()
                self.local.upsert(name, points)
            else:
                self.ids[name].update(int(point.id) for point in points)
        if self.batch_seconds:
            time.sleep(self.batch_seconds)

    def query(self, name: str, request: models.QueryRequest, node: Node) -> list[models.ScoredPoint]:
        query: Any = request.query
        if isinstance(query, models.NearestQuery):
            query = query.nearest
        if isinstance(query, list):
            query = unit_half(query).tolist()  # as Qdrant does, whose vectors are float16
        with self.lock:
            points = (
                self._points(name)
                .query_points(
                    self.named(name),
                    query=query,
                    using=request.using,
                    limit=request.limit or 10,
                    query_filter=request.filter,
                    # The local mode compares with every point, and warns of parameters.
                    search_params=request.params if self.collections[self.named(name)].restored else None,
                    with_payload=False,
                    with_vectors=True if node.reorders else request.with_vector or False,
                )
                .points
            )
        if node.has_other_graph and request.params is not None and request.params.hnsw_ef:
            points = points[1:]
        if node.reorders:
            for point in points:
                point.score = float(reordered(query, point.vector[request.using]))  # type: ignore
            points.sort(key=lambda point: -point.score)
        return points

    def count(self, name: str, request: models.CountRequest) -> int:
        with self.lock:
            name = self.named(name)
            if not self.storing:
                wanted = self.ids[name]
                if request.filter is not None:
                    [condition] = request.filter.must  # type: ignore
                    wanted = wanted & set(condition.has_id)  # type: ignore
                return len(wanted)
            return self._points(name).count(name, count_filter=request.filter, exact=True).count

    def records(self, name: str, request: models.PointRequest) -> list[models.Record]:
        with self.lock:
            return self._points(name).retrieve(
                self.named(name),
                request.ids,
                with_payload=request.with_payload,
                with_vectors=request.with_vector or False,
            )

    def facet(self, name: str, request: models.FacetRequest) -> models.FacetResponse:
        with self.lock:
            return self._points(name).facet(
                self.named(name), request.key, request.filter, request.limit or 10
            )

    def scroll(self, name: str, request: models.ScrollRequest) -> tuple[list[models.Record], Any]:
        with self.lock:
            return self._points(name).scroll(
                self.named(name),
                scroll_filter=request.filter,
                limit=request.limit or 10,
                offset=request.offset,
                order_by=request.order_by,
                with_payload=request.with_payload,
                with_vectors=request.with_vector or False,
            )


def unit_half(vector: Any) -> np.ndarray:
    """A vector as Qdrant stores it: of unit length, then float16."""
    single = np.asarray(vector, np.float32)
    return (single / np.linalg.norm(single)).astype(np.float16).astype(np.float32)


def reordered(query: Any, vector: Any) -> np.float32:
    """The dot product with 32-bit floats, added from the last to the first."""
    if isinstance(vector, models.SparseVector):
        weights = dict(zip(vector.indices, vector.values, strict=True))
        pairs = [(x, weights[i]) for i, x in zip(query.indices, query.values, strict=True) if i in weights]
    else:
        pairs = list(zip(query, vector, strict=True))
    products = np.array([np.float32(a) * np.float32(b) for a, b in pairs], np.float32)
    total = np.float32(0)
    for product in products[::-1]:
        total = np.float32(total + product)
    return total


def as_stored(record: models.Record) -> dict[str, Any]:
    """A record whose numbers are written as those of Qdrant, which has 32-bit floats."""
    vectors: Any = record.vector
    if isinstance(vectors, dict):
        vectors = {
            name: {"indices": one.indices, "values": np.array(one.values, np.float32)}
            if isinstance(one, models.SparseVector)
            else np.array(one, np.float32)
            for name, one in vectors.items()
        }
    return {"id": record.id, "payload": record.payload, "vector": vectors}


@contextmanager
def qdrant_cluster(nodes: int = 1, **options: Any) -> Iterator[Cluster]:
    """A running cluster. It ends with the block, and requests that hang with it."""
    from tests.qdrant.grpc_server import serve_grpc
    from tests.qdrant.rest_server import serve_rest

    cluster = Cluster(nodes, **options)
    for node in cluster.nodes:
        rest, grpc = serve_rest(node), serve_grpc(node)
        node.url = f"http://127.0.0.1:{rest.port}?grpc_port={grpc.port}"

        def start(node: Node = node, parts: Any = (rest, grpc)) -> None:
            for part in parts:
                part.start()
            cluster.running.append(node)

        def stop(node: Node = node, parts: Any = (rest, grpc)) -> None:
            if node in cluster.running:
                cluster.running.remove(node)
                node.released.set()
                for part in parts:
                    part.stop()

        node.start, node.stop = start, stop
        node.start()
    try:
        yield cluster
    finally:
        for node in cluster.nodes:
            node.stop()
        for name in list(cluster.collections):
            cluster.delete(name)
        cluster.local.close()
