"""Serving over HTTP: sparse search beside the engine itself, and look-ups beside a constant of the same size.

The notes say what an answer costs in processor time, too (``cpu_ms``): that is steady on a machine that others use.
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

from benchmarks.constant import FOLDER, PREFIX
from benchmarks.load import Load, get, load
from benchmarks.rows import Row, Setting
from benchmarks.servers import Server, cores, serving
from scholarbase.evaluation.formats import read_queries
from scholarbase.indexes import query_syntax
from scholarbase.indexes.catalog import FILE_NAME, Catalog
from scholarbase.indexes.vectors.base import BM25
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.search.library import Library
from scholarbase.settings import load_settings

PART: Final = "serving"
CLIENTS: Final = 10
LIMIT: Final = 100
ROUNDS: Final = 5
"""Rounds of each side, in turns; the median counts."""
ROUND_SECONDS: Final = 3.0
"""How long a round takes at least, in whole passes over its questions."""
PAPERS: Final = 1000
"""Papers that are looked up."""
SEED: Final = 4
TARGET: Final = 0.5
DIRECTIONS: Final = {"citations": "cited", "references": "citing"}
"""The column of the edge table in which a paper stands that has such edges."""


def run(setting: Setting) -> list[Row]:
    """The rows of sparse search, look-up, citations and references."""
    questions = free_questions(setting.data)
    library = setting.library
    workers = cores()
    with ExitStack() as stack:
        server = stack.enter_context(serving(library, workers=workers))
        rows = [_sparse(server, library, workers, questions)]
        calls = _calls(library)
        constants = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, requests in calls.items():
            (constants / name).write_bytes(_mean_answer(server, requests))
        constant = stack.enter_context(
            serving(library, workers=workers, module="benchmarks.constant", **{FOLDER: str(constants)})
        )
        for name, requests in calls.items():
            size = (constants / name).stat().st_size
            rows.append(_beside_constant(name, requests, server, constant, size))
    return rows


def free_questions(data: Path) -> list[str]:
    """The questions that are free text: one in query syntax would be FTS5's, and no other engine's."""
    texts = [query.text for query in read_queries(data / "autoscholar" / "queries.jsonl").queries]
    return [text for text in texts if not query_syntax.is_syntax(text)]


# -- sparse search --------------------------------------------------------------------------------------


def _sparse(server: Server, library: Path, workers: int, questions: Sequence[str]) -> Row:
    requests = [
        get("/v1/search", q=text, mode="sparse", limit=LIMIT, fields="id,title") for text in questions
    ]
    asked = tuple(questions)
    http: list[Load] = []
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:

        def edge(passes: int) -> float:
            """Queries a second of the engine, which has the machine to itself."""
            return len(asked) * passes / pool.submit(_edge_seconds, library, workers, asked, passes).result()

        edge(1)  # to load what is loaded at first
        edge_passes = _passes(len(asked) / edge(1))
        passes = _passes(load(server.url, requests, clients=CLIENTS).seconds)
        own = []
        cpu = {"http": 0.0, "edge": 0.0}
        for _ in range(ROUNDS):
            before = pool.submit(time.process_time).result()
            own.append(edge(edge_passes))
            cpu["edge"] += pool.submit(time.process_time).result() - before
            before = server.cpu_seconds()
            http.append(load(server.url, requests, clients=CLIENTS, count=passes * len(requests)))
            cpu["http"] += server.cpu_seconds() - before
    usual = load(server.url, [get("/v1/search", q=t, mode="sparse") for t in questions], clients=CLIENTS)
    here, floor = statistics.median(found.throughput for found in http), statistics.median(own) * workers
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
            "edge_alone": statistics.median(own),
            "rounds": {"http": [found.throughput for found in http], "edge": own},
            "limit 10, all fields": usual.throughput,
            "cpu_ms": {
                "here": cpu["http"] / sum(len(found.latencies) for found in http) * 1000,
                "floor": cpu["edge"] / (ROUNDS * edge_passes * len(asked)) * 1000,
            },
            **_notes(http),
        },
    )


@cache
def _edge(library: Path, workers: int, questions: tuple[str, ...]) -> tuple[Library, Any, list[Any]]:
    """The library's shard as a process of several opens it, and each question as the engine takes it."""
    opened = Library.open(library, encoder="none", settings=load_settings(library=library, workers=workers))
    text = Bm25Text(Bm25Parameters.from_dict(opened.manifest.bm25))
    requests = []
    for question in questions:
        vector = text.query(question)
        indices, values = [int(i) for i in vector.indices], [float(v) for v in vector.values]
        nearest = qdrant.Query.Nearest(qdrant.SparseVector(indices, values), using=BM25)
        # One more than the page, as the server asks to know whether there is a next one.
        requests.append(qdrant.QueryRequest(limit=LIMIT + 1, query=nearest))
    return opened, opened._vectors._shard, requests  # type: ignore[attr-defined]


def _edge_seconds(library: Path, workers: int, questions: tuple[str, ...], passes: int) -> float:
    """Seconds in which the engine answers every question ``passes`` times, one after the other."""
    _, shard, requests = _edge(library, workers, questions)
    began = time.perf_counter()
    for _ in range(passes):
        for request in requests:
            shard.query(request)
    return time.perf_counter() - began


# -- beside a constant ----------------------------------------------------------------------------------


def _calls(library: Path) -> dict[str, list[bytes]]:
    """What is asked of papers that have edges, by what it is called."""
    named = {name: papers_with_edges(library, column) for name, column in DIRECTIONS.items()}
    known = [*named["citations"], *named["references"]]
    calls = {"lookup": [get(f"/v1/papers/{name}") for name in random.Random(SEED).sample(known, PAPERS)]}
    for name, papers in named.items():
        calls[name] = [get(f"/v1/papers/{paper}/{name}", limit=LIMIT) for paper in papers]
    return calls


def papers_with_edges(library: Path, column: str) -> list[str]:
    """Ids of papers that stand in a column of the edge table, as a URL's path takes them."""
    path = library / FILE_NAME
    with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as db:
        numbers = [row[0] for row in db.execute(f"SELECT DISTINCT {column} FROM edges ORDER BY {column}")]
    if len(numbers) < PAPERS:
        raise ValueError(
            f"{len(numbers)} papers of the library at {library} have edges, and {PAPERS} are looked up: build it of a "
            "corpus with citations."
        )
    with closing(Catalog(path, readers=1)) as catalog:
        chosen = catalog.papers(random.Random(SEED).sample(numbers, PAPERS), ["id"])
    return [quote(paper.id, safe=":/") for paper in chosen]


def _mean_answer(server: Server, requests: Sequence[bytes]) -> bytes:
    """The answer whose size is nearest to the mean, so that as many bytes are sent in all: a few papers have many
    citations, and the median is half of the mean. The requests warm up by it."""
    found = load(server.url, requests, clients=CLIENTS)
    middle = int(found.asked[np.argmin(np.abs(found.sizes - found.sizes.mean()))])
    path = requests[middle].split(b" ", 2)[1].decode()
    with urlopen(Request(f"{server.url}{path}")) as response:
        body: bytes = response.read()
    return body


def _beside_constant(
    name: str, requests: Sequence[bytes], server: Server, constant: Server, size: int
) -> Row:
    sides = {"real": (server, requests), "constant": (constant, [get(f"{PREFIX}{name}")])}
    counts: dict[str, int] = {}
    found: dict[str, list[Load]] = {side: [] for side in sides}
    cpu = dict.fromkeys(sides, 0.0)
    for side, (of, asked) in sides.items():
        seconds = load(of.url, asked, clients=CLIENTS, count=len(requests)).seconds
        counts[side] = _passes(seconds) * len(requests)
    for _ in range(ROUNDS):
        for side, (of, asked) in sides.items():
            before = of.cpu_seconds()
            found[side].append(load(of.url, asked, clients=CLIENTS, count=counts[side]))
            cpu[side] += of.cpu_seconds() - before
    here, floor = (statistics.median(each.throughput for each in found[side]) for side in sides)
    return Row(
        PART,
        f"{name} over HTTP, {CLIENTS} clients",
        f"the same server answering a constant of {size:,} bytes, as an answer has in the mean",
        here,
        floor,
        "requests/s",
        here / floor,
        "at least",
        TARGET,
        {
            "papers": len(requests),
            "constant_bytes": size,
            "mean_bytes": float(np.mean(found["real"][0].sizes)),
            "rounds": {side: [each.throughput for each in loads] for side, loads in found.items()},
            "cpu_ms": {
                name: cpu[side] / sum(len(each.latencies) for each in found[side]) * 1000
                for name, side in (("here", "real"), ("floor", "constant"))
            },
            "constant_generator_cpu": _generator_share(found["constant"]),
            **_notes(found["real"]),
        },
    )


# -- both -----------------------------------------------------------------------------------------------


def _passes(seconds: float) -> int:
    return max(1, math.ceil(ROUND_SECONDS / seconds))


def _notes(loads: Sequence[Load]) -> dict[str, Any]:
    per_round = [found.percentiles() for found in loads]
    return {
        "percentiles": {name: statistics.median(p[name] for p in per_round) for name in per_round[0]},
        "generator_cpu": _generator_share(loads),
    }


def _generator_share(loads: Sequence[Load]) -> float:
    """Of one core."""
    return sum(found.cpu_seconds for found in loads) / sum(found.seconds for found in loads)
