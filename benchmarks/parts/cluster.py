"""A Qdrant cluster: loading, compared with one batch after the other as JSON, what a search costs besides the nodes'
work, and searches while a node fails.

The nodes are those of the tests (:mod:`tests.qdrant`), in a process of their own: real sockets, REST and gRPC. They
share the machine with what is measured.
"""

from __future__ import annotations

import multiprocessing
import random
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from qdrant_client import QdrantClient, models

from benchmarks.corpus import arxiv_source
from benchmarks.parts.plan import sample
from benchmarks.parts.serving import free_questions
from benchmarks.rows import Row, Setting
from benchmarks.timing import summary
from scholarbase.encoders import open_encoder
from scholarbase.indexes.vectors.base import DENSE, EngineVector, SparseVector, VectorPoint
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.ingest.job import ingest
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.progress import reporter
from scholarbase.search.library import Library
from scholarbase.settings import load_settings
from scholarbase_cluster.qdrant.collection import DEFAULT, Collection
from scholarbase_cluster.qdrant.nodes import Nodes
from scholarbase_cluster.qdrant.transfer import BATCH, _send, load_into_server

PART: Final = "cluster"
SAMPLE: Final = Path(__file__).resolve().parents[2] / "sample"
BATCH_SECONDS: Final = 0.005
"""What a node takes for a batch, besides reading it."""
MOST_LOADED: Final = 400_000
"""More than the snapshot has: copies of papers are not loaded."""
LOADS: Final = 3
"""Loads of each kind, alternating; the median counts."""
FASTER: Final = 5.0
FAILURES: Final = ("hang", "stop", 404, 500, 503)
FAILED: Final = 100
"""Times that a node fails."""
SEARCHES: Final = 40
"""Searches of each time. The node fails at a random moment of the first half."""
CLIENTS: Final = 2
PAPERS: Final = 200
SEARCHED: Final = 2_000
"""Papers whose searches have as many hits as those of a large library."""
ANSWER_SECONDS: Final = 0.02
COSTS: Final[dict[str, tuple[dict[str, Any], float]]] = {
    "BM25": ({"mode": "sparse"}, 4.0),
    "feedback": ({"mode": "sparse", "engine": "feedback"}, 10.0),
    "dense": ({"mode": "dense"}, 4.0),
    "hybrid": ({"mode": "hybrid", "engine": "bm25"}, 10.0),
    "hybrid (by ranks)": ({"mode": "hybrid", "engine": "bm25", "fusion": "rrf"}, 10.0),
    "hybrid (exact)": ({"mode": "hybrid", "engine": "bm25", "exact": True}, 30.0),
}
"""Kinds of searches, and the most milliseconds of processor time. Hybrid ones have no feedback, as by default in
libraries of more than 500,000 papers, for which clusters are made."""
SLOWEST: Final = 1.5
"""Seconds within which 99 of 100 searches should end."""


def run(setting: Setting) -> list[Row]:
    """The rows of loading, searching and failures."""
    return [_loading(setting), *_searching(setting), _failing(setting)]


def _built(setting: Setting, arxiv: Path, papers: int) -> Path:
    """A library of arXiv papers with the vectors of the encoder in the package, built unless it is complete."""
    source, library = setting.work / f"cluster-{papers}.jsonl", setting.work / f"cluster-{papers}"
    if not source.exists():
        sample(arxiv, papers, source)
    with closing(open_encoder(PACKAGED)) as encoder:
        ingest([source], library, encoder=encoder, encoder_location=PACKAGED, reporter=reporter())
    return library


# -- the nodes --------------------------------------------------------------------------------------------


def _run_nodes(pipe: Connection, nodes: int, options: dict[str, Any]) -> None:
    from tests.qdrant.cluster import qdrant_cluster

    with qdrant_cluster(nodes, **options) as cluster:
        pipe.send(cluster.urls)
        while order := pipe.recv():
            number, failure = order
            node = cluster.nodes[number]
            if failure == "count":
                pipe.send(sum("HealthCheck" not in path for path in node.calls))
                continue
            if failure == "stop":
                node.stop()
            elif failure is None and not node.alive:
                node.start()
            else:
                node.fail(failure)
            pipe.send(None)


@contextmanager
def _nodes(count: int, **options: Any) -> Iterator[tuple[tuple[str, ...], Connection]]:
    """The addresses of running nodes, and the pipe that takes (number of a node, failure or None)."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_run_nodes, args=(there, count, options))
    process.start()
    try:
        yield here.recv(), here
    finally:
        here.send(None)
        process.join(60)
        process.kill()


# -- loading ----------------------------------------------------------------------------------------------


def _loading(setting: Setting) -> Row:
    papers = min(setting.papers, MOST_LOADED)
    library = _built(setting, arxiv_source(setting.data), papers)
    manifest, snapshot = read_manifest(library)
    points = manifest.counts["points"]
    rates: dict[str, list[float]] = {"load": [], "json": []}
    with closing(EdgeIndex.open(library / "vectors")) as edge:
        for number in range(LOADS):
            for kind in list(rates)[:: 1 if number % 2 else -1]:
                with (
                    _nodes(1, batch_seconds=BATCH_SECONDS, storing=False) as (urls, _),
                    closing(Nodes(urls)) as nodes,
                ):
                    collection = Collection.open(nodes, "papers", snapshot, edge.config, DEFAULT)
                    began = time.perf_counter()
                    if kind == "load":
                        _send(edge, collection, lambda count: None, None)
                    else:
                        _send_json(edge, urls[0].partition("?")[0], collection.name)
                    rates[kind].append(points / (time.perf_counter() - began))
                    if collection.count() != points:
                        raise RuntimeError(f"{collection.count():,} points were loaded of {points:,}.")
    here, floor = statistics.median(rates["load"]), statistics.median(rates["json"])
    return Row(
        PART,
        f"load of {points:,} points of {edge.config.dimensions} dimensions into a node that takes 5 ms for a batch",
        "one batch of 500 after the other as JSON, as before version 0.2",
        here,
        floor,
        "points/s",
        here / floor,
        "at least",
        FASTER,
        {"rounds": rates},
    )


def _send_json(edge: EdgeIndex, url: str, collection: str) -> None:
    with closing(QdrantClient(url=url, timeout=120, check_compatibility=False)) as client:
        for points in edge.points(BATCH):
            client.upsert(collection, [_as_json(point) for point in points], wait=True)


def _as_json(point: VectorPoint) -> models.PointStruct:
    vectors: dict[str, Any] = {name: _sparse(vector) for name, vector in point.sparse.items()}
    if point.dense is not None:
        vectors[DENSE] = point.dense.tolist()
    return models.PointStruct(id=point.id, vector=vectors, payload=point.payload.to_dict())


def _sparse(vector: SparseVector | EngineVector) -> models.SparseVector:
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


# -- searching --------------------------------------------------------------------------------------------


def _searching(setting: Setting) -> list[Row]:
    """Searches of one caller whose nodes return stored responses after a set time."""
    library = _built(setting, arxiv_source(SAMPLE), SEARCHED)
    _, snapshot = read_manifest(library)
    questions = random.Random(1).sample(free_questions(setting), SEARCHES)
    figures: dict[str, dict[str, float]] = {}
    with _nodes(1, search_seconds=ANSWER_SECONDS) as (urls, pipe):
        with closing(Nodes(urls)) as nodes, closing(EdgeIndex.open(library / "vectors")) as edge:
            load_into_server(edge, nodes, "scholarbase", snapshot, edge.config)
        settings = load_settings(library=library, qdrant_url=",".join(urls))

        def requests() -> int:
            pipe.send((0, "count"))
            return int(pipe.recv())

        for _ in range(2):  # the first time stores the responses
            with Library.open(library, settings=settings) as opened:
                opened.search("networks", mode="hybrid")
                for name, (options, _) in COSTS.items():
                    before = requests()
                    times, used = [], []
                    for question in questions:
                        began, processor = time.perf_counter(), time.process_time()
                        opened.search(question, syntax="plain", limit=20, timeout=60, **options)
                        times.append(time.perf_counter() - began)
                        used.append(time.process_time() - processor)
                    per_search = (requests() - before) / len(questions)
                    figures[name] = {
                        "requests": per_search,
                        "ms besides the nodes": 1000
                        * (statistics.median(times) - per_search * ANSWER_SECONDS),
                        "processor ms": 1000 * statistics.median(used),
                    }
    return [
        Row(
            PART,
            f"{name} search of a cluster: processor time of the process that searches",
            "its milliseconds besides the nodes' own time",
            figures[name]["processor ms"],
            figures[name]["ms besides the nodes"],
            "ms",
            figures[name]["processor ms"],
            "at most",
            most,
            figures[name],
        )
        for name, (_, most) in COSTS.items()
    ]


# -- failures ---------------------------------------------------------------------------------------------


def _failing(setting: Setting) -> Row:
    """Hybrid searches while one of two nodes hangs, is stopped or returns errors.

    Few papers, since the nodes compare each with the query in Python: what is measured is the wait for a node.
    """
    library = _built(setting, arxiv_source(SAMPLE), PAPERS)
    _, snapshot = read_manifest(library)
    questions = free_questions(setting)
    draw = random.Random(0)
    times: dict[str, list[float]] = {"without failure": [], **{str(failure): [] for failure in FAILURES}}
    with _nodes(2) as (urls, pipe), closing(Nodes(urls)) as nodes:
        with closing(EdgeIndex.open(library / "vectors")) as edge:
            load_into_server(edge, nodes, "scholarbase", snapshot, edge.config)
        settings = load_settings(library=library, qdrant_url=",".join(urls))
        with Library.open(library, settings=settings) as opened, ThreadPoolExecutor(CLIENTS) as pool:

            def search(question: str) -> float:
                began = time.perf_counter()
                opened.search(question, syntax="plain", limit=10, timeout=60)
                return time.perf_counter() - began

            def order(number: int, failure: str | int | None) -> None:
                pipe.send((number, failure))
                pipe.recv()

            for number in range(FAILED):
                failure, node = FAILURES[number % len(FAILURES)], draw.randrange(2)
                texts = draw.sample(questions, SEARCHES)
                times["without failure"] += map(search, texts[:CLIENTS])
                running = [pool.submit(search, text) for text in texts]
                for future in running[: draw.randrange(SEARCHES // 2)]:
                    future.result()
                order(node, failure)
                times[str(failure)] += [future.result() for future in running]
                order(node, None)
    summaries = {name: summary(seconds) | {"max": max(seconds)} for name, seconds in times.items()}
    usual = summaries.pop("without failure")
    worst = max(percentiles["p99"] for percentiles in summaries.values())
    return Row(
        PART,
        f"hybrid searches while one of two nodes fails, {FAILED} times: p99 of the failure with the slowest",
        "p99 of searches before each failure",
        worst,
        usual["p99"],
        "s",
        worst,
        "at most",
        SLOWEST,
        {
            "searches": SEARCHES * FAILED,
            "failed": 0,
            "by failure": summaries,
        },
    )
