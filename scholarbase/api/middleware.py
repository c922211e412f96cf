"""Middleware of every request: id, log line, times of its stages, metrics, snapshot header, host and body."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import re
import string
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Final
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scholarbase.api.admission import ARRIVED, CLIENT, KEY, Caller, Capacity, name_of
from scholarbase.api.holding import LIBRARY, SNAPSHOT_KEY, Libraries
from scholarbase.api.paths import NATIVE, OPEN_PATHS, TOOLS_PATH, is_below
from scholarbase.api.problems import rejection, unexpected
from scholarbase.api.sending import PIECE, LargeResponses
from scholarbase.api.tracing import Tracer
from scholarbase.errors import (
    BodyTooLarge,
    Busy,
    InvalidRequest,
    MisdirectedRequest,
    RequestIncomplete,
    ScholarBaseError,
)
from scholarbase.http import is_loopback
from scholarbase.memory import FreeMemory
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
_VALID_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods with their own metrics series. Clients may send any word, and each would create a series."""
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TOOLS_FACTOR: Final = 4
"""The limit is this many times larger at ``TOOLS_PATH``, where calls that are too large are tool errors."""
SMALL_BODY: Final = 2**16
"""Bytes of a body that needs no room of its own."""
BODIES: Final = 4
"""Bodies of the maximum size that are in memory at once."""
SLOW_SECONDS: Final = 20.0
"""How long a client may take to send any body."""
MIN_RATE: Final = 1024
"""Bytes per second that a client must send of a body, after ``SLOW_SECONDS``."""
MAX_DISCARDED: Final = 32 * 2**20
"""Bytes of a rejected body that are read and discarded."""
PATIENCE_SECONDS: Final = 2.0
"""How long a body waits for others that are received."""
MAX_MARKS: Final = 500_000
"""Commas, colons and opening brackets of a body: twice the number of its JSON values, roughly. Parsed values take ten
times the size of their text."""
MAX_TOOL_MARKS: Final = 100_000
"""The same at ``TOOLS_PATH``, where the body is parsed on the event loop."""


class Turns:
    """Lets a bounded number of requests start in each turn of the event loop, in turns of their addresses.

    Thousands of requests that come at once would otherwise be parsed and held in memory before the first is answered,
    and health requests would wait for all of them.
    """

    def __init__(self, queue: int) -> None:
        self._starts = Capacity(STARTED_AT_ONCE, queue, "their start")
        self._started = 0
        """Requests that started in this turn. Above 0, the next turn is scheduled."""
        self._free_memory = FreeMemory(RETURN_SECONDS)

    async def wait(self, scope: Scope, until: float) -> None:
        """Wait for a turn in which the request may start. Raises Busy: too many wait, or until then."""
        if not self._starts.take(1):
            await self._starts.wait(1, until, (name_of(HTTPConnection(scope)), True))
        if not self._started:
            asyncio.get_running_loop().call_soon(self._begin)
        self._started += 1

    def _begin(self) -> None:
        started, self._started = self._started, 0
        if self._starts.waiting > MANY_WAITING:
            self._free_memory.soon()
        self._starts.release(started)


class Requests:
    """ASGI middleware: sets a request's id (the caller's own if it sends one), logs, times and counts each response.

    HEAD is handled as GET; the server omits the body (RFC 9110, 9.3.2). The header ``Server-Timing``
    (https://www.w3.org/TR/server-timing/) has the milliseconds of each stage up to the start of the response.

    Args:
        tracer: sends a trace of each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        libraries: Libraries,
        registry: CollectorRegistry,
        settings: Settings,
        tracer: Tracer | None,
    ) -> None:
        self._app = app
        self._slow_ms = settings.slow_ms
        self._tracer = tracer
        self._libraries = libraries
        self._large = LargeResponses()
        self._timeout = settings.timeout
        self._turns = Turns(settings.max_connections)
        labels = ("method", "route", "status")
        self._requests = Counter("scholarbase_requests", "Handled requests.", labels, registry=registry)
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
        sent = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = sent if _VALID_ID.fullmatch(sent) else os.urandom(16).hex()
        path = _logged_path(scope)
        stages: list[Stage] = []
        STAGES.set(stages)
        status = 0
        is_native = scope["path"].startswith(NATIVE)
        scope = {**scope, "request_id": request_id, "logged_path": path, ARRIVED: time.monotonic()}
        inner = dict(scope)
        if scope["method"] == "HEAD":
            inner["method"] = "GET"
            inner["scholarbase.head"] = True

        def snapshot() -> str:
            """The snapshot that answered the request; the current one if it was rejected before."""
            answered: str = inner[LIBRARY].snapshot_id if LIBRARY in inner else self._libraries.snapshot
            return answered

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"] = [
                    *message.get("headers", ()),
                    (_REQUEST_ID_KEY, request_id.encode("latin-1")),
                    (SNAPSHOT_KEY, snapshot().encode()),
                    (b"server-timing", _server_timing(stages, time.perf_counter() - start)),
                ]
                if is_native and not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
            elif len(message.get("body", b"")) > PIECE:
                release()  # a slow client keeps no room from other responses
                await self._large.send(message, send)
                return
            await send(message)

        def release() -> None:
            if (client := inner.pop(CLIENT, None)) is not None:
                client.release()

        try:
            await self._respond(inner, receive, send_with_headers)
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
            release()
            route, key = getattr(inner.get("route"), "path", "none"), getattr(inner.get(KEY), "id", "")
            self._report(scope, status, start, stages, snapshot(), route=route, key=key)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond when it is the request's turn."""
        app = self._app
        try:
            if scope["path"] not in OPEN_PATHS:
                await self._turns.wait(scope, scope[ARRIVED] + self._timeout)
        except Busy as error:
            app = await rejection(error, scope)
        await app(scope, receive, send)

    def _report(
        self,
        scope: Scope,
        status: int,
        start: float,
        stages: Sequence[Stage],
        snapshot: str,
        *,
        route: str,
        key: str,
    ) -> None:
        """Log, count and trace a request that has ended."""
        seconds = time.perf_counter() - start
        request_id = scope["request_id"]
        by_key = f" key={key}" if key else ""
        about = (scope["method"], scope["logged_path"], status, seconds * 1000, request_id, by_key)
        log.info("%s %s %d %.1f ms id=%s%s", *about)
        if self._slow_ms is not None and seconds * 1000 > self._slow_ms:
            _log_slow(scope, seconds, stages)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._count(method, route, status, seconds)
        if self._tracer is not None:
            self._tracer.send(
                method,
                route,
                status,
                stages,
                start=start,
                snapshot=snapshot,
                request_id=request_id,
                headers=scope["headers"],
            )

    def _count(self, method: str, route: str, status: int, seconds: float) -> None:
        key = method, route, status
        if key not in self._counts:
            self._counts[key] = self._requests.labels(method, route, str(status))
        self._counts[key].inc()
        if route not in self._times:
            self._times[route] = self._seconds.labels(route)
        self._times[route].observe(seconds)


def _log_slow(scope: Scope, seconds: float, stages: Sequence[Stage]) -> None:
    query = quote(scope["query_string"], safe=string.punctuation)
    path = scope["logged_path"] + (f"?{query}" if query else "")
    times = ", ".join(f"{name} {s * 1000:.1f}" for name, s in _totals(stages).items())
    about = (scope["method"], path[:MAX_LOGGED], seconds * 1000, times, scope["request_id"])
    log.warning("slow: %s %s %.1f ms (%s) id=%s", *about)


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


# -- hosts ------------------------------------------------------------------------------------------------


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
            response = await rejection(error, scope)
            await response(scope, receive, send)
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


# -- bodies -----------------------------------------------------------------------------------------------


class BodyLimit:
    """ASGI middleware: receives each body completely before the application runs, within limits of size and time.

    A body is rejected with a problem document if it is larger than the settings allow or has too many values, or if
    its client sends less than ``MIN_RATE``. Bodies above ``SMALL_BODY`` share two rooms, each of ``BODIES`` times the
    limit: one while they are received, one while they are answered. A body that has waited ``PATIENCE_SECONDS`` for the
    first is received without it.
    """

    def __init__(self, app: ASGIApp, *, settings: Settings) -> None:
        self._app = app
        self._limit = settings.max_body_bytes
        self._timeout = settings.timeout
        rooms = BODIES * self._limit
        self._receiving = Capacity(rooms, settings.queue, "room to receive its body")
        self._bodies = Capacity(rooms, settings.queue, "room for its body")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = _declared(scope)
        if length == 0:
            await self._app(scope, replaying(b"", receive), send)
            return
        is_tool = is_below(scope["path"], TOOLS_PATH)
        limit = self._limit * (TOOLS_FACTOR if is_tool else 1)
        body, content, room = _Body(receive, limit), b"", 0
        try:
            if length is not None and length > limit:
                raise _too_large(f"{length:,}", limit)
            caller: Caller = (name_of(HTTPConnection(scope)), True)
            await self._receive(body, limit if length is None else length, caller)
            scope[ARRIVED] = time.monotonic()
            content = body.take()
            if len(content) > SMALL_BODY:
                _check_marks(content, MAX_TOOL_MARKS if is_tool else MAX_MARKS)
                if not self._bodies.take(len(content)):
                    await self._bodies.wait(len(content), scope[ARRIVED] + self._timeout, caller)
                room = len(content)
        except (BodyTooLarge, Busy, RequestIncomplete) as error:
            response = await rejection(error, scope)
            # for "100 Continue", before it sends the body
            waits = any(name == b"expect" for name, _ in scope["headers"])
            is_short = isinstance(error, BodyTooLarge) and not waits and (length or 0) <= MAX_DISCARDED
            if not body.is_complete and not (is_short and await body.discard()):
                response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        try:
            await self._app(scope, replaying(content, receive), send)
        finally:
            if room:
                self._bodies.release(room)

    async def _receive(self, body: _Body, size: int, caller: Caller) -> None:
        """Receive a body of at most ``size`` bytes. Raises as :meth:`_Body.read`, and Busy: too many wait.

        Room is taken once more than ``SMALL_BODY`` bytes have come, so that clients that send less keep none.
        """
        await body.read(SMALL_BODY)
        if body.is_complete:
            return
        has_room = self._receiving.take(size)
        if not has_room:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._receiving.wait(size, caller=caller)
                    has_room = True
        try:
            await body.read(size)
        finally:
            if has_room:
                self._receiving.release(size)


def _declared(scope: Scope) -> int | None:
    """The length of a body as its headers declare it; None if it is chunked."""
    length = 0
    for name, value in scope["headers"]:
        if name == b"transfer-encoding":
            return None  # which overrides Content-Length (RFC 9112, section 6.3)
        if name == b"content-length" and value.isdigit():
            length = int(value)
    return length


class _Body:
    """A body that is being received."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._received = bytearray()  # a list of parts of one byte each would take eight times the memory
        self._began = time.monotonic()
        self.is_complete = False

    @property
    def size(self) -> int:
        return len(self._received)

    def take(self) -> bytes:
        """What was received, which is then held no longer."""
        content, self._received = bytes(self._received), bytearray()
        return content

    async def read(self, size: int) -> None:
        """Receive until more than ``size`` bytes have come, or the body is complete.

        Raises:
            BodyTooLarge: it has more than the limit.
            RequestIncomplete: the client sends it too slowly.
            ClientDisconnect: the client disconnected before its end.
        """
        while self.size <= size and not self.is_complete:
            self._received += await self._next(self.size, self._began)
        if self.size > self._limit:
            raise _too_large(f"more than {self._limit:,}", self._limit)

    async def discard(self) -> bool:
        """Whether the rest was read. Many clients send all of a body before they read the response."""
        size, began = 0, time.monotonic()
        with suppress(RequestIncomplete, ClientDisconnect):
            while size <= MAX_DISCARDED and not self.is_complete:
                size += len(await self._next(size, began))
        return self.is_complete

    async def _next(self, size: int, began: float) -> bytes:
        """The next part, after ``size`` bytes since a time. Raises RequestIncomplete and ClientDisconnect."""
        try:
            async with asyncio.timeout(SLOW_SECONDS + size / MIN_RATE - (time.monotonic() - began)):
                message = await self._receive()
        except TimeoutError:
            raise RequestIncomplete(
                f"The client sent less than {MIN_RATE:,} bytes of the body a second for {SLOW_SECONDS:g} seconds: send "
                "the request again, faster."
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        self.is_complete = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part


def _check_marks(body: bytes, most: int) -> None:
    marks = sum(map(body.count, (b",", b":", b"[", b"{")))
    if marks > most:
        raise BodyTooLarge(
            f"The body has {marks:,} commas, colons and opening brackets, and this server accepts {most:,} at most: "
            "send it in several requests."
        )


def replaying(body: bytes, receive: Receive) -> Receive:
    """A channel that gives a received body, then what follows it.

    Granian's own channel loses a message whose receiver is cancelled, as tasks are that wait for the disconnection of a
    client; so they get none that others need.
    """
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


def _too_large(size: str, limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"The body has {size} bytes, and this server accepts {limit:,} at most: send it in several requests."
    )
