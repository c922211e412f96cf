"""Access control of a shared server: keys, request limits, body limits and CORS.

Keys and request limits apply if the settings name a key file.
"""

from __future__ import annotations

import logging
import math
import os
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scholarbase.api.access.keys import Key, Keys, read_keys
from scholarbase.api.access.rates import FILE_NAME, WINDOW, Rates, Verdict
from scholarbase.api.admission import KEY
from scholarbase.api.holding import SNAPSHOT
from scholarbase.api.middleware import REQUEST_ID, BodyLimit, HostCheck
from scholarbase.api.paths import ADMIN_PATHS, OPEN_PATHS, STATIC
from scholarbase.api.problems import rejection
from scholarbase.api.session_headers import BUDGET, CALL
from scholarbase.errors import (
    Forbidden,
    InvalidRequest,
    RateLimited,
    ScholarBaseError,
    Unauthorized,
)
from scholarbase.http import is_loopback
from scholarbase.settings import Settings

log = logging.getLogger("scholarbase.api")
LOOPBACK_ORIGINS: Final = r"https?://(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?"
"""Pages of this machine may send requests, such as those of MCP clients under development."""
EXPOSED: Final = (
    REQUEST_ID,
    SNAPSHOT,
    CALL,
    BUDGET,
    "ETag",
    "RateLimit-Policy",
    "RateLimit",
    "Retry-After",
    "Server-Timing",
    "WWW-Authenticate",
)
"""Response headers that pages of other origins may read."""


# -- before serving -------------------------------------------------------------------------------------


def check_access(settings: Settings) -> None:
    """Check the settings of access before serving.

    Raises:
        InvalidRequest: the key file has no keys, or a rate limit or a public address is set without keys.
    """
    if settings.keys is not None and not read_keys(settings.keys):
        raise InvalidRequest(
            f"{settings.keys} has no keys, so all requests would be rejected: create one with "
            f'"scholarbase key create NAME --keys {settings.keys}", or unset SCHOLARBASE_KEYS.'
        )
    if settings.keys is not None and settings.keys.stat().st_mode & 0o077:
        log.warning(
            "Other users of this machine can read or write %s, the file of keys: run chmod 600 on it.",
            settings.keys,
        )
    if settings.keys is None and settings.rate_limit is not None:
        raise InvalidRequest(
            f"SCHOLARBASE_RATE_LIMIT is {settings.rate_limit}, but a rate limit needs keys: create one with "
            '"scholarbase key create" and set SCHOLARBASE_KEYS, or unset the limit.'
        )
    if settings.keys is None and not settings.public and not is_loopback(settings.host):
        raise InvalidRequest(
            f"Other machines could use a server at {settings.host} without a key: create one with "
            '"scholarbase key create" and set SCHOLARBASE_KEYS, or use --public to allow this.'
        )


# -- around every request -------------------------------------------------------------------------------


def install(app: FastAPI, settings: Settings) -> None:
    """Add the guard to ``app``, CORS before it, and the check of the host before both.

    Browsers send preflight requests without a key, and pages can read an error only with CORS headers. Cookies are not
    used.
    """
    app.add_middleware(BodyLimit, settings=settings)
    if settings.keys is not None:
        app.add_middleware(Guard, keys=settings.keys, settings=settings)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=settings.cors_origins or (),
        allow_origin_regex=LOOPBACK_ORIGINS,
        allow_methods=("*",),
        allow_headers=("*",),
        expose_headers=EXPOSED,
    )
    app.add_middleware(HostCheck, settings=settings)


class Guard:
    """ASGI middleware: rejects requests without a valid key or beyond its rate limit."""

    def __init__(self, app: ASGIApp, *, keys: Path, settings: Settings) -> None:
        self._app = app
        self._keys = Keys(keys)
        self._rate = settings.rate_limit
        self._rates = Rates(_shared_file(settings))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # No route accepts WebSockets yet, and a future one must not be open by mistake.
            await send({"type": "websocket.close", "code": 1008})
            return
        path = scope.get("path", "")
        if scope["type"] != "http" or path in OPEN_PATHS or path.startswith(STATIC):
            await self._app(scope, receive, send)
            return
        sent = _sent_key(Headers(scope=scope))
        try:
            key = scope[KEY] = _find_key(self._keys, sent)
            if (rate := key.rate or self._rate) is not None:
                verdict = self._rates.count(key.id, rate)
                send = _with_rate_headers(send, rate, verdict)
                if verdict.wait:
                    raise RateLimited(
                        f"The key {key.name!r} may send {rate:,} requests per minute: retry in "
                        f"{math.ceil(verdict.wait)} s."
                    )
            if key.role != "admin" and path.startswith(ADMIN_PATHS):
                raise Forbidden(
                    f"{path[:64]!r} requires an admin key, and {key.name!r} is a read key: use a key created with "
                    "--admin."
                )
        except ScholarBaseError as error:
            response = await rejection(error, scope)
            if isinstance(error, Unauthorized):
                # RFC 6750, section 3: a challenge has at least one parameter, and an error code for an invalid key.
                code = "" if sent is None else ', error="invalid_token"'
                response.headers["WWW-Authenticate"] = f'Bearer realm="ScholarBase"{code}'
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _sent_key(headers: Headers) -> str | None:
    """The key of a request. ``X-API-Key`` is for clients behind a proxy that uses ``Authorization``."""
    for value in headers.getlist("Authorization"):
        scheme, _, token = value.partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
    named = headers.getlist("X-API-Key")
    return named[-1].strip() if named else None


def _shared_file(settings: Settings) -> Path | None:
    """The file in which the workers of one server count requests together."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if settings.workers == 1 or folder is None:
        return None
    file = Path(folder) / FILE_NAME
    return file if file.exists() else None


# -- keys and limits ------------------------------------------------------------------------------------


def _find_key(keys: Keys, sent: str | None) -> Key:
    """The key of a request. Messages do not quote it, since it may be valid elsewhere."""
    if sent is None:
        raise Unauthorized(
            "This server requires a key: send it in the header Authorization: Bearer KEY, or X-API-Key: KEY."
        )
    key = keys.find(sent)
    if key is None:
        raise Unauthorized("The key is unknown or was revoked: check it, or request a new one.")
    return key


def _with_rate_headers(send: Send, rate: int, verdict: Verdict) -> Send:
    """Add the limit and the remaining requests to the response headers.

    The headers are those of draft-ietf-httpapi-ratelimit-headers-10, and ``Retry-After`` if the limit is reached.
    """
    policy = f'"minute";q={rate};w={WINDOW:.0f}'
    left = f'"minute";r={verdict.remaining};t={math.ceil(verdict.full)}'
    fields = [(b"ratelimit-policy", policy.encode()), (b"ratelimit", left.encode())]
    if verdict.wait:
        fields.append((b"retry-after", b"%d" % math.ceil(verdict.wait)))

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *fields]
        await send(message)

    return sent
