"""Admission: how much work runs at once in one process, for how long, and how much waits.

Short requests run on the event loop. All others run in threads, as many at once as there are connections to the
catalogue, and with a bounded number of papers in memory. More requests wait; beyond a bounded number they are rejected
with 503, and so are those whose wait leaves too little of their time limit.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from itertools import chain
from time import monotonic, perf_counter
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import HTTPConnection, Request

from scholarbase.api.holding import WORK
from scholarbase.api.problems import busy, stopping
from scholarbase.deadlines import DEADLINE, Deadline
from scholarbase.errors import Busy, Cancelled, InvalidRequest, TimeLimit
from scholarbase.memory import FreeMemory
from scholarbase.settings import Settings
from scholarbase.timing import stages

T = TypeVar("T")

LOOP_SECONDS: Final = 0.1
"""How long a request may block the event loop. One that takes longer starts again in a thread."""
TURN_SECONDS: Final = 0.02
"""How long short requests together may take in one turn of the event loop. New connections come between turns."""
AVERAGED: Final = 8
"""About how many requests the average of their times counts."""
RESERVED: Final = 2.0
"""How many times the average time of such work must be left at a request's turn, and a tenth of its time limit."""
GRACE: Final = 1.05
"""Work that cannot be interrupted has its response at this multiple of the time limit; it then runs on without one."""
PAPERS_AT_ONCE: Final = 20_000
"""Papers of all responses that are being made or sent: some 150 MB."""
GRACEFUL_SECONDS: Final = 6.0
"""How long requests may go on when the server stops; then they are refused."""
FEW_PAPERS: Final = 100
"""Papers of a response that needs no admission for them, and of short and quick work."""
QUICK_AT_ONCE: Final = 2
"""Quick requests that run at once. Threads take turns, also while Qdrant Edge searches, and each turn costs time: with
ten clients, a server of 100,000 papers answered 20 to 30% more hybrid searches a second than with eight."""
THREADS: Final = "scholarbase-request"
"""How the names of the threads begin."""
LONG_NICE: Final = 5
"""How far the priority of long work is lowered. Where all cores are busy, quick work then comes first, also that of
other server processes."""
KEY: Final = "scholarbase.key"
"""The key of a request's scope that holds its :class:`scholarbase.api.access.keys.Key`, if keys are required."""
ARRIVED: Final = "scholarbase.arrived"
"""The key of a request's scope that holds when it arrived with its whole body, in seconds of ``time.monotonic``: then
its time limit begins."""
CLIENT: Final = "scholarbase.client"
"""The key of a request's scope that holds its :class:`_Client` while the response takes room for papers."""
TRIM_SECONDS: Final = 10.0
"""How long after large responses free memory is returned to the system."""
_DISCONNECTED: Final = "The request was cancelled, because the client disconnected."


Caller = tuple[Hashable, bool]
"""Whose request takes or waits: the name of its key, else its address; and whether its work is quick, so that no share
applies."""
_ANYONE: Final[Caller] = (None, True)


class _Wait(NamedTuple):
    units: int
    turn: asyncio.Future[None]


class Capacity:
    """A number of units. Callers that wait take turns, and the requests of one keep their order: one that sends a
    thousand requests delays the request of another by one of them. For one event loop.

    Args:
        units: the number of units.
        queue: the number of requests that may wait.
        what: what the units are, for the error message.
        share: the units that long work of one caller has at most; all by default.
        quick: the units that all quick work has at most; all by default.
        reserved: units that are only for quick work. Half of them are also for long work of a caller that has none.
    """

    def __init__(
        self,
        units: int,
        queue: int,
        what: str,
        *,
        share: int | None = None,
        quick: int | None = None,
        reserved: int = 0,
    ) -> None:
        self._units = self._free = units
        self._most = queue
        self._what = what
        self._share = units if share is None else share
        self._quick = units if quick is None else quick
        self._reserved = reserved
        self._long: Counter[Hashable] = Counter()
        """Units of long work, by the name of the caller."""
        self._queues: dict[Caller, deque[_Wait]] = {}
        """Requests that wait, by their callers; the caller whose turn it is first."""
        self._seconds = {True: 0.0, False: 0.0}
        """How long quick and long work has a unit: a moving average."""
        self._is_stopping = False

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return sum(map(len, self._queues.values()))

    def take(self, units: int, caller: Caller = _ANYONE) -> bool:
        """Take ``units``, at most all of them, if they are free and nobody waits."""
        units = min(units, self._units)
        if self._queues or not self._may_take(units, caller):
            return False
        self._lend_to(caller, units)
        return True

    async def wait(self, units: int, until: float | None = None, caller: Caller = _ANYONE) -> None:
        """Wait for ``units``, at most all of them.

        Args:
            until: when the caller needs them no longer, in seconds of :func:`time.monotonic`.

        Raises:
            Busy: too many requests wait, most of them of this caller; the wait would last, or has lasted, too long for
                work until ``until``; or the server stops.
        """
        if self._is_stopping:
            raise stopping()
        if self.waiting >= self._most:
            self._make_room(caller[0])
        loop = asyncio.get_running_loop()
        began = monotonic()
        wait = _Wait(min(units, self._units), loop.create_future())
        self._queues.setdefault(caller, deque()).append(wait)
        self._lend()  # units may have become free since the caller's `take`
        timer = None
        try:
            if until is not None and not wait.turn.done():
                expected, ahead, left = self._expected(caller), self.waiting - 1, until - began
                if ahead and expected > left:
                    raise busy(ahead, self._what, expected)
                most = left - min(max(RESERVED * self._seconds[caller[1]], left / 10), left / 2)
                timer = loop.call_later(most, self._refuse_late, wait, caller, most)
            await wait.turn
        except BaseException:
            if wait.turn.done() and not wait.turn.cancelled() and wait.turn.exception() is None:
                self.release(wait.units, caller)  # lent just now
            else:
                self._remove(wait, caller)
                self._lend()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def release(self, units: int, caller: Caller = _ANYONE, seconds: float | None = None) -> None:
        """Return units; ``seconds`` is how long work had them."""
        units = min(units, self._units)
        self._free += units
        name, is_quick = caller
        if not is_quick:
            self._long[name] -= units
            if not self._long[name]:
                del self._long[name]
        if seconds is not None:
            self._seconds[is_quick] += (seconds - self._seconds[is_quick]) / AVERAGED
        self._lend()

    def stop(self) -> None:
        """Refuse the requests that wait, and all that would have to."""
        self._is_stopping = True
        for wait in chain.from_iterable(self._queues.values()):
            refuse(wait.turn, stopping())

    def _may_take(self, units: int, caller: Caller) -> bool:
        if units > self._free:
            return False
        name, is_quick = caller
        if is_quick:
            return self._units - self._free - self._long.total() + units <= self._quick
        used = self._long[name]
        reserved = self._reserved if used else self._reserved // 2
        return used + units <= self._share and self._long.total() + units <= self._units - reserved

    def _lend_to(self, caller: Caller, units: int) -> None:
        self._free -= units
        name, is_quick = caller
        if not is_quick:
            self._long[name] += units

    def _lend(self) -> None:
        while self._lend_next():
            pass

    def _lend_next(self) -> bool:
        """Lend units to the first request that may have them. A large one keeps its place: none passes it."""
        for caller, waits in self._queues.items():
            units, turn = waits[0]
            if turn.done() or self._may_take(units, caller):
                waits.popleft()
                del self._queues[caller]
                if waits:
                    self._queues[caller] = waits  # the last one now
                if not turn.done():  # neither cancelled nor refused
                    self._lend_to(caller, units)
                    turn.set_result(None)
                return True
            if units > self._free:
                return False
        return False

    def _remove(self, wait: _Wait, caller: Caller) -> None:
        waits = self._queues.get(caller, deque())
        with suppress(ValueError):  # _lend may have removed it
            waits.remove(wait)
            if not waits:
                del self._queues[caller]

    def _expected(self, caller: Caller) -> float:
        """Seconds until the last request that waits of a caller has its turn."""
        is_quick = caller[1]
        last = len(self._queues.get(caller, ()))
        alike = [len(waits) for other, waits in self._queues.items() if other[1] == is_quick]
        at_once = self._quick
        if not is_quick:
            at_once = min(self._units - self._reserved, self._share * max(1, len(alike)))
        return self._seconds[is_quick] * sum(min(length, last) for length in alike) / at_once

    def _refuse_late(self, wait: _Wait, caller: Caller, seconds: float) -> None:
        text = f"The request waited for {self._what} of this server for {seconds:.3g} seconds: retry later."
        refuse(wait.turn, Busy(text, math.ceil(self._expected(caller))))

    def _make_room(self, name: Hashable) -> None:
        """Refuse the last request of the caller with the most. Raises Busy: this caller has no fewer."""
        counts: Counter[Hashable] = Counter()
        for (waiting, _), waits in self._queues.items():
            counts[waiting] += len(waits)
        [(busiest, most)] = counts.most_common(1)
        longest = max((k for k in self._queues if k[0] == busiest), key=lambda k: len(self._queues[k]))
        full = busy(self.waiting, self._what, self._expected(longest))
        if most <= counts[name] + 1:
            raise full
        last = self._queues[longest][-1]
        self._remove(last, longest)
        refuse(last.turn, full)


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
        readers = settings.readers
        half, queue = readers // 2, settings.queue
        share = max(1, min(2, half), half // settings.workers)
        self._turns = Capacity(
            readers, queue, "a thread", share=share, quick=QUICK_AT_ONCE, reserved=readers // 4
        )
        self._papers = Capacity(PAPERS_AT_ONCE, settings.queue, "room for their papers")
        self._quick_threads = ThreadPoolExecutor(readers, THREADS)
        self._long_threads = ThreadPoolExecutor(readers, THREADS, initializer=_give_way)
        self._running: set[Deadline] = set()
        self._free_memory = FreeMemory(TRIM_SECONDS)
        self._short = Capacity(1, settings.queue, "the event loop")
        """One piece of short work. A turn of the event loop that has had its share of it keeps the unit."""
        self._spent = 0.0
        """Seconds of short work in this turn of the event loop."""
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
        for capacity in (self._papers, self._turns, self._short):
            capacity.stop()

    def close(self) -> None:
        """Cancel what runs. Threads that cannot be interrupted run on."""
        self._free_memory.cancel()
        for deadline in self._running:
            deadline.cancel()
        for threads in (self._quick_threads, self._long_threads):
            threads.shutdown(wait=False, cancel_futures=True)

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

        A thread costs a tenth of a millisecond, and more under load: it and the event loop wait for each other at every
        SQLite statement. With ten clients, the event loop alone has the higher throughput. Long work would block it.

        Args:
            http: the request, whose client may disconnect.
            short: whether the work usually takes a few milliseconds.
            quick: whether it usually takes some tens of milliseconds. Some threads run only such work and short work.
            papers: the most papers of the response.
            timeout: the request's own time limit in seconds.

        Raises:
            InvalidRequest: ``timeout`` exceeds the server's limit.
            TimeLimit: the work took longer than the time limit, which starts with the arrival of the request.
            Busy: too many requests wait, or longer than the time limit.
            Cancelled: the client disconnected.
        """
        if timeout is not None and timeout > self._limit:
            raise InvalidRequest(
                f"timeout is {timeout:g}: this server allows {self._limit:g} seconds at most (SCHOLARBASE_TIMEOUT)."
            )
        seconds = timeout or self._limit
        until = _arrival(http) + seconds
        if papers > FEW_PAPERS:
            short = quick = False
        if short:
            with suppress(TimeLimit):
                return await self._on_loop(work, http, until)
        async with self._client_of(http, papers, until):
            return await self._in_thread(work, http, seconds, until, quick=short or quick)

    @asynccontextmanager
    async def in_parts(
        self, http: Request, papers: int, *, quick: bool = False
    ) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
        """Yields a function that runs the work of one part of a request, ``quick`` or long, in a thread. Each part is
        admitted by itself and has the whole time limit. The papers are those of all parts, from the first to the end of
        the response. Raises as :meth:`execute`, of each part."""
        limit = self._limit

        async def run(work: Callable[[], T]) -> T:
            return await self._in_thread(work, http, limit, monotonic() + limit, quick=quick)

        async with self._client_of(http, papers, _arrival(http) + limit):
            yield run

    @asynccontextmanager
    async def _client_of(self, http: Request, papers: int, until: float) -> AsyncIterator[None]:
        """Wait for room for the papers of a request, and watch its client while it runs."""
        release(http)  # of an earlier attempt
        client = _Client(http, partial(self._release_papers, papers))
        try:
            if papers > FEW_PAPERS and not self._papers.take(papers):
                waiting = self._papers.wait(papers, until, (client.name, True))
                await client.unless_gone(waiting, partial(self._papers.release, papers))
            http.scope[CLIENT] = client
            yield
        finally:
            client.forget()

    @asynccontextmanager
    async def thread(self, http: Request) -> AsyncIterator[None]:
        """Admit an endpoint that runs in a thread of its own choice.

        Raises:
            Busy: too many requests wait, or longer than the time limit.
        """
        until, caller = _arrival(http) + self._limit, (name_of(http), False)
        if not self._turns.take(1, caller):
            await self._turns.wait(1, until, caller)
        began, token = perf_counter(), DEADLINE.set(Deadline(self._limit, until))
        try:
            yield
        finally:
            DEADLINE.reset(token)
            self._turns.release(1, caller, perf_counter() - began)

    def _release_papers(self, papers: int) -> None:
        if papers > FEW_PAPERS:
            self._papers.release(papers)
            self._free_memory.soon()

    async def _on_loop(self, work: Callable[[], T], http: Request, until: float) -> T:
        """Run short work on the event loop, unless this turn of the loop has had its share of it.

        Raises:
            TimeLimit: it took too long for the event loop, or reached its deadline.
        """
        caller = (name_of(http), True)
        if not self._short.take(1, caller):
            await self._short.wait(1, until, caller)
        start = perf_counter()
        if not self._next_turn:
            self._next_turn = asyncio.get_running_loop().call_soon(self._begin_turn)
        token = DEADLINE.set(Deadline(LOOP_SECONDS, min(monotonic() + LOOP_SECONDS, until)))
        try:
            return work()
        finally:
            DEADLINE.reset(token)
            seconds = perf_counter() - start
            self._spent += seconds
            if self._spent <= TURN_SECONDS:
                self._short.release(1, caller, seconds)

    def _begin_turn(self) -> None:
        """Begin a turn of the event loop, in which one request that waits is run."""
        spent, self._spent, self._next_turn = self._spent, 0.0, None
        if spent > TURN_SECONDS:
            self._short.release(1)

    async def _in_thread(
        self, work: Callable[[], T], http: Request, seconds: float, until: float, *, quick: bool
    ) -> T:
        """Wait for a thread, and run work in it."""
        client: _Client = http.scope[CLIENT]
        caller = (client.name, quick)
        queued = perf_counter()
        if not self._turns.take(1, caller):
            waiting = self._turns.wait(1, until, caller)
            await client.unless_gone(waiting, partial(self._turns.release, 1, caller))
        began = perf_counter()
        stages().append(("queue", queued, began))
        deadline = Deadline(seconds, until)
        context = copy_context()
        context.run(DEADLINE.set, deadline)
        self._running.add(deadline)
        self._admitted += 1
        client.share()
        threads = self._quick_threads if quick else self._long_threads
        result = asyncio.get_running_loop().run_in_executor(threads, context.run, work)

        def ended(result: asyncio.Future[T]) -> None:
            if not result.cancelled():
                result.exception()  # which nobody may await any more
            self._running.discard(deadline)
            self._turns.release(1, caller, perf_counter() - began)
            client.release()

        result.add_done_callback(ended)
        http.scope.get(WORK, []).append(result)
        try:
            ends: set[asyncio.Future[Any]] = {result, client.watch()}
            if self._stopped is not None:
                ends.add(self._stopped)
            left = until + (GRACE - 1) * seconds - monotonic()
            await asyncio.wait(ends, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
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


def _give_way() -> None:
    """Lower the priority of this thread. Only Linux has a priority for each thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            lower = os.getpriority(os.PRIO_PROCESS, 0) + LONG_NICE
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), lower)


class _Client:
    """The client of a request: who it is, whether it disconnected, and the papers of its response, which count until
    that is sent and the threads have ended.

    Args:
        return_papers: returns the room for the papers.
    """

    def __init__(self, http: Request, return_papers: Callable[[], None]) -> None:
        self._http = http
        self.name = name_of(http)
        self._gone: asyncio.Task[None] | None = None
        self._return_papers = return_papers
        self._users = 1

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


def name_of(http: HTTPConnection) -> str | None:
    """The name of a request's key, else its address."""
    if (key := http.scope.get(KEY)) is not None:
        return str(key.name)
    return http.client.host if http.client else None


def _arrival(http: Request) -> float:
    return http.scope.get(ARRIVED, monotonic())  # type: ignore[no-any-return]


def release(http: Request) -> None:
    """Release what a request holds."""
    client: _Client | None = http.scope.pop(CLIENT, None)
    if client is not None:
        client.release()


async def _until_disconnected(http: Request) -> None:
    await http.body()  # which is kept for those that read it later
    while (await http.receive())["type"] != "http.disconnect":
        pass
