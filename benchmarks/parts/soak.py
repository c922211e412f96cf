"""Ten minutes of an agent's calls by ten clients: tail latency compared with the median, and growth of memory."""

from __future__ import annotations

import os
import random
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import numpy as np

from benchmarks.load import Load, get, load
from benchmarks.machine import cores
from benchmarks.parts.serving import CLIENTS, DIRECTIONS, free_questions, papers_with_edges
from benchmarks.rows import Row, Setting
from benchmarks.servers import Memory, Server, serving
from scholarbase.indexes.catalog import FILE_NAME

PART: Final = "soak"
SECONDS: Final = 600.0
SAMPLE_SECONDS: Final = 5.0
REQUESTS: Final = 10_000
"""Different requests drawn from the mix, which are sent repeatedly."""
MIX: Final = {"search": 60, "filtered search": 15, "lookup": 10, "edges": 10, "title match": 5}
"""Percent of an agent's calls."""
TITLES: Final = 2000
CATEGORIES: Final = 40
SEED: Final = 4
P99_TARGET: Final = 5.0
MEMORY_TARGET: Final = 1.05
PIECES: Final = 10
"""Equal parts of the run, the minutes of a full run: the last one's memory is compared with the second's."""


class Sample(NamedTuple):
    """The memory of all serving processes, in seconds since the sampling began."""

    seconds: float
    memory: Memory


@dataclass(frozen=True, slots=True)
class MixedRequest:
    """One request of the mix, and its kind."""

    kind: str
    request: bytes


def run(setting: Setting) -> list[Row]:
    """Rows of latency and memory. The environment variable ``SOAK_SECONDS`` shortens the run."""
    seconds = _seconds()
    library, workers = setting.library, cores()
    mixed = mix(library, free_questions(setting))
    requests = [mixed_request.request for mixed_request in mixed]
    with serving(library, workers=workers, SCHOLARBASE_RESPONSE_CACHE_MB="0") as server:
        load(server.url, requests, clients=CLIENTS)  # so that all needed pages of the library are in memory
        with _Sampling(server) as sampling:
            result = load(server.url, requests, clients=CLIENTS, seconds=seconds)
    samples = [sample for sample in sampling.samples if sample.seconds <= seconds]
    return [_latency(result, mixed, samples, workers), _memory(result.seconds, samples)]


def _seconds() -> float:
    value = os.environ.get("SOAK_SECONDS", str(SECONDS))
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if seconds < PIECES * SAMPLE_SECONDS:
        raise ValueError(
            f"SOAK_SECONDS is {value!r}: give {PIECES * SAMPLE_SECONDS:g} seconds or more, so that each tenth of the "
            "run has a sample of memory."
        )
    return seconds


# -- requests -------------------------------------------------------------------------------------------


def mix(library: Path, questions: Sequence[str]) -> list[MixedRequest]:
    """The requests, in the same order in every run."""
    draw = random.Random(SEED)
    edges = [
        (name, paper) for name, column in DIRECTIONS.items() for paper in papers_with_edges(library, column)
    ]
    years, categories, titles = _facts(library)

    def filtered() -> bytes:
        filters: dict[str, Any] = {"category": draw.choice(categories)}
        if draw.random() < 0.5:
            year = draw.choice(years)
            filters = {"from": year, "to": year}
        return get("/v1/search", q=draw.choice(questions), mode="sparse", **filters)

    def neighbours() -> bytes:
        name, paper = draw.choice(edges)
        return get(f"/v1/papers/{paper}/{name}", limit=100)

    makers: dict[str, Callable[[], bytes]] = {
        "search": lambda: get("/v1/search", q=draw.choice(questions), mode="sparse"),
        "filtered search": filtered,
        "lookup": lambda: get(f"/v1/papers/{draw.choice(edges)[1]}"),
        "edges": neighbours,
        "title match": lambda: get("/v1/title-match", title=draw.choice(titles)),
    }
    kinds = draw.choices(list(MIX), weights=list(MIX.values()), k=REQUESTS)
    return [MixedRequest(kind, makers[kind]()) for kind in kinds]


def _facts(library: Path) -> tuple[list[int], list[str], list[str]]:
    """Years (with their frequency), frequent categories and titles of a sample of papers."""
    with closing(sqlite3.connect(f"file:{quote(str(library / FILE_NAME))}?immutable=1", uri=True)) as db:
        paper_ids = [row[0] for row in db.execute("SELECT id FROM papers ORDER BY id")]
        ids = random.Random(SEED).sample(paper_ids, min(TITLES, len(paper_ids)))
        rows = [
            db.execute("SELECT year, categories, title FROM papers WHERE id = ?", (i,)).fetchone()
            for i in ids
        ]
    papers = [row for row in rows if row is not None]
    listed = [category for _, categories, _ in papers for category in (categories or "").split()]
    frequent = sorted(set(listed), key=lambda category: (-listed.count(category), category))[:CATEGORIES]
    return [year for year, _, _ in papers if year], frequent, [title for _, _, title in papers]


# -- measurements ---------------------------------------------------------------------------------------


class _Sampling:
    """Samples a server's memory in a thread while the block runs. The end of the block raises the thread's error."""

    def __init__(self, server: Server) -> None:
        self.samples: list[Sample] = []
        self._server = server
        self._processes = set(server.processes())
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> _Sampling:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        self._thread.join()
        if raised[0] is None and self._error is not None:
            raise self._error

    def _sample(self) -> None:
        began = time.monotonic()
        try:
            while not self._stop.wait(SAMPLE_SECONDS):
                if gone := self._processes - set(self._server.processes()):
                    raise RuntimeError(f"The serving process {gone.pop()} ended during the measurement.")
                self.samples.append(Sample(time.monotonic() - began, self._server.memory()))
        except Exception as error:
            self._error = error


def _latency(result: Load, mixed: Sequence[MixedRequest], samples: Sequence[Sample], workers: int) -> Row:
    percentiles = result.percentiles()
    kinds = np.array([mixed_request.kind for mixed_request in mixed])[result.requested]
    by_kind = {
        kind: {
            "p50": float(np.percentile(result.latencies[kinds == kind], 50)) * 1000,
            "p99": float(np.percentile(result.latencies[kinds == kind], 99)) * 1000,
        }
        for kind in MIX
    }
    timeline = result.timeline()
    for window in timeline:
        within = [s.memory.pss for s in samples if window["minute"] <= s.seconds / 60 < window["minute"] + 1]
        window["rss_mb"] = statistics.fmean(within) / 1e6 if within else float("nan")
    return Row(
        PART,
        f"p99 of an agent's calls over {result.seconds / 60:.0f} minutes, {CLIENTS} clients",
        "p50",
        percentiles["p99"],
        percentiles["p50"],
        "ms",
        percentiles["p99"] / percentiles["p50"],
        "at most",
        P99_TARGET,
        {
            "workers": workers,
            "seconds": result.seconds,
            "calls": len(result.latencies),
            "errors": 0,
            "rps": result.throughput,
            "percentiles": percentiles,
            "kinds": by_kind,
            "timeline": timeline,
            "generator_cpu": result.cpu_seconds / result.seconds,
        },
    )


def _memory(seconds: float, samples: Sequence[Sample]) -> Row:
    def piece(number: int) -> list[Memory]:
        begin, end = number * seconds / PIECES, (number + 1) * seconds / PIECES
        return [sample.memory for sample in samples if begin <= sample.seconds < end]

    last, second = piece(PIECES - 1), piece(1)
    here, floor = (statistics.median(memory.pss for memory in memories) / 1e6 for memories in (last, second))
    anonymous = [
        statistics.median(memory.anonymous for memory in memories) / 1e6 for memories in (last, second)
    ]
    return Row(
        PART,
        "memory of all serving processes (PSS) in the last tenth of the run",
        "in the second tenth",
        here,
        floor,
        "MB",
        here / floor,
        "at most",
        MEMORY_TARGET,
        {
            # Pages of the library count in PSS once they are read, but the system can reclaim them.
            "without_mapped_files": {
                "here": anonymous[0],
                "floor": anonymous[1],
                "ratio": anonymous[0] / anonymous[1],
            },
            "samples": [[round(s.seconds, 1), round(s.memory.pss / 1e6, 1)] for s in samples],
        },
    )
