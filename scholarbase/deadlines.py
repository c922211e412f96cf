"""The time limit of a request: set where it is admitted, checked by what takes long.

    with time_limit(5):
        library.search("graph neural networks")

Statements of SQLite are interrupted at the limit (:mod:`scholarbase.databases`). Other work calls :func:`check` between
its steps. Both name what runs, so that a caller that waits no longer can say what took long. Threads that run in a copy
of the context have the same limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock, Semaphore
from time import monotonic
from typing import Final

import msgspec

from scholarbase.errors import Cancelled, TimeLimit

_REQUEST: Final = ("The request", "request less at once, or retry later")
"""Activity and advice before any other."""
_POLL_SECONDS: Final = 0.1
"""How often a thread that waits for its turn looks whether its client is still there."""


class Deadline(msgspec.Struct, eq=False):
    """The end of a request's time: ``end``, in seconds of :func:`time.monotonic`, or when it is cancelled.

    ``seconds`` is the limit that it comes from. ``running`` is what began last, an activity and advice for the error of
    a caller that waits for it. Searches of an index compare and set both without a call.
    """

    seconds: float
    end: float
    is_cancelled: bool = False
    running: tuple[str, str] = _REQUEST

    def limit(self, seconds: float, end: float) -> None:
        """Set the end, unless it was cancelled, which another thread may do."""
        self.seconds, self.end = seconds, end
        if self.is_cancelled:
            self.end = -math.inf

    def cancel(self) -> None:
        """End the time now, because nobody waits for the result."""
        self.is_cancelled = True
        self.end = -math.inf

    @property
    def remaining(self) -> float:
        """Seconds, 0 or less at the end."""
        return self.end - monotonic()

    def late(self, seconds: float | None = None) -> TimeLimit | Cancelled:
        """The error for what began last, at the present limit or another."""
        activity, advice = self.running
        if self.is_cancelled:
            return Cancelled(f"{activity} was cancelled, because the client disconnected.")
        seconds = self.seconds if seconds is None else seconds
        return TimeLimit(f"{activity} was stopped at the time limit of {seconds:g} s: {advice}.")


DEADLINE: Final[ContextVar[Deadline | None]] = ContextVar("scholarbase-deadline", default=None)
"""The deadline of a context; None has no limit."""


@contextmanager
def time_limit(seconds: float | None) -> Iterator[Deadline | None]:
    """Limit the time of the block. A limit around it still holds; None adds no limit."""
    deadline = DEADLINE.get()
    if seconds is None or (deadline is not None and deadline.remaining <= seconds):
        yield deadline
    elif deadline is None:
        token = DEADLINE.set(deadline := Deadline(seconds, monotonic() + seconds))
        try:
            yield deadline
        finally:
            DEADLINE.reset(token)
    else:
        outer = deadline.seconds, deadline.end
        deadline.limit(seconds, monotonic() + seconds)
        try:
            yield deadline
        finally:
            deadline.limit(*outer)


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
        deadline.running = activity, advice
        if deadline.remaining <= 0:
            raise deadline.late()


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
