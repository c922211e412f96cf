"""Large responses: sent in pieces, so that what clients have not read is known and bounded."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Message, Send

PIECE: Final = 2**17
"""Bytes that are handed to the server at once. It waits while the client does not read."""
SLOW_SECONDS: Final = 20.0
"""How long a client may take to read any response."""
MIN_RATE: Final = 16_384
"""Bytes per second that a client must read of a response, after ``SLOW_SECONDS``."""
MAX_UNREAD: Final = 64 * 2**20
"""Bytes of large responses that a process holds until their clients have read them."""
UNREAD_SECONDS: Final = 2.0
"""Clients that read their responses within this time are not disconnected for ``MAX_UNREAD``."""


@dataclass(slots=True, eq=False)
class _Sending:
    """A response that is being sent: its bytes that were not sent, its time limit, and its start."""

    size: int
    timeout: asyncio.Timeout
    started: float


class LargeResponses:
    """Sends large responses in pieces, and disconnects clients that read them too slowly.

    If all large responses together have more than ``MAX_UNREAD`` unsent bytes, those are cut off first that have been
    sent for the longest time. For one event loop.
    """

    def __init__(self) -> None:
        self._sending: dict[_Sending, None] = {}
        """In the order of their starts."""
        self._check: asyncio.TimerHandle | None = None

    async def send(self, message: Message, send: Send) -> None:
        """Send a body. Raises ClientDisconnect: the client was too slow, and its connection will be closed."""
        body: bytes = message["body"]
        try:
            async with asyncio.timeout(SLOW_SECONDS + len(body) / MIN_RATE) as timeout:
                sending = _Sending(len(body), timeout, asyncio.get_running_loop().time())
                self._sending[sending] = None
                self._disconnect_slow()
                try:
                    for start in range(0, len(body), PIECE):
                        end = start + PIECE
                        is_last = end >= len(body)
                        more = not is_last or message.get("more_body", False)
                        await send({"type": message["type"], "body": body[start:end], "more_body": more})
                        sending.size = len(body) - end
                finally:
                    del self._sending[sending]
        except TimeoutError:
            raise ClientDisconnect from None

    def _disconnect_slow(self) -> None:
        """Cut off responses until the others fit, and look again while they do not."""
        loop = asyncio.get_running_loop()
        unsent = sum(response.size for response in self._sending)
        for sending in self._sending:
            if unsent <= MAX_UNREAD or loop.time() - sending.started < UNREAD_SECONDS:
                break
            unsent -= sending.size
            if not sending.timeout.expired():
                sending.timeout.reschedule(loop.time())
        if unsent > MAX_UNREAD and self._check is None:
            self._check = loop.call_later(UNREAD_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._check = None
        self._disconnect_slow()
