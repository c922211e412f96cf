"""Rollouts of agents: a thousand clients at once, whose requests repeat each other's, as in training."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from benchmarks.load import get, load
from benchmarks.parts.dialects import TOPK, post
from benchmarks.parts.hybrid import default_library
from benchmarks.rows import Row, Setting
from benchmarks.servers import serving
from scholarbase.indexes.catalog import FILE_NAME
from scholarbase.indexes.query_syntax import is_syntax

PART: Final = "rollouts"
CLIENTS: Final = 1000
ROLLOUTS: Final = 8
"""Times that each query is sent."""
AT_ONCE: Final = CLIENTS // ROLLOUTS
"""Different queries at once."""
QUERIES: Final = 12 * AT_ONCE
"""Different queries of each side."""
SEED: Final = 45
TARGET: Final = 5.0
ROUTES: Final = ("/retrieve", "/v1/search")


def run(setting: Setting) -> list[Row]:
    """A row for each route. One process serves, started anew for each load, so that no query was sent before."""
    library = default_library(setting)
    queries = _titles(library)
    rows = []
    for route in ROUTES:
        different = _rate(library, [_request(route, next(queries)) for _ in range(QUERIES)], AT_ONCE)
        repeated = _rate(library, _rollouts(route, queries), CLIENTS)
        rows.append(
            Row(
                PART,
                f"{route}, hybrid, {CLIENTS:,} clients at once, {ROLLOUTS} of whose requests are equal",
                f"{AT_ONCE} clients, whose requests are all different",
                repeated["rps"],
                different["rps"],
                "requests/s",
                repeated["rps"] / different["rps"],
                "at least",
                TARGET,
                {"workers": 1, "errors": 0, "repeated": repeated, "different": different},
            )
        )
    return rows


def _titles(library: Path) -> Iterator[str]:
    """Titles of papers, each of which is a query, in random order without repetition."""
    with closing(sqlite3.connect(f"file:{library / FILE_NAME}?mode=ro", uri=True)) as db:
        titles = sorted(
            {title for (title,) in db.execute("SELECT title FROM papers") if not is_syntax(title)}
        )
    return iter(random.Random(SEED).sample(titles, len(titles)))


def _rollouts(route: str, queries: Iterator[str]) -> list[bytes]:
    """The requests in the order of sending: those of one group of queries in random order, then the next group."""
    draw = random.Random(SEED)
    requests: list[bytes] = []
    while len(requests) < QUERIES * ROLLOUTS:
        group = [_request(route, next(queries)) for _ in range(AT_ONCE)] * ROLLOUTS
        draw.shuffle(group)
        requests += group
    return requests


def _request(route: str, query: str) -> bytes:
    if route == "/retrieve":
        return post(route, {"queries": [query], "topk": TOPK, "return_scores": True})
    return get(route, q=query, mode="hybrid")


def _rate(library: Path, requests: list[bytes], clients: int) -> dict[str, Any]:
    """Responses per second, milliseconds of each, processor time, and memory. A refused request
    is sent again when its response says."""
    with serving(library, workers=1) as server:
        idle = server.memory().pss
        sent = load(server.url, requests, clients=clients, opening=get("/healthz"), retrying=True)
        memory = {"idle_mb": idle / 1e6, "after_mb": server.memory().pss / 1e6}
        cpu = server.cpu_seconds() / len(requests) * 1000
    return {"rps": sent.throughput, "cpu_ms": cpu, "retries": sent.retries} | sent.percentiles() | memory
