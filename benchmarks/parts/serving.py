"""Serving over HTTP: sparse search compared with the engine, and look-ups with a constant response of the same size.

The notes include the processor time per response (``cpu_ms``), which is stable on a shared machine.
"""

from __future__ import annotations

import math
import multiprocessing
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import Request, urlopen

import numpy as np
import qdrant_edge as qdrant

from benchmarks.constant import PREFIX
from benchmarks.load import Load, get, load
from benchmarks.machine import cores
from benchmarks.rows import Row, Setting
from benchmarks.servers import Server, serving
from benchmarks.timing import questions
from scholarbase.indexes import query_syntax
from scholarbase.indexes.catalog import FILE_NAME, Catalog
from scholarbase.indexes.vectors.base import BM25
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.search.legs import Bm25Queries
from scholarbase.search.library import Library
from scholarbase.settings import load_settings

PART: Final = "serving"
CLIENTS: Final = 10
LIMIT: Final = 100
ROUNDS: Final = 5
"""Rounds of each side, alternating; the median counts."""
ROUND_SECONDS: Final = 3.0
"""Minimum duration of a round, in complete passes over its questions."""
PAPERS: Final = 1000
"""Number of papers looked up."""
SEED: Final = 4
TARGET: Final = 0.5
DIRECTIONS: Final = {"citations": "cited", "references": "citing"}
"""The column of the edge table with the papers that have such edges."""


def run(setting: Setting) -> list[Row]:
    """Rows of sparse search, look-up, citations and references."""
    texts = free_questions(setting)
    library = setting.library
    workers = cores()
    with ExitStack() as stack:
        server = stack.enter_context(serving(library, workers=workers, SCHOLARBASE_RESPONSE_CACHE_MB="0"))
        rows = [_sparse(server, library, workers, texts)]
        calls = _calls(library)
        constants = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, requests in calls.items():
            (constants / name).write_bytes(_mean_response(server, requests))
        constant = stack.enter_context(
            serving(
                library, workers=workers, module="benchmarks.constant", BENCHMARK_CONSTANTS=str(constants)
            )
        )
        for name, requests in calls.items():
            size = (constants / name).stat().st_size
            rows.append(_compare_constant(name, requests, server, constant, size))
    return rows


def free_questions(setting: Setting) -> list[str]:
    """The questions without query syntax, which only FTS5 reads."""
    return [text for text in questions(setting) if not query_syntax.is_syntax(text)]


# -- sparse search --------------------------------------------------------------------------------------


def _sparse(server: Server, library: Path, workers: int, questions: Sequence[str]) -> Row:
    requests = [
        get("/v1/search", q=text, mode="sparse", limit=LIMIT, fields="id,title") for text in questions
    ]
    texts = tuple(questions)
    http: list[Load] = []
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:

        def edge(passes: int) -> float:
            """Queries per second of the engine, alone on the machine."""
            return len(texts) * passes / pool.submit(_edge_seconds, library, workers, texts, passes).result()

        edge(1)  # warm up
        edge_passes = _passes(len(texts) / edge(1))
        passes = _passes(load(server.url, requests, clients=CLIENTS).seconds)
        edge_rates = []
        cpu = {"http": 0.0, "edge": 0.0}
        for _ in range(ROUNDS):
            before = pool.submit(time.process_time).result()
            edge_rates.append(edge(edge_passes))
            cpu["edge"] += pool.submit(time.process_time).result() - before
            before = server.cpu_seconds()
            http.append(load(server.url, requests, clients=CLIENTS, count=passes * len(requests)))
            cpu["http"] += server.cpu_seconds() - before
    usual = load(server.url, [get("/v1/search", q=t, mode="sparse") for t in questions], clients=CLIENTS)
    here, floor = (
        statistics.median(result.throughput for result in http),
        statistics.median(edge_rates) * workers,
    )
    return Row(
        PART,
        f"sparse search over HTTP, {CLIENTS} clients: {LIMIT} results with id and title",
        f"Edge's own queries/s times {workers} workers",
        here,
        floor,
        "searches/s",
        here / floor,
        "at least",
        TARGET,
        {
            "workers": workers,
            "questions": len(questions),
            "edge_alone": statistics.median(edge_rates),
            "rounds": {"http": [result.throughput for result in http], "edge": edge_rates},
            "limit 10, all fields": usual.throughput,
            "cpu_ms": {
                "here": cpu["http"] / sum(len(result.latencies) for result in http) * 1000,
                "floor": cpu["edge"] / (ROUNDS * edge_passes * len(texts)) * 1000,
            },
            **_notes(http),
        },
    )


@cache
def _edge(library: Path, workers: int, questions: tuple[str, ...]) -> tuple[Library, Any, list[Any]]:
    """The library's shard, opened as by one of several workers, and the engine's query of each question."""
    opened = Library.open(library, encoder="none", settings=load_settings(library=library, workers=workers))
    text = Bm25Text(Bm25Parameters.from_dict(opened.manifest.bm25))
    queries = Bm25Queries(text, opened._catalog.document_frequencies)
    requests = []
    for question in questions:
        vector = queries.vector(question)
        indices, values = [int(i) for i in vector.indices], [float(v) for v in vector.values]
        nearest = qdrant.Query.Nearest(qdrant.SparseVector(indices, values), using=BM25)
        # One more than the page, by which the server knows whether there is a next page.
        requests.append(qdrant.QueryRequest(limit=LIMIT + 1, query=nearest))
    return opened, opened._vectors._shard, requests  # type: ignore[attr-defined]


def _edge_seconds(library: Path, workers: int, questions: tuple[str, ...], passes: int) -> float:
    """Seconds of the engine for ``passes`` sequential passes over all questions."""
    _, shard, requests = _edge(library, workers, questions)
    began = time.perf_counter()
    for _ in range(passes):
        for request in requests:
            shard.query(request)
    return time.perf_counter() - began


# -- constant responses ---------------------------------------------------------------------------------


def _calls(library: Path) -> dict[str, list[bytes]]:
    """Requests for papers with edges, by the name of the call."""
    by_direction = {name: papers_with_edges(library, column) for name, column in DIRECTIONS.items()}
    known = [*by_direction["citations"], *by_direction["references"]]
    calls = {"lookup": [get(f"/v1/papers/{paper}") for paper in random.Random(SEED).sample(known, PAPERS)]}
    for name, papers in by_direction.items():
        calls[name] = [get(f"/v1/papers/{paper}/{name}", limit=LIMIT) for paper in papers]
    return calls


def papers_with_edges(library: Path, column: str) -> list[str]:
    """Ids of papers in a column of the edge table, quoted for the path of a URL."""
    path = library / FILE_NAME
    with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as db:
        numbers = [row[0] for row in db.execute(f"SELECT DISTINCT {column} FROM edges ORDER BY {column}")]
    if len(numbers) < PAPERS:
        raise ValueError(
            f"{len(numbers)} papers of the library at {library} have edges, and {PAPERS} are needed: build it from a "
            "corpus with citations."
        )
    with closing(Catalog(path, readers=1)) as catalog:
        chosen = catalog.papers(random.Random(SEED).sample(numbers, PAPERS), ["id"])
    return [quote(paper.id, safe=":/") for paper in chosen]


def _mean_response(server: Server, requests: Sequence[bytes]) -> bytes:
    """The body of the response whose size is nearest to the mean, so that both sides send as many bytes. A few papers
    have many citations: the median is half of the mean. This also warms up the requests."""
    result = load(server.url, requests, clients=CLIENTS)
    nearest = int(result.requested[np.argmin(np.abs(result.sizes - result.sizes.mean()))])
    path = requests[nearest].split(b" ", 2)[1].decode()
    with urlopen(Request(f"{server.url}{path}")) as response:
        body: bytes = response.read()
    return body


def _compare_constant(
    name: str, requests: Sequence[bytes], server: Server, constant: Server, size: int
) -> Row:
    sides = {"real": (server, requests), "constant": (constant, [get(f"{PREFIX}{name}")])}
    counts: dict[str, int] = {}
    by_side: dict[str, list[Load]] = {side: [] for side in sides}
    cpu = dict.fromkeys(sides, 0.0)
    for side, (target, sent) in sides.items():
        seconds = load(target.url, sent, clients=CLIENTS, count=len(requests)).seconds
        counts[side] = _passes(seconds) * len(requests)
    for _ in range(ROUNDS):
        for side, (target, sent) in sides.items():
            before = target.cpu_seconds()
            by_side[side].append(load(target.url, sent, clients=CLIENTS, count=counts[side]))
            cpu[side] += target.cpu_seconds() - before
    here, floor = (statistics.median(result.throughput for result in by_side[side]) for side in sides)
    return Row(
        PART,
        f"{name} over HTTP, {CLIENTS} clients",
        f"the same server answering a constant of {size:,} bytes, their mean size",
        here,
        floor,
        "requests/s",
        here / floor,
        "at least",
        TARGET,
        {
            "papers": len(requests),
            "constant_bytes": size,
            "mean_bytes": float(np.mean(by_side["real"][0].sizes)),
            "rounds": {side: [result.throughput for result in loads] for side, loads in by_side.items()},
            "cpu_ms": {
                name: cpu[side] / sum(len(result.latencies) for result in by_side[side]) * 1000
                for name, side in (("here", "real"), ("floor", "constant"))
            },
            "constant_generator_cpu": _generator_share(by_side["constant"]),
            **_notes(by_side["real"]),
        },
    )


# -- both -----------------------------------------------------------------------------------------------


def _passes(seconds: float) -> int:
    return max(1, math.ceil(ROUND_SECONDS / seconds))


def _notes(loads: Sequence[Load]) -> dict[str, Any]:
    per_round = [result.percentiles() for result in loads]
    return {
        "percentiles": {name: statistics.median(p[name] for p in per_round) for name in per_round[0]},
        "generator_cpu": _generator_share(loads),
    }


def _generator_share(loads: Sequence[Load]) -> float:
    """The generator's share of one core."""
    return sum(result.cpu_seconds for result in loads) / sum(result.seconds for result in loads)
