"""Requests to the nodes of a Qdrant cluster, with fail-over.

Every node answers for the whole cluster. A read goes to one of them. If it fails, it is sent to the next one; if the
node is silent for :data:`HEDGE_SECONDS`, it is sent to the next one as well, and the first response wins (a hedged
request: Dean and Barroso, *The Tail at Scale*, 2013). A node that failed or stays silent is probed in the background
and avoided until it answers.

All requests run in one event loop in a thread of its own, so that a silent node holds no thread of a caller.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import wait
from threading import Lock, Thread
from typing import Any, Final, TypeVar

import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from scholarbase.deadlines import DEADLINE
from scholarbase.errors import VectorIndexError
from scholarbase.models.qdrant_addresses import Address

log = logging.getLogger("scholarbase.qdrant")

HEDGE_SECONDS: Final = 0.5
"""How long a node may be silent before a read is sent to another one as well. Half of the second within which searches
must fail over."""
PROBE_SECONDS: Final = 1.0
"""The time for the response to a probe, and between two probes."""
AVOID_SECONDS: Final = 5.0
"""How long a node comes last after another one answered in its place."""
_KEEP_ALIVE_SECONDS: Final = 3.0
"""Less than the 5 seconds after which Qdrant closes an idle connection: a request must not meet that moment."""
_POLL_SECONDS: Final = 0.1
_SAME_EVERYWHERE: Final = frozenset({400, 401, 403, 409, 422})
"""Status codes of requests that no other node would accept either."""

T = TypeVar("T")
Call = Callable[[AsyncQdrantClient], Awaitable[T]]


class Node:
    """One address and its state, used in the event loop only."""

    def __init__(self, address: Address, client: AsyncQdrantClient) -> None:
        self.address = address
        self.client = client
        self.up = True
        self.avoided_until = 0.0
        self.probe: asyncio.Task[None] | None = None


class Nodes:
    """The nodes of a cluster. Safe to share between threads.

    Args:
        addresses: as :meth:`.Address.parse` reads them.
        connect_seconds: the time limit for a connection.
        read_seconds: the time limit for a response, if no other node answers before.

    Raises:
        VectorIndexError: an address is not valid.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        api_key: str | None = None,
        connect_seconds: float = 1.0,
        read_seconds: float = 30.0,
    ) -> None:
        self.listed = tuple(addresses)
        try:
            self.addresses = tuple(map(Address.parse, addresses))
        except ValueError as error:
            raise VectorIndexError(f"{error}.") from error
        self.api_key = api_key
        self.connect_seconds = connect_seconds
        self.read_seconds = read_seconds
        self._nodes: list[Node] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = Lock()
        self._turn = 0

    # -- requests ---------------------------------------------------------------------------------------

    def read(self, action: str, call: Call[T], key: int | None = None) -> T:
        """The result of a call that changes nothing, from the first node that answers.

        Reads with the same ``key`` go to the same node while it answers; without one they take turns.

        Raises:
            VectorIndexError: no node has answered. ``action`` completes "could not ...".
            TimeLimit, Cancelled: the request's time is over.
        """
        if key is None:
            self._turn = key = self._turn + 1
        return self._run(action, lambda: self._first_of(call, key, hedged=True))

    def change(self, action: str, call: Call[T]) -> T:
        """The result of a call that may be repeated, from the first node that answers a probe and does not fail.

        Raises as ``read``.
        """
        return self._run(action, lambda: self._first_of(call, 0, hedged=False))

    def each(self, call: Call[T]) -> dict[Address, T | Exception]:
        """The result or error of a call to every node."""

        async def ask() -> list[T | BaseException]:
            return await asyncio.gather(*(call(node.client) for node in self._nodes), return_exceptions=True)

        found: dict[Address, T | Exception] = {}
        for node, result in zip(self._nodes, self._run("be asked", ask), strict=False):
            if isinstance(result, Exception):
                log.warning("%s: %s", node.address.url, detail(result))
            elif isinstance(result, BaseException):
                raise result
            found[node.address] = result
        return found

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def _run(self, action: str, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        future = asyncio.run_coroutine_threadsafe(start(), self._running_loop())
        deadline = DEADLINE.get()
        while not wait((future,), None if deadline is None else _POLL_SECONDS).done:
            if deadline is not None and deadline.remaining <= 0:
                future.cancel()
                raise deadline.late()
        try:
            return future.result()
        except Failures as failures:
            raise self._error(action, failures) from failures.last

    def _error(self, action: str, failures: Failures) -> VectorIndexError:
        listed = "; ".join(f"{address.url}: {detail(error)}" for address, error in failures.found)
        error = VectorIndexError(
            f"The Qdrant server could not {action} ({listed}). Check that it is running and reachable."
        )
        error.public = "The Qdrant server failed, or could not be reached: retry later."
        return error

    # -- in the event loop ------------------------------------------------------------------------------

    async def _first_of(self, call: Call[T], key: int, *, hedged: bool) -> T:
        loop = asyncio.get_running_loop()
        waiting = self._ordered(key, loop.time())
        running: dict[asyncio.Task[T], Node] = {}
        failures = Failures()

        while not hedged and len(waiting) > 1 and not await self._answers(waiting[0]):
            self._watch(waiting.pop(0), PROBE_SECONDS)

        def send(node: Node) -> None:
            waiting.remove(node)
            running[asyncio.create_task(_as_task(call(node.client)))] = node

        send(waiting[0])
        patience = HEDGE_SECONDS
        try:
            while True:
                done, _ = await asyncio.wait(
                    running,
                    timeout=patience if hedged and waiting else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    if patience == HEDGE_SECONDS:
                        self._watch_all(running.values())
                    # A node that is down may answer again while this call waits.
                    other = next((node for node in waiting if node.up), None)
                    patience = HEDGE_SECONDS if other else _POLL_SECONDS
                    if other:
                        send(other)
                for task in done:
                    node = running.pop(task)
                    error = task.exception()
                    if error is None:
                        for silent in running.values():
                            silent.avoided_until = loop.time() + AVOID_SECONDS
                        return task.result()
                    waiting += self._failed(node, error, failures)
                if not running:
                    if not waiting:
                        raise failures
                    send(waiting[0])
                    patience = HEDGE_SECONDS
        finally:
            for task in running:
                task.add_done_callback(_retrieve)
                task.cancel()

    def _ordered(self, key: int, now: float) -> list[Node]:
        """All nodes in the order in which to try them: those that are down last."""
        first = key % len(self._nodes)
        rotated = self._nodes[first:] + self._nodes[:first]
        return sorted(rotated, key=lambda node: (not node.up, node.avoided_until > now))

    def _failed(self, node: Node, error: BaseException, failures: Failures) -> list[Node]:
        """Note a failure. Returns the nodes to try again."""
        if not isinstance(error, Exception):
            raise error
        failures.found.append((node.address, error))
        if status_of(error) in _SAME_EVERYWHERE:
            raise failures
        self._mark_down(node, error)
        is_only_one = len(self._nodes) == 1 and len(failures.found) == 1
        return [node] if is_only_one and _was_cut(error) else []

    def _mark_down(self, node: Node, error: Exception) -> None:
        if len(self._nodes) == 1:
            log.warning("%s failed: %s", node.address.url, detail(error))
            return
        if node.up:
            log.warning("%s failed and is avoided: %s", node.address.url, detail(error))
            node.up = False
        self._watch(node, PROBE_SECONDS)

    def _watch(self, node: Node, wait: float = 0.0) -> None:
        if node.probe is None or node.probe.done():
            node.probe = asyncio.create_task(self._probe(node, wait))

    def _watch_all(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            self._watch(node)

    async def _probe(self, node: Node, wait: float) -> None:
        """Probe a node until it answers."""
        await asyncio.sleep(wait)
        while not await self._answers(node):
            if node.up:
                log.warning("%s does not answer and is avoided.", node.address.url)
                node.up = False
            await asyncio.sleep(PROBE_SECONDS)
        if not node.up:
            log.info("%s answers again.", node.address.url)
            node.up = True

    async def _answers(self, node: Node) -> bool:
        # ``readyz`` is 200 when all shards of the node are ready. A proxy may know no such path.
        try:
            response = await self._http.get(f"{node.address.url}/readyz")
        except httpx.HTTPError:
            return False
        return response.status_code < 500

    # -- the event loop ---------------------------------------------------------------------------------

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = Thread(target=loop.run_forever, name="scholarbase-qdrant", daemon=True)
                self._thread.start()
                self._nodes = [Node(address, self._client(address)) for address in self.addresses]
                self._http = httpx.AsyncClient(timeout=PROBE_SECONDS)
                self._loop = loop
            return self._loop

    def _client(self, address: Address) -> AsyncQdrantClient:
        default = math.ceil(self.read_seconds)
        client = AsyncQdrantClient(
            url=address.url,
            api_key=self.api_key,
            timeout=default,
            check_compatibility=False,
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=64, keepalive_expiry=_KEEP_ALIVE_SECONDS
            ),
        )

        async def limited(request: httpx.Request, send: Callable[..., Awaitable[Any]]) -> Any:
            limits = request.extensions["timeout"]
            if limits["read"] == default:  # not one of the request itself
                limits["read"] = self.read_seconds
            limits["connect"] = self.connect_seconds
            return await send(request)

        client.http.client.add_middleware(limited)
        return client

    async def _close(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.aclose()
        for node in self._nodes:
            await node.client.close()


class Failures(Exception):
    """The nodes that failed, and how."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[Address, Exception]] = []

    @property
    def last(self) -> Exception:
        return self.found[-1][1]


def detail(error: BaseException) -> str:
    """What an error of the client says, on one line."""
    if isinstance(error, UnexpectedResponse):
        return f"status {error.status_code}: {' '.join(error.content[:500].decode(errors='replace').split())}"
    if isinstance(error, ResponseHandlingException):
        error = error.source
    return " ".join(str(error).split()) or type(error).__name__


def status_of(error: BaseException | None) -> int | None:
    """The HTTP status of an error of the client; None if it has none."""
    return error.status_code if isinstance(error, UnexpectedResponse) else None


def _was_cut(error: Exception) -> bool:
    """Whether the connection ended before the response, as one does that was idle for long."""
    source = error.source if isinstance(error, ResponseHandlingException) else error
    return isinstance(source, (httpx.NetworkError, httpx.RemoteProtocolError)) and not isinstance(
        source, httpx.ConnectError
    )


async def _as_task(call: Awaitable[T]) -> T:
    return await call


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from logging the error of a task that nobody waits for."""
    if not task.cancelled():
        task.exception()
