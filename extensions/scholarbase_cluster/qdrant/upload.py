"""Uploading points over gRPC: several batches at a time, to all nodes in turn, each until a node has stored it."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from threading import Event, Lock
from typing import Any, Final

import grpc
import numpy as np
from qdrant_client import grpc as qdrant
from qdrant_client.conversions.conversion import json_to_value

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.base import DENSE
from scholarbase.indexes.vectors.halves import sent
from scholarbase.models.qdrant_addresses import Address
from scholarbase_cluster.qdrant.nodes import REFUSED, Nodes, open_channel

log = logging.getLogger("scholarbase.qdrant")

RETRY_SECONDS: Final = 300.0
"""How long a batch is sent again before the upload fails: a node takes a minute or more to start."""
PER_NODE: Final = 4
"""Batches that are sent to each node at once, unless specified."""
MOST_AT_ONCE: Final = 64
_UPSERT_SECONDS: Final = 120.0
_READY_SECONDS: Final = 10.0
_FIRST_WAIT: Final = 0.2
_LONGEST_WAIT: Final = 15.0


class _Channel:
    def __init__(self, address: Address, connect_seconds: float) -> None:
        self.address = address
        self.channel = open_channel(address, connect_seconds)
        self.stub: Any = qdrant.PointsStub(self.channel)  # type: ignore[no-untyped-call]
        self.avoided_until = 0.0
        self.wait = _FIRST_WAIT


class Uploader:
    """Sends points to a collection."""

    def __init__(self, nodes: Nodes, collection: str, at_once: int) -> None:
        self._collection = collection
        self._at_once = at_once
        self._metadata = nodes.metadata
        self._channels = [_Channel(address, nodes.connect_seconds) for address in nodes.addresses]
        self._turn = 0
        self._lock = Lock()
        self._stopped = False

    @classmethod
    @contextmanager
    def open(cls, nodes: Nodes, collection: str, at_once: int) -> Iterator[Uploader]:
        """Connect to the nodes, for the time of the block. ``at_once`` is the number of batches that are sent at once.

        Raises:
            VectorIndexError: no node accepts gRPC.
        """
        uploader = cls(nodes, collection, at_once)
        try:
            uploader._wait_for_one()
            yield uploader
        finally:
            uploader._stopped = True
            for channel in uploader._channels:
                channel.channel.close()

    def _wait_for_one(self) -> None:
        """Wait until a node accepts gRPC."""
        connected = Event()
        waiting = [grpc.channel_ready_future(channel.channel) for channel in self._channels]
        for future in waiting:
            future.add_done_callback(lambda _: connected.set())
        is_connected = connected.wait(_READY_SECONDS)
        for future in waiting:
            future.cancel()
        if not is_connected:
            ports = ", ".join(channel.address.grpc for channel in self._channels)
            raise VectorIndexError(
                f"No Qdrant node accepts gRPC connections ({ports}), which loading needs: open the port, or name it in "
                f"the address, as in http://localhost:6333?grpc_port=6334."
            )

    def send(self, batches: Iterable[Sequence[Any]], done: Callable[[int], None]) -> None:
        """Send batches of records, and call ``done`` with the number of points of each that is stored.

        A record has ``id``, ``payload`` and ``vector``, as those of Qdrant Edge. When this returns, all are durable on
        as many replicas as the collection's write consistency requires.

        Raises:
            VectorIndexError: no node has stored a batch for five minutes, or one has refused it.
        """
        with ThreadPoolExecutor(self._at_once) as pool:
            running: set[Future[int]] = set()
            try:
                for batch in batches:
                    if len(running) > self._at_once:  # one waits, so that no connection does
                        running = self._finished(running, done)
                    running.add(pool.submit(self._store, batch))
                while running:
                    running = self._finished(running, done)
            except BaseException:
                self._stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _finished(self, running: set[Future[int]], done: Callable[[int], None]) -> set[Future[int]]:
        finished, others = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            done(future.result())
        return others

    def _store(self, batch: Sequence[Any]) -> int:
        request = as_request(self._collection, batch)
        give_up = time.monotonic() + RETRY_SECONDS
        while True:
            channel = self._next()
            try:
                channel.stub.Upsert(request, timeout=_UPSERT_SECONDS, metadata=self._metadata)
            except grpc.RpcError as error:
                self._failed(channel, error, give_up)
                continue
            channel.wait = _FIRST_WAIT
            return len(batch)

    def _next(self) -> _Channel:
        """The next node in turn; of those that failed last, the one whose time to wait ends first."""
        with self._lock:
            self._turn += 1
            now = time.monotonic()
            rotated = self._channels[self._turn % len(self._channels) :] + self._channels
            channel = min(rotated, key=lambda candidate: max(candidate.avoided_until, now))
        time.sleep(max(0.0, channel.avoided_until - now))
        return channel

    def _failed(self, channel: _Channel, error: Any, give_up: float) -> None:
        code, text = error.code(), " ".join((error.details() or "").split())[:500]
        if self._stopped:
            raise VectorIndexError("The upload was stopped.") from error
        log.warning("%s: %s: %s", channel.address.grpc, code.name, text)
        if code in REFUSED or time.monotonic() > give_up:
            failure = VectorIndexError(
                f"The Qdrant server could not add points to {self._collection!r} ({channel.address.grpc}: {code.name}: "
                f"{text}). Run the same command again to continue."
            )
            raise failure from error
        with self._lock:
            channel.avoided_until = time.monotonic() + channel.wait
            channel.wait = min(2 * channel.wait, _LONGEST_WAIT)


def as_request(collection: str, records: Sequence[Any]) -> Any:
    """The request that stores records of Qdrant Edge, with the same bits in their vectors."""
    request = qdrant.UpsertPoints(collection_name=collection, wait=True)
    vectors = [record.vector for record in records]
    dense = [array("f", named[DENSE]) for named in vectors if DENSE in named]
    rows = iter(sent(np.stack([np.frombuffer(numbers, np.float32) for numbers in dense])) if dense else ())
    for record, named in zip(records, vectors, strict=True):
        point = request.points.add()
        point.id.num = record.id
        for name, value in (record.payload or {}).items():
            point.payload[name].CopyFrom(_value(tuple(value) if isinstance(value, list) else value))
        target = point.vectors.vectors.vectors
        for name, vector in named.items():
            if name == DENSE:
                row: Any = next(rows)
                # Ten times as fast as a list of numbers.
                target[name].MergeFromString(
                    _before_numbers(len(row)) + row.astype("<f4", copy=False).tobytes()
                )
            else:
                sparse = target[name].sparse
                sparse.indices.extend(vector.indices)
                sparse.values.extend(vector.values)
    return request


@lru_cache(maxsize=100_000)
def _value(value: Any) -> Any:
    """A value of a payload, which many points have."""
    return json_to_value(list(value) if isinstance(value, tuple) else value)


@lru_cache(maxsize=8)
def _before_numbers(dimensions: int) -> bytes:
    """What precedes the numbers of a dense vector, which are its last bytes."""
    zeros: Any = qdrant.Vector(dense=qdrant.DenseVector(data=[0.0] * dimensions))
    serialized: bytes = zeros.SerializeToString()
    return serialized[: -4 * dimensions]
