"""Progress of jobs: a live display on a terminal, periodic log lines elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Lock, Thread
from typing import Protocol

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


class Tracker(Protocol):
    """One stage's progress: ``advance`` adds to the displayed count, ``at`` sets the position."""

    def advance(self, count: int) -> None: ...

    def at(self, done: int) -> None:
        """Set the position, in the units of the stage's total."""
        ...


class Reporter(Protocol):
    """Shows stages, in sequence or in parallel.

    ``unit`` names what ``advance`` counts. ``total`` and ``done`` may have another unit, such as bytes.
    """

    def stage(
        self, name: str, unit: str, total: int | None, done: int = 0
    ) -> AbstractContextManager[Tracker]: ...


def reporter(seconds: float = 10.0) -> Reporter:
    """A reporter for standard error: a terminal display, or log lines every ``seconds``."""
    return TerminalReporter() if sys.stderr.isatty() else LogReporter(seconds)


class SilentReporter:
    """Shows nothing, for calls from Python."""

    @contextmanager
    def stage(self, name: str, unit: str, total: int | None, done: int = 0) -> Iterator[Tracker]:
        yield _Stage(name, unit, total, done)


class _Stage:
    """A stage's count and position, and how they are written. ``changed`` is called after each change."""

    def __init__(self, name: str, unit: str, total: int | None, done: int) -> None:
        self._name, self._unit, self._total, self._first = name, unit, total, done
        self.count = 0
        self.done = done
        self.began = time.monotonic()
        self.changed: Callable[[], None] = lambda: None

    def advance(self, count: int) -> None:
        self.count += count
        self.changed()

    def at(self, done: int) -> None:
        self.done = done
        self.changed()

    @property
    def rate(self) -> str:
        """The count per second since the stage began."""
        return f"{self.count / max(time.monotonic() - self.began, 1e-9):,.0f}/s"

    @property
    def counted(self) -> str:
        return f"{self.count:,} {self._unit}"

    def line(self) -> str:
        """The count, its rate, and the time that is left."""
        elapsed = time.monotonic() - self.began
        line = f"{self._name}: {self.counted} in {elapsed:,.0f} s, {self.rate}"
        if self._total is None or self.done <= self._first:
            return line
        seconds = (self._total - self.done) * elapsed / (self.done - self._first)
        return f"{line}, {100 * self.done / self._total:.0f}%, about {seconds:,.0f} s left"


class LogReporter:
    """A line every few seconds while a stage runs, also while it makes no progress, and when it ends."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @contextmanager
    def stage(self, name: str, unit: str, total: int | None, done: int = 0) -> Iterator[Tracker]:
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
        log.info("%s: %s in %.1f s", name, stage.counted, time.monotonic() - stage.began)


class TerminalReporter:
    """A bar with counts, rate and time left, for each stage that is running."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._lock = Lock()
        self._bars: Progress | None = None
        self._running = 0

    @contextmanager
    def stage(self, name: str, unit: str, total: int | None, done: int = 0) -> Iterator[Tracker]:
        with self._lock:
            # A terminal can show only one live display, so parallel stages share it.
            bars = self._bars = self._bars or self._display()
            self._running += 1
        stage = _Stage(name, unit, total, done)
        task = bars.add_task(name, total=total, completed=done, counted=stage.counted)

        def show() -> None:
            bars.update(task, completed=stage.done, counted=f"{stage.counted} · {stage.rate}")

        stage.changed = show
        try:
            yield stage
            show()
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
            TextColumn("{task.fields[counted]}"),
            _TimeColumn(),
            console=self._console,
        )
        bars.start()
        return bars


class _TimeColumn(ProgressColumn):
    """The time of a stage, and while it runs the time that is left, once that is known."""

    def render(self, task: Task) -> Text:
        elapsed = task.finished_time if task.finished else task.elapsed
        text = _clock(elapsed or 0.0)
        if not task.finished and task.time_remaining is not None:
            text += f", about {_clock(task.time_remaining)} left"
        return Text(text)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
