"""Accepts connections: many in one turn of the event loop, those with health requests first, then those of each address
in turn.

uvloop accepts one connection in a turn, and answers its request before the next is accepted. A health request that
arrives after a thousand others would wait for the responses to all of them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from contextlib import suppress
from typing import Any, Final

import uvloop

from scholarbase.api.connections import Connections
from scholarbase.api.paths import HEALTH_PATHS

MAX_ACCEPTED: Final = 256
"""Connections accepted in one turn of the loop, so that workers share a burst of them."""
MAX_OPENED: Final = 16
"""Connections with other requests that are opened in one turn."""
PAUSE_SECONDS: Final = 0.5
"""How long no connection is accepted when the system has no room for one."""
_FIRST_BYTES: Final = 24
_URGENT: Final = tuple(f" {path}".encode() for path in (*HEALTH_PATHS, "/metrics"))
_NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """A server (:class:`asyncio.Server`) of a listening socket. It closes accepted connections that are not open yet.

    Args:
        make_protocol: creates the protocol of a connection.
        connections: the open connections of the process. Beyond their limit, one is accepted in a turn, for which an
            idle one is closed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener: socket.socket,
        make_protocol: Any,
        connections: Connections,
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._make_protocol = make_protocol
        self._connections = connections
        self._waiting: dict[str, deque[socket.socket]] = {}
        """By address, the address whose turn is next first."""
        self._opening: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._is_closed = False
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        while self._waiting:
            self._next_waiting().close()

    async def wait_closed(self) -> None:
        """Nothing more to close."""

    def _listen(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        waiting = sum(map(len, self._waiting.values()))
        room = self._connections.room - waiting - len(self._opening)
        for _ in range(max(1, min(MAX_ACCEPTED, room))):
            try:
                connection, address = self._listener.accept()
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(PAUSE_SECONDS, self._listen)
                    break
                continue  # the client has gone
            connection.setblocking(False)
            if _is_urgent(connection):
                self._open(connection)
            else:
                self._waiting.setdefault(address[0] if address else "", deque()).append(connection)
        self._open_waiting()

    def _next_waiting(self) -> socket.socket:
        """Take the first connection of the address whose turn is next."""
        address = next(iter(self._waiting))
        connections = self._waiting.pop(address)
        connection = connections.popleft()
        if connections:
            self._waiting[address] = connections
        return connection

    def _open_waiting(self) -> None:
        if self._is_scheduled or self._is_closed:
            return
        for _ in range(MAX_OPENED):
            if not self._waiting:
                return
            self._open(self._next_waiting())
        if self._waiting:
            self._is_scheduled = True
            self._loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_scheduled = False
        self._open_waiting()

    def _open(self, connection: socket.socket) -> None:
        task = self._loop.create_task(self._opened(connection))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _opened(self, connection: socket.socket) -> None:
        with suppress(OSError):  # the client has gone
            await self._loop.connect_accepted_socket(self._make_protocol, connection)
            return
        connection.close()


def _is_urgent(connection: socket.socket) -> bool:
    """Whether a connection has sent a health request, or nothing yet."""
    try:
        first = connection.recv(_FIRST_BYTES, socket.MSG_PEEK)
    except OSError:
        return True
    return any(path in first for path in _URGENT)


class EventLoop(uvloop.Loop):
    """uvloop, with an :class:`Acceptor` for listening sockets."""

    def __init__(self, connections: Connections) -> None:
        super().__init__()
        self._connections = connections

    async def create_server(self, protocol_factory: Any, *arguments: Any, **options: Any) -> Any:
        listener = options.get("sock")
        if listener is None or options.get("ssl") is not None:
            return await super().create_server(protocol_factory, *arguments, **options)
        return Acceptor(self, listener, protocol_factory, self._connections)
