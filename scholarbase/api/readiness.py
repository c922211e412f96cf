"""Readiness: whether the parts of a library work, known within a second whatever else runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final

FRESH_SECONDS: Final = 1.0
"""How long a result is used without another check."""
VALID_SECONDS: Final = 10.0
"""How long the last result holds while the next check runs. A part that takes longer does not work."""
WAIT_SECONDS: Final = 0.5
"""How long a response waits for a check."""


class Readiness:
    """Checks the parts of a library in a thread of its own, one check at a time. For one event loop.

    Args:
        check: returns the state of each part, ``ok``, ``absent`` or an error message.
    """

    def __init__(self, check: Callable[[], Mapping[str, str]]) -> None:
        self._check = check
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._running: asyncio.Future[Mapping[str, str]] | None = None
        self._last: Mapping[str, str] = {}
        self._checked = -VALID_SECONDS
        self._started = 0.0

    def close(self) -> None:
        """Shut down the thread, which finishes a check that runs."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def state(self) -> Mapping[str, str]:
        """The state of each part, at most ten seconds old."""
        if monotonic() - self._checked < FRESH_SECONDS:
            return self._last
        if self._running is None:
            self._started = monotonic()
            self._running = asyncio.get_running_loop().run_in_executor(self._thread, self._check)
            self._running.add_done_callback(self._finished)
        check = self._running
        await asyncio.wait((check,), timeout=WAIT_SECONDS)
        if check.done():
            return check.result()
        if monotonic() - self._checked < VALID_SECONDS:
            return self._last
        return {"library": f"its check has taken {monotonic() - self._started:.0f} s and is not finished"}

    def _finished(self, check: asyncio.Future[Mapping[str, str]]) -> None:
        self._running = None
        if not check.cancelled() and check.exception() is None:
            self._last, self._checked = check.result(), monotonic()
