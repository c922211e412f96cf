"""Servers behind a balancer, with sessions in PostgreSQL, and clients of agents' calls: two and three servers, each
with the same share of a core, compared with one of them.

The balancer, the database and the clients have no limit: the shares of all servers together leave them a core.
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
from benchmarks.shares import NoShares, share_of_core

PART: Final = "nodes"
CLIENTS: Final = 60
SHARE: Final = 0.15
"""Of a core, for each server."""
SIDES: Final = {"one": 1, "two": 2, "three": 3}
LEAST: Final = {"two": 1.8, "three": 2.6}
"""How many times as many calls as one server."""
ROUNDS: Final = 5
"""Rounds of each side, alternating; the median counts."""
WARMING: Final = 200
ROUND_SECONDS: Final = 10.0


def run(setting: Setting) -> list[Row]:
    """The rows of throughput; none where servers cannot have equal shares. Any response without status 200 is an
    error."""
    requests = [mixed.request for mixed in mix(setting.library, free_questions(setting))]
    count = len(SIDES)
    with ExitStack() as stack:
        try:
            prefixes = [stack.enter_context(share_of_core(number, SHARE, count)) for number in range(count)]
        except NoShares as error:
            print(f"{PART}: not measured. {error}")
            return []
        url = stack.enter_context(running_postgres()).url()
        nodes = [
            stack.enter_context(
                serving(
                    setting.library,
                    workers=1,
                    prefix=prefix,
                    SCHOLARBASE_SESSIONS=url,
                    SCHOLARBASE_RESPONSE_CACHE_MB="0",
                )
            )
            for prefix in prefixes
        ]
        sides = {
            side: stack.enter_context(balancing(*(node.url for node in nodes[:number])))
            for side, number in SIDES.items()
        }
        for node in nodes:  # so that all needed pages of the library are in memory
            load(node.url, requests, clients=10, count=min(WARMING, len(requests)))
        by_side: dict[str, list[Load]] = {side: [] for side in sides}
        for round_ in range(ROUNDS):
            for side in sides if round_ % 2 else reversed(sides):
                by_side[side].append(
                    load(sides[side], requests, clients=CLIENTS, seconds=ROUND_SECONDS, headers=_headers())
                )
        with psycopg.connect(url) as connection:
            [[recorded]] = connection.execute("SELECT count(*) FROM calls").fetchall()
    calls = sum(len(result.latencies) for loads in by_side.values() for result in loads)
    expected = calls + len(SIDES) * ROUNDS * CLIENTS  # a call opens each connection
    if recorded != expected:
        raise RuntimeError(f"{recorded:,} calls were recorded of {expected:,}.")
    return [_row(by_side, side, calls) for side in LEAST]


def _headers() -> list[bytes]:
    return [f"X-ScholarBase-Session: {secrets.token_hex(8)}".encode() for _ in range(CLIENTS)]


def _row(by_side: dict[str, list[Load]], side: str, calls: int) -> Row:
    several, single = (
        statistics.median(result.throughput for result in by_side[name]) for name in (side, "one")
    )
    notes: dict[str, Any] = {
        "cores": cores(),
        "share of a core": SHARE,
        "calls": calls,
        "errors": 0,
        "rounds": {name: [result.throughput for result in loads] for name, loads in by_side.items()},
        "percentiles of rounds": {
            name: {
                percentile: statistics.median(result.percentiles()[percentile] for result in loads)
                for percentile in ("p50", "p99", "max")
            }
            for name, loads in by_side.items()
        },
    }
    return Row(
        PART,
        f"{CLIENTS} clients on {side} servers with {SHARE} of a core each, with sessions in PostgreSQL",
        "the same clients on one such server",
        several,
        single,
        "calls/s",
        statistics.median(
            a.throughput / b.throughput for a, b in zip(by_side[side], by_side["one"], strict=True)
        ),
        "at least",
        LEAST[side],
        notes=notes,
    )
