"""The progress of worker processes: stages as messages, sent by the worker and shown by the job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from scholarbase.progress import Reporter, Tracker
from scholarbase.workers import Send


class SentReporter:
    """The reporter of a worker, which sends its stages as messages."""

    def __init__(self, send: Send) -> None:
        self._send = send

    @contextmanager
    def stage(self, name: str, unit: str, total: int | None, done: int = 0) -> Iterator[_SentTracker]:
        self._send({"stage": name, "unit": unit, "total": total, "done": done})
        yield _SentTracker(self._send)
        self._send({"end": name})


class _SentTracker:
    def __init__(self, send: Send) -> None:
        self._send = send

    def advance(self, count: int) -> None:
        self._send({"advance": count})

    def at(self, done: int) -> None:
        self._send({"at": done})


class ShownStages:
    """Shows the stages of one worker. ``name`` is appended to the name of each stage."""

    def __init__(self, stack: ExitStack, reporter: Reporter, name: str = "") -> None:
        self._stack, self._reporter, self._name = stack, reporter, name
        self._tracker: Tracker | None = None

    def receive(self, message: Mapping[str, Any]) -> None:
        if "stage" in message:
            name = f"{message['stage']} {self._name}".rstrip()
            stage = self._reporter.stage(name, message["unit"], message["total"], message["done"])
            self._tracker = self._stack.enter_context(stage)
        elif "end" in message:
            self._stack.close()
        elif self._tracker is not None:
            for name, apply in (("advance", self._tracker.advance), ("at", self._tracker.at)):
                if name in message:
                    apply(message[name])
