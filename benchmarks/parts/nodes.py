"""Two servers behind a balancer, with sessions in PostgreSQL, compared with one of them: 200 clients of agents' calls.

Both servers, the balancer, the database and the clients share the machine: two servers are faster only where one leaves
cores free.
"""

from __future__ import annotations

import secrets
import statistics
from contextlib import ExitStack
from typing import Any, Final

import psycopg

from benchmarks.balancer import balancing
from benchmarks.load import Load, load
from benchmarks.machine import cores
from benchmarks.parts.serving import free_questions
from benchmarks.parts.soak import mix
from benchmarks.postgres import running_postgres
from benchmarks.rows import Row, Setting
from benchmarks.servers import serving

PART: Final = "nodes"
CLIENTS: Final = 200
ROUNDS: Final = 5
"""Rounds of each side, alternating; the median counts."""
ROUND_SECONDS: Final = 10.0


def run(setting: Setting) -> list[Row]:
    """The row of throughput. Any response without status 200 is an error."""
    requests = [mixed.request for mixed in mix(setting.library, free_questions(setting))]
    workers = max(1, cores() // 2)
    with running_postgres() as postgres, ExitStack() as stack:
        url = postgres.url()
        nodes = [
            stack.enter_context(serving(setting.library, workers=workers, SCHOLARBASE_SESSIONS=url))
            for _ in range(2)
        ]
        sides = {
            "two": stack.enter_context(balancing(nodes[0].url, nodes[1].url)),
            "one": stack.enter_context(balancing(nodes[0].url, nodes[0].url)),
        }
        for one in sides.values():  # so that all needed pages of the library are in memory
            load(one, requests, clients=10, count=len(requests) // 2)
        found: dict[str, list[Load]] = {side: [] for side in sides}
        for round_ in range(ROUNDS):
            for side in sides if round_ % 2 else reversed(sides):
                found[side].append(
                    load(sides[side], requests, clients=CLIENTS, seconds=ROUND_SECONDS, headers=_headers())
                )
        with psycopg.connect(url) as connection:
            [[recorded]] = connection.execute("SELECT count(*) FROM calls").fetchall()
    calls = sum(len(one.latencies) for loads in found.values() for one in loads)
    expected = calls + 2 * ROUNDS * CLIENTS  # a call opens each connection
    if recorded != expected:
        raise RuntimeError(f"{recorded:,} calls were recorded of {expected:,}.")
    return [_row(found, workers, calls)]


def _headers() -> list[bytes]:
    return [f"X-ScholarBase-Session: {secrets.token_hex(8)}".encode() for _ in range(CLIENTS)]


def _row(found: dict[str, list[Load]], workers: int, calls: int) -> Row:
    two, one = (statistics.median(each.throughput for each in found[side]) for side in ("two", "one"))
    notes: dict[str, Any] = {
        "cores": cores(),
        "workers of a node": workers,
        "calls": calls,
        "errors": 0,
        "rounds": {side: [each.throughput for each in loads] for side, loads in found.items()},
        "percentiles of rounds": {
            side: {
                name: statistics.median(each.percentiles()[name] for each in loads)
                for name in ("p50", "p99", "max")
            }
            for side, loads in found.items()
        },
    }
    return Row(
        PART,
        f"{CLIENTS} clients on two nodes, each with a session in PostgreSQL",
        "the same clients on one node",
        two,
        one,
        "calls/s",
        statistics.median(
            a.throughput / b.throughput for a, b in zip(found["two"], found["one"], strict=True)
        ),
        notes=notes,
    )
