"""The open connections of a process: how many there may be, which are closed first, and how slow a client may be."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from scholarbase.http import is_loopback
from scholarbase.settings import Settings

log = logging.getLogger("scholarbase.api")

MAX_HELD: Final = 64 * 2**20
"""Bytes of incomplete requests that all connections of a process may hold; more if bodies may be larger."""
MAX_UNREAD: Final = 64 * 2**20
"""Bytes of responses that clients have not read and all connections of a process may hold."""
UNREAD_SECONDS: Final = 2.0
"""Connections of clients that read their responses within this time are not closed for ``MAX_UNREAD``."""
SPARE_FILES: Final = 16
"""File descriptors that are left for SQLite, sessions and keys, besides those open when the first client connects."""
MIN_CONNECTIONS: Final = 4
SWEEP_SECONDS: Final = 1.0
REPORT_SECONDS: Final = 60.0


class Connection(Protocol):
    """A client's connection, as :class:`Connections` sees it."""

    address: str
    """The client's IP address; empty for a Unix socket."""
    held: int
    """Bytes of an incomplete request, or of pipelined requests."""
    since: float
    """When the current request, its response or the wait for a request began, in seconds of the event loop's clock."""

    def check(self, now: float) -> None:
        """Close the connection if its client is too slow."""

    def unread(self) -> int:
        """Bytes of responses that the client has not read."""

    def abort(self) -> None:
        """Close the connection without a response."""


class Connections:
    """The open connections of one process.

    A connection is idle until it has sent a complete request, and again after the response. When there are too many
    connections, the one that has been idle for the longest time is closed. If none is idle, the new one is kept, but
    :meth:`is_refused` tells the protocol to refuse its request.

    Args:
        settings: the maximum number of connections in all and per address, and the largest body.
    """

    def __init__(self, settings: Settings) -> None:
        self._wanted = settings.max_connections
        self._per_address = settings.max_connections_per_address
        self._max_held = max(MAX_HELD, 8 * settings.max_body_bytes)
        self._limit = 0
        self._open: dict[Connection, None] = {}
        self._idle: dict[Connection, None] = {}
        """In the order of the times since when they are idle."""
        self._extra: set[Connection] = set()
        """Connections beyond a limit."""
        self._by_address: Counter[str] = Counter()
        self._held = 0
        self._closed: Counter[str] = Counter()
        """Reasons for which connections were closed since the last report."""
        self._reported = 0.0
        self._unread: dict[Connection, float] = {}
        """Connections with unread responses, and when they were first seen."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def room(self) -> int:
        """How many more connections may be open."""
        self._limit = self._limit or _connection_limit(self._wanted)
        return self._limit - len(self._open)

    def add(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        """Register a new connection. Closes the oldest idle ones if there are too many."""
        self._open[connection] = self._idle[connection] = None
        self._by_address[connection.address] += 1
        if self._timer is None:
            self._reported = loop.time()
            self._timer = loop.call_later(SWEEP_SECONDS, self._sweep, loop)
        same = (one for one in self._idle if one.address == connection.address)
        if (self._is_over(connection.address) and not self._make_room(connection, same)) or (
            self.room < 0 and not self._make_room(connection, iter(self._idle))
        ):
            self._extra.add(connection)

    def remove(self, connection: Connection) -> None:
        """Unregister a connection that is closed."""
        if connection not in self._open:
            return
        del self._open[connection]
        self._idle.pop(connection, None)
        self._extra.discard(connection)
        self._by_address[connection.address] -= 1
        if not self._by_address[connection.address]:
            del self._by_address[connection.address]
        self.hold(connection, 0)

    def busy(self, connection: Connection) -> None:
        """A connection has sent a complete request."""
        self._idle.pop(connection, None)

    def idle(self, connection: Connection) -> None:
        """The response to a connection's request is complete."""
        if connection in self._open:
            self._idle[connection] = None

    def is_refused(self, connection: Connection) -> bool:
        """Whether a connection's requests are refused, since there are too many connections and none was idle."""
        return connection in self._extra and (self.room < 0 or self._is_over(connection.address))

    def hold(self, connection: Connection, size: int) -> None:
        """Count the bytes that a connection holds. Closes those with the oldest requests if all hold too many."""
        self._held += size - connection.held
        connection.held = size
        while self._held > self._max_held:
            oldest = min((one for one in self._open if one.held), key=lambda one: one.since)
            self._close(oldest, "all incomplete requests together were too large")

    def closed(self, reason: str) -> None:
        """Count a closed connection for the log, which has one line a minute however many there are."""
        self._closed[reason] += 1

    def _is_over(self, address: str) -> bool:
        return self._by_address[address] > self._per_address and not is_loopback(
            address.removeprefix("::ffff:")
        )

    def _make_room(self, new: Connection, candidates: Iterator[Connection]) -> bool:
        oldest = next(candidates)
        if oldest is new:
            return False
        self._close(oldest, "there were too many connections and it was idle")
        return True

    def _close(self, connection: Connection, reason: str) -> None:
        self.closed(reason)
        self.remove(connection)
        connection.abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for connection in list(self._open):
            connection.check(now)
        sizes = {one: size for one in self._open if (size := one.unread())}
        self._unread = {one: self._unread.get(one, now) for one in sizes}
        total = sum(sizes.values())
        for connection, seen in sorted(self._unread.items(), key=lambda item: item[1]):
            if total > MAX_UNREAD and now - seen >= UNREAD_SECONDS:
                total -= sizes[connection]
                self._close(connection, "all unread responses together were too large")
        if self._closed and (not self._open or now - self._reported >= REPORT_SECONDS):
            reasons = "; ".join(f"{count:,} because {reason}" for reason, count in self._closed.most_common())
            log.warning("Closed connections: %s.", reasons)
            self._closed.clear()
            self._reported = now
        self._timer = loop.call_later(SWEEP_SECONDS, self._sweep, loop) if self._open else None


def _connection_limit(wanted: int) -> int:
    """The number of connections for which this process has file descriptors, ``wanted`` at most.

    Raises the soft limit of open files as far as needed and allowed.
    """
    others = _open_files() + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted + others:
        raised = wanted + others if hard == resource.RLIM_INFINITY else min(wanted + others, hard)
        with suppress(ValueError, OSError):  # macOS has a limit below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if soft == resource.RLIM_INFINITY else min(wanted, max(MIN_CONNECTIONS, soft - others))
    if limit < wanted:
        log.warning(
            "This process may open %s files, so it keeps %s connections open instead of %s: raise ulimit -n.",
            f"{soft:,}",
            f"{limit:,}",
            f"{wanted:,}",
        )
    return limit


def _open_files() -> int:
    for folder in (Path("/proc/self/fd"), Path("/dev/fd")):
        if folder.is_dir():
            return len(list(folder.iterdir()))
    return 32
