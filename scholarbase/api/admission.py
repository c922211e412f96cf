"""Admission: how much work runs at once in one process, for how long, and how much waits.

Short requests run on the event loop. All others run in threads, as many at once as there are connections to the
catalogue, and with a bounded number of papers in memory. More requests wait (:mod:`.capacity`); beyond a bounded number
they are rejected with 503.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.types import Scope

from scholarbase.api.capacity import Capacity, busy, refuse, stopping
from scholarbase.api.holding import HELD, Held
from scholarbase.deadlines import DEADLINE, Deadline, time_limit
from scholarbase.errors import Cancelled, InvalidRequest, TimeLimit
from scholarbase.memory import return_free_memory
from scholarbase.settings import Settings
from scholarbase.timing import stages

T = TypeVar("T")

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
"""The key of a request's scope that holds its :class:`Slot`."""
TRIM_SECONDS: Final = 10.0
"""How long after large responses free memory is returned to the system."""
_DISCONNECTED: Final = "The request was cancelled, because the client disconnected."


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


class Slot:
    """The papers of a request, until its response is sent and its thread has ended."""

    __slots__ = ("_papers", "_return", "_users")

    def __init__(self, papers: int, give_back: Callable[[int], None]) -> None:
        self._papers = papers
        self._return = give_back
        self._users = 1

    def share(self) -> None:
        """Add a user, which must release the slot too."""
        self._users += 1

    def release(self) -> None:
        """The last user's release returns the papers."""
        self._users -= 1
        if not self._users:
            self._return(self._papers)


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
        self._trimming: asyncio.TimerHandle | None = None
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
        if self._trimming is not None:
            self._trimming.cancel()
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
            http: the request, whose scope gets the :class:`Slot`, and whose client may disconnect.
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
        client = _Client(http)
        scope = http.scope
        try:
            # Quick work with few papers does not wait for large responses of others.
            slot = await self._slot(scope, 0 if quick and papers <= FEW_PAPERS else papers, client)
            if short and papers > FEW_PAPERS:
                try:
                    return await self._on_loop(work)
                except TimeLimit:
                    pass
            return await self._turn(work, slot, client, timeout or self._limit, quick=short or quick)
        finally:
            client.forget()

    async def execute_parts(self, parts: Iterable[Callable[[], T]], *, http: Request, papers: int) -> list[T]:
        """Run the parts of one long request in threads, one after the other.

        Each part is admitted by itself and has the whole time limit, so other requests run between them. The papers
        are those of all parts, from the first to the end of the response.

        Args:
            http: as in :meth:`execute`.
            papers: the most papers of the response.

        Raises:
            TimeLimit, Busy, Cancelled: as in :meth:`execute`, of the first part that fails.
        """
        client = _Client(http)
        try:
            slot = await self._slot(http.scope, papers, client)
            return [await self._turn(part, slot, client, self._limit, quick=False) for part in parts]
        finally:
            client.forget()

    async def _slot(self, scope: Scope, papers: int, client: _Client) -> Slot:
        """Wait for room for the papers of a request."""
        release(scope)  # of an earlier attempt
        if papers and not self._papers.take(papers):
            waiting = self._papers.wait(papers, client=client.name)
            await client.unless_gone(waiting, partial(self._papers.release, papers))
        slot = scope[SLOT] = Slot(papers, self._release_papers)
        return slot

    async def _turn(
        self, work: Callable[[], T], slot: Slot, client: _Client, seconds: float, *, quick: bool
    ) -> T:
        """Wait for a thread, and run work in it."""
        queued = perf_counter()
        if not self._turns.take(1):
            waiting = self._turns.wait(1, quick=quick, client=client.name)
            await client.unless_gone(waiting, partial(self._turns.release, 1))
        stages().append(("queue", queued, perf_counter()))
        return await self._in_thread(work, slot, client, seconds)

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
        if papers > FEW_PAPERS and self._trimming is None:
            self._trimming = asyncio.get_running_loop().call_later(TRIM_SECONDS, self._trim)

    def _trim(self) -> None:
        """Return the free memory of large responses to the system, which glibc otherwise keeps."""
        self._trimming = None
        asyncio.get_running_loop().run_in_executor(None, return_free_memory)

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

    async def _in_thread(self, work: Callable[[], T], slot: Slot, client: _Client, seconds: float) -> T:
        deadline = Deadline(seconds)
        context = copy_context()
        context.run(DEADLINE.set, deadline)
        self._running.add(deadline)
        self._admitted += 1
        slot.share()
        held: Held | None = client.scope.get(HELD)
        if held is not None:
            held.share()  # a thread may run on after the response
        result = asyncio.get_running_loop().run_in_executor(self._threads, context.run, work)

        def ended(result: asyncio.Future[T]) -> None:
            if not result.cancelled():
                result.exception()  # which nobody may await any more
            self._running.discard(deadline)
            self._turns.release(1)
            slot.release()
            if held is not None:
                held.release()

        result.add_done_callback(ended)
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
            raise deadline.late()
        finally:
            deadline.cancel()  # has no effect on work that is done


class _Client:
    """The client of a request: who it is, and whether it disconnected."""

    def __init__(self, http: Request) -> None:
        self._http = http
        self.scope = http.scope
        self._gone: asyncio.Task[None] | None = None

    def watch(self) -> asyncio.Task[None]:
        """The task that ends when the client disconnects."""
        if self._gone is None:
            self._gone = asyncio.create_task(_until_disconnected(self._http))
        return self._gone

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

    def forget(self) -> None:
        if self._gone is not None:
            self._gone.cancel()


def release(scope: Scope) -> None:
    """Release what a request holds, once its response is sent."""
    slot: Slot | None = scope.pop(SLOT, None)
    if slot is not None:
        slot.release()


async def _until_disconnected(http: Request) -> None:
    await http.body()  # which is kept for those that read it later
    while (await http.receive())["type"] != "http.disconnect":
        pass
