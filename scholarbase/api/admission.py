"""Admission: how much work runs at once in one process, for how long, and how much waits.

Short requests run on the event loop. All others run in threads, as many at once as there are connections to the
catalogue, and with a bounded number of papers in memory. More requests wait; beyond a bounded number they are rejected
with 503.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import Request

from scholarbase.api.holding import WORK
from scholarbase.deadlines import DEADLINE, Deadline, time_limit
from scholarbase.errors import Busy, Cancelled, InvalidRequest, TimeLimit
from scholarbase.memory import return_free_memory
from scholarbase.settings import Settings
from scholarbase.timing import stages

T = TypeVar("T")

WAIT_SECONDS: Final = 30.0
"""The longest wait. A request that waits longer returns 503, which clients retry."""
LOOP_SECONDS: Final = 0.1
"""How long a request may block the event loop. One that takes longer starts again in a thread."""
TURN_SECONDS: Final = 0.02
"""How long short requests together may take in one turn of the event loop. New connections come between turns."""
GRACE: Final = 1.05
"""Work that cannot be interrupted has its response at this multiple of the time limit; it then runs on without one."""
PAPERS_AT_ONCE: Final = 20_000
"""Papers of all responses that are being made or sent: some 150 MB."""
GRACEFUL_SECONDS: Final = 6.0
"""How long requests may go on when the server stops; then they are refused."""
FEW_PAPERS: Final = 100
"""Papers of a response that needs no admission for them."""
THREADS: Final = "scholarbase-request"
"""How the names of the threads begin."""
KEY: Final = "scholarbase.key"
"""The key of a request's scope that holds its :class:`scholarbase.api.access.keys.Key`, if keys are required."""
SLOT: Final = "scholarbase.slot"
"""The key of the scope of a request whose response takes room for papers."""
TRIM_SECONDS: Final = 10.0
"""How long after large responses free memory is returned to the system."""
_DISCONNECTED: Final = "The request was cancelled, because the client disconnected."


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


class Load(NamedTuple):
    """The work of a server's process in threads.

    Args:
        running: requests in threads.
        waiting: requests that wait for one.
        queue: how many may wait.
        admitted: requests that a thread has run or runs, since the start.
    """

    running: int = 0
    waiting: int = 0
    queue: int = 0
    admitted: int = 0


class Admission:
    """Admits the requests of one process and sets their time limit. For one event loop.

    Args:
        settings: the numbers of threads (``readers``) and waiting requests, and the time limit.
    """

    def __init__(self, settings: Settings) -> None:
        self._limit = settings.timeout
        self._turns = Capacity(settings.readers, settings.queue, "a thread")
        self._papers = Capacity(PAPERS_AT_ONCE, settings.queue, "room for their papers")
        self._threads = ThreadPoolExecutor(settings.readers, thread_name_prefix=THREADS)
        self._running: set[Deadline] = set()
        self._free_memory = FreeMemory(TRIM_SECONDS)
        self._spent = 0.0
        """Seconds of short work in this turn of the event loop."""
        self._short: deque[asyncio.Future[None]] = deque()
        """Short work that waits for a turn of the event loop."""
        self._next_turn: asyncio.Handle | None = None
        self._queue = settings.queue
        self._admitted = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Future[None] | None = None
        """Done when what runs is cancelled."""

    @property
    def load(self) -> Load:
        return Load(len(self._running), self._turns.waiting, self._queue, self._admitted)

    def start(self) -> None:
        """Admit requests, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._stopped = self._loop.create_future()

    def stop(self) -> None:
        """Refuse the requests that wait, because the server stops, and after ``GRACEFUL_SECONDS`` those that run. From
        any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        assert self._loop is not None
        assert self._stopped is not None
        self._loop.call_later(GRACEFUL_SECONDS, self._stopped.set_result, None)
        for capacity in (self._papers, self._turns):
            capacity.stop()
        for turn in self._short:
            refuse(turn, stopping())

    def close(self) -> None:
        """Cancel what runs. Threads that cannot be interrupted run on."""
        self._free_memory.cancel()
        for deadline in self._running:
            deadline.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def execute(
        self,
        work: Callable[[], T],
        *,
        http: Request,
        short: bool,
        quick: bool = False,
        papers: int,
        timeout: float | None = None,
    ) -> T:
        """Run short work on the event loop, other work in a thread, once it is admitted.

        A thread costs a tenth of a millisecond, and more under load: Python releases its lock only every few
        milliseconds, so a thread and the event loop wait for each other at every SQLite statement. With ten clients,
        the event loop alone has the higher throughput. Long work would block all of them.

        Args:
            http: the request, whose client may disconnect.
            short: whether the work usually takes a few milliseconds.
            quick: whether it usually takes some tens of milliseconds. Such work waits in one queue with short work.
            papers: the most papers of the response.
            timeout: the request's own time limit in seconds.

        Raises:
            InvalidRequest: ``timeout`` exceeds the server's limit.
            TimeLimit: the work took longer than the time limit, which starts here.
            Busy: too many requests wait.
            Cancelled: the client disconnected.
        """
        if timeout is not None and timeout > self._limit:
            raise InvalidRequest(
                f"timeout is {timeout:g}: this server allows {self._limit:g} seconds at most (SCHOLARBASE_TIMEOUT)."
            )
        if short and papers <= FEW_PAPERS:
            try:
                return await self._on_loop(work)
            except TimeLimit:
                if timeout is not None and timeout <= LOOP_SECONDS:
                    raise
        # Quick work with few papers does not wait for large responses of others.
        async with self._client_of(http, 0 if quick and papers <= FEW_PAPERS else papers):
            if short and papers > FEW_PAPERS:
                with suppress(TimeLimit):
                    return await self._on_loop(work)
            return await self._in_thread(work, http, timeout or self._limit, quick=short or quick)

    async def execute_parts(
        self,
        parts: Iterable[tuple[Hashable, Callable[[], T]]],
        *,
        http: Request,
        papers: int,
        share: Callable[[Hashable, Callable[[], Awaitable[T]]], Awaitable[T]],
    ) -> list[T]:
        """Run the parts of one long request in threads, one after the other.

        Each part is admitted by itself and has the whole time limit, so other requests run between them. The papers
        are those of all parts, from the first to the end of the response.

        Args:
            parts: the work of each part, and what is equal for parts with the same result.
            http: as in :meth:`execute`.
            papers: the most papers of the response.
            share: runs a part unless its result is known.

        Raises:
            TimeLimit, Busy, Cancelled: as in :meth:`execute`, of the first part that fails.
        """
        async with self._client_of(http, papers):
            return [
                await share(key, partial(self._in_thread, work, http, self._limit, quick=False))
                for key, work in parts
            ]

    @asynccontextmanager
    async def _client_of(self, http: Request, papers: int) -> AsyncIterator[None]:
        """Wait for room for the papers of a request, and watch its client while it runs."""
        release(http)  # of an earlier attempt
        client = _Client(http, partial(self._release_papers, papers))
        try:
            if papers and not self._papers.take(papers):
                waiting = self._papers.wait(papers, client=client.name)
                await client.unless_gone(waiting, partial(self._papers.release, papers))
            http.scope[SLOT] = client
            yield
        finally:
            client.forget()

    @asynccontextmanager
    async def thread(self) -> AsyncIterator[None]:
        """Admit an endpoint that runs in a thread of its own choice.

        Raises:
            Busy: too many requests wait.
        """
        if not self._turns.take(1):
            await self._turns.wait(1)
        try:
            with time_limit(self._limit):
                yield
        finally:
            self._turns.release(1)

    def _release_papers(self, papers: int) -> None:
        self._papers.release(papers)
        if papers > FEW_PAPERS:
            self._free_memory.soon()

    async def _on_loop(self, work: Callable[[], T]) -> T:
        """Run short work on the event loop, unless this turn of the loop has had its share of it."""
        loop = asyncio.get_running_loop()
        if self._short or self._spent > TURN_SECONDS:
            if len(self._short) >= self._queue:
                raise busy(len(self._short), "the event loop")
            self._short.append(turn := loop.create_future())
            await turn
        start = perf_counter()
        if not self._next_turn:
            self._next_turn = loop.call_soon(self._begin_turn)
        token = DEADLINE.set(Deadline(LOOP_SECONDS))
        try:
            return work()
        finally:
            DEADLINE.reset(token)
            self._spent += perf_counter() - start

    def _begin_turn(self) -> None:
        """Begin a turn of the event loop, in which one request that waits is run."""
        self._spent = 0.0
        self._next_turn = None
        while self._short:
            if not (turn := self._short.popleft()).done():  # its client may have gone
                turn.set_result(None)
                break
        if self._short:
            self._next_turn = asyncio.get_running_loop().call_soon(self._begin_turn)

    async def _in_thread(self, work: Callable[[], T], http: Request, seconds: float, *, quick: bool) -> T:
        """Wait for a thread, and run work in it."""
        client: _Client = http.scope[SLOT]
        queued = perf_counter()
        if not self._turns.take(1):
            waiting = self._turns.wait(1, quick=quick, client=client.name)
            await client.unless_gone(waiting, partial(self._turns.release, 1))
        stages().append(("queue", queued, perf_counter()))
        deadline = Deadline(seconds)
        context = copy_context()
        context.run(DEADLINE.set, deadline)
        self._running.add(deadline)
        self._admitted += 1
        client.share()
        result = asyncio.get_running_loop().run_in_executor(self._threads, context.run, work)

        def ended(result: asyncio.Future[T]) -> None:
            if not result.cancelled():
                result.exception()  # which nobody may await any more
            self._running.discard(deadline)
            self._turns.release(1)
            client.release()

        result.add_done_callback(ended)
        http.scope.get(WORK, []).append(result)
        try:
            ends: set[asyncio.Future[Any]] = {result, client.watch()}
            if self._stopped is not None:
                ends.add(self._stopped)
            await asyncio.wait(ends, timeout=seconds * GRACE, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if client.is_gone:
                raise Cancelled(_DISCONNECTED)
            if self._stopped is not None and self._stopped.done():
                raise stopping()
            raise deadline.late(seconds)
        finally:
            if not result.done():
                deadline.cancel()


class _Client:
    """The client of a request: who it is, whether it disconnected, and the papers of its response, which count until
    that is sent and the threads have ended.

    Args:
        return_papers: returns the room for the papers.
    """

    def __init__(self, http: Request, return_papers: Callable[[], None]) -> None:
        self._http = http
        self._gone: asyncio.Task[None] | None = None
        self._return_papers = return_papers
        self._users = 1

    @property
    def name(self) -> str | None:
        """The name of its key, else its address."""
        key = self._http.scope.get(KEY)
        if key is not None:
            return str(key.name)
        return self._http.client.host if self._http.client else None

    @property
    def is_gone(self) -> bool:
        return self._gone is not None and self._gone.done()

    def watch(self) -> asyncio.Task[None]:
        """The task that ends when the client disconnects."""
        if self._gone is None:
            self._gone = asyncio.create_task(_until_disconnected(self._http))
        return self._gone

    def forget(self) -> None:
        """Watch it no longer."""
        if self._gone is not None:
            self._gone.cancel()

    async def unless_gone(self, waiting: Coroutine[Any, Any, None], give_back: Callable[[], None]) -> None:
        """Await a turn; raise Cancelled if the client disconnects before. ``give_back`` returns what was lent."""
        turn = asyncio.create_task(waiting)
        try:
            await asyncio.wait((turn, self.watch()), return_when=asyncio.FIRST_COMPLETED)
            if not turn.done():
                raise Cancelled(_DISCONNECTED)
        except BaseException:
            if not turn.cancel() and not turn.cancelled() and turn.exception() is None:
                give_back()  # it was lent before this task resumed
            raise
        turn.result()

    def share(self) -> None:
        """Add a user of the papers, which must release them too."""
        self._users += 1

    def release(self) -> None:
        """The last user's release returns the papers."""
        self._users -= 1
        if not self._users:
            self._return_papers()


class FreeMemory:
    """Returns free memory to the system, which glibc otherwise keeps, some seconds after it was used."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._return)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _return(self) -> None:
        self._timer = None
        asyncio.get_running_loop().run_in_executor(None, return_free_memory)


def release(http: Request) -> None:
    """Release what a request holds."""
    client: _Client | None = http.scope.pop(SLOT, None)
    if client is not None:
        client.release()


async def _until_disconnected(http: Request) -> None:
    await http.body()  # which is kept for those that read it later
    while (await http.receive())["type"] != "http.disconnect":
        pass
