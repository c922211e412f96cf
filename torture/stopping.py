"""Stops a server while expensive requests run."""

from __future__ import annotations

import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from benchmarks.memory import process_tree
from benchmarks.servers import Server
from torture.requests import request


def terminated(server: Server) -> tuple[float, int, int | None]:
    """Send SIGTERM while expensive requests run. Returns the seconds, the processes left, and the status."""
    prefixes = " OR ".join(
        f"{prefix}*" for prefix in ("th", "an", "in", "co", "re", "st", "de", "pr", "fo", "ma")
    )
    searches = [{"q": f"{prefixes} x{n}", "engine": "fts5", "limit": 100} for n in range(100)]
    bodies = [("/v1/search/batch", {"searches": searches}), ("/v1/search", searches[0] | {"limit": 1000})]
    tree = process_tree(server.process.pid)
    with ThreadPoolExecutor(16) as pool:
        for n in range(16):
            path, body = bodies[n % 2]
            pool.submit(request, server.url, "POST", path, body, timeout=30)
        time.sleep(1)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(60)
        seconds = time.monotonic() - began
        deadline = time.monotonic() + 2  # the tracker of shared resources ends just after the others
        while (left := sum(_runs(pid) for pid in tree)) and time.monotonic() < deadline:
            time.sleep(0.05)
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    return seconds, left, server.process.returncode


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
