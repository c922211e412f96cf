"""Who may ask, how often, and how much at once: what stands before the routes of a shared server.

Keys and limits are in force where the settings name a file of keys. Without, a request passes with a look at the
length of its body.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scholarbase.api.access.keys import Key, Keys, read_keys
from scholarbase.api.access.rates import FILE_NAME, WINDOW, Rates, Verdict
from scholarbase.api.middleware import KEY, REQUEST_ID, SNAPSHOT, BodyLimit
from scholarbase.api.problems import MEDIA_TYPE, problem
from scholarbase.api.session_headers import BUDGET, CALL
from scholarbase.errors import (
    BodyTooLarge,
    Forbidden,
    InvalidRequest,
    RateLimited,
    ScholarBaseError,
    Unauthorized,
)
from scholarbase.http import is_loopback
from scholarbase.settings import Settings

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz"})
"""What is asked by those who look after the server: it needs no key and is never limited."""
ADMIN_PATHS: Final = ("/metrics",)
"""How the paths begin that need an admin key. Their beginning, since a route also matches with a line break behind."""
EXPOSED: Final = (
    REQUEST_ID,
    SNAPSHOT,
    CALL,
    BUDGET,
    "RateLimit-Policy",
    "RateLimit",
    "Retry-After",
    "WWW-Authenticate",
)
"""Headers of answers that a page of another origin may read."""


# -- before serving -------------------------------------------------------------------------------------


def check_access(settings: Settings) -> None:
    """Check that a server with these settings is open only to whom it is meant for.

    Raises:
        InvalidRequest: no key could be right, a limit has no keys to count by, or others could ask without a key.
    """
    if settings.keys is not None and not read_keys(settings.keys):
        raise InvalidRequest(
            f"There are no keys in {settings.keys}, so that nobody could ask: make one with "
            f'"scholarbase key create NAME --keys {settings.keys}", or unset SCHOLARBASE_KEYS.'
        )
    if settings.keys is None and settings.rate_limit is not None:
        raise InvalidRequest(
            f"SCHOLARBASE_RATE_LIMIT is {settings.rate_limit}, and counts by keys, of which there are none: "
            'make one with "scholarbase key create" and set SCHOLARBASE_KEYS, or unset the limit.'
        )
    if settings.keys is None and not settings.public and not is_loopback(settings.host):
        raise InvalidRequest(
            f"At {settings.host} others could reach this server, and it asks for no key: make one with "
            '"scholarbase key create" and set SCHOLARBASE_KEYS, or say --public if everybody who reaches it may ask.'
        )


# -- around every request -------------------------------------------------------------------------------


def install(app: FastAPI, settings: Settings) -> None:
    """Put the guard before the routes of ``app``, and CORS before the guard where the settings open it: a browser
    sends a preflight without a key, and shows a page no refusal that lacks CORS' own headers. Cookies play no part."""
    app.add_middleware(BodyLimit, limit=settings.max_body_bytes)
    if settings.keys is not None:
        app.add_middleware(Guard, keys=settings.keys, settings=settings)
    if settings.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origins,
            allow_methods=("*",),
            allow_headers=("*",),
            expose_headers=EXPOSED,
        )


class Guard:
    """ASGI middleware: refuses requests without a valid key, or beyond its rate limit, with a problem document."""

    def __init__(self, app: ASGIApp, *, keys: Path, settings: Settings) -> None:
        self._app = app
        self._keys = Keys(keys)
        self._rate = settings.rate_limit
        self._rates = Rates(_shared_file(settings))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # No route takes one yet; a later one must not be open by oversight.
            await send({"type": "websocket.close", "code": 1008})
            return
        path = scope.get("path", "")
        if scope["type"] != "http" or path in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        sent = _sent_key(scope["headers"])
        try:
            key = scope[KEY] = _known(self._keys, sent)
            if (rate := key.rate or self._rate) is not None:
                verdict = self._rates.ask(key.id, rate)
                send = _with_rate(send, rate, verdict)
                _check_rate(key, rate, verdict)
            _check_role(key, path)
        except ScholarBaseError as error:
            await _refusal(error, sent)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _sent_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The key of a request. ``X-API-Key`` serves where a proxy's password takes ``Authorization``."""
    bearer = named = None
    for name, value in headers:
        if name == b"authorization":
            scheme, _, token = value.partition(b" ")
            if scheme.lower() == b"bearer" and bearer is None:
                bearer = token.strip()
        elif name == b"x-api-key":
            named = value.strip()
    key = named if bearer is None else bearer
    return None if key is None else key.decode("latin-1")


def _shared_file(settings: Settings) -> Path | None:
    """Where the serving processes of one server count together."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if settings.workers == 1 or folder is None:
        return None
    file = Path(folder) / FILE_NAME
    return file if file.exists() else None


# -- keys and limits ------------------------------------------------------------------------------------


def _known(keys: Keys, given: str | None) -> Key:
    """The key that was given. No message holds what was given: it may be a key to something else."""
    if given is None:
        raise Unauthorized(
            "This server asks for a key: send yours in the header Authorization: Bearer KEY, or X-API-Key: KEY."
        )
    key = keys.find(given)
    if key is None:
        raise Unauthorized(
            "This server does not know the key that was sent, or not any more: check it, or ask for another."
        )
    return key


def _check_role(key: Key, path: str) -> None:
    if key.role != "admin" and path.startswith(ADMIN_PATHS):
        raise Forbidden(
            f"/metrics needs an admin key, and {key.name!r} is one to read with: use one made with --admin."
        )


def _check_rate(key: Key, rate: int, verdict: Verdict) -> None:
    if verdict.wait:
        seconds = math.ceil(verdict.wait)
        raise RateLimited(f"The key {key.name!r} may ask {rate:,} times a minute: ask again in {seconds} s.")


def _with_rate(send: Send, rate: int, verdict: Verdict) -> Send:
    """Say in the answer's headers what the limit is and what is left of it: the fields of
    draft-ietf-httpapi-ratelimit-headers-10, and ``Retry-After`` where nothing is."""
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


# -- refusals -------------------------------------------------------------------------------------------


def _refusal(error: ScholarBaseError, given: str | None = None) -> Response:
    answer = problem(error.status, error.slug, error.title, str(error))
    if isinstance(error, Unauthorized):
        # RFC 6750, section 3: a challenge has at least one parameter, and says of a key that it is wrong.
        wrong = "" if given is None else ', error="invalid_token"'
        answer.headers["WWW-Authenticate"] = f'Bearer realm="ScholarBase"{wrong}'
    return answer


# -- the document ---------------------------------------------------------------------------------------


def describe(document: dict[str, Any]) -> None:
    """Add to an OpenAPI document what the guard may answer, and how a key is sent where the server asks for one."""
    schemes = document["components"].setdefault("securitySchemes", {})
    schemes["key"] = {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of a server that has keys in force (`scholarbase key create`); others ask for none.",
    }
    document["security"] = [{}, {"key": []}]
    for path, operations in document["paths"].items():
        for operation in operations.values():
            refused: list[type[ScholarBaseError]] = []
            if path in OPEN_PATHS:
                operation["security"] = []
            else:
                refused += (Unauthorized, RateLimited)
            if path.startswith(ADMIN_PATHS):
                refused.append(Forbidden)
            if "requestBody" in operation:
                refused.append(BodyTooLarge)
            for kind in refused:
                content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}}}
                operation["responses"][str(kind.status)] = {"description": kind.title, "content": content}
