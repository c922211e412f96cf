"""Requests to the nodes of a Qdrant cluster, with fail-over.

Every node answers for the whole cluster. A read goes to one of them. If it fails, it is sent to the next one; if the
node is silent for :data:`HEDGE_SECONDS`, it is sent to the next one as well, and the first response wins (a hedged
request: Dean and Barroso, *The Tail at Scale*, 2013). A node that meanwhile answers a health check is not silent: its
response takes long, and would elsewhere too. A node that failed or was silent comes last for :data:`AVOID_SECONDS`.
Then one request tries it, while the others still avoid it.

Searches use gRPC. REST is for what ``scholarbase load`` does besides sending points; its requests run in an event loop
in a thread of its own. No response is compressed: Qdrant sends compressed ones in small pieces, which wait for delayed
acknowledgements.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any, Final, Protocol, TypeVar

import grpc
import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client import grpc as qdrant
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from scholarbase.deadlines import DEADLINE
from scholarbase.errors import InvalidRequest, VectorIndexError
from scholarbase.http import is_loopback
from scholarbase.models.qdrant_addresses import Address
from scholarbase.settings import Settings

log = logging.getLogger("scholarbase.qdrant")

HEDGE_SECONDS: Final = 0.5
"""How long a node may be silent before a read is sent to another one as well. Half of the second within which searches
must fail over."""
BUSY_SECONDS: Final = 5.0
"""How long it may be silent if it answers health checks."""
AVOID_SECONDS: Final = 5.0
"""How long a node that failed or was silent comes last."""
_KEEP_ALIVE_SECONDS: Final = 3.0
"""Less than the 5 seconds after which Qdrant closes an idle connection: a request must not meet that moment."""
_POLL_SECONDS: Final = 0.1
_RECONNECT_SECONDS: Final = 0.15
"""After this, a connection that was refused is tried again."""
_SAME_EVERYWHERE: Final = frozenset({400, 401, 403, 409, 422})
"""Status codes of requests that no other node would accept either."""
REFUSED: Final = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""Those of gRPC."""
_OPTIONS: Final = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.compression_enabled_algorithms_bitset", 1),  # none but identity
    # A node that hangs does not answer pings, which end its calls long before their time limit.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    # A node that starts again is connected to at once.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 100),
]

T = TypeVar("T")
Call = Callable[[AsyncQdrantClient], Awaitable[T]]


class _Running(Protocol):
    """A call that has begun: a future of REST or of gRPC."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> object: ...
    def exception(self) -> BaseException | None: ...
    def result(self) -> Any: ...
    def cancel(self) -> object: ...


class Node:
    """One address, its services of gRPC and its state. ``avoided_until`` is 0 if its last response was good."""

    def __init__(self, address: Address, connect_seconds: float) -> None:
        self.address = address
        self.avoided_until = 0.0
        self.client: AsyncQdrantClient | None = None
        self.channel = open_channel(address, connect_seconds)
        self.points: Any = qdrant.PointsStub(self.channel)  # type: ignore[no-untyped-call]
        self.collections: Any = qdrant.CollectionsStub(self.channel)  # type: ignore[no-untyped-call]
        self.health: Any = qdrant.QdrantStub(self.channel).HealthCheck  # type: ignore[no-untyped-call]


def open_channel(address: Address, connect_seconds: float) -> grpc.Channel:
    """A channel of gRPC, which connects when it is used."""
    options = [*_OPTIONS, ("grpc.min_reconnect_backoff_ms", math.ceil(1000 * connect_seconds))]
    if address.tls:
        return grpc.secure_channel(address.grpc, grpc.ssl_channel_credentials(), options)
    return grpc.insecure_channel(address.grpc, options)


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
        for address in self.addresses if api_key else ():
            if not address.tls and not is_loopback(address.host.strip("[]")):
                raise VectorIndexError(
                    f"{address.url} would get the key without encryption: use an https address, or unset "
                    "SCHOLARBASE_QDRANT_API_KEY."
                )
        self.api_key = api_key
        self.connect_seconds = connect_seconds
        self.read_seconds = read_seconds
        self.metadata = [("api-key", api_key)] if api_key else []
        self._nodes: list[Node] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = Lock()
        self._turn = 0

    # -- requests ---------------------------------------------------------------------------------------

    def ask(self, action: str, method: Callable[[Node], Any], request: Any, key: int | None = None) -> Any:
        """The response to a request of gRPC that changes nothing, from the first node that answers.

        ``method`` is one of the node's services, such as ``lambda node: node.points.Count``. Requests with the same
        ``key`` go to the same node while it answers; without one they take turns.

        Raises:
            VectorIndexError: no node has answered. ``action`` completes "could not ...".
            TimeLimit, Cancelled: the request's time is over.
        """

        def start(node: Node) -> _Running:
            call: _Running = method(node).future(request, self.read_seconds, self.metadata)
            return call

        return self._first_of(action, start, key, hedged=True)

    def read(self, action: str, call: Call[T], key: int | None = None) -> T:
        """The result of a call of REST that changes nothing. As :meth:`ask`."""
        result: T = self._first_of(action, lambda node: self._started(call, node), key, hedged=True)
        return result

    def change(self, action: str, call: Call[T]) -> T:
        """The result of a call of REST that may be repeated, from the first node that does not fail.

        Raises as ``ask``.
        """
        result: T = self._first_of(action, lambda node: self._started(call, node), 0, hedged=False)
        return result

    def each(self, call: Call[T]) -> dict[Address, T | Exception]:
        """The result or error of a call of REST to every node."""
        results: dict[Address, T | Exception] = {}
        for node, future in [(node, self._started(call, node)) for node in self.nodes]:
            try:
                results[node.address] = future.result()
            except Exception as error:
                log.warning("%s: %s", node.address.url, detail(error))
                results[node.address] = error
        return results

    def close(self) -> None:
        """Close all connections. A second call does nothing."""
        with self._lock:
            nodes, self._nodes = self._nodes, []
            loop, self._loop = self._loop, None
        for node in nodes:
            node.channel.close()
        if loop is not None:
            clients = [node.client for node in nodes if node.client is not None]
            asyncio.run_coroutine_threadsafe(_close(clients), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()
            loop.close()

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in the order of their addresses. They are connected to by their first requests."""
        with self._lock:
            if not self._nodes:
                self._nodes = [Node(address, self.connect_seconds) for address in self.addresses]
            return self._nodes

    def _first_of(
        self, action: str, start: Callable[[Node], _Running], key: int | None, *, hedged: bool
    ) -> Any:
        if key is None:
            self._turn = key = self._turn + 1
        waiting = self._ordered(key)
        running: dict[_Running, Node] = {}
        finished: SimpleQueue[_Running] = SimpleQueue()
        failures: list[tuple[Node, BaseException]] = []
        try:
            while waiting or running:
                if waiting:
                    node = waiting.pop(0)
                    if node.avoided_until:
                        _avoid(node)
                    call = start(node)
                    running[call] = node
                    call.add_done_callback(finished.put)
                done = self._next(finished, node if hedged and waiting else None)
                if done is None:
                    _avoid(node, "does not answer")
                    continue
                node, error = running.pop(done), done.exception()
                if error is None:
                    if node.avoided_until:
                        log.info("%s answers again.", node.address.url)
                        node.avoided_until = 0.0
                    return done.result()
                failures.append((node, error))
                if _is_refused(error):
                    raise _error(action, failures) from error
                _avoid(node, f"failed: {detail(error)}")
                if len(failures) == len(self.addresses) and all(_was_cut(error) for _, error in failures):
                    time.sleep(_RECONNECT_SECONDS)
                    waiting = self._ordered(key)
            raise _error(action, failures) from failures[-1][1]
        finally:
            for call in running:
                call.cancel()

    def _next(self, finished: SimpleQueue[_Running], node: Node | None) -> _Running | None:
        """The next call that ends; None if ``node`` is silent."""
        if node is None:
            return _ended(finished, math.inf)
        began = time.monotonic()
        done = _ended(finished, began + HEDGE_SECONDS / 2)
        if done is not None:
            return done
        is_alive = Event()
        probe = node.health.future(qdrant.HealthCheckRequest(), BUSY_SECONDS, self.metadata)
        probe.add_done_callback(lambda _: is_alive.set() if probe.code() == grpc.StatusCode.OK else None)
        try:
            done = _ended(finished, began + HEDGE_SECONDS)
            if done is None and is_alive.is_set():
                done = _ended(finished, began + BUSY_SECONDS)
            return done
        finally:
            probe.cancel()

    def _ordered(self, key: int) -> list[Node]:
        """All nodes in the order in which to try them: those that are avoided last."""
        nodes, now = self.nodes, time.monotonic()
        first = key % len(nodes)
        return sorted(nodes[first:] + nodes[:first], key=lambda node: node.avoided_until > now)

    # -- REST -------------------------------------------------------------------------------------------

    def _started(self, call: Call[T], node: Node) -> _Running:
        loop = self._running_loop()

        async def run() -> T:
            if node.client is None:
                node.client = self._client(node.address)
            return await call(node.client)

        return asyncio.run_coroutine_threadsafe(run(), loop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = Thread(target=loop.run_forever, name="scholarbase-qdrant", daemon=True)
                self._thread.start()
                self._loop = loop
            return self._loop

    def _client(self, address: Address) -> AsyncQdrantClient:
        default = math.ceil(self.read_seconds)
        client = AsyncQdrantClient(
            url=address.url,
            api_key=self.api_key,
            timeout=default,
            check_compatibility=False,
            headers={"Accept-Encoding": "identity"},
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


async def _close(clients: Sequence[AsyncQdrantClient]) -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for client in clients:
        await client.close()


def open_nodes(addresses: Sequence[str] | None, settings: Settings) -> Nodes:
    """The nodes of the Qdrant server at ``addresses``. They are connected to on the first request.

    Raises:
        InvalidRequest: there are none.
    """
    if addresses is None:
        raise InvalidRequest("No Qdrant server: set SCHOLARBASE_QDRANT_URL.")
    return Nodes(
        addresses,
        api_key=settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None,
        connect_seconds=settings.qdrant_connect_seconds,
        read_seconds=settings.qdrant_read_seconds,
    )


def _ended(finished: SimpleQueue[_Running], end: float) -> _Running | None:
    """The next call that ends; None at the time ``end``. Raises TimeLimit or Cancelled at the request's own."""
    deadline = DEADLINE.get()
    while True:
        left = end - time.monotonic()
        if deadline is not None:
            if deadline.remaining <= 0:
                raise deadline.late()
            left = min(left, _POLL_SECONDS)
        try:
            return finished.get(timeout=None if left == math.inf else max(left, 0.0))
        except Empty:
            if time.monotonic() >= end:
                return None


def _avoid(node: Node, reason: str | None = None) -> None:
    if reason is not None:
        log.warning("%s %s", node.address.url, reason)
    node.avoided_until = time.monotonic() + AVOID_SECONDS


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
    if isinstance(error, grpc.RpcError):
        return f"{error.code().name}: {' '.join((error.details() or '').split())[:500]}"
    if isinstance(error, ResponseHandlingException):
        error = error.source
    return " ".join(str(error).split()) or type(error).__name__


def _is_refused(error: BaseException) -> bool:
    """Whether no other node would accept the request either."""
    if isinstance(error, grpc.RpcError):
        return error.code() in REFUSED
    return isinstance(error, UnexpectedResponse) and error.status_code in _SAME_EVERYWHERE


def _was_cut(error: BaseException) -> bool:
    """Whether the connection ended before the response, as one does that was idle for long."""
    if isinstance(error, grpc.RpcError):
        return bool(error.code() == grpc.StatusCode.UNAVAILABLE)
    source = error.source if isinstance(error, ResponseHandlingException) else error
    return isinstance(source, (httpx.NetworkError, httpx.RemoteProtocolError)) and not isinstance(
        source, httpx.ConnectError
    )
