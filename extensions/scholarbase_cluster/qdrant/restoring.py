"""Loading the library's own shards: one node restores the snapshot of each, and Qdrant copies it to the other nodes.

Qdrant would put points into other shards, which matters to writing only: the collection is never written to. Nothing
is indexed again, so approximate searches return what the embedded index returns, on each node. Whatever a server
refuses or would change ends the load with :class:`ShardRefused`, and removes the attempt.
"""

from __future__ import annotations

import logging
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple

import httpx
import numpy as np
import numpy.typing as npt
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import UnexpectedResponse

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import DENSE
from scholarbase.indexes.vectors.index import HNSW_EF, EdgeIndex, VectorIndex
from scholarbase.indexes.vectors.shards import LocalIndex, shards_in
from scholarbase.models.qdrant_addresses import Address
from scholarbase_cluster.qdrant.collection import BY_SNAPSHOT, Collection, Placement, ShardRefused
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.replicas import survey, wait_until_complete
from scholarbase_cluster.qdrant.server import ServerIndex
from scholarbase_cluster.qdrant.snapshot import ShardSnapshot, keep_frame
from scholarbase_cluster.qdrant.transfer import Loaded, differing_point

log = logging.getLogger("scholarbase.qdrant")

OLDEST: Final = (1, 18)
"""The first minor version of Qdrant that restores such a snapshot: it has the 2-bit codes. Qdrant promises to restore
those of the same and the previous minor version; what a later one made of it is compared."""
SEARCHED: Final = 50
"""Approximate searches that are compared on each node."""
HITS: Final = 100
"""Hits of each of them."""
MOST_DIFFERENT: Final = 0.05
"""The share of them that may differ: processors may round a score to another side of the last hit."""
_BOUNDARY: Final = "scholarbase-shard-snapshot"
_BEFORE: Final = (
    f"--{_BOUNDARY}\r\n"
    'Content-Disposition: form-data; name="snapshot"; filename="shard.snapshot"\r\n'
    "Content-Type: application/x-tar\r\n\r\n"
).encode()
_AFTER: Final = f"\r\n--{_BOUNDARY}--\r\n".encode()
_IN_MEMORY: Final = 1 << 20
_SECONDS: Final = 300.0
_BYTES_PER_SECOND: Final = 10_000_000
"""A node that has received a snapshot has this time to restore it."""


class _Failure(NamedTuple):
    """Why a node has not restored the shard. ``refused`` if it said so."""

    text: str
    refused: bool


def load_shards(
    index: LocalIndex,
    nodes: Nodes,
    alias: str,
    snapshot: str,
    progress: Callable[[int, int], None] = lambda done, total: None,
    *,
    replicas: int | None = None,
    waiting: Callable[[str], None] = lambda what: None,
) -> Loaded:
    """Send each of the library's own shards to one node, check them on all nodes, then switch ``alias`` to their
    collection.

    A load that was interrupted continues: a shard that a node has restored is not sent again. ``progress`` and
    ``waiting`` are called as by :func:`.transfer.load_into_server`.

    Raises:
        ShardRefused: the server does not restore it, or would change it. The attempt is removed.
        VectorIndexError: nodes fail; then the alias is not switched, and the same call continues.
        InvalidRequest: the cluster has too few nodes for the replicas.
    """
    _check_versions(nodes)
    shards = shards_in(index)
    wanted = Placement(len(shards), replicas, BY_SNAPSHOT)
    segments = max(sum(1 for _ in (shard.path / "segments").iterdir()) for shard in shards)
    collection = Collection.open(
        nodes, alias, snapshot, index.config, wanted, segments if segments > 2 else None
    )
    counts = [shard.count(NO_FILTERS) for shard in shards]
    total, before = sum(counts), 0
    progress(0, total)
    try:
        missing = not collection.complete and collection.count() != total
        restored = _restored(collection) if missing and len(shards) > 1 else {}
        for shard_id, (shard, points) in enumerate(zip(shards, counts, strict=True)):
            if missing and restored.get(shard_id) != points:
                _send(shard, shard_id, collection, partial(_sent, progress, before, points, total))
            before += points
        progress(total, total)
        seen = wait_until_complete(collection, waiting)
        if (count := collection.count()) != total:
            raise ShardRefused.because(f"it shows {count} of the {total} points")
        if (number := differing_point(index, collection)) is not None:
            raise ShardRefused.because(f"its point {number} is not the library's")
        _compare_searches(index, collection)
        _check_queue(collection)
    except ShardRefused as refusal:
        if collection.complete:  # servers search it
            raise VectorIndexError(f"{refusal} {collection.name!r} was complete before: it stays.") from None
        collection.remove()
        raise
    return Loaded(collection.name, collection.publish(), seen)


def _check_versions(nodes: Nodes) -> None:
    async def version(client: AsyncQdrantClient) -> str:
        return (await client.info()).version

    for address, answer in nodes.each(version).items():
        if isinstance(answer, Exception):
            continue  # it may be back before its turn
        numbers = re.match(r"(\d+)\.(\d+)", answer)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST:
            raise ShardRefused.because(
                f"{address.url} is Qdrant {answer}, and restoring it needs {OLDEST[0]}.{OLDEST[1]} or newer"
            )


# -- sending ------------------------------------------------------------------------------------------------


def _sent(
    progress: Callable[[int, int], None], before: int, points: int, total: int, done: int, size: int
) -> None:
    """Report the share of a shard that is sent, as points."""
    progress(before + points * done // size, total)


def _restored(collection: Collection) -> dict[int, int]:
    """The points of each shard: the least that an active replica has."""
    points: dict[int, int] = {}
    for replica in survey(collection).replicas:
        if replica.state == "Active" and replica.points is not None:
            points[replica.shard] = min(points.get(replica.shard, replica.points), replica.points)
    return points


def _send(edge: EdgeIndex, shard: int, collection: Collection, sent: Callable[[int, int], None]) -> None:
    """Let one of the nodes that have a replica restore a shard: the next one only after the first has failed."""
    failures: list[_Failure] = []
    for address in _with_replica(collection, shard):
        try:
            failure = _restore_on(address, edge, shard, collection, sent)
        except (httpx.HTTPError, tarfile.TarError) as error:
            failure = _Failure(str(error) or type(error).__name__, refused=False)
        if failure is None:
            return
        log.warning("%s has not restored the shard %d: %s", address.url, shard, failure.text)
        failures.append(_Failure(f"{address.url}: {failure.text}", failure.refused))
    reasons = "; ".join(failure.text for failure in failures) or "no node that has a replica answers"
    if failures and all(failure.refused for failure in failures):
        raise ShardRefused.because(reasons)
    raise VectorIndexError(
        f"No Qdrant node has restored the library's shard ({reasons}). Start nodes that are down, and run the same "
        f"command again; or give --method points."
    )


def _with_replica(collection: Collection, shard: int) -> list[Address]:
    async def has_replica(client: AsyncQdrantClient) -> bool:
        local = (await client.collection_cluster_info(collection.name)).local_shards
        return any(replica.shard_id == shard for replica in local)

    return [address for address, answer in collection.nodes.each(has_replica).items() if answer is True]


def _restore_on(
    address: Address, edge: EdgeIndex, number: int, collection: Collection, sent: Callable[[int, int], None]
) -> _Failure | None:
    """Let one node restore a shard. None if it has."""
    shard = f"{address.url}/collections/{collection.name}/shards/{number}"
    key = collection.nodes.api_key
    headers = {"Accept-Encoding": "identity"} | ({"api-key": key} if key else {})
    limits = httpx.Timeout(_SECONDS, connect=collection.nodes.connect_seconds)
    with (
        httpx.Client(headers=headers, timeout=limits) as client,
        tempfile.SpooledTemporaryFile(_IN_MEMORY) as frame,
    ):
        with client.stream("GET", f"{shard}/snapshot") as response:
            if response.status_code != 200:
                return _failure(response)
            keep_frame(_Body(response.iter_raw()), frame)  # type: ignore[arg-type]
        snapshot = ShardSnapshot(edge.path, frame)
        size = len(_BEFORE) + snapshot.size + len(_AFTER)

        def body() -> Iterator[bytes]:
            done = 0
            yield _BEFORE
            for chunk in snapshot:
                yield chunk
                done += len(chunk)
                sent(done, snapshot.size)
            yield _AFTER

        about = {
            "Content-Type": f"multipart/form-data; boundary={_BOUNDARY}",
            "Content-Length": str(size),
        }
        limits = httpx.Timeout(_SECONDS + size / _BYTES_PER_SECOND, connect=collection.nodes.connect_seconds)
        with client.stream(
            "POST",
            f"{shard}/snapshots/upload?priority=snapshot",
            content=body(),
            headers=about,
            timeout=limits,
        ) as response:
            return None if response.status_code == 200 else _failure(response)


def _failure(response: httpx.Response) -> _Failure:
    text = " ".join(response.read()[:500].decode(errors="replace").split())
    return _Failure(f"status {response.status_code}: {text}", refused=True)


class _Body:
    """The body of a response as a file to read from once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


# -- what is checked beside the points ----------------------------------------------------------------------


def _compare_searches(edge: LocalIndex, collection: Collection) -> None:
    """Compare approximate searches of each node with those of the library's index: another graph finds other papers."""
    queries = _queries(edge)
    if not queries:
        return

    def nearest(index: VectorIndex) -> list[set[int]]:
        return [
            {hit.id for hit in index.nearest(DENSE, query.tolist(), HITS, NO_FILTERS, ef=HNSW_EF)}
            for query in queries
        ]

    expected, nodes = nearest(edge), collection.nodes
    for listed, address in zip(nodes.listed, nodes.addresses, strict=True):
        node = Nodes(
            [listed],
            api_key=nodes.api_key,
            connect_seconds=nodes.connect_seconds,
            read_seconds=nodes.read_seconds,
        )
        with closing(ServerIndex(node, collection.name, edge.config)) as index:
            try:
                lists = nearest(index)
            except VectorIndexError as error:
                raise VectorIndexError(
                    f"{address.url} failed while its searches were compared ({error}). Run the same command again."
                ) from error
        different = sum(mine != theirs for mine, theirs in zip(expected, lists, strict=True))
        if different > MOST_DIFFERENT * len(queries):
            raise ShardRefused.because(
                f"{different} of {len(queries)} approximate searches of {address.url} find other papers than the "
                f"library's index"
            )


def _queries(edge: LocalIndex) -> list[npt.NDArray[np.float32]]:
    """Vectors between those of two random papers."""
    if edge.config.dimensions is None:
        return []
    vectors = [
        np.asarray(record.vector[DENSE], np.float32)
        for record in edge.sample(2 * SEARCHED)
        if DENSE in (record.vector or {})
    ]
    between = [first + second for first, second in zip(vectors[::2], vectors[1::2], strict=False)]
    return [vector for vector in between if vector.any()]


def _check_queue(collection: Collection) -> None:
    """Raises ShardRefused: a node builds or would build a segment again."""

    async def queue(client: AsyncQdrantClient) -> list[Any]:
        try:
            answer = await client.http.collections_api.get_optimizations(collection.name, "queued")
        except UnexpectedResponse as error:
            if error.status_code == 404:  # not every version has such a list
                return []
            raise
        optimizations = answer.result
        return [] if optimizations is None else [*optimizations.running, *(optimizations.queued or ())]

    for address, queued in collection.nodes.each(queue).items():
        if isinstance(queued, Exception):
            raise VectorIndexError(
                f"{address.url} does not say what it would index again ({queued}). Run the same command again."
            ) from queued
        if queued:
            raise ShardRefused.because(f"{address.url} would index it again ({queued[0].optimizer})")
