"""The cost of recording: an agent's calls with a session compared with the same calls without, at the same server.

The two sides alternate, and change order in every other round, so that both meet the same noise.
"""

from __future__ import annotations

import secrets
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.load import Load, load
from benchmarks.machine import cores
from benchmarks.parts.serving import CLIENTS, free_questions
from benchmarks.parts.soak import mix
from benchmarks.rows import Row, Setting
from benchmarks.servers import Server, serving
from scholarbase.sessions.store import SessionStore

PART: Final = "sessions"
ROUNDS: Final = 12
ROUND_CALLS: Final = 1500
"""Calls of a round, the same on both sides. Each of ten clients makes 150 of them, a long session."""
TARGET: Final = 0.92


def run(setting: Setting) -> list[Row]:
    """The row of throughput with and without sessions."""
    requests = [mixed.request for mixed in mix(setting.library, free_questions(setting))]
    requests = requests[: ROUNDS * ROUND_CALLS]
    workers = cores()
    with tempfile.TemporaryDirectory() as folder:
        with serving(
            setting.library, workers=workers, SCHOLARBASE_SESSIONS=folder, SCHOLARBASE_RESPONSE_CACHE_MB="0"
        ) as server:
            load(
                server.url, requests, clients=CLIENTS
            )  # so that all needed pages of the library are in memory
            row = _row(server, requests, workers)
        with SessionStore(Path(folder)) as store:
            recorded = sum(session.calls for session in store.sessions()[1])
    expected = ROUNDS * (ROUND_CALLS + CLIENTS)  # a call opens each connection
    if recorded != expected:
        raise RuntimeError(f"{recorded:,} calls were recorded of {expected:,}: the two sides differ.")
    return [row]


def headers() -> list[bytes]:
    """The header of a new session for each client."""
    return [f"X-ScholarBase-Session: {secrets.token_hex(8)}".encode() for _ in range(CLIENTS)]


def _row(server: Server, requests: list[bytes], workers: int) -> Row:
    sides: dict[str, Callable[[], list[bytes]]] = {"recorded": headers, "plain": list}
    by_side: dict[str, list[Load]] = {side: [] for side in sides}
    cpu = dict.fromkeys(sides, 0.0)
    for round_ in range(ROUNDS):
        first = round_ * ROUND_CALLS % len(requests)
        calls = [*requests, *requests][first : first + ROUND_CALLS]
        for side in sides if round_ % 2 else reversed(sides):
            before = server.cpu_seconds()
            by_side[side].append(load(server.url, calls, clients=CLIENTS, headers=sides[side]()))
            cpu[side] += server.cpu_seconds() - before
    pairs = zip(*by_side.values(), strict=True)
    here, floor = (statistics.median(result.throughput for result in by_side[side]) for side in sides)
    return Row(
        PART,
        f"an agent's calls with a session, each recorded, {CLIENTS} clients",
        "the same calls without",
        here,
        floor,
        "calls/s",
        statistics.median(with_.throughput / without.throughput for with_, without in pairs),
        "at least",
        TARGET,
        {
            "workers": workers,
            "calls": ROUNDS * ROUND_CALLS,
            "rounds": {side: [result.throughput for result in loads] for side, loads in by_side.items()},
            "percentiles of rounds": {
                side: {
                    name: statistics.median(result.percentiles()[name] for result in loads)
                    for name in ("p50", "p99", "max")
                }
                for side, loads in by_side.items()
            },
            "cpu_ms": {
                name: cpu[side] / (ROUNDS * ROUND_CALLS) * 1000
                for name, side in (("here", "recorded"), ("floor", "plain"))
            },
        },
    )
