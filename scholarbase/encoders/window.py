"""How many requests run at once: fewer while a service says that it is overloaded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import httpx

OVERLOADED: Final = frozenset({429, 503})


class Window:
    """Lets at most ``most`` requests run at once.

    A response with status 429 or 503 halves the limit, and as many successes in a row as the limit raise it by one: the
    additive increase and multiplicative decrease of TCP (RFC 5681). So the requests of several jobs settle at what the
    service can do, instead of being refused most of the time.
    """

    def __init__(self, most: int) -> None:
        self.limit = self._most = most
        self._running = 0
        self._successes = 0
        self._changed = threading.Condition()

    def send(self, post: Callable[[], httpx.Response]) -> httpx.Response:
        """The response to ``post``, called when there is room."""
        with self._changed:
            self._changed.wait_for(lambda: self._running < self.limit)
            self._running += 1
        status = 0
        try:
            response = post()
            status = response.status_code
            return response
        finally:
            with self._changed:
                self._running -= 1
                self._adapt(status)
                self._changed.notify_all()

    def _adapt(self, status: int) -> None:
        if status in OVERLOADED:
            self.limit, self._successes = max(1, self.limit // 2), 0
        elif 200 <= status < 300:
            self._successes += 1
            if self._successes >= self.limit:
                self.limit, self._successes = min(self._most, self.limit + 1), 0
