"""Watches a server from a process of its own: the slowest health response, and the largest memory.

The watched requests do not share an interpreter lock with the attack.

    python -m torture.watch http://127.0.0.1:8000 PID

It prints one JSON object when its standard input is closed.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.memory import process_tree
from benchmarks.servers import ROOT, Server
from torture.rows import Setting

HEALTH_SECONDS: Final = 1.0
"""The promise: health routes respond within this time, whatever else the server does."""
MEMORY_MB: Final = 400.0
"""The promise: the server needs at most this much more than when idle."""
PATHS: Final = ("/healthz", "/readyz", "/metrics")
ALLOWED: Final = {"/healthz": {200}, "/readyz": {200, 503}, "/metrics": {200}}
EVERY_SECONDS: Final = 0.25
MOST_SECONDS: Final = 30.0
_KB: Final = 1024


@dataclass(slots=True)
class Seen:
    """What a watch saw. Times in seconds, memory in MB (proportional set size of all processes).

    Pages that are mapped from files are counted apart: they are the system's cache of the library, and most of it is
    mapped after enough different searches.
    """

    slowest: float = 0.0
    path: str = ""
    requests: int = 0
    late: int = 0
    """Responses that took longer than ``HEALTH_SECONDS``, failures included."""
    failures: list[str] = field(default_factory=list)
    idle_mb: float = 0.0
    peak_mb: float = 0.0
    mapped_mb: float = 0.0
    """Growth of the pages that are mapped from files."""

    @property
    def above_idle(self) -> float:
        return self.peak_mb - self.idle_mb

    def is_healthy(self, setting: Setting) -> bool:
        return bool(self.requests) and not self.failures and self.slowest <= setting.seconds(HEALTH_SECONDS)

    def health(self) -> str:
        text = f"slowest {self.slowest:.2f} s ({self.path}), {self.late} of {self.requests} later than 1 s"
        return f"{text}; failed: {self.failures[0]}" if self.failures else text

    def memory(self) -> str:
        return f"{self.above_idle:+.0f} MB above {self.idle_mb:.0f} MB, and {self.mapped_mb:+.0f} mapped from files"


class Watched:
    """Holds what was seen once the block has ended."""

    seen: Seen


@contextmanager
def watching(server: Server) -> Iterator[Watched]:
    """Watch a server in another process until the block ends."""
    watched = Watched()
    command = [sys.executable, "-m", "torture.watch", server.url, str(server.process.pid)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()  # it has started, and has measured the idle server
        try:
            yield watched
        finally:
            process.stdin.close()
            watched.seen = Seen(**json.loads(process.stdout.readline()))


def ask(url: str, path: str, timeout: float = MOST_SECONDS) -> tuple[float, int | None]:
    """Send one GET on a new connection. Returns the seconds, and the status: None without a response."""
    parts = urlsplit(url)
    began = time.monotonic()
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        return time.monotonic() - began, response.status
    except (OSError, http.client.HTTPException):
        return time.monotonic() - began, None
    finally:
        connection.close()


def memory_mb(pid: int) -> tuple[float, float]:
    """Proportional set size of a process and its descendants: their own memory, and what is mapped from files."""
    total = anonymous = 0
    for each in process_tree(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:  # the process has ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        anonymous += sum(int(line.split()[1]) for line in lines if line.startswith("Pss_Anon:"))
    return anonymous / _KB, (total - anonymous) / _KB


def _watch(url: str, pid: int) -> None:
    ended, lock = threading.Event(), threading.Lock()
    seen = Seen()
    seen.idle_mb, idle_mapped = memory_mb(pid)
    seen.peak_mb = seen.idle_mb

    def probe(path: str) -> None:
        while not ended.is_set():
            seconds, status = ask(url, path)
            with lock:
                seen.requests += 1
                seen.late += seconds > HEALTH_SECONDS
                if seconds > seen.slowest:
                    seen.slowest, seen.path = seconds, path
                if status not in ALLOWED[path]:
                    seen.failures.append(f"{path}: {status or 'no response'} after {seconds:.1f} s")
            ended.wait(EVERY_SECONDS)

    def measure() -> None:
        while not ended.wait(EVERY_SECONDS):
            own, mapped = memory_mb(pid)
            seen.peak_mb = max(seen.peak_mb, own)
            seen.mapped_mb = max(seen.mapped_mb, mapped - idle_mapped)

    threads = [threading.Thread(target=probe, args=(path,)) for path in PATHS]
    threads.append(threading.Thread(target=measure))
    for thread in threads:
        thread.start()
    print(flush=True)
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    print(json.dumps(asdict(seen)), flush=True)


if __name__ == "__main__":
    _watch(sys.argv[1], int(sys.argv[2]))
