"""Latencies of several search functions over the same questions, measured in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from benchmarks.rows import Setting
from scholarbase_research.evaluation.formats import read_queries

Q = TypeVar("Q")

BLOCK: Final = 20
"""Questions of one function before the next one's turn: few, so that all functions meet the same noise; more than one,
so that each has its own index in the processor's caches."""


def questions(setting: Setting, count: int | None = None) -> list[str]:
    """The texts of AutoScholarQuery, or an evenly spaced sample of ``count``."""
    texts = [query.text for query in read_queries(setting.queries).queries]
    if count is None or count >= len(texts):
        return texts
    return [texts[i * len(texts) // count] for i in range(count)]


def interleaved(
    functions: Mapping[str, Callable[[Q], Any]], questions: Sequence[Q], rounds: int = 1
) -> dict[str, list[float]]:
    """Milliseconds of every call by function name. The functions alternate block by block, for ``rounds`` passes.

    Each function first runs the first block once for warming, which is not measured. The order of the functions rotates
    from block to block.
    """
    names = list(functions)
    times: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        latencies(functions[name], questions[:BLOCK])
    turn = 0
    for _ in range(rounds):
        for start in range(0, len(questions), BLOCK):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                times[name] += latencies(functions[name], questions[start : start + BLOCK])
            turn += 1
    return times


def latencies(function: Callable[[Q], Any], questions: Sequence[Q]) -> list[float]:
    """Milliseconds of each call."""
    times = []
    for question in questions:
        began = time.perf_counter()
        function(question)
        times.append((time.perf_counter() - began) * 1000)
    return times


def summary(times: Sequence[float]) -> dict[str, float]:
    """Mean and percentiles, for a row's notes."""
    ordered = sorted(times)
    return {
        "p50": statistics.median(ordered),
        "mean": statistics.fmean(ordered),
        "p95": ordered[int(0.95 * (len(ordered) - 1))],
        "p99": ordered[int(0.99 * (len(ordered) - 1))],
    }


def read_files(path: Path) -> None:
    """Read all files below a path into the page cache, so that no measurement includes the disk."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            with file.open("rb") as content:
                while content.read(1 << 24):
                    pass


def size(path: Path) -> int:
    """Bytes of all files below a path."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
