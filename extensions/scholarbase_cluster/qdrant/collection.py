"""Collections on Qdrant servers: one per snapshot, served under an alias.

The collection of a snapshot is named after both: the alias ``papers`` points to ``papers-0123456789abcdef``. A new
snapshot is loaded into a collection of its own; when it is complete, the alias is switched atomically. The collection's
metadata records the snapshot and whether it is complete, so that a library never searches another one's vectors.
Collections of earlier snapshots stay until they are removed, since running servers may search them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from qdrant_client import AsyncQdrantClient, models

from scholarbase.errors import InvalidRequest, VectorIndexError
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    INTEGER_FIELDS,
    KEYWORD_FIELDS,
    LEARNED,
    VectorConfig,
)
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.server import COMPLETE, LAYOUT, SNAPSHOT, SNAPSHOT_DIGITS, collection_name

FAN_OUT_MS: Final = 200
"""A node that waits this long for another node's replica asks the next replica too, so that a silent node does not
delay searches of the others."""
_SNAPSHOT_ID: Final = re.compile(r"[0-9a-f]{16,64}")
_TIMEOUT_SECONDS: Final = 120
BY_SNAPSHOT: Final = "snapshot"
BY_POINTS: Final = "points"
"""How a collection is loaded: with the library's own shard, or with its points. Its metadata has it as ``method``."""
_METHOD: Final = "method"
_MOST_COPIES: Final = 3
"""Nodes that get the library's own shard, unless specified."""


class ShardRefused(VectorIndexError):
    """The server does not take the library's own shard, or would change it. The points can be sent instead."""

    @classmethod
    def because(cls, reason: str) -> ShardRefused:
        return cls(f"The Qdrant server does not serve the library's own shard: {reason}.")


class Placement(NamedTuple):
    """How a collection is loaded and divided over a cluster; None takes the default of :func:`placed`."""

    shards: int | None = None
    replicas: int | None = None
    method: str | None = None


DEFAULT: Final = Placement()


def peers_of(nodes: Nodes) -> dict[int, str]:
    """The ids and addresses of the cluster's nodes among each other; none of a server that is not in a cluster."""
    status = nodes.read("describe its cluster", lambda client: client.cluster_status())
    if not isinstance(status, models.ClusterStatusOneOf1):
        return {}
    return {int(peer): about.uri for peer, about in status.peers.items()}


def placed(wanted: Placement, peers: int) -> Placement:
    """The placement on a cluster of this many nodes: points in a shard per node, each on two nodes; the library's own
    shard on three nodes.

    Raises:
        InvalidRequest: more replicas than nodes.
    """
    method = wanted.method or BY_POINTS
    shards = wanted.shards or (1 if method == BY_SNAPSHOT else peers)
    replicas = wanted.replicas or min(_MOST_COPIES if method == BY_SNAPSHOT else 2, peers)
    if replicas > peers:
        raise InvalidRequest(
            f"--replicas is {replicas}, but the cluster has {peers} {'nodes' if peers > 1 else 'node'}: each "
            "replica of a shard needs a node of its own."
        )
    return Placement(shards, replicas, method)


class Collection:
    """A snapshot's collection being loaded. The alias points to it only after ``publish``."""

    def __init__(self, nodes: Nodes, alias: str, snapshot: str, config: VectorConfig) -> None:
        self.alias = alias
        self.snapshot = snapshot
        self.name = collection_name(alias, snapshot)
        self.config = config
        self.nodes = nodes
        self.placement = Placement()
        self.complete = False
        """Whether it was published, so that servers may search it."""

    @classmethod
    def open(
        cls,
        nodes: Nodes,
        alias: str,
        snapshot: str,
        config: VectorConfig,
        wanted: Placement = DEFAULT,
        segments: int | None = None,
    ) -> Collection:
        """Create the snapshot's collection, or continue with the one that exists. More than ``segments`` segments of a
        shard are merged by Qdrant, by default more than two to eight.

        Raises:
            VectorIndexError: no node can be reached, the alias is the name of a collection, or the collection was
                created with another layout or placement.
            InvalidRequest: the cluster has too few nodes for the placement.
        """
        collection = cls(nodes, alias, snapshot, config)
        name = collection.name
        peers = peers_of(nodes)
        placement = placed(wanted, len(peers) or 1)
        if alias in _names(nodes):
            raise VectorIndexError(
                f"The Qdrant server has a collection named {alias!r}, which cannot also be an alias: choose another "
                f"name, or delete the collection."
            )

        async def create(client: AsyncQdrantClient) -> None:
            if not await client.collection_exists(name):
                await collection._create(client, placement, segments)

        nodes.change(f"create {name!r}", create)
        collection._check(wanted)
        nodes.change(f"create the indexes of {name!r}", collection._create_indexes)
        return collection

    async def _create(self, client: AsyncQdrantClient, placement: Placement, segments: int | None) -> None:
        replicas = placement.replicas or 1
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
        await client.create_collection(
            self.name,
            vectors_config=dense,
            sparse_vectors_config=sparse,
            shard_number=placement.shards,
            replication_factor=placement.replicas,
            write_consistency_factor=1 if replicas < 3 else replicas // 2 + 1,
            optimizers_config=models.OptimizersConfigDiff(default_segment_number=segments)
            if segments
            else None,
            metadata={
                SNAPSHOT: self.snapshot,
                COMPLETE: False,
                LAYOUT: self.config.to_dict(),
                _METHOD: placement.method,
            },
            timeout=_TIMEOUT_SECONDS,
        )

    async def _create_indexes(self, client: AsyncQdrantClient) -> None:
        if (self.placement.replicas or 1) > 1:
            fan_out = models.CollectionParamsDiff(read_fan_out_delay_ms=FAN_OUT_MS)
            await client.update_collection(self.name, collection_params=fan_out, timeout=_TIMEOUT_SECONDS)
        for field in INTEGER_FIELDS:
            await client.create_payload_index(self.name, field, models.PayloadSchemaType.INTEGER)
        for field in KEYWORD_FIELDS:
            await client.create_payload_index(self.name, field, models.PayloadSchemaType.KEYWORD)

    def _check(self, wanted: Placement) -> None:
        """Compare an existing collection with what it must be. One that was just created is read too."""
        config = self.nodes.read(
            f"read {self.name!r}", lambda client: client.get_collection(self.name)
        ).config
        metadata = config.metadata or {}
        if metadata.get(SNAPSHOT) != self.snapshot or metadata.get(LAYOUT) != self.config.to_dict():
            raise VectorIndexError(
                f"{self.name!r} on the Qdrant server was created as {metadata}, not as snapshot {self.snapshot!r} with "
                f"{self.config.to_dict()}: delete the collection to load it again."
            )
        params = config.params
        self.complete = metadata.get(COMPLETE) is True
        method = metadata.get(_METHOD) or BY_POINTS
        self.placement = Placement(params.shard_number or 1, params.replication_factor or 1, method)
        # The method first, which decides on the others.
        for what, has, option in reversed(list(zip(Placement._fields, self.placement, wanted, strict=True))):
            if option is not None and option != has:
                raise VectorIndexError(
                    f"{self.name!r} on the Qdrant server has {has} as {what.replace('_', ' ')}, not {option}: leave "
                    f"the option out, or remove the collection to load it again."
                )

    def count(self, ids: Sequence[int] | None = None) -> int:
        """The exact number of points, or of those with these ids."""
        among = None if ids is None else models.Filter(must=[models.HasIdCondition(has_id=list(ids))])

        async def count(client: AsyncQdrantClient) -> int:
            return (await client.count(self.name, count_filter=among, exact=True)).count

        return self.nodes.read(f"count the points of {self.name!r}", count)

    def optimize(self) -> None:
        """Start the optimizers. After its start, a node with status grey waits for this or another update."""
        nothing = models.OptimizersConfigDiff()
        self.nodes.change(
            f"optimize {self.name!r}",
            lambda client: client.update_collection(
                self.name, optimizers_config=nothing, timeout=_TIMEOUT_SECONDS
            ),
        )

    def remove(self) -> None:
        """Remove the collection with all its points."""
        _delete(self.nodes, self.name)

    def publish(self) -> str | None:
        """Mark the collection as complete and switch the alias to it. Returns the collection that it named before."""
        before = aliases(self.nodes).get(self.alias)

        async def publish(client: AsyncQdrantClient) -> None:
            await client.update_collection(self.name, metadata={COMPLETE: True}, timeout=_TIMEOUT_SECONDS)
            operations: list[Any] = []
            if before is not None:
                operations.append(
                    models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self.alias))
                )
            operations.append(
                models.CreateAliasOperation(
                    create_alias=models.CreateAlias(collection_name=self.name, alias_name=self.alias)
                )
            )
            await client.update_collection_aliases(operations, timeout=_TIMEOUT_SECONDS)

        if before == self.name:
            return before
        self.nodes.change(f"switch {self.alias!r}", publish)
        return before


def aliases(nodes: Nodes) -> dict[str, str]:
    """The collections that aliases name, by alias."""
    response = nodes.read("list its aliases", lambda client: client.get_aliases())
    return {alias.alias_name: alias.collection_name for alias in response.aliases}


def method_of(nodes: Nodes, alias: str, snapshot: str) -> str | None:
    """How the collection of a snapshot is loaded, ``points`` or ``snapshot``; None without a collection."""
    name = collection_name(alias, snapshot)
    if name not in _names(nodes):
        return None
    config = nodes.read(f"read {name!r}", lambda client: client.get_collection(name)).config
    return str((config.metadata or {}).get(_METHOD) or BY_POINTS)


def loaded(nodes: Nodes, alias: str) -> list[str]:
    """The collections of snapshots that were loaded under ``alias``, by name."""
    of_alias = re.compile(re.escape(alias) + rf"-[0-9a-f]{{{SNAPSHOT_DIGITS}}}")
    return sorted(name for name in _names(nodes) if of_alias.fullmatch(name))


def prune(nodes: Nodes, alias: str, keep: Sequence[str]) -> list[str]:
    """Remove the collections of ``alias`` except those to ``keep`` and those that an alias names. Returns those."""
    kept = {*keep, *aliases(nodes).values()}
    removed = [name for name in loaded(nodes, alias) if name not in kept]
    for name in removed:
        _delete(nodes, name)
    return removed


def unload(nodes: Nodes, alias: str, snapshot: str) -> str:
    """Remove the collection of a snapshot that no alias names. Returns its name.

    Raises:
        InvalidRequest: ``snapshot`` is not an id or its first 16 digits, it is not loaded, or an alias names it.
        VectorIndexError: no node can be reached.
    """
    if not _SNAPSHOT_ID.fullmatch(snapshot):
        raise InvalidRequest(
            f"--snapshot is {snapshot!r}: give a snapshot id, or its first {SNAPSHOT_DIGITS} digits (scholarbase info)."
        )
    name = collection_name(alias, snapshot)
    collections = loaded(nodes, alias)
    if name not in collections:
        others = ", ".join(collections) or "none"
        raise InvalidRequest(
            f"The Qdrant server has no collection {name!r}. Collections of {alias!r}: {others}."
        )
    for other_alias, named in aliases(nodes).items():
        if named == name:
            raise InvalidRequest(
                f"{name!r} was not removed, since the alias {other_alias!r} names it: servers search it. Load another "
                f"library under the alias first."
            )
    _delete(nodes, name)
    return name


def _delete(nodes: Nodes, name: str) -> None:
    nodes.change(f"remove {name!r}", lambda client: client.delete_collection(name, timeout=_TIMEOUT_SECONDS))


def _names(nodes: Nodes) -> set[str]:
    response = nodes.read("list its collections", lambda client: client.get_collections())
    return {collection.name for collection in response.collections}
