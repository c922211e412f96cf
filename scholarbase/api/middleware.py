"""Middleware of every request: id, log line, times of its stages, metrics, snapshot header, host check."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import string
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scholarbase.api.admission import KEY, SLOT, release
from scholarbase.api.conditional import NO_STORE
from scholarbase.api.holding import HELD, SNAPSHOT, SNAPSHOT_KEY, Held, Libraries
from scholarbase.api.paths import ADMIN_PATHS, NATIVE, OPEN_PATHS, STATIC
from scholarbase.api.problems import add_errors, rejection, unexpected
from scholarbase.api.sending import PIECE, LargeResponses
from scholarbase.api.tracing import Tracer
from scholarbase.errors import InvalidRequest, MisdirectedRequest, ScholarBaseError, SnapshotNotHeld
from scholarbase.http import is_loopback
from scholarbase.memory import return_free_memory
from scholarbase.settings import Settings
from scholarbase.timing import STAGES, Stage

log = logging.getLogger("scholarbase.access")

REQUEST_ID: Final = "X-Request-ID"
CLIENT_DISCONNECTED: Final = 499
"""The status in log lines and metrics of a request whose client disconnected before the response, as in nginx, or whose
body is not valid HTTP."""
MANY_WAITING: Final = 500
"""Requests that wait for a turn, after which free memory is returned."""
RETURN_SECONDS: Final = 20.0
"""How long after ``MANY_WAITING`` requests waited the free memory is returned to the system."""
STARTED_AT_ONCE: Final = 32
"""Requests that start in one turn of the event loop."""
MAX_LOGGED: Final = 2000
"""Characters of a path with its parameters in the log of slow requests."""
MAX_HOST_LENGTH: Final = 300
"""Bytes of a host and port. Names have at most 253 (RFC 1035)."""
_HOST: Final = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9\-._~%!$&'()*+,;=]+)(?::[0-9]*)?")
"""RFC 9110, section 7.2, and RFC 3986, section 3.2.2."""
_BROKEN_BODY: Final = PlainTextResponse(
    "The body ended early, or is not valid HTTP.", 400, {"Connection": "close"}
)
_REQUEST_ID_KEY: Final = REQUEST_ID.lower().encode()
_Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
_VALID_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods with their own metrics series. Clients may send any word, and each would create a series."""
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Turns:
    """Lets a bounded number of requests start in each turn of the event loop, in their order.

    Thousands of requests that come at once would otherwise be parsed and held in memory before the first is answered,
    and health requests would wait for all of them.
    """

    def __init__(self) -> None:
        self._started = 0
        """Requests that started in this turn. Above 0, the next turn is scheduled."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._returning: asyncio.TimerHandle | None = None

    async def wait(self) -> None:
        """Wait for a turn in which the request may start."""
        loop = asyncio.get_running_loop()
        if not self._started:
            loop.call_soon(self._begin)
        if self._started < STARTED_AT_ONCE:
            self._started += 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _begin(self) -> None:
        self._started = 0
        loop = asyncio.get_running_loop()
        if len(self._waiting) > MANY_WAITING and self._returning is None:
            self._returning = loop.call_later(RETURN_SECONDS, self._return_memory)
        while self._waiting and self._started < STARTED_AT_ONCE:
            if not (turn := self._waiting.popleft()).done():  # its client may have gone
                turn.set_result(None)
                self._started += 1
        if self._started:
            loop.call_soon(self._begin)

    def _return_memory(self) -> None:
        self._returning = None
        asyncio.get_running_loop().run_in_executor(None, return_free_memory)


class Requests:
    """ASGI middleware: sets a request's id (the caller's own if it sends one), logs, times and counts each response.

    HEAD is handled as GET; the server omits the body (RFC 9110, 9.3.2). The header ``Server-Timing``
    (https://www.w3.org/TR/server-timing/) has the milliseconds of each stage up to the start of the response.

    Args:
        slow_ms: requests that take longer are logged with their stages; None logs none.
        tracer: sends a trace of each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        libraries: Libraries,
        registry: CollectorRegistry,
        slow_ms: float | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._app = app
        self._slow_ms = slow_ms
        self._tracer = tracer
        self._libraries = libraries
        self._large = LargeResponses()
        self._turns = Turns()
        labels = ("method", "route", "status")
        self._count = Counter("scholarbase_requests", "Handled requests.", labels, registry=registry)
        self._seconds = Histogram(
            "scholarbase_request_seconds",
            "Seconds from the arrival of a request to the end of its response.",
            ("route",),
            buckets=_BUCKETS,
            registry=registry,
        )
        # Finding a series by its labels takes a lock and more time than counting.
        self._counts: dict[tuple[str, str, int], Counter] = {}
        self._times: dict[str, Histogram] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        if scope["path"] not in OPEN_PATHS:
            await self._turns.wait()
        sent = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = sent if _VALID_ID.fullmatch(sent) else os.urandom(16).hex()
        path = _logged_path(scope)
        stages: list[Stage] = []
        STAGES.set(stages)
        status = 0
        inner: Scope = {**scope, "request_id": request_id, "logged_path": path}
        if scope["method"] == "HEAD":
            inner["method"] = "GET"
            inner["scholarbase.head"] = True

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = self._headers(
                    inner, message.get("headers", ()), request_id, stages, start
                )
            elif len(message.get("body", b"")) > PIECE:
                release(inner)  # a slow client keeps no room from other responses
                await self._large.send(message, send)
                return
            await send(message)

        try:
            await self._app(inner, receive, send_with_headers)
        except ClientDisconnect:
            if not status:
                # Its body ended early, or was malformed; then the client still reads.
                await _BROKEN_BODY(scope, receive, send)
                status = CLIENT_DISCONNECTED
        except (Exception, SystemExit):
            log.exception("%s %s failed id=%s", scope["method"], path, request_id)
            if status:  # the response has started and can only be cut off
                raise
            await unexpected(request_id)(inner, receive, send_with_headers)
        finally:
            if SLOT in inner:
                release(inner)
            self._finished(inner, status, request_id, stages, start)

    def _finished(
        self, scope: Scope, status: int, request_id: str, stages: Sequence[Stage], start: float
    ) -> None:
        """Count, log and trace a request."""
        seconds = time.perf_counter() - start
        route = getattr(scope.get("route"), "path", "none")
        sent = "HEAD" if "scholarbase.head" in scope else scope["method"]
        method = sent if sent in _METHODS else "other"
        self._counted(method, route, status).inc()
        self._timed(route).observe(seconds)
        key_id = f" key={key.id}" if (key := scope.get(KEY)) else ""
        log.info(
            "%s %s %d %.1f ms id=%s%s",
            sent,
            scope["logged_path"],
            status,
            seconds * 1000,
            request_id,
            key_id,
        )
        if self._slow_ms is not None and seconds * 1000 > self._slow_ms:
            _log_slow(scope, seconds, stages)
        if self._tracer is not None:
            self._tracer.send(
                method,
                route,
                status,
                stages,
                start=start,
                snapshot=self._snapshot(scope).decode(),
                request_id=request_id,
                headers=scope["headers"],
            )

    def _headers(
        self, scope: Scope, sent: _Headers, request_id: str, stages: Sequence[Stage], start: float
    ) -> list[tuple[bytes, bytes]]:
        """The headers of a response."""
        headers = [
            *sent,
            (_REQUEST_ID_KEY, request_id.encode("latin-1")),
            (SNAPSHOT_KEY, self._snapshot(scope)),
            (b"server-timing", _server_timing(stages, time.perf_counter() - start)),
        ]
        if scope["path"].startswith(NATIVE) and not any(name == b"cache-control" for name, _ in sent):
            headers.append((b"cache-control", NO_STORE))
        return headers

    def _snapshot(self, scope: Scope) -> bytes:
        """The snapshot that answered a request; the current one if it was rejected before."""
        snapshot: bytes = scope[HELD].snapshot if HELD in scope else self._libraries.snapshot
        return snapshot

    def _counted(self, method: str, route: str, status: int) -> Counter:
        key = method, route, status
        if key not in self._counts:
            self._counts[key] = self._count.labels(method, route, str(status))
        return self._counts[key]

    def _timed(self, route: str) -> Histogram:
        if route not in self._times:
            self._times[route] = self._seconds.labels(route)
        return self._times[route]


class Holding:
    """ASGI middleware: each request holds the current library, or the one that it names, until its response is sent."""

    def __init__(self, app: ASGIApp, *, libraries: Libraries) -> None:
        self._app = app
        self._libraries = libraries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            named = _named(scope) if _is_answered_from_library(scope["path"]) else None
            held = scope[HELD] = self._take(named, scope)
        except ScholarBaseError as error:
            await rejection(error, scope)(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            held.release()

    def _take(self, named: str | None, scope: Scope) -> Held:
        try:
            return self._libraries.take(named)
        except SnapshotNotHeld:
            if any(route.matches(scope)[0] is Match.FULL for route in scope["app"].routes):
                raise
            return (
                self._libraries.take()
            )  # another error will be the response: no such path, or not this method


def _is_answered_from_library(path: str) -> bool:
    """Whether a path is about a library, not about the server."""
    return path not in OPEN_PATHS and not path.startswith((*ADMIN_PATHS, *STATIC))


def _named(scope: Scope) -> str | None:
    """The snapshot that a request names. Raises InvalidRequest: it names several."""
    sent = [value for name, value in scope["headers"] if name == SNAPSHOT_KEY]
    if len(sent) > 1:
        raise InvalidRequest(f"The header {SNAPSHOT} occurs {len(sent)} times: send it once.")
    return sent[0].decode("latin-1") if sent else None


def _log_slow(scope: Scope, seconds: float, stages: Sequence[Stage]) -> None:
    query = quote(scope["query_string"], safe=string.punctuation)
    path = scope["logged_path"] + (f"?{query}" if query else "")
    log.warning(
        "slow: %s %s %.1f ms (%s) id=%s",
        scope["method"],
        path[:MAX_LOGGED],
        seconds * 1000,
        ", ".join(f"{name} {s * 1000:.1f}" for name, s in _totals(stages).items()),
        scope["request_id"],
    )


def _totals(stages: Sequence[Stage]) -> dict[str, float]:
    """The seconds of each stage by name, in the order of their first starts. A batch has stages several times."""
    sums: dict[str, float] = {}
    for name, start, end in sorted(stages, key=itemgetter(1)):
        sums[name] = sums.get(name, 0.0) + end - start
    return sums


def _server_timing(stages: Sequence[Stage], seconds: float) -> bytes:
    metrics = [f"{name};dur={s * 1000:.2f}" for name, s in _totals(stages).items()]
    return ", ".join([*metrics, f"total;dur={seconds * 1000:.2f}"]).encode()


def _logged_path(scope: Scope) -> str:
    """A request's path for log lines, percent-encoded, so that a line break in it does not start a new line."""
    raw: bytes | None = scope.get("raw_path")
    if raw is not None:
        return quote(raw, safe=string.punctuation)
    return quote(scope["path"], safe=string.punctuation.replace("%", ""), errors="backslashreplace")


def describe(document: dict[str, Any]) -> None:
    """Add the headers of every request and response to an OpenAPI document."""
    sent = {
        "name": REQUEST_ID,
        "in": "header",
        "required": False,
        "description": "The id of the request in the log and in the response; generated by default.",
        "schema": {"type": "string"},
    }
    document["components"]["headers"] = {
        REQUEST_ID: {"description": "The id of the request in the log.", "schema": {"type": "string"}},
        SNAPSHOT: {"description": "The snapshot id of the library.", "schema": {"type": "string"}},
    }
    named = {
        "name": SNAPSHOT,
        "in": "header",
        "required": False,
        "description": "The snapshot that must answer, which the server must hold; by default the newest.",
        "schema": {"type": "string"},
    }
    returned = {name: {"$ref": f"#/components/headers/{name}"} for name in document["components"]["headers"]}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            operation.setdefault("parameters", []).append(sent)
            if _is_answered_from_library(path):
                operation["parameters"].append(named)
                add_errors(operation, SnapshotNotHeld)
            for response in operation["responses"].values():
                response["headers"] = {**returned, **response.get("headers", {})}


class HostCheck:
    """ASGI middleware: rejects requests without a valid ``Host``, or with that of another server.

    It prevents DNS rebinding. A web page can let its own name mean 127.0.0.1 and then read from a local server what it
    likes: for the browser, server and page have the same origin. The requests still have the page's name in ``Host``.
    A server with keys needs no check, since the page has no key.

    Accepted are the names and addresses of the loopback interface, the address of the connection, the host on which the
    server listens and those of the settings, all with any port. A server with keys or ``--public`` accepts all unless
    the settings name some.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app = app
        self._names = {_canonical(name) for name in (settings.host, *(settings.hosts or ()))}
        is_open = settings.keys is not None or settings.public
        self._all = "*" in self._names or (settings.hosts is None and is_open)
        self._error = lru_cache(maxsize=1024)(self._error_of)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (error := self._checked(scope)) is not None:
            await rejection(error, scope)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _checked(self, scope: Scope) -> ScholarBaseError | None:
        # The server adds an empty one where none was sent.
        sent = [value for name, value in scope["headers"] if name == b"host" and value]
        if not sent and scope["http_version"] in ("1", "1.0"):
            return None  # no browser sends this version
        if len(sent) != 1 or len(sent[0]) > MAX_HOST_LENGTH:
            return InvalidRequest(
                f"The request has {len(sent)} headers Host: send one, with the host and port of this server."
                if len(sent) != 1
                else f"The header Host has {len(sent[0]):,} bytes: send the host and port of this server."
            )
        server = scope.get("server")
        return self._error(sent[0], server[0] if server else "")

    def _error_of(self, sent: bytes, address: str) -> ScholarBaseError | None:
        host = _HOST.fullmatch(sent)
        shown = repr(sent.decode("latin-1"))
        if host is None:
            return InvalidRequest(f"The header Host is {shown}: send the host and port of this server.")
        name = _canonical(host[1].decode())
        if self._all or name in self._names or name == _canonical(address) or is_loopback(name):
            return None
        return MisdirectedRequest(
            f"This server does not accept requests for the host {shown}: use its address, or add the name to "
            "SCHOLARBASE_HOSTS."
        )


def _canonical(name: str) -> str:
    """A name or address in its shortest form, without brackets."""
    name = name.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name
