"""Memory and health under the largest requests at once, and a minute later."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.servers import Server, serving
from torture.libraries import large
from torture.requests import Answer, request
from torture.rows import Row, Setting, say, shown
from torture.watch import MEMORY_MB, memory_mb, watching

AFTER_SECONDS: Final = 60.0
AFTER_MB: Final = 100.0
LOADS: Final[dict[str, tuple[str, Any]]] = {
    "batches of 100 searches of 100 results": (
        "/v1/search/batch",
        {"searches": [{"q": f"theory of field {n}", "limit": 100, "mode": "sparse"} for n in range(100)]},
    ),
    "batches of 100 searches of 1,000 results": (
        "/v1/search/batch",
        {"searches": [{"q": f"theory of field {n}", "limit": 1000, "mode": "sparse"} for n in range(100)]},
    ),
    "bodies of 8 MB": ("/v1/papers/batch", {"ids": [f"arXiv:hep-th/9{n:06}" for n in range(340_000)]}),
    "look-ups of 10,000 ids": (
        "/v1/papers/batch",
        {"ids": [f"arXiv:hep-th/{93 + n % 7}01{n % 999:03}" for n in range(10_000)]},
    ),
    "1,000 titles": (
        "/v1/title-match/batch",
        {"titles": [f"the theory of strings {n}" for n in range(1000)], "limit": 10},
    ),
}


def run(setting: Setting) -> Iterator[Row]:
    with (
        TemporaryDirectory() as folder,
        serving(large(setting), workers=1, SCHOLARBASE_SESSIONS=folder) as server,
    ):
        _warm(server)
        idle = memory_mb(server.process.pid)[0]
        if not setting.is_slice:
            for name, load in LOADS.items():
                yield _loaded(server, setting, name, [load], idle)
        yield _loaded(server, setting, "all of these", list(LOADS.values()), idle)
        if setting.is_slice:
            return
        after = _after(server, idle)
    tested = f"own memory of all processes {AFTER_SECONDS:.0f} s after the last load, {idle:.0f} MB when idle"
    promise = "Memory returns to idle + 100 MB in a minute"
    yield Row("health", promise, tested, f"{after:+.0f} MB", after <= AFTER_MB)


def _warm(server: Server) -> None:
    """Touch the library's pages, so that they are part of the idle memory."""
    for n in range(20):
        request(server.url, "GET", f"/v1/search?q=theory+{n}&limit=100")


def _loaded(server: Server, setting: Setting, name: str, requests: list[tuple[str, Any]], idle: float) -> Row:
    threads, seconds = setting.count(32, 4), 3.0 if setting.is_slice else 30.0
    bodies = [(path, json.dumps(body).encode()) for path, body in requests]
    ended = time.monotonic() + seconds
    send: Callable[[int], list[Answer]] = lambda first: _sent(server.url, bodies, first, threads, ended)  # noqa: E731
    with watching(server) as watched, ThreadPoolExecutor(threads) as pool:
        found = [answer for answers in pool.map(send, range(threads)) for answer in answers]
    seen = watched.seen
    above = seen.peak_mb - idle
    wrong = [
        f"{answer.status or answer.error} after {answer.seconds:.0f} s"
        for answer in found
        if answer.status is None or (answer.status >= 500 and answer.status not in (503, 504))
    ]
    statuses = ", ".join(
        f"{status}: {sum(a.status == status for a in found)}"
        for status in sorted({a.status or 0 for a in found})
    )
    say(f"{name}: {above:+.0f} MB, {seen.health()}, {statuses}")
    tested = f"{name}, {threads} clients for {seconds:.0f} s (statuses {statuses})"
    figure = f"{above:+.0f} MB ({seen.mapped_mb:+.0f} mapped from files); health {seen.health()}" + (
        f"; {shown(wrong)}" if wrong else ""
    )
    kept = above <= MEMORY_MB and seen.is_healthy(setting) and not wrong
    return Row("health", "At most 400 MB above idle, health within 1 s", tested, figure, kept)


def _sent(url: str, bodies: list[tuple[str, bytes]], first: int, threads: int, ended: float) -> list[Answer]:
    found, number = [], first
    while time.monotonic() < ended:
        path, body = bodies[number % len(bodies)]
        answer = request(url, "POST", path, body)
        found.append(Answer(answer.status, answer.seconds, error=answer.error))  # without its body
        if answer.status == 503 and answer.headers.get("retry-after", "").isdigit():
            time.sleep(min(1.0, float(answer.headers["retry-after"])))
        number += threads
    return found


def _after(server: Server, idle: float) -> float:
    deadline = time.monotonic() + AFTER_SECONDS
    while time.monotonic() < deadline and memory_mb(server.process.pid)[0] > idle + AFTER_MB:
        time.sleep(1)
    return memory_mb(server.process.pid)[0] - idle
