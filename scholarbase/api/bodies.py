"""The bodies of requests: how large they may be, and how much of them is in memory at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scholarbase.api.capacity import Capacity
from scholarbase.api.problems import TOOLS_PATH, rejection
from scholarbase.errors import BodyTooLarge, Busy

TOOLS_FACTOR: Final = 4
"""The limit is this many times larger at ``TOOLS_PATH``, where calls that are too large are tool errors."""
SMALL_BODY: Final = 2**16
"""Bytes of a body that needs no room of its own."""
BODIES: Final = 4
"""Bodies of the maximum size that are in memory at once."""
PATIENCE_SECONDS: Final = 2.0
"""How long a body waits for others that are received."""
MAX_MARKS: Final = 500_000
"""Commas, colons and opening brackets of a body: twice the number of its JSON values, roughly. Parsed values take ten
times the size of their text."""
MAX_TOOL_MARKS: Final = 100_000
"""The same at ``TOOLS_PATH``, where the body is parsed on the event loop."""


class BodyLimit:
    """ASGI middleware: rejects bodies of more than ``limit`` bytes, or with too many values, with a problem document.

    Bodies of more than ``SMALL_BODY`` bytes are received completely first, and passed on when together they fit into
    ``BODIES`` times the limit. As much is received at once. A body that waits for slow clients is received all the same
    after ``PATIENCE_SECONDS``: :class:`scholarbase.api.connections.Connections` then limits what all clients send.

    Args:
        queue: the number of bodies that may wait.
    """

    def __init__(self, app: ASGIApp, *, limit: int, queue: int) -> None:
        self._app = app
        self._limit = limit
        self._receiving = Capacity(BODIES * limit, queue, "room to receive its body")
        self._bodies = Capacity(BODIES * limit, queue, "room for its body")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length, is_chunked = None, False
        for name, value in scope.get("headers", ()):
            if name == b"content-length":
                length = int(value) if value.isdigit() else None
            elif name == b"transfer-encoding":
                is_chunked = True
        # Transfer-Encoding overrides Content-Length (RFC 9112, section 6.3).
        if is_chunked:
            length = None
        is_small = length is not None and length <= min(SMALL_BODY, self._limit)
        has_body = length is not None or is_chunked or scope.get("method") != "GET"
        if scope["type"] != "http" or is_small or not has_body:
            await self._app(scope, receive, send)
            return
        is_tool = scope["path"].startswith(TOOLS_PATH)
        limit = self._limit * (TOOLS_FACTOR if is_tool else 1)
        size = 0
        try:
            if length is not None and length > limit:
                raise _too_large(f"{length:,}", limit)
            body = await self._receive(receive, limit, limit if length is None else length)
            if len(body) > SMALL_BODY:
                _check_marks(body, MAX_TOOL_MARKS if is_tool else MAX_MARKS)
                if not self._bodies.take(len(body)):
                    await self._bodies.wait(len(body))
                size = len(body)
        except (BodyTooLarge, Busy) as error:
            await rejection(error, scope)(scope, receive, send)
            return
        try:
            await self._app(scope, _replaying(body, receive), send)
        finally:
            if size:
                self._bodies.release(size)

    async def _receive(self, receive: Receive, limit: int, size: int) -> bytes:
        """A complete body of at most ``size`` bytes. Raises as :func:`_received`, and Busy: too many wait."""
        has_room = self._receiving.take(size)
        if not has_room:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._receiving.wait(size)
                    has_room = True
        try:
            return await _received(receive, limit)
        finally:
            if has_room:
                self._receiving.release(size)


async def _received(receive: Receive, limit: int) -> bytes:
    """A complete body.

    Raises:
        BodyTooLarge: it has more than ``limit`` bytes. The server reads and discards the rest, so that the connection
            can be reused.
        ClientDisconnect: the client disconnected before its end.
    """
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        if part := message.get("body", b""):
            parts.append(part)
            size += len(part)
        if size > limit:
            raise _too_large(f"more than {limit:,}", limit)
        if not message.get("more_body", False):
            return b"".join(parts)


def _check_marks(body: bytes, most: int) -> None:
    marks = sum(map(body.count, (b",", b":", b"[", b"{")))
    if marks > most:
        raise BodyTooLarge(
            f"The body has {marks:,} commas, colons and opening brackets, and this server accepts {most:,} at most: "
            "send it in several requests."
        )


def _replaying(body: bytes, receive: Receive) -> Receive:
    """A channel that gives a received body, then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


def _too_large(size: str, limit: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"The body has {size} bytes, and this server accepts {limit:,} at most: send it in several requests."
    )
