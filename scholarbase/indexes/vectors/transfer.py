"""Copying a shard's points to a Qdrant server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from qdrant_client import QdrantClient

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.indexes.vectors.server import ServerIndex, ServerWriter

BATCH = 500


def load_into_server(
    edge: EdgeIndex,
    client: QdrantClient,
    alias: str,
    snapshot: str,
    config: VectorConfig,
    progress: Callable[[int, int], None] | None = None,
    *,
    keep_old: bool = False,
) -> ServerIndex:
    """Copy all points to the snapshot's collection, then switch ``alias`` to it.

    An interrupted load is resumed at the first missing id, since points are loaded by ascending id. ``progress`` is
    called with the number of loaded points and of all points. Closing the returned index closes ``client``.

    Raises:
        VectorIndexError: the server fails, or has another number of points at the end; then the alias is not
            switched.
    """
    writer = ServerWriter.open(client, alias, snapshot, config, keep_old=keep_old)
    total = edge.count(NO_FILTERS)
    start, done = _resume_at(edge, writer)
    if progress:
        progress(done, total)
    if start is not None:
        for points in edge.points(BATCH, start=start):
            writer.upsert(points)
            done += len(points)
            if progress:
                progress(done, total)
    loaded = writer.count()
    if loaded != total:
        raise VectorIndexError(
            f"{writer.collection!r} at {writer.address} has {loaded} points, but the library has {total}: delete the "
            f"collection and load it again."
        )
    writer.finish()
    return ServerIndex.open(client, alias, snapshot)


def _resume_at(edge: EdgeIndex, writer: ServerWriter) -> tuple[int | None, int]:
    """The first id missing on the server (None: no id is), and the number of points before it."""
    done = 0
    if writer.count() == 0:
        return 0, 0
    for ids in _batches(edge.ids()):
        missing = writer.missing(ids)
        if missing:
            return missing[0], done + ids.index(missing[0])
        done += len(ids)
    return None, done


def _batches(ids: Iterator[int]) -> Iterator[list[int]]:
    while batch := list(islice(ids, 10 * BATCH)):
        yield batch
