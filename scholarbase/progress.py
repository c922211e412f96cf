"""Progress of jobs: a live display on a terminal, periodic log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Lock, Thread
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
)
from rich.text import Text

log = logging.getLogger("scholarbase.progress")

T = TypeVar("T")


class Tracker(Protocol):
    """One stage's progress."""

    def advance(self, count: int) -> None:
        """Add to the displayed count, which is the position too until ``at`` is called."""
        ...

    def at(self, done: int) -> None:
        """Set the position, where the stage's total has another unit than the count."""
        ...


class Reporter(Protocol):
    """Shows stages, in sequence or in parallel.

    ``unit`` names what ``advance`` counts; it is None for a stage that is one call, of which no part can be counted.
    ``total`` and ``done`` may have another unit, such as bytes.
    """

    def stage(
        self, name: str, unit: str | None, total: int | None, done: int = 0
    ) -> AbstractContextManager[Tracker]: ...


def reporter(seconds: float = 10.0) -> Reporter:
    """A reporter for standard error: a terminal display, or log lines every ``seconds``."""
    return TerminalReporter() if sys.stderr.isatty() else LogReporter(seconds)


def advancing(values: Iterable[T], advance: Callable[[int], None]) -> Iterator[T]:
    """The values. Calls ``advance`` with 1 when the next one is requested."""
    for value in values:
        yield value
        advance(1)


class SilentReporter:
    """Shows nothing, for calls from Python."""

    @contextmanager
    def stage(self, name: str, unit: str | None, total: int | None, done: int = 0) -> Iterator[Tracker]:
        yield _Stage(name, unit, total, done)


class _Stage:
    """A stage's count and position, and how they are written. ``changed`` is called after each change."""

    def __init__(self, name: str, unit: str | None, total: int | None, done: int) -> None:
        self.name, self._unit, self._total, self._first = name, unit, total, done
        self._position: int | None = None
        self.count = 0
        self.began = time.monotonic()
        self.ended: float | None = None
        self.changed: Callable[[], None] = lambda: None

    def advance(self, count: int) -> None:
        self.count += count
        self.changed()

    def at(self, done: int) -> None:
        self._position = done
        self.changed()

    @property
    def done(self) -> int:
        return self._first + self.count if self._position is None else self._position

    @property
    def elapsed(self) -> float:
        return max((self.ended or time.monotonic()) - self.began, 1e-9)

    @property
    def counted(self) -> str:
        return "" if self._unit is None else f"{self.count:,} {self._unit}"

    @property
    def rate(self) -> str:
        """The count per second since the stage began."""
        return "" if self._unit is None else f"{self.count / self.elapsed:,.0f}/s"

    def left(self, clock: Callable[[float], str]) -> str:
        """The time that is left at the mean speed so far, empty while that is unknown."""
        if self._unit is None:
            return "time left unknown"
        if self._total is None or self.done <= self._first:
            return ""
        if self.done >= self._total:
            return "finishing"
        return f"about {clock((self._total - self.done) * self.elapsed / (self.done - self._first))} left"

    def line(self) -> str:
        """The count, its rate, and the time that is left."""
        left = self.left(lambda seconds: f"{seconds:,.0f} s")
        if self._unit is None:
            return f"{self.name}: running for {self.elapsed:,.0f} s, {left}"
        line = f"{self.name}: {self.counted} in {self.elapsed:,.0f} s, {self.rate}"
        return f"{line}, {100 * self.done / self._total:.0f}%, {left}" if left and self._total else line

    def last_line(self) -> str:
        return f"{self.name}: {self.counted or 'done'} in {self.elapsed:.1f} s"


class LogReporter:
    """A line every few seconds while a stage runs, also while it makes no progress, and when it ends."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @contextmanager
    def stage(self, name: str, unit: str | None, total: int | None, done: int = 0) -> Iterator[Tracker]:
        stage = _Stage(name, unit, total, done)
        ended = Event()

        def write_lines() -> None:
            while not ended.wait(self._seconds):
                log.info("%s", stage.line())

        writer = Thread(target=write_lines, name="progress", daemon=True)
        writer.start()
        try:
            yield stage
        finally:
            ended.set()
            writer.join()
        log.info("%s", stage.last_line())


class TerminalReporter:
    """A bar with counts, rate and time left, for each stage that is running."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._lock = Lock()
        self._bars: Progress | None = None
        self._running = 0

    @contextmanager
    def stage(self, name: str, unit: str | None, total: int | None, done: int = 0) -> Iterator[Tracker]:
        with self._lock:
            # A terminal can show only one live display, so parallel stages share it.
            bars = self._bars = self._bars or self._display()
            self._running += 1
        stage = _Stage(name, unit, total, done)
        task = bars.add_task(name, total=total, completed=done, stage=stage)
        # A bar that is full counts as finished, and its clock stops.
        most = None if total is None else 0.999 * total
        stage.changed = lambda: bars.update(
            task, completed=stage.done if most is None else min(stage.done, most)
        )
        try:
            yield stage
            stage.ended = time.monotonic()
            bars.update(task, total=total or 1, completed=total or 1)
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    self._bars = None
                    bars.stop()

    def _display(self) -> Progress:
        bars = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<22}"),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            _CountColumn(),
            _TimeColumn(),
            console=self._console,
        )
        bars.start()
        return bars


class _CountColumn(ProgressColumn):
    """The count of a stage and its rate."""

    def render(self, task: Task) -> Text:
        stage: _Stage = task.fields["stage"]
        return Text(" · ".join(part for part in (stage.counted, stage.rate) if part))


class _TimeColumn(ProgressColumn):
    """The time of a stage, and while it runs the time that is left, once that is known."""

    def render(self, task: Task) -> Text:
        stage: _Stage = task.fields["stage"]
        left = "" if task.finished else stage.left(_clock)
        return Text(
            ", ".join(part for part in (_clock(task.finished_time or task.elapsed or 0.0), left) if part)
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
