"""Metrics of a server besides its requests: snapshot, queue, memory, open files, restarts and sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from scholarbase.api.admission import Admission
from scholarbase.api.holding import Libraries
from scholarbase.sessions.store import SessionStore

PROC: Final = Path("/proc")


class ServerGauges(Collector):
    """Values that are read when ``/metrics`` is. Only the queue is known to each worker alone, which sets it several
    times a second."""

    def __init__(
        self,
        libraries: Libraries,
        admission: Admission,
        sessions: SessionStore | None,
        registry: CollectorRegistry,
    ) -> None:
        self._libraries, self._admission, self._sessions = libraries, admission, sessions
        self._queue = Gauge(
            "scholarbase_queue_requests",
            "Requests that wait for a thread, in all workers.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.unrecorded = Counter(
            "scholarbase_unrecorded_calls",
            "Calls of sessions that were not recorded when their response was sent.",
            registry=registry,
        )
        self.workers: Callable[[], Iterable[int]] = lambda: [os.getpid()]
        """The process ids of the workers."""
        self.restarts: Callable[[], int] = lambda: 0
        """How many workers ended and were replaced."""

    def set_queue(self) -> None:
        """Set what only this worker knows."""
        self._queue.set(self._admission.load.waiting)

    def collect(self) -> Iterator[Metric]:
        snapshot = self._libraries.snapshot
        yield InfoMetricFamily("scholarbase_snapshot", "The snapshot that is served.", {"snapshot": snapshot})
        memory = GaugeMetricFamily("scholarbase_memory_bytes", "Resident memory of a worker.", labels=["pid"])
        files = GaugeMetricFamily("scholarbase_open_files", "Open files of a worker.", labels=["pid"])
        for pid in self.workers():
            with suppress(OSError):  # it has ended meanwhile, or the system has no /proc
                pages = int((PROC / str(pid) / "statm").read_text().split()[1])
                memory.add_metric([str(pid)], pages * os.sysconf("SC_PAGE_SIZE"))
                files.add_metric([str(pid)], sum(1 for _ in (PROC / str(pid) / "fd").iterdir()))
        yield memory
        yield files
        yield CounterMetricFamily(
            "scholarbase_worker_restarts", "Workers that ended and were replaced.", self.restarts()
        )
        if self._sessions is not None and self._sessions.is_local:
            file = Path(self._sessions.name)
            write_ahead_log = file.with_name(f"{file.name}-wal")
            with suppress(OSError):  # no session was recorded yet
                size = file.stat().st_size
                if write_ahead_log.exists():
                    size += write_ahead_log.stat().st_size
                yield GaugeMetricFamily("scholarbase_sessions_bytes", "The files of recorded sessions.", size)
