"""Fills a collection on a Qdrant server with the points of a shard, by plain requests of qdrant-client."""

from typing import Any

import numpy as np
from qdrant_client import AsyncQdrantClient, models

from scholarbase.indexes.vectors.base import DENSE
from scholarbase.indexes.vectors.halves import sent
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.server import COMPLETE, LAYOUT, SNAPSHOT, collection_name


def fill(edge: EdgeIndex, nodes: Nodes, alias: str, snapshot: str, *, complete: bool = True) -> None:
    """Create the collection of a snapshot with all points of ``edge``, and the alias that names it."""
    name, config = collection_name(alias, snapshot), edge.config

    async def run(client: AsyncQdrantClient) -> None:
        dense = {}
        if config.dimensions is not None:
            dense[DENSE] = models.VectorParams(size=config.dimensions, distance=models.Distance.COSINE)
        await client.create_collection(
            name,
            vectors_config=dense,
            sparse_vectors_config={one: models.SparseVectorParams() for one in config.sparse_names},
            replication_factor=len(nodes.addresses),
            metadata={SNAPSHOT: snapshot, COMPLETE: complete, LAYOUT: config.to_dict()},
        )
        for records in edge.records(500, payload=True):
            await client.upsert(name, [_point(record) for record in records])
        alias_it = models.CreateAlias(collection_name=name, alias_name=alias)
        await client.update_collection_aliases([models.CreateAliasOperation(create_alias=alias_it)])

    nodes.change("be filled", run)


def _point(record: Any) -> models.PointStruct:
    vectors: dict[str, Any] = {}
    for name, vector in record.vector.items():
        if name == DENSE:
            vectors[name] = sent(np.array([vector], np.float32))[0].tolist()
        else:
            vectors[name] = models.SparseVector(
                indices=[int(i) for i in vector.indices], values=[float(v) for v in vector.values]
            )
    return models.PointStruct(id=record.id, vector=vectors, payload=record.payload)
