"""Times of the stages of a request: waiting, encoding, each leg, fusion, reading papers."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Final, NamedTuple


class Stage(NamedTuple):
    """A stage, with its start on the clock of ``time.perf_counter``. Times are in seconds."""

    name: str
    start: float
    seconds: float


_stages: Final[ContextVar[list[Stage] | None]] = ContextVar("scholarbase-stages", default=None)


def start_recording() -> list[Stage]:
    """Record the stages of this context, and of threads that run in a copy of it, in the returned list."""
    stages: list[Stage] = []
    _stages.set(stages)
    return stages


def record(name: str, start: float) -> None:
    """Record a stage that began at ``start`` and ends now. Does nothing where no stages are recorded."""
    stages = _stages.get()
    if stages is not None:
        stages.append(Stage(name, start, time.perf_counter() - start))


class stage:
    """A ``with`` block that is recorded as a stage. A class is faster than a generator."""

    __slots__ = ("_name", "_start")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        record(self._name, self._start)


def totals(stages: list[Stage]) -> dict[str, float]:
    """The seconds of each stage by name, in the order of their first starts. A batch has stages several times."""
    sums: dict[str, float] = {}
    for one in sorted(stages, key=lambda s: s.start):
        sums[one.name] = sums.get(one.name, 0.0) + one.seconds
    return sums
