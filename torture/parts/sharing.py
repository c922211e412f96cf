"""Callers that share a server: one that sends expensive requests beside one that sends quick ones, floods that come
again, and sessions that cannot be written."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.parse import quote

from benchmarks.servers import Server, serving
from scholarbase.models.limits import MAX_IDS, MAX_TITLES
from torture.libraries import large
from torture.parts.expensive import Facts
from torture.requests import Answer, connect, request
from torture.rows import Row, Setting, say, shown
from torture.watch import memory_mb

AT_ONCE: Final = 10
BESIDE_SECONDS: Final = 8.0
QUICK_SECONDS: Final = 0.25
LIMIT_SECONDS: Final = 5.5
"""The time limit of a request, plus 10%."""
WAVES: Final = 6
BACK_SECONDS: Final = 60.0
BACK_MB: Final = 100.0
SLOPE_MB: Final = 10.0
"""How much more the last wave may leave than the first, for each wave between."""
OTHER: Final = "127.0.0.2"
"""The address of the client with quick requests."""
Make = Callable[[], tuple[str, dict[str, Any]]]


def run(setting: Setting) -> Iterator[Row]:
    library = large(setting)
    shapes = _shapes(Facts.of(library), random.Random(20_261_126))
    if setting.is_slice:
        shapes = {name: shapes[name] for name in ("titles", "papers")}
    for workers in (1, 2)[: setting.count(2, 1)]:
        with serving(library, workers=workers, SCHOLARBASE_SESSIONS="none") as server:
            yield from _starving(server, shapes, workers, setting)
    with serving(library, workers=1, SCHOLARBASE_SESSIONS="none") as server:
        yield _floods(server, shapes, setting)
    yield from _sessions(library, setting)


def _shapes(facts: Facts, chance: random.Random) -> dict[str, Make]:
    """Expensive requests by name. Each differs from all others, so that no cache answers it."""

    def words(number: int) -> str:
        return " ".join(chance.choices(facts.words[:400], k=number))

    def search(**body: Any) -> tuple[str, dict[str, Any]]:
        return "/v1/search", {"limit": 1000, **body}

    def prefixes() -> str:
        return " OR ".join(f"{prefix}*" for prefix in chance.sample(facts.prefixes, 10))

    def seeds(most: int) -> list[str]:
        return chance.sample(facts.ids, min(most, len(facts.ids)))

    return {
        "prefixes": lambda: search(q=prefixes(), engine="fts5", exact=True),
        "common words": lambda: search(q=" OR ".join(words(40).split()), engine="fts5"),
        "a batch of prefixes": lambda: (
            "/v1/search/batch",
            {"searches": [{"q": prefixes(), "engine": "fts5"} for _ in range(100)]},
        ),
        "titles": lambda: ("/v1/title-match/batch", {"titles": [words(40) for _ in range(MAX_TITLES)]}),
        "an expansion": lambda: ("/v1/expand", {"seeds": seeds(MAX_IDS - 1), "hops": 2, "limit": 1000}),
        "papers": lambda: ("/v1/papers/batch", {"ids": seeds(MAX_IDS)}),
        "references": lambda: (
            "/v1/references/check",
            {"references": "\n".join(words(30) for _ in range(400))},
        ),
        "feedback": lambda: search(q=words(60), engine="feedback", exact=True),
        "long questions": lambda: search(q=words(100), engine="bm25", mode="sparse"),
        "similar papers": lambda: (
            f"/v1/papers/{chance.choice(facts.ids[:200])}/similar",
            {"limit": 1000, "exact": True, "exclude": [words(2)]},
        ),
    }


# -- one caller beside another ---------------------------------------------------------------------------------


@contextmanager
def _attacking(url: str, make: Make) -> Iterator[list[Answer]]:
    """Send requests, ten at once, until the block ends; their responses are complete after it."""
    answers: list[Answer] = []
    ended, lock = threading.Event(), threading.Lock()

    def send() -> None:
        while not ended.is_set():
            with lock:  # the random choices are in one order
                path, body = make()
            answers.append(request(url, "POST", path, body))

    threads = [threading.Thread(target=send) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _quick(url: str, seconds: float) -> tuple[float, list[str]]:
    """The 99th percentile of quick requests from another address, and what was wrong."""
    paths = ["/v1/search?limit=10&q=", "/v1/title-match?title=", "/v1/search?mode=sparse&q="]
    times: list[float] = []
    wrong: list[str] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until or not times:
        for number, path in enumerate(paths):
            target = path + quote(f"theory of strings {len(times)} {number}")
            began = time.monotonic()
            with closing(connect(url, OTHER, 60.0)) as connection:
                connection.sendall(
                    f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
                )
                first = connection.recv(65_536)
                while connection.recv(65_536):
                    pass
            times.append(time.monotonic() - began)
            if not first.startswith(b"HTTP/1.1 200"):
                wrong.append(f"{target}: {first[:30]!r}")
            time.sleep(0.01)
    return sorted(times)[int(0.99 * len(times))], wrong


def _starving(server: Server, shapes: dict[str, Make], workers: int, setting: Setting) -> Iterator[Row]:
    seconds = 1.0 if setting.is_slice else BESIDE_SECONDS
    idle, wrong = _quick(server.url, seconds)
    most = setting.seconds(max(QUICK_SECONDS, 3 * idle))
    figures, late = [f"idle {idle * 1000:.0f} ms"], []
    for name, make in shapes.items():
        with _attacking(server.url, make) as answers:
            time.sleep(0.5)
            p99, failed = _quick(server.url, seconds)
        wrong += failed
        if p99 > most:
            wrong.append(f"{p99 * 1000:.0f} ms beside {name}")
        figures.append(f"{name} {p99 * 1000:.0f}")
        slowest = max(answer.seconds for answer in answers)
        refused = [answer for answer in answers if answer.status == 503]
        odd = {answer.status for answer in answers} - {200, 503, 504}
        if (
            slowest > setting.seconds(LIMIT_SECONDS)
            or odd
            or not all("retry-after" in a.headers for a in refused)
        ):
            late.append(f"{name}: slowest {slowest:.2f} s, statuses {sorted(map(str, odd))}")
        say(f"{name}: p99 {p99 * 1000:.0f} ms beside it, slowest {slowest:.2f} s, {len(refused)} refused")
    tested = f"{len(shapes)} expensive requests, {AT_ONCE} at once, {workers} workers"
    promise = "A quick caller's p99 beside an expensive one is within 250 ms or three times its idle value"
    yield Row("sharing", promise, tested, shown(wrong) or ", ".join(figures), not wrong)
    promise = "Waiting included, a request ends within 5.5 s; refusals have Retry-After"
    yield Row("sharing", promise, tested, shown(late) or "all", not late)


# -- floods that come again ------------------------------------------------------------------------------------


def _floods(server: Server, shapes: dict[str, Make], setting: Setting) -> Row:
    """Each flood six times: after each, the memory is back, and the last leaves no more than the first."""
    _quick(server.url, 2.0)
    base = memory_mb(server.process.pid)[0]
    waves, wrong, figures = setting.count(WAVES, 2), [], []
    for name, make in shapes.items():
        left = []
        for _ in range(waves):
            with _attacking(server.url, make):
                time.sleep(setting.count(6, 1))
            until = time.monotonic() + setting.count(60, 12)
            while (above := memory_mb(server.process.pid)[0] - base) > BACK_MB and time.monotonic() < until:
                time.sleep(1.0)
            left.append(above)
        figures.append(f"{name} {left[0]:+.0f} to {left[-1]:+.0f}")
        say(f"{name}: {' '.join(f'{one:+.0f}' for one in left)} MB")
        if max(left) > BACK_MB or left[-1] - left[0] > SLOPE_MB * (waves - 1):
            wrong.append(f"{name}: {' '.join(f'{one:+.0f}' for one in left)} MB")
    return Row(
        "sharing",
        "Memory is back within 100 MB a minute after a flood, and repeated floods leave no more",
        f"each of {len(shapes)} floods {waves} times; MB above {base:.0f}",
        shown(wrong) or ", ".join(figures),
        not wrong,
    )


# -- sessions that cannot be written -----------------------------------------------------------------------------


def _sessions(library: Path, setting: Setting) -> Iterator[Row]:
    promise = (
        "Sessions that cannot be written are 503 with the reason within 5.5 s, and delay no other request"
    )
    with TemporaryDirectory() as folder:
        file = Path(folder) / "sessions.sqlite"
        with serving(library, workers=1, SCHOLARBASE_SESSIONS=folder) as server:
            request(server.url, "POST", "/v1/sessions", {"session": "limited", "limits": {"calls": 50}})
            _search(server.url, "free")
            with closing(sqlite3.connect(file, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                wrong = _refused(server.url, "another process locks it", setting)
                _search(server.url, "free")
                other.execute("ROLLBACK")
            until = time.monotonic() + BACK_SECONDS
            while _calls(server.url) < 2 and time.monotonic() < until:
                time.sleep(0.5)
            if _calls(server.url) != 2:
                wrong.append(f"{_calls(server.url)} of 2 calls recorded after the lock")
            yield Row("sharing", promise, "locked", shown(wrong) or "all, and nothing lost", not wrong)
        for each in Path(folder).iterdir():
            each.unlink()
        file.write_bytes(b"no database " * 1000)
        with serving(library, workers=1, SCHOLARBASE_SESSIONS=folder) as server:
            wrong = _refused(server.url, "it is damaged", setting)
        yield Row("sharing", promise, "damaged", shown(wrong) or "all", not wrong)


def _search(url: str, session: str) -> Answer:
    return request(url, "GET", "/v1/search?q=strings", headers={"X-ScholarBase-Session": session})


def _calls(url: str) -> int:
    return len(request(url, "GET", "/v1/sessions/free").body.splitlines())


def _refused(url: str, reason: str, setting: Setting) -> list[str]:
    """What is wrong with the responses to calls that depend on sessions, and to searches beside them."""
    answers: Sequence[Answer]
    began = time.monotonic()
    answers = [request(url, "POST", "/v1/sessions", {"session": "another"}), _search(url, "limited")]
    wrong = [
        f"{answer.status} after {answer.seconds:.1f} s: {answer.body[:200]!r}"
        for answer in answers
        if answer.status != 503
        or reason not in json.loads(answer.body)["detail"]
        or answer.seconds > setting.seconds(LIMIT_SECONDS)
    ]
    beside = request(url, "GET", "/v1/search?q=strings")
    if beside.status != 200 or beside.seconds > setting.seconds(1.0):
        wrong.append(f"a search without a session: {beside.status} after {beside.seconds:.1f} s")
    say(f"{reason}: {time.monotonic() - began:.1f} s for two calls")
    return wrong
