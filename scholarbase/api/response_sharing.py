"""Responses that the workers of a server share, so that each of them runs only what none has run.

The first process keeps them (:func:`sharing_responses`). A worker asks it before it runs a request, and waits while
another worker runs an equal one. Both send frames over a Unix socket in the server's own folder: the number of a
question, the key of its request, and a pickled response. A worker's frame with ``_ASK`` asks; its other frames end a
question, with the response or, if it failed, without one. An empty frame from the first process tells a worker to run
the request itself.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import pickle
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar, cast

from scholarbase.api.runtime import Runtime
from scholarbase.search.cache import Cache
from scholarbase.settings import Settings

log = logging.getLogger("scholarbase.api")

KEY_BYTES: Final = 16
"""Bytes of a request's key."""
ENTRY_BYTES: Final = 1024
"""Bytes that a kept response takes besides its body, roughly."""
_HEAD: Final = struct.Struct(f">Q{KEY_BYTES}sI")
_ASK: Final = 2**32 - 1
"""In place of the length of a frame's data: a question."""

R = TypeVar("R")


class _Frames(asyncio.Protocol):
    """One end of a connection."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self.transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)  # uvloop's has another base class

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        unread = self._unread
        unread += data
        while len(unread) >= _HEAD.size:
            number, key, size = _HEAD.unpack_from(unread)
            end = _HEAD.size + (0 if size == _ASK else size)
            if len(unread) < end:
                return
            content = bytes(unread[_HEAD.size : end])
            del unread[:end]
            self.received(number, key, None if size == _ASK else content)

    def received(self, number: int, key: bytes, data: bytes | None) -> None:
        """A frame has come; ``data`` is None for a question."""
        raise NotImplementedError

    def send(self, number: int, key: bytes, data: bytes | None) -> None:
        if self.transport is not None:
            self.transport.write(_HEAD.pack(number, key, _ASK if data is None else len(data)) + (data or b""))


# -- in the first process ------------------------------------------------------------------------------------


class _Shared:
    """What the first process keeps: responses, and who asks for those that are not made yet."""

    def __init__(self, size: int) -> None:
        self.kept: Cache[bytes] = Cache(size, lambda data: len(data) + ENTRY_BYTES)
        self.asked: dict[bytes, dict[tuple[_Connection, int], None]] = {}
        """Questions by key, in order. The worker of the first one runs the request."""
        self.connections: set[_Connection] = set()


class _Connection(_Frames):
    """A worker's connection, in the first process."""

    def __init__(self, shared: _Shared) -> None:
        super().__init__()
        self._shared = shared

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._shared.connections.add(self)

    def received(self, number: int, key: bytes, data: bytes | None) -> None:
        if data is None:
            self._asked(number, key)
        elif data:
            self._shared.kept.get(key, lambda: data)
            for connection, other in self._shared.asked.pop(key, {}):
                if (connection, other) != (self, number):
                    connection.send(other, key, data)
        else:
            self._ended(number, key)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._shared.connections.discard(self)
        for key, asked in list(self._shared.asked.items()):
            for connection, number in list(asked):
                if connection is self:
                    self._ended(number, key)

    def _asked(self, number: int, key: bytes) -> None:
        if (data := self._shared.kept.peek(key)) is not None:
            self.send(number, key, data)
            return
        asked = self._shared.asked.setdefault(key, {})
        asked[self, number] = None
        if len(asked) == 1:
            self.send(number, key, b"")

    def _ended(self, number: int, key: bytes) -> None:
        """A worker neither runs the request any more nor waits for it."""
        asked = self._shared.asked.get(key, {})
        was_running = next(iter(asked), None) == (self, number)
        asked.pop((self, number), None)
        if not asked:
            self._shared.asked.pop(key, None)
        elif was_running:
            connection, other = next(iter(asked))
            connection.send(other, key, b"")


@contextmanager
def sharing_responses(settings: Settings, runtime: Runtime) -> Iterator[None]:
    """Keep responses for the workers of a server, in a thread, if there are several.

    Where no socket can be made, such as in a folder with a long path, each worker runs what it is asked.
    """
    shared = _Shared(settings.response_cache_mb * 2**20)
    with closing(asyncio.new_event_loop()) as loop:
        server: asyncio.Server | None = None
        if settings.workers > 1:
            socket = str(runtime.response_socket)
            try:
                listening = loop.create_unix_server(lambda: _Connection(shared), socket)
                server = loop.run_until_complete(listening)
            except OSError as error:
                log.warning("The workers share no responses, since %s cannot be a socket: %s", socket, error)
        if server is None:
            yield
            return
        thread = threading.Thread(target=loop.run_forever, name="share-responses", daemon=True)
        thread.start()
        try:
            yield
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            server.close()
            for connection in shared.connections:
                assert connection.transport is not None
                connection.transport.abort()
            loop.run_until_complete(server.wait_closed())


# -- in a worker -----------------------------------------------------------------------------------------------


class SharedResponses(_Frames):
    """The responses that the other workers have made or are making. For one event loop.

    Without the first process, each request runs here.

    Args:
        path: the socket of the first process.
        seconds: how long a request waits for another worker, which may be stopped, before it runs here.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__()
        self._path = path
        self._seconds = seconds
        self._connecting = asyncio.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    async def connect(self) -> None:
        """Connect to the first process, unless it is connected or ends."""
        async with self._connecting:
            if self.transport is None:
                with suppress(OSError):
                    await asyncio.get_running_loop().create_unix_connection(lambda: self, str(self._path))

    async def get(
        self, key: bytes, run: Callable[[], Awaitable[R]], is_kept: Callable[[R], bool]
    ) -> tuple[R, bool]:
        """The response of another worker, else that of ``run``; and whether another has made it.

        Args:
            is_kept: whether the other workers get a response.

        Raises:
            Whatever ``run`` raises.
        """
        await self.connect()
        if self.transport is None:
            return await run(), False
        loop = asyncio.get_running_loop()
        number = next(self._numbers)
        waiting = self._waiting[number] = loop.create_future()
        timer = loop.call_later(self._seconds, self.received, number, key, b"")
        made = b""
        self.send(number, key, None)
        try:
            if data := await waiting:
                return pickle.loads(data), True
            response = await run()
            if is_kept(response):
                made = pickle.dumps(response)
            return response, False
        finally:
            timer.cancel()
            del self._waiting[number]
            if not (waiting.done() and not waiting.cancelled() and waiting.result()):
                self.send(number, key, made)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_result(b"")

    def received(self, number: int, key: bytes, data: bytes | None) -> None:
        waiting = self._waiting.get(number)
        if data is not None and waiting is not None and not waiting.done():
            waiting.set_result(data)
