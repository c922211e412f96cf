"""Asking engines the same questions in the same run: who is asked when, and how long each answer took."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.rows import Setting
from scholarbase.evaluation.formats import read_queries

Q = TypeVar("Q")

BLOCK: Final = 20
"""Questions that one way of asking answers before the next takes its turn: few, so that all of them see the same
noise; more than one, so that each finds its own index in the processor's caches, as it would alone."""


def questions(setting: Setting, count: int | None = None) -> list[str]:
    """The texts of AutoScholarQuery, or of ``count`` of them taken evenly."""
    texts = [query.text for query in read_queries(setting.data / "autoscholar" / "queries.jsonl").queries]
    if count is None or count >= len(texts):
        return texts
    return [texts[i * len(texts) // count] for i in range(count)]


def in_turns(
    ways: Mapping[str, Callable[[Q], Any]], asked: Sequence[Q], rounds: int = 1
) -> dict[str, list[float]]:
    """Milliseconds of every answer, by way of asking, block by block in turns, ``rounds`` times over.

    The first block is asked once more, at the start, and does not count. The order changes from block to block.
    """
    names = list(ways)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        timed(ways[name], asked[:BLOCK])
    turn = 0
    for _ in range(rounds):
        for start in range(0, len(asked), BLOCK):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                taken[name] += timed(ways[name], asked[start : start + BLOCK])
            turn += 1
    return taken


def timed(ask: Callable[[Q], Any], asked: Sequence[Q]) -> list[float]:
    """Milliseconds of each answer."""
    times = []
    for question in asked:
        began = time.perf_counter()
        ask(question)
        times.append((time.perf_counter() - began) * 1000)
    return times


def spread(times: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles, for a row's notes."""
    ordered = sorted(times)
    return {
        "p50": statistics.median(ordered),
        "mean": statistics.fmean(ordered),
        "p95": ordered[int(0.95 * (len(ordered) - 1))],
        "p99": ordered[int(0.99 * (len(ordered) - 1))],
    }


def read_through(path: Path) -> None:
    """Read all files below, so that whoever is asked first does not pay for the disk."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            with file.open("rb") as content:
                while content.read(1 << 24):
                    pass


def size(path: Path) -> int:
    """Bytes of all files below."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
