"""The HTTP load generator: clients that each send their next request as soon as the last is answered.

It shares the machine with the server that it measures, so it does as little as it can: requests are bytes made
beforehand, answers are counted by their ``Content-Length`` and not parsed, and all clients live in one process.
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
from itertools import cycle, islice
from typing import Any, Final, cast
from urllib.parse import urlencode, urlsplit

import numpy as np
import numpy.typing as npt

PERCENTILES: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "max": 100.0}
SECONDS_FOR_AN_ANSWER: Final = 60.0
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SHOWN: Final = 500
"""Bytes of a failure's body that its message holds."""


class LoadError(Exception):
    """A request was answered with anything but 200, or not at all."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a load was answered with. The arrays have one item for each answer, in the order of their ends.

    Every answer was a 200: anything else is a :class:`LoadError`.
    """

    seconds: float
    """From the first request to the last answer."""
    latencies: npt.NDArray[np.float64]
    """Seconds from a request to the end of its answer."""
    ended: npt.NDArray[np.float64]
    """Seconds from the first request to the end of each answer."""
    asked: npt.NDArray[np.int64]
    """The request's place among the requests."""
    sizes: npt.NDArray[np.int64]
    """Bytes of each answer's body."""
    cpu_seconds: float
    """What the generator itself took from the machine."""

    @property
    def throughput(self) -> float:
        """Answers a second."""
        return len(self.latencies) / self.seconds

    def percentiles(self) -> dict[str, float]:
        """Milliseconds: ``p50``, ``p90``, ``p99``, ``p999``, ``max``."""
        return {name: self.percentile(percent) for name, percent in PERCENTILES.items()}

    def percentile(self, percent: float) -> float:
        """Milliseconds, of all answers."""
        return float(np.percentile(self.latencies, percent)) * 1000

    def timeline(self, window: float = 60.0) -> list[dict[str, float]]:
        """Each ``window`` of seconds: ``minute`` at which it begins, ``p50`` and ``p99`` in milliseconds, ``rps``.

        A last piece that is shorter than half a window is left out, unless it is all there is.
        """
        windows = []
        for number in range(max(1, round(self.seconds / window))):
            begin, end = number * window, min((number + 1) * window, self.seconds)
            within = self.latencies[(self.ended > begin) & (self.ended <= end)] * 1000
            if len(within):
                p50, p99 = np.percentile(within, (50, 99))
                windows.append(
                    {
                        "minute": begin / 60,
                        "p50": float(p50),
                        "p99": float(p99),
                        "rps": len(within) / (end - begin),
                    }
                )
        return windows


def get(path: str, **parameters: Any) -> bytes:
    """A GET request. ``path`` is sent as it is; a parameter's name may end in ``_`` where Python keeps the word."""
    query = urlencode(
        {name.rstrip("_") if name.endswith("_") else name: value for name, value in parameters.items()},
        safe=",",
    )
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
    timeout: float = SECONDS_FOR_AN_ANSWER,
) -> Load:
    """Send ``requests`` in turn, from the first again after the last, by ``clients`` connections kept alive.

    Before the clock starts each connection is opened and answered once, one after the other, so that all of them are
    accepted by then. The clients live in a process of their own.

    Args:
        count: how many are sent; each once where neither this nor ``seconds`` is given.
        seconds: how long they are sent.
        opening: the request by which a connection is opened; the first one where none is given.
        headers: a line for each client, without its end, that it sends with all its requests.
        timeout: seconds that an answer may take.

    Raises:
        LoadError: no server is there, or an answer is not 200, is cut off, has no length, or does not come.
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
        raise ValueError(f"{url!r} names no host and port: give a URL such as http://127.0.0.1:8000.")
    at = (address.hostname, address.port)
    # Spawned: a fork would share the parent's threads and open files.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        turns = _Turns(list(requests), opening or requests[0], count, seconds, list(headers))
        return pool.submit(_load, at, turns, clients, timeout).result()


@dataclass(frozen=True, slots=True)
class _Turns:
    """What is sent. ``opening`` is no turn: it is not counted."""

    requests: list[bytes]
    opening: bytes
    count: int | None
    seconds: float | None
    headers: list[bytes]

    def header(self, client: int) -> bytes:
        return self.headers[client] + b"\r\n" if self.headers else b""

    def __iter__(self) -> Iterator[int]:
        """Places of requests, in the order of their turns."""
        every = cycle(range(len(self.requests)))
        if self.seconds is not None:
            return every
        return islice(every, len(self.requests) if self.count is None else self.count)


def _load(at: tuple[str, int], turns: _Turns, clients: int, timeout: float) -> Load:
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(at, turns, clients, timeout))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where it is installed: it takes half the time."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _run(at: tuple[str, int], turns: _Turns, clients: int, timeout: float) -> Load:
    loop = asyncio.get_running_loop()
    state = _State([*turns.requests, turns.opening], loop)
    connections: list[_Connection] = []
    watch = loop.create_task(_watch(state, connections, timeout))
    try:
        for header in map(turns.header, range(clients)):
            connection = _Connection(state, header)
            try:
                await loop.create_connection(lambda made=connection: made, *at)
            except OSError as error:
                raise LoadError(f"No server takes connections at {at[0]} port {at[1]}: {error}.") from error
            connections.append(connection)
            await _drain(state, [connection], iter([len(turns.requests)]))
        state.forget()
        cpu = time.process_time()
        state.began = time.perf_counter()
        state.until = None if turns.seconds is None else state.began + turns.seconds
        await _drain(state, connections, iter(turns))
        return state.result(time.process_time() - cpu)
    finally:
        watch.cancel()
        for connection in connections:
            connection.close()


async def _drain(state: _State, connections: Sequence[_Connection], turns: Iterator[int]) -> None:
    """Send requests by these connections until there are no more turns and all are answered."""
    state.turns = turns
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
                state.fail(f"{connection.request()} was not answered in {timeout:g} seconds.")


class _State:
    """What the connections of one load share."""

    def __init__(self, requests: Sequence[bytes], loop: asyncio.AbstractEventLoop) -> None:
        self.requests = requests
        self.loop = loop
        self.turns: Iterator[int] = iter(())
        self.until: float | None = None
        self.began = 0.0
        self.sending = 0
        self.done: asyncio.Future[None] = loop.create_future()
        self.forget()

    def forget(self) -> None:
        """Count from here."""
        self.latencies, self.ended = array("d"), array("d")
        self.asked, self.sizes = array("q"), array("q")

    def turn(self, now: float) -> int | None:
        if self.until is not None and now >= self.until:
            return None
        return next(self.turns, None)

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
            np.array(self.asked),
            np.array(self.sizes),
            cpu_seconds,
        )


class _Connection(asyncio.Protocol):
    """One client: one request on its way at a time."""

    _transport: asyncio.Transport

    def __init__(self, state: _State, header: bytes = b"") -> None:
        self._state = state
        self._header = header
        """What this client sends with every request: a line with its end, or nothing."""
        self._turn = 0
        self.sent = 0.0
        self.waiting = False
        self._received = b""
        """The answer so far, until its head is whole; all of it where it is a failure."""
        self._left = 0
        """Bytes of the body that are still to come."""
        self._size = 0
        self._failure = b""
        """The status line of an answer that is not 200."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Said, not asked: uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def close(self) -> None:
        self._transport.abort()

    def request(self) -> str:
        return self._state.requests[self._turn].split(b"\r\n", 1)[0].decode()

    def send(self) -> None:
        now = time.perf_counter()
        turn = self._state.turn(now)
        if turn is None:
            self._state.stopped()
            return
        self._turn = turn
        self.waiting = True
        self.sent = now
        request = self._state.requests[turn]
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
        if self._failure:
            self._received += data
        if self._left == 0:
            self._answered()
        elif self._left < 0:
            self._state.fail(f"{self.request()} was answered with {-self._left} bytes more than it said.")

    def _head(self, data: bytes) -> bytes:
        """Read the head of an answer, once it is whole; what is given back is of the body."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return b""
        length = _LENGTH.search(head)
        if length is None or not int(length[1]):
            self._state.fail(f"{self.request()} was answered without a body of a known length: {head!r}")
            return b""
        self._received = b""
        self._left = self._size = int(length[1])
        self._failure = b"" if head.startswith(b"HTTP/1.1 200 ") else head.split(b"\r\n", 1)[0]
        return body

    def _answered(self) -> None:
        if self._failure:
            shown = self._received[:_SHOWN].decode(errors="replace")
            self._state.fail(f"{self.request()} was answered with {self._failure.decode()}: {shown}")
            return
        now = time.perf_counter()
        state = self._state
        state.latencies.append(now - self.sent)
        state.ended.append(now)
        state.asked.append(self._turn)
        state.sizes.append(self._size)
        self.waiting = False
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if self.waiting:
            self._state.fail(f"{self.request()} was cut off by the server{f' ({error})' if error else ''}.")
