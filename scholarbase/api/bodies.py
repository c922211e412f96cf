"""The bodies of requests: how large they may be, and how much of them is in memory at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scholarbase.api.capacity import Capacity
from scholarbase.api.paths import is_below
from scholarbase.api.problems import TOOLS_PATH, rejection
from scholarbase.errors import BodyTooLarge, Busy, RequestIncomplete

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


class BodyLimit:
    """ASGI middleware: receives each body completely before the application runs, within limits of size and time.

    A body is rejected with a problem document if it has more than ``limit`` bytes or too many values, or if its client
    sends less than ``MIN_RATE``. Bodies above ``SMALL_BODY`` share two rooms, each of ``BODIES`` times the limit: one
    while they are received, one while they are answered. A body that has waited ``PATIENCE_SECONDS`` for the first is
    received without it.

    Args:
        queue: the number of bodies that may wait.
    """

    def __init__(self, app: ASGIApp, *, limit: int, queue: int) -> None:
        self._app = app
        self._limit = limit
        self._receiving = Capacity(BODIES * limit, queue, "room to receive its body")
        self._bodies = Capacity(BODIES * limit, queue, "room for its body")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = _declared(scope)
        if length == 0:
            await self._app(scope, _replaying(b"", receive), send)
            return
        is_tool = is_below(scope["path"], TOOLS_PATH)
        limit = self._limit * (TOOLS_FACTOR if is_tool else 1)
        size, body = 0, None
        try:
            if length is not None and length > limit:
                raise _too_large(f"{length:,}", limit)
            body = await self._receive(receive, limit, limit if length is None else length)
            if len(body) > SMALL_BODY:
                _check_marks(body, MAX_TOOL_MARKS if is_tool else MAX_MARKS)
                if not self._bodies.take(len(body)):
                    await self._bodies.wait(len(body))
                size = len(body)
        except (BodyTooLarge, Busy, RequestIncomplete) as error:
            response = rejection(error, scope)
            # for "100 Continue", before it sends the body
            waits = any(name == b"expect" for name, _ in scope["headers"])
            is_short = isinstance(error, BodyTooLarge) and not waits and (length or 0) <= MAX_DISCARDED
            if body is None and not (is_short and await _discarded(receive)):
                response.headers["Connection"] = "close"
            await response(scope, receive, send)
            return
        try:
            await self._app(scope, _replaying(body, receive), send)
        finally:
            if size:
                self._bodies.release(size)

    async def _receive(self, receive: Receive, limit: int, size: int) -> bytes:
        """A complete body of at most ``size`` bytes. Raises as :meth:`_Body.read`, and Busy: too many wait.

        Room is taken once more than ``SMALL_BODY`` bytes have come, so that clients that send less keep none.
        """
        body = _Body(receive, limit)
        await body.read(SMALL_BODY)
        if body.is_complete:
            return body.content
        has_room = self._receiving.take(size)
        if not has_room:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._receiving.wait(size)
                    has_room = True
        try:
            await body.read(limit)
            return body.content
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
        self._parts: list[bytes] = []
        self._size = 0
        self._began = monotonic()
        self.is_complete = False

    @property
    def content(self) -> bytes:
        return b"".join(self._parts)

    async def read(self, size: int) -> None:
        """Receive until more than ``size`` bytes have come, or the body is complete.

        Raises:
            BodyTooLarge: it has more than the limit.
            RequestIncomplete: the client sends it too slowly.
            ClientDisconnect: the client disconnected before its end.
        """
        while self._size <= size and not self.is_complete:
            message = await _next(
                self._receive, SLOW_SECONDS + self._size / MIN_RATE - (monotonic() - self._began)
            )
            if part := message.get("body", b""):
                self._parts.append(part)
                self._size += len(part)
            self.is_complete = not message.get("more_body", False)
        if self._size > self._limit:
            raise _too_large(f"more than {self._limit:,}", self._limit)


async def _discarded(receive: Receive) -> bool:
    """Whether the rest of a body was read. Many clients send all of it before they read the response."""
    size, began = 0, monotonic()
    with suppress(RequestIncomplete, ClientDisconnect):
        while size <= MAX_DISCARDED:
            message = await _next(receive, SLOW_SECONDS + size / MIN_RATE - (monotonic() - began))
            if not message.get("more_body", False):
                return True
            size += len(message.get("body", b""))
    return False


async def _next(receive: Receive, seconds: float) -> Message:
    """The next part of a body. Raises RequestIncomplete and ClientDisconnect."""
    try:
        async with asyncio.timeout(seconds):
            message = await receive()
    except TimeoutError:
        raise RequestIncomplete(
            f"The client sent less than {MIN_RATE:,} bytes of the body a second for {SLOW_SECONDS:g} seconds: send the "
            "request again, faster."
        ) from None
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message


def _check_marks(body: bytes, most: int) -> None:
    marks = sum(map(body.count, (b",", b":", b"[", b"{")))
    if marks > most:
        raise BodyTooLarge(
            f"The body has {marks:,} commas, colons and opening brackets, and this server accepts {most:,} at most: "
            "send it in several requests."
        )


def _replaying(body: bytes, receive: Receive) -> Receive:
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
