"""Units that a process lends to requests: threads, and room for papers and bodies. Who asks for more waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from scholarbase.errors import Busy

WAIT_SECONDS: Final = 30.0
"""The longest wait. A request that waits longer returns 503, which clients retry."""


class _Wait(NamedTuple):
    units: int
    turn: asyncio.Future[None]
    client: Hashable


class _Queue:
    """Requests that wait. Clients take turns; the requests of one keep their order."""

    def __init__(self) -> None:
        self._of_client: dict[Hashable, deque[_Wait]] = {}
        """By client, the next one first."""
        self.length = 0

    def __iter__(self) -> Iterator[_Wait]:
        for waits in self._of_client.values():
            yield from waits

    def waiting(self, client: Hashable) -> int:
        """Requests of a client."""
        return len(self._of_client.get(client, ()))

    def busiest(self) -> Hashable:
        """The client with the most requests, of a queue that is not empty."""
        return max(self._of_client, key=self.waiting)

    def first(self) -> _Wait:
        return next(iter(self._of_client.values()))[0]

    def append(self, wait: _Wait) -> None:
        self._of_client.setdefault(wait.client, deque()).append(wait)
        self.length += 1

    def pop_first(self) -> None:
        """Remove the first request. Its client is the last one now."""
        client = next(iter(self._of_client))
        waits = self._of_client.pop(client)
        waits.popleft()
        self.length -= 1
        if waits:
            self._of_client[client] = waits

    def remove(self, wait: _Wait) -> None:
        """Remove a request. Raises ValueError or KeyError: it is not there."""
        waits = self._of_client[wait.client]
        waits.remove(wait)
        self.length -= 1
        if not waits:
            del self._of_client[wait.client]

    def last_of(self, client: Hashable) -> _Wait:
        return self._of_client[client][-1]


class Capacity:
    """A number of units. Long and quick work wait in queues of their own, which take turns, as clients do in each: one
    that sends a thousand requests delays the request of another by one of them. For one event loop.

    Args:
        units: the number of units.
        queue: the number of requests that may wait in both queues.
        what: what the units are, for the error message.
    """

    def __init__(self, units: int, queue: int, what: str) -> None:
        self._units = self._free = units
        self._most = queue
        self._what = what
        self._queues: tuple[_Queue, _Queue] = (_Queue(), _Queue())
        """Of long work, and of quick work."""
        self._next = 0
        """The queue whose turn it is."""
        self._is_stopping = False

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(queue.length for queue in self._queues)

    def take(self, units: int) -> bool:
        """Take ``units``, at most all of them, if they are free and nobody waits."""
        units = min(units, self._units)
        if self.waiting or units > self._free:
            return False
        self._free -= units
        return True

    async def wait(self, units: int, *, quick: bool = False, client: Hashable = None) -> None:
        """Wait for ``units``, at most all of them, in the queue of quick work or in that of long work.

        Raises:
            Busy: too many requests wait, most of them of this client; this one has waited for ``WAIT_SECONDS``; or the
                server stops.
        """
        if self._is_stopping:
            raise stopping()
        if self.waiting >= self._most:
            self._make_room(client)
        queue = self._queues[quick]
        wait = _Wait(min(units, self._units), asyncio.get_running_loop().create_future(), client)
        queue.append(wait)
        self._lend()  # units may have become free since the caller's `take`
        late = Busy(
            f"The request waited for {self._what} of this server for {WAIT_SECONDS:g} seconds: retry later."
        )
        timer = asyncio.get_running_loop().call_later(WAIT_SECONDS, refuse, wait.turn, late)
        try:
            await wait.turn
        except BaseException:
            if (
                wait.turn.done() and not wait.turn.cancelled() and wait.turn.exception() is None
            ):  # lent just now
                self._free += wait.units
            else:
                with suppress(ValueError, KeyError):  # _lend may have removed it
                    queue.remove(wait)
            self._lend()
            raise
        finally:
            timer.cancel()

    def release(self, units: int) -> None:
        self._free += min(units, self._units)
        self._lend()

    def stop(self) -> None:
        """Refuse the requests that wait, and all that would have to."""
        self._is_stopping = True
        for queue in self._queues:
            for wait in list(queue):
                refuse(wait.turn, stopping())

    def _make_room(self, client: Hashable) -> None:
        """Refuse the last request of the client with the most. Raises Busy: this client has no fewer."""
        queue = max(self._queues, key=lambda one: one.waiting(one.busiest()) if one.length else 0)
        busiest = queue.busiest()
        own = sum(one.waiting(client) for one in self._queues)
        full = busy(self.waiting, self._what)
        if queue.waiting(busiest) <= own + 1:
            raise full
        last = queue.last_of(busiest)
        queue.remove(last)
        refuse(last.turn, full)

    def _lend(self) -> None:
        while self.waiting:
            queue = (
                self._queues[self._next] if self._queues[self._next].length else self._queues[1 - self._next]
            )
            first = queue.first()
            if first.units > self._free and not first.turn.done():
                break
            queue.pop_first()
            if not first.turn.done():  # neither cancelled nor refused
                self._free -= first.units
                self._next = 1 - self._next
                first.turn.set_result(None)


def stopping() -> Busy:
    """The error of requests that the end of the server keeps from running."""
    return Busy("The server is stopping: send the request again in a moment.")


def busy(waiting: int, what: str) -> Busy:
    """The error of a request for which there is no place in a queue."""
    return Busy(
        f"{waiting:,} requests wait for {what} of this server: retry in a second, or send fewer at once."
    )


def refuse(turn: asyncio.Future[None], error: Busy) -> None:
    """End a wait with an error, unless it has ended."""
    if not turn.done():
        turn.set_exception(error)
