"""HTTP load generator: each client sends its next request when it has received the last response.

It shares the machine with the measured server and does little work: requests are prepared bytes, responses are counted
by ``Content-Length`` and not parsed, and all clients run in one process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from typing import Any, Final, cast
from urllib.parse import urlencode, urlsplit

import numpy as np
import numpy.typing as npt

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
TIMEOUT: Final = 60.0
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RETRY_AFTER: Final = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)
_SHOWN: Final = 500
"""Bytes of an error's body in its message."""


class LoadError(Exception):
    """A request had no response, or one with a status other than 200."""


@dataclass(frozen=True, slots=True)
class Load:
    """Figures of a load. The arrays have one item per response, in the order of their ends. All responses have status
    200: any other is a :class:`LoadError`."""

    seconds: float
    """From the first request to the last response."""
    latencies: npt.NDArray[np.float64]
    """Seconds from each request to the end of its response."""
    ended: npt.NDArray[np.float64]
    """Seconds from the first request to the end of each response."""
    requested: npt.NDArray[np.int64]
    """The index of each response's request."""
    sizes: npt.NDArray[np.int64]
    """Bytes of each response's body."""
    cpu_seconds: float
    """Processor time of the generator."""
    retries: int = 0
    """Responses that asked to retry later, and were retried then."""

    @property
    def throughput(self) -> float:
        """Responses per second."""
        return len(self.latencies) / self.seconds

    def percentiles(self) -> dict[str, float]:
        """Milliseconds: ``p50``, ``p90``, ``p99``, ``p999``, ``max``."""
        return {name: self.percentile(percent) for name, percent in PERCENTILES.items()}

    def percentile(self, percent: float) -> float:
        """Milliseconds, of all responses."""
        return float(np.percentile(self.latencies, percent)) * 1000

    def timeline(self, window: float = 60.0) -> list[dict[str, float]]:
        """For each window of seconds the ``minute`` of its start, ``p50`` and ``p99`` in milliseconds, and ``rps``.

        A last window shorter than half is left out, unless it is the only one.
        """
        windows = []
        for number in range(max(1, round(self.seconds / window))):
            begin, end = number * window, min((number + 1) * window, self.seconds)
            within = self.latencies[(self.ended > begin) & (self.ended <= end)] * 1000
            if len(within):
                p50, p99 = np.percentile(within, (50, 99))
                rate = len(within) / (end - begin)
                windows.append({"minute": begin / 60, "p50": float(p50), "p99": float(p99), "rps": rate})
        return windows


def get(path: str, **parameters: Any) -> bytes:
    """A GET request. ``path`` is sent unchanged; a trailing ``_`` of a parameter's name (``from_``) is removed."""
    query = urlencode({name.rstrip("_"): value for name, value in parameters.items()}, safe=",")
    return f"GET {path}{'?' if query else ''}{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def load(
    url: str,
    requests: Sequence[bytes],
    *,
    clients: int,
    count: int | None = None,
    seconds: float | None = None,
    opening: bytes | None = None,
    headers: Sequence[bytes] = (),
    timeout: float = TIMEOUT,
    retrying: bool = False,
) -> Load:
    """Send ``requests`` repeatedly over ``clients`` keep-alive connections, from a process of their own.

    Before the measurement each connection is opened in turn by one request, so that all of them are accepted.

    Args:
        count: number of requests; by default each is sent once, unless ``seconds`` is given.
        seconds: how long requests are sent.
        opening: the request that opens a connection; the first one by default.
        headers: a header line for each client, without line end, sent with all its requests.
        timeout: seconds until a response must end.
        retrying: send a request again after the seconds of a response's ``Retry-After``; the waits count as latency.

    Raises:
        LoadError: the server cannot be reached, or a response is incomplete, has no length or a status other than 200.
    """
    if headers and len(headers) != clients:
        raise ValueError(f"{len(headers)} headers for {clients} clients: give one for each.")
    if not requests or clients < 1 or (count is not None and seconds is not None):
        raise ValueError(
            f"{len(requests)} requests, {clients} clients, count {count} and seconds {seconds}: give a request and a "
            "client or more, and count or seconds, not both."
        )
    address = urlsplit(url)
    if address.hostname is None or address.port is None:
        raise ValueError(f"{url!r} lacks host or port: give a URL such as http://127.0.0.1:8000.")
    at = (address.hostname, address.port)
    # Spawned: a fork would share the parent's threads and open files.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        plan = _Plan(list(requests), opening or requests[0], count, seconds, list(headers), retrying)
        return pool.submit(_load, at, plan, clients, timeout).result()


@dataclass(frozen=True, slots=True)
class _Plan:
    """The requests of a load. ``opening`` is not counted."""

    requests: list[bytes]
    opening: bytes
    count: int | None
    seconds: float | None
    headers: list[bytes]
    retrying: bool

    def header(self, client: int) -> bytes:
        return self.headers[client] + b"\r\n" if self.headers else b""

    def __iter__(self) -> Iterator[int]:
        """Indices of requests, in the order in which they are sent."""
        every = cycle(range(len(self.requests)))
        if self.seconds is not None:
            return every
        return islice(every, len(self.requests) if self.count is None else self.count)


def _load(at: tuple[str, int], plan: _Plan, clients: int, timeout: float) -> Load:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(at, plan, clients, timeout))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop if installed: it takes half the time."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _run(at: tuple[str, int], plan: _Plan, clients: int, timeout: float) -> Load:
    loop = asyncio.get_running_loop()
    state = _State([*plan.requests, plan.opening], loop, plan.retrying)
    connections: list[_Connection] = []
    watch = loop.create_task(_watch(state, connections, timeout))
    try:
        for header in map(plan.header, range(clients)):
            try:
                _, connection = await loop.create_connection(partial(_Connection, state, header), *at)
            except OSError as error:
                raise LoadError(f"No server accepts connections at {at[0]} port {at[1]}: {error}.") from error
            connections.append(connection)
            await _send_all(state, [connection], iter([len(plan.requests)]))
        state.reset()
        cpu = time.process_time()
        state.began = time.perf_counter()
        state.until = None if plan.seconds is None else state.began + plan.seconds
        await _send_all(state, connections, iter(plan))
        return state.result(time.process_time() - cpu)
    finally:
        watch.cancel()
        for connection in connections:
            connection.close()


async def _send_all(state: _State, connections: Sequence[_Connection], indices: Iterator[int]) -> None:
    """Send the requests of these indices and wait for all responses."""
    state.indices = indices
    state.sending = len(connections)
    state.done = state.loop.create_future()
    for connection in connections:
        connection.send()
    await state.done


async def _watch(state: _State, connections: Sequence[_Connection], timeout: float) -> None:
    while True:
        await asyncio.sleep(1.0)
        now = time.perf_counter()
        for connection in connections:
            if connection.waiting and now - connection.sent > timeout:
                state.fail(f"{connection.request()} had no complete response within {timeout:g} seconds.")


class _State:
    """State shared by the connections of one load."""

    def __init__(
        self, requests: Sequence[bytes], loop: asyncio.AbstractEventLoop, retrying: bool = False
    ) -> None:
        self.requests = requests
        self.retrying = retrying
        self.loop = loop
        self.indices: Iterator[int] = iter(())
        self.until: float | None = None
        self.began = 0.0
        self.sending = 0
        self.done: asyncio.Future[None] = loop.create_future()
        self.reset()

    def reset(self) -> None:
        self.latencies, self.ended = array("d"), array("d")
        self.requested, self.sizes = array("q"), array("q")
        self.retries = 0

    def next_index(self, now: float) -> int | None:
        if self.until is not None and now >= self.until:
            return None
        return next(self.indices, None)

    def stopped(self) -> None:
        self.sending -= 1
        if not self.sending and not self.done.done():
            self.done.set_result(None)

    def fail(self, sentence: str) -> None:
        if not self.done.done():
            self.done.set_exception(LoadError(sentence))

    def result(self, cpu_seconds: float) -> Load:
        ended = np.array(self.ended)
        return Load(
            float(ended[-1]) - self.began,
            np.array(self.latencies),
            ended - self.began,
            np.array(self.requested),
            np.array(self.sizes),
            cpu_seconds,
            self.retries,
        )


class _Connection(asyncio.Protocol):
    """One client, which sends one request at a time."""

    _transport: asyncio.Transport

    def __init__(self, state: _State, header: bytes = b"") -> None:
        self._state = state
        self._header = header
        """A header line of all requests with its line end, or nothing."""
        self._index = 0
        self.sent = 0.0
        self.waiting = False
        self._received = b""
        """The response received so far, until its head is complete; the whole response if it is an error."""
        self._left = 0
        """Remaining bytes of the body."""
        self._size = 0
        self._error_status = b""
        """The status line of a response other than 200."""
        self._retry_after: int | None = None
        """Seconds after which a response other than 200 asks to retry."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast without a check: uvloop's transports are not a subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def close(self) -> None:
        self._transport.abort()

    def request(self) -> str:
        return self._state.requests[self._index].split(b"\r\n", 1)[0].decode()

    def send(self) -> None:
        now = time.perf_counter()
        index = self._state.next_index(now)
        if index is None:
            self._state.stopped()
            return
        self._index = index
        self.waiting = True
        self.sent = now
        self._write()

    def _write(self) -> None:
        request = self._state.requests[self._index]
        if self._header:
            line, end, rest = request.partition(b"\r\n")
            request = line + end + self._header + rest
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if not self._left:
            data = self._head(data)
        if not self._left:
            return
        self._left -= len(data)
        if self._error_status:
            self._received += data
        if self._left == 0:
            self._completed()
        elif self._left < 0:
            self._state.fail(f"The response to {self.request()} is {-self._left} bytes too long.")

    def _head(self, data: bytes) -> bytes:
        """Read the head of a response once it is complete. Returns the received part of the body."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return b""
        length = _LENGTH.search(head)
        if length is None or not int(length[1]):
            self._state.fail(f"The response to {self.request()} has no body of a known length: {head!r}")
            return b""
        self._received = b""
        self._left = self._size = int(length[1])
        self._error_status = b"" if head.startswith(b"HTTP/1.1 200 ") else head.split(b"\r\n", 1)[0]
        seconds = _RETRY_AFTER.search(head) if self._error_status else None
        self._retry_after = int(seconds[1]) if seconds else None
        return body

    def _completed(self) -> None:
        if self._retry_after is not None and self._state.retrying:
            self._state.retries += 1
            self._received = b""
            self._state.loop.call_later(self._retry_after, self._write)
            return
        if self._error_status:
            shown = self._received[:_SHOWN].decode(errors="replace")
            self._state.fail(f"{self.request()} failed with {self._error_status.decode()}: {shown}")
            return
        now = time.perf_counter()
        state = self._state
        state.latencies.append(now - self.sent)
        state.ended.append(now)
        state.requested.append(self._index)
        state.sizes.append(self._size)
        self.waiting = False
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if self.waiting:
            reason = f" ({error})" if error else ""
            self._state.fail(f"The server closed the connection during {self.request()}{reason}.")
