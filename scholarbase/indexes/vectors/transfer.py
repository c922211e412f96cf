"""A shard's points into a collection of a Qdrant server."""

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
    """Copy every point into the snapshot's collection, then swap ``alias`` to it.

    A load that was broken off goes on where it stopped: points go in by ascending id, so everything below the
    first one missing is there. ``progress`` is told how many points are there, of how many. Closing the index
    that is returned closes ``client``.

    Raises:
        VectorIndexError: the server fails, or holds another number of points at the end; then the alias is not
            swapped.
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
    held = writer.count()
    if held != total:
        raise VectorIndexError(
            f"{writer.collection!r} at {writer.address} holds {held} points, but the library has {total}: remove the "
            f"collection and load it again."
        )
    writer.finish()
    return ServerIndex.open(client, alias, snapshot)


def _resume_at(edge: EdgeIndex, writer: ServerWriter) -> tuple[int | None, int]:
    """The first id that the server lacks (None: it has all), and how many points come before it."""
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
