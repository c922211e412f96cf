"""What happens around every request: its id, its log line, its metrics, the snapshot header."""

from __future__ import annotations

import logging
import os
import re
import time
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scholarbase.api.problems import logged_path, unexpected

log = logging.getLogger("scholarbase.access")

REQUEST_ID: Final = "X-Request-ID"
SNAPSHOT: Final = "X-ScholarBase-Snapshot"
KEY: Final = "scholarbase.key"
"""Where a request's scope has its :class:`scholarbase.api.access.keys.Key`; None where no keys are in force."""
_REQUEST_ID_KEY: Final = REQUEST_ID.lower().encode()
_SNAPSHOT_KEY: Final = SNAPSHOT.lower().encode()
_SANE_ID: Final = re.compile(r"[\x21-\x7e]{1,128}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods counted by their name. A client may send any word, and each would be a series for ever."""
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Requests:
    """ASGI middleware: gives each request an id (the caller's own, where it sent one), logs one line when it
    has been answered, and counts it. HEAD is answered as GET; the server leaves the body out (RFC 9110, 9.3.2)."""

    def __init__(self, app: ASGIApp, *, snapshot: str, registry: CollectorRegistry) -> None:
        self._app = app
        self._snapshot = snapshot.encode("latin-1")
        labels = ("method", "route", "status")
        self._count = Counter("scholarbase_requests", "Requests answered.", labels, registry=registry)
        self._seconds = Histogram(
            "scholarbase_request_seconds",
            "Seconds from a request's arrival to the end of its answer.",
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
        given = Headers(scope=scope).get(REQUEST_ID, "")
        request_id = given if _SANE_ID.fullmatch(given) else os.urandom(16).hex()
        began = time.perf_counter()
        status = 0
        inner: Scope = {**scope, "request_id": request_id}
        if scope["method"] == "HEAD":
            inner["method"] = "GET"
            inner["scholarbase.head"] = True

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                ours = ((_REQUEST_ID_KEY, request_id.encode("latin-1")), (_SNAPSHOT_KEY, self._snapshot))
                message["headers"] = [*message.get("headers", ()), *ours]
            await send(message)

        try:
            await self._app(inner, receive, send_with_headers)
        except Exception:
            log.exception("%s %s failed id=%s", scope["method"], logged_path(scope), request_id)
            if status:  # the answer is on its way: cutting it off is all that can still be said
                raise
            await unexpected(request_id)(inner, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(inner.get("route"), "path", "none")
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._counted(method, route, status).inc()
            self._timed(route).observe(seconds)
            asker = f" key={key.id}" if (key := inner.get(KEY)) else ""
            log.info(
                "%s %s %d %.1f ms id=%s%s",
                scope["method"],
                logged_path(scope),
                status,
                seconds * 1000,
                request_id,
                asker,
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
