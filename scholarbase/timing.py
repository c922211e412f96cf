"""Times of the stages of a request: waiting, encoding, each leg, fusion, reading papers.

start = perf_counter()
papers = catalog.papers(ids)
stages().append(("hydrate", start, perf_counter()))
"""

from __future__ import annotations

from collections import deque
from collections.abc import MutableSequence
from contextvars import ContextVar
from typing import Final

Stage = tuple[str, float, float]
"""A stage: its name, its start and its end on the clock of ``time.perf_counter``, in seconds."""

STAGES: Final[ContextVar[MutableSequence[Stage]]] = ContextVar("scholarbase-stages", default=deque(maxlen=0))  # noqa: B039
"""The list that receives the stages of a context, and of threads that run in a copy of it; by default they are
discarded."""

stages: Final = STAGES.get
