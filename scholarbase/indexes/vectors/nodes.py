"""Requests to the nodes of a Qdrant cluster, with fail-over.

Every node answers for the whole cluster. A read goes to one of them. If it fails, it is sent to the next one; if the
node is silent for :data:`HEDGE_SECONDS`, it is sent to the next one as well, and the first response wins (a hedged
request: Dean and Barroso, *The Tail at Scale*, 2013). A node that failed or was silent comes last for
:data:`AVOID_SECONDS`. Then one request tries it, while the others still avoid it.

All requests run in one event loop in a thread of its own, so that a silent node holds no thread of a caller.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, Final, TypeVar

import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from scholarbase.deadlines import DEADLINE
from scholarbase.errors import VectorIndexError
from scholarbase.http import is_loopback
from scholarbase.models.qdrant_addresses import Address

log = logging.getLogger("scholarbase.qdrant")

HEDGE_SECONDS: Final = 0.5
"""How long a node may be silent before a read is sent to another one as well. Half of the second within which searches
must fail over."""
AVOID_SECONDS: Final = 5.0
"""How long a node that failed or was silent comes last."""
_KEEP_ALIVE_SECONDS: Final = 3.0
"""Less than the 5 seconds after which Qdrant closes an idle connection: a request must not meet that moment."""
_POLL_SECONDS: Final = 0.1
_SAME_EVERYWHERE: Final = frozenset({400, 401, 403, 409, 422})
"""Status codes of requests that no other node would accept either."""

T = TypeVar("T")
Call = Callable[[AsyncQdrantClient], Awaitable[T]]


@dataclass
class Node:
    """One address and its state, used in the event loop only. ``avoided_until`` is 0 if its last response was good."""

    address: Address
    client: AsyncQdrantClient
    avoided_until: float = 0.0


class Nodes:
    """The nodes of a cluster. Safe to share between threads.

    Args:
        addresses: as :meth:`.Address.parse` reads them.
        connect_seconds: the time limit for a connection.
        read_seconds: the time limit for a response, if no other node answers before.

    Raises:
        VectorIndexError: an address is not valid, or would get the key without encryption.
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
        for one in self.addresses if api_key else ():
            if not one.tls and not is_loopback(one.host.strip("[]")):
                raise VectorIndexError(
                    f"{one.url} would get the key without encryption: use an https address, or unset "
                    "SCHOLARBASE_QDRANT_API_KEY."
                )
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
        return self._run(lambda: self._first_of(action, call, key, hedged=True))

    def change(self, action: str, call: Call[T]) -> T:
        """The result of a call that may be repeated, from the first node that does not fail.

        Raises as ``read``.
        """
        return self._run(lambda: self._first_of(action, call, 0, hedged=False))

    def each(self, call: Call[T]) -> dict[Address, T | Exception]:
        """The result or error of a call to every node."""

        async def ask() -> list[T | BaseException]:
            return await asyncio.gather(*(call(node.client) for node in self._nodes), return_exceptions=True)

        results: dict[Address, T | Exception] = {}
        for node, result in zip(self._nodes, self._run(ask), strict=False):
            if isinstance(result, Exception):
                log.warning("%s: %s", node.address.url, detail(result))
            elif isinstance(result, BaseException):
                raise result
            results[node.address] = result
        return results

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    def _run(self, start: Callable[[], Coroutine[Any, Any, T]]) -> T:
        future = asyncio.run_coroutine_threadsafe(start(), self._running_loop())
        deadline = DEADLINE.get()
        while not wait((future,), None if deadline is None else _POLL_SECONDS).done:
            if deadline is not None and deadline.remaining <= 0:
                future.cancel()
                raise deadline.late()
        return future.result()

    # -- in the event loop ------------------------------------------------------------------------------

    async def _first_of(self, action: str, call: Call[T], key: int, *, hedged: bool) -> T:
        waiting = self._ordered(key)
        running: dict[asyncio.Task[T], Node] = {}
        failures: list[tuple[Node, BaseException]] = []
        try:
            while waiting or running:
                if waiting:
                    node = waiting.pop(0)
                    if node.avoided_until:
                        _avoid(node)
                    running[asyncio.create_task(_as_task(call(node.client)))] = node
                patience = HEDGE_SECONDS if hedged and waiting else None
                done, _ = await asyncio.wait(running, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    _avoid(node, "does not answer")
                for task in done:
                    node, error = running.pop(task), task.exception()
                    if error is None:
                        if node.avoided_until:
                            log.info("%s answers again.", node.address.url)
                            node.avoided_until = 0.0
                        return task.result()
                    failures.append((node, error))
                    if status_of(error) in _SAME_EVERYWHERE:
                        raise _error(action, failures) from error
                    _avoid(node, f"failed: {detail(error)}")
                    if len(self._nodes) == len(failures) == 1 and _was_cut(error):
                        waiting.append(node)
            raise _error(action, failures) from failures[-1][1]
        finally:
            for task in running:
                task.add_done_callback(_retrieve)
                task.cancel()

    def _ordered(self, key: int) -> list[Node]:
        """All nodes in the order in which to try them: those that are avoided last."""
        first = key % len(self._nodes)
        now = asyncio.get_running_loop().time()
        return sorted(self._nodes[first:] + self._nodes[:first], key=lambda node: node.avoided_until > now)

    # -- the event loop ---------------------------------------------------------------------------------

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = Thread(target=loop.run_forever, name="scholarbase-qdrant", daemon=True)
                self._thread.start()
                self._nodes = [Node(address, self._client(address)) for address in self.addresses]
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
        for node in self._nodes:
            await node.client.close()


def _avoid(node: Node, reason: str | None = None) -> None:
    if reason is not None:
        log.warning("%s %s", node.address.url, reason)
    node.avoided_until = asyncio.get_running_loop().time() + AVOID_SECONDS


def _error(action: str, failures: Sequence[tuple[Node, BaseException]]) -> VectorIndexError:
    listed = "; ".join(f"{node.address.url}: {detail(error)}" for node, error in failures)
    error = VectorIndexError(
        f"The Qdrant server could not {action} ({listed}). Check that it is running and reachable."
    )
    error.public = "The Qdrant server failed, or could not be reached: retry later."
    return error


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


def _was_cut(error: BaseException) -> bool:
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
