"""Copying a library's points to a Qdrant server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from qdrant_client import AsyncQdrantClient, models

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import DENSE, VectorConfig
from scholarbase.indexes.vectors.shards import LocalIndex
from scholarbase_cluster.qdrant.collection import BY_POINTS, DEFAULT, Collection, Placement
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.replicas import Survey, wait_until_complete
from scholarbase_cluster.qdrant.upload import MOST_AT_ONCE, PER_NODE, Uploader

BATCH: Final = 500
_BATCH_BYTES: Final = 3_000_000
"""Servers of gRPC accept messages of 4 MB unless they are set up otherwise."""
_OTHER_BYTES: Final = 2_000
"""Of a point besides its dense vector."""
BLOCK: Final = 10
"""Batches whose points are looked up together when a load is resumed."""
COMPARED: Final = 256
"""Points whose vectors and payloads are compared after the upload."""


class Loaded(NamedTuple):
    """A finished load: the collection's name, the one that the alias named before, and the state of the nodes."""

    collection: str
    before: str | None
    survey: Survey


def load_into_server(
    edge: LocalIndex,
    nodes: Nodes,
    alias: str,
    snapshot: str,
    config: VectorConfig,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    placement: Placement = DEFAULT,
    at_once: int | None = None,
    waiting: Callable[[str], None] = lambda what: None,
) -> Loaded:
    """Copy all points to the snapshot's collection, check them on all nodes, then switch ``alias`` to it.

    An interrupted load continues with the blocks of points that are not complete. ``progress`` is called with the
    number of loaded points and of all points, ``waiting`` with what is waited for at the end.

    Raises:
        VectorIndexError: the server fails, or has other points at the end; then the alias is not switched.
        InvalidRequest: the cluster has too few nodes for the placement.
    """
    collection = Collection.open(nodes, alias, snapshot, config, placement._replace(method=BY_POINTS))
    total = edge.count(NO_FILTERS)
    done = 0

    def stored(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    progress(done, total)
    _send(edge, collection, stored, at_once)
    count = collection.count()
    if count != total:
        raise VectorIndexError(
            f"{collection.name!r} on the Qdrant server has {count} points, but the library has {total}: delete the "
            f"collection and load it again."
        )
    survey = wait_until_complete(collection, waiting)
    if (number := differing_point(edge, collection)) is not None:
        raise VectorIndexError(
            f"Point {number} of {collection.name!r} is not the library's on all replicas: remove the collection and "
            f"load it again."
        )
    return Loaded(collection.name, collection.publish(), survey)


def _send(
    edge: LocalIndex, collection: Collection, stored: Callable[[int], None], at_once: int | None
) -> None:
    """Send the points that the collection does not have. Blocks of points are looked up together.

    ``stored`` is called with the number of points of each batch that is stored, or was before.
    """
    size = max(1, min(BATCH, _BATCH_BYTES // (4 * (edge.config.dimensions or 0) + _OTHER_BYTES)))
    nodes = collection.nodes
    at_once = at_once or min(MOST_AT_ONCE, PER_NODE * len(nodes.addresses))
    is_new = collection.count() == 0

    def batches() -> Iterator[list[Any]]:
        for records in edge.records(BATCH * BLOCK, vectors=False):
            ids = [record.id for record in records]
            if is_new or collection.count(ids) < len(ids):
                yield from _between(edge, ids[0], ids[-1], size)
            else:
                stored(len(ids))

    with Uploader.open(nodes, collection.name, at_once) as uploader:
        uploader.send(batches(), stored)


def _between(edge: LocalIndex, first: int, last: int, size: int) -> Iterator[list[Any]]:
    for records in edge.records(size, start=first, payload=True):
        if records[-1].id >= last:
            yield [record for record in records if record.id <= last]
            return
        yield records


def differing_point(edge: LocalIndex, collection: Collection) -> int | None:
    """A point of a random sample that is not the same on all replicas and in the library; None without one."""
    mine = {record.id: record for record in edge.sample(COMPARED)}

    async def read(client: AsyncQdrantClient) -> list[models.Record]:
        # Only points that are the same on all replicas are returned.
        return await client.retrieve(
            collection.name,
            list(mine),
            with_payload=True,
            with_vectors=True,
            consistency=models.ReadConsistencyType.ALL,
        )

    theirs = {record.id: record for record in collection.nodes.read(f"read {collection.name!r}", read)}
    for number, record in mine.items():
        if number not in theirs or _content(record) != _content(theirs[number]):
            return int(number)
    return None


def _content(record: Any) -> tuple[Any, ...]:
    """The payload and vectors of a point, comparable bit for bit."""
    payload = {name: sorted(v) if isinstance(v, list) else v for name, v in (record.payload or {}).items()}
    vectors: dict[str, Any] = {}
    for name, vector in (record.vector or {}).items():
        if name == DENSE:
            vectors[name] = np.asarray(vector, np.float16).tobytes()
        else:
            pairs = sorted(zip(vector.indices, vector.values, strict=True))
            values = np.asarray([weight for _, weight in pairs], np.float32)
            vectors[name] = (tuple(term for term, _ in pairs), values.tobytes())
    return payload, vectors
