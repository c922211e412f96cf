"""Middleware of every request: id, log line, times of its stages, metrics, snapshot header and body limit."""

from __future__ import annotations

import logging
import os
import re
import string
import time
from collections.abc import Sequence
from operator import itemgetter
from typing import Final
from urllib.parse import quote

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scholarbase.api.problems import TOOLS_PATH, rejection, unexpected
from scholarbase.api.tracing import Tracer
from scholarbase.errors import BodyTooLarge
from scholarbase.timing import STAGES, Stage

log = logging.getLogger("scholarbase.access")

REQUEST_ID: Final = "X-Request-ID"
SNAPSHOT: Final = "X-ScholarBase-Snapshot"
KEY: Final = "scholarbase.key"
"""The key of a request's scope that holds its :class:`scholarbase.api.access.keys.Key`, if keys are required."""
MAX_LOGGED: Final = 2000
"""Characters of a path with its parameters in the log of slow requests."""
TOOLS_FACTOR: Final = 4
"""The body limit is this many times larger at ``TOOLS_PATH``, where calls that are too large are tool errors."""
_REQUEST_ID_KEY: Final = REQUEST_ID.lower().encode()
_SNAPSHOT_KEY: Final = SNAPSHOT.lower().encode()
_VALID_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods with their own metrics series. Clients may send any word, and each would create a series."""
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


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
        snapshot: str,
        registry: CollectorRegistry,
        slow_ms: float | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self._app = app
        self._slow_ms = slow_ms
        self._tracer = tracer
        self._snapshot = snapshot.encode("latin-1")
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
        sent = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = sent if _VALID_ID.fullmatch(sent) else os.urandom(16).hex()
        path = _logged_path(scope)
        start = time.perf_counter()
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
                ours = (
                    (_REQUEST_ID_KEY, request_id.encode("latin-1")),
                    (_SNAPSHOT_KEY, self._snapshot),
                    (b"server-timing", _server_timing(stages, time.perf_counter() - start)),
                )
                message["headers"] = [*message.get("headers", ()), *ours]
            await send(message)

        try:
            await self._app(inner, receive, send_with_headers)
        except Exception:
            log.exception("%s %s failed id=%s", scope["method"], path, request_id)
            if status:  # the response has started and can only be cut off
                raise
            await unexpected(request_id)(inner, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - start
            route = getattr(inner.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._counted(method, route, status).inc()
            self._timed(route).observe(seconds)
            key_id = f" key={key.id}" if (key := inner.get(KEY)) else ""
            log.info(
                "%s %s %d %.1f ms id=%s%s",
                scope["method"],
                path,
                status,
                seconds * 1000,
                request_id,
                key_id,
            )
            if self._slow_ms is not None and seconds * 1000 > self._slow_ms:
                query = quote(scope["query_string"], safe=string.punctuation)
                slow = path + (f"?{query}" if query else "")
                log.warning(
                    "slow: %s %s %.1f ms (%s) id=%s",
                    scope["method"],
                    slow[:MAX_LOGGED],
                    seconds * 1000,
                    ", ".join(f"{name} {s * 1000:.1f}" for name, s in _totals(stages).items()),
                    request_id,
                )
            if self._tracer is not None:
                self._tracer.send(
                    method,
                    route,
                    status,
                    stages,
                    start=start,
                    request_id=request_id,
                    headers=scope["headers"],
                )

    def _counted(self, method: str, route: str, status: int) -> Counter:
        key = method, route, status
        if key not in self._counts:
            self._counts[key] = self._count.labels(method, route, str(status))
        return self._counts[key]

    def _timed(self, route: str) -> Histogram:
        if route not in self._times:
            self._times[route] = self._seconds.labels(route)
        return self._times[route]


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


class BodyLimit:
    """ASGI middleware: rejects bodies of more than ``limit`` bytes with a problem document."""

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length, chunked = None, False
        for name, value in scope.get("headers", ()):
            if name == b"content-length":
                length = int(value) if value.isdigit() else None
            elif name == b"transfer-encoding":
                chunked = True
        # Transfer-Encoding overrides Content-Length (RFC 9112, section 6.3).
        undeclared = chunked or (length is None and scope.get("method") != "GET")
        if scope["type"] != "http" or (length is None and not undeclared):
            await self._app(scope, receive, send)
            return
        limit = self._limit * (TOOLS_FACTOR if scope["path"].startswith(TOOLS_PATH) else 1)
        if undeclared:
            await self._counting(limit, scope, receive, send)
        elif length is not None and length > limit:
            await rejection(_too_large(f"{length:,}", limit), scope["path"])(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _counting(self, limit: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a body of undeclared length until it exceeds the limit. The server reads and discards the rest, so
        that the connection can be reused."""
        size = 0
        too_large = started = False

        async def counted() -> Message:
            nonlocal size, too_large
            message = await receive()
            size += len(message.get("body", b""))
            if size > limit:
                too_large = True
                raise _too_large(f"more than {limit:,}", limit)
            return message

        async def sent(message: Message) -> None:
            nonlocal started
            if too_large and not started:
                return  # the route's response to the incomplete body
            started = True
            await send(message)

        try:
            await self._app(scope, counted, sent)
        except Exception:
            if not too_large or started:
                raise
        if too_large and not started:
            await rejection(_too_large(f"more than {limit:,}", limit), scope["path"])(scope, receive, send)


def _too_large(size: str, limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"The body has {size} bytes, and this server accepts {limit:,} at most: send it in several requests."
    )
