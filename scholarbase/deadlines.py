"""The time limit of a request: set where it is admitted, checked by what takes long.

    with time_limit(5):
        library.search("graph neural networks")

Statements of SQLite are interrupted at the limit (:mod:`scholarbase.databases`). Other work calls :func:`check` between
its steps. Both name what runs, so that a caller that waits no longer can say what took long. Threads that run in a copy
of the context have the same limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, Semaphore
from time import monotonic
from typing import Final

from scholarbase.errors import Cancelled, TimeLimit


class Deadline:
    """The end of a request's time: ``seconds`` from now, or when it or the one around it is cancelled."""

    __slots__ = ("_cancelled", "_end", "_outer", "_running", "seconds")

    def __init__(self, seconds: float, outer: Deadline | None = None) -> None:
        self.seconds = seconds
        self._end = monotonic() + seconds
        self._outer = outer
        self._cancelled = False
        self._running = _REQUEST

    def begin(self, activity: str, advice: str) -> None:
        """Remember what runs now, for the error of whoever waits for it."""
        self._running = activity, advice
        if self._outer is not None:
            self._outer.begin(activity, advice)

    def late(self) -> TimeLimit | Cancelled:
        """The error for what began last."""
        return self.error(*self._running)

    def cancel(self) -> None:
        """End the time now, because nobody waits for the result."""
        self._cancelled = True

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled or (self._outer is not None and self._outer.is_cancelled)

    @property
    def remaining(self) -> float:
        """Seconds, 0 or less at the end."""
        return 0.0 if self.is_cancelled else self._end - monotonic()

    def error(self, activity: str, advice: str) -> TimeLimit | Cancelled:
        """The error for work that the end has stopped."""
        if self.is_cancelled:
            return Cancelled(f"{activity} was cancelled, because the client disconnected.")
        return TimeLimit(f"{activity} was stopped at the time limit of {self.seconds:g} s: {advice}.")


_REQUEST: Final = ("The request", "request less at once, or retry later")
"""Activity and advice before any other."""
_POLL_SECONDS: Final = 0.1
"""How often a thread that waits for its turn looks whether its client is still there."""
DEADLINE: Final[ContextVar[Deadline | None]] = ContextVar("scholarbase-deadline", default=None)
"""The deadline of a context; None has no limit."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[Deadline | None]:
    """Limit the time of the block. A limit around it still holds; None adds no limit."""
    outer = DEADLINE.get()
    if seconds is None or (outer is not None and outer.remaining <= seconds):
        yield outer
        return
    deadline = Deadline(seconds, outer)
    token = DEADLINE.set(deadline)
    try:
        yield deadline
    finally:
        DEADLINE.reset(token)


def check(activity: str, advice: str) -> None:
    """Raise if the time is over, and remember the activity that begins or goes on.

    Args:
        activity: what took long, as the subject of a sentence.
        advice: what to change in the request.

    Raises:
        TimeLimit: the time limit is reached.
        Cancelled: the client disconnected.
    """
    deadline = DEADLINE.get()
    if deadline is not None:
        deadline.begin(activity, advice)
        if deadline.remaining <= 0:
            raise deadline.error(activity, advice)


@contextmanager
def turn(lock: Lock | Semaphore) -> Iterator[None]:
    """Hold a lock or a unit of a semaphore, and wait for it until the time is over.

    Raises:
        TimeLimit, Cancelled: as :func:`check`, for the activity that it was last called with.
    """
    if not lock.acquire(blocking=False):
        while not lock.acquire(timeout=_POLL_SECONDS):
            deadline = DEADLINE.get()
            if deadline is not None and deadline.remaining <= 0:
                raise deadline.late()
    try:
        yield
    finally:
        lock.release()
