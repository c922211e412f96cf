"""Bursts of the agents' own interfaces, compared with the native batch route for the same work.

Agents look up titles one by one and retrieve for many trajectories at once; the native API has a route that takes all
of it in one request. The two sides alternate.
"""

from __future__ import annotations

import json
import random
import sqlite3
import statistics
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final

from benchmarks.load import Load, get, load
from benchmarks.machine import cores
from benchmarks.parts.serving import free_questions
from benchmarks.rows import Row, Setting
from benchmarks.servers import Server, serving
from scholarbase.indexes.catalog import FILE_NAME

PART: Final = "dialects"
TITLES: Final = 1200
"""Titles looked up at once, each by a client of its own."""
RETRIEVERS: Final = 200
"""Clients of ``/retrieve`` at once."""
QUERIES: Final = 4
"""Queries in one request to ``/retrieve``."""
TOPK: Final = 3
BATCH: Final = 100
"""Titles in one request of the native side."""
ROUNDS: Final = 5
SEED: Final = 17
TARGET: Final = 0.5


def run(setting: Setting) -> list[Row]:
    """The rows of title look-ups and of retrieval."""
    titles = _titles(setting)
    texts = free_questions(setting)
    with serving(setting.library, workers=cores(), SCHOLARBASE_RESPONSE_CACHE_MB="0") as server:
        return [_matches(server, titles), _retrieval(server, texts)]


def post(path: str, body: Any) -> bytes:
    """A POST request with a JSON body."""
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(content) + content


def _titles(setting: Setting) -> list[str]:
    """Titles of papers; every third has a typing error, if it is long enough to be found nevertheless."""
    with closing(sqlite3.connect(f"file:{setting.library / FILE_NAME}?mode=ro", uri=True)) as db:
        paper_ids = [row[0] for row in db.execute("SELECT id FROM papers ORDER BY id")]
        draw = random.Random(SEED)
        titles: list[str] = []
        while len(titles) < TITLES:
            titles.append(
                db.execute("SELECT title FROM papers WHERE id = ?", (draw.choice(paper_ids),)).fetchone()[0]
            )
    return [
        title if position % 3 or len(title) < 40 else title[:10] + title[11:]
        for position, title in enumerate(titles)
    ]


def _groups(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    """Groups of this size, without a smaller last one."""
    return [texts[start : start + size] for start in range(0, len(texts) - size + 1, size)]


def _matches(server: Server, titles: Sequence[str]) -> Row:
    ours = [get("/graph/v1/paper/search/match", query=title, fields="title") for title in titles]
    native = [
        post("/v1/title-match/batch", {"titles": batch, "fields": ["title"]})
        for batch in _groups(titles, BATCH)
    ]
    return _row(
        server,
        f"title look-ups of the Semantic Scholar dialect, {TITLES:,} clients at once",
        f"POST /v1/title-match/batch of {BATCH}",
        "titles/s",
        (ours, TITLES, 1),
        (native, cores(), BATCH),
    )


def _retrieval(server: Server, texts: Sequence[str]) -> Row:
    groups = _groups(texts, QUERIES)
    ours = [post("/retrieve", {"queries": group, "topk": TOPK, "return_scores": True}) for group in groups]
    fields = ["title", "abstract"]
    native = [
        post(
            "/v1/search/batch",
            {"searches": [{"q": q, "limit": TOPK, "fields": fields, "syntax": "plain"} for q in group]},
        )
        for group in groups
    ]
    return _row(
        server,
        f"POST /retrieve with {QUERIES} queries, {RETRIEVERS} clients at once",
        f"POST /v1/search/batch of the same queries, {RETRIEVERS} clients",
        "queries/s",
        (ours, RETRIEVERS, QUERIES),
        (native, RETRIEVERS, QUERIES),
    )


def _row(
    server: Server,
    what: str,
    beside: str,
    unit: str,
    ours: tuple[list[bytes], int, int],
    native: tuple[list[bytes], int, int],
) -> Row:
    """The row of two loads; each is its requests, its clients, and the items of a request."""

    def measured(side: tuple[list[bytes], int, int]) -> tuple[Load, float]:
        requests, clients, items = side
        result = load(
            server.url,
            requests,
            clients=clients,
            count=max(len(requests), clients),
            opening=get("/healthz"),
            retrying=True,
        )
        return result, result.throughput * items

    for side in (ours, native):
        measured(side)  # warm up
    here, floor = [], []
    slowest = 0.0
    for _ in range(ROUNDS):
        result, rate = measured(ours)
        slowest = max(slowest, result.percentiles()["max"])
        here.append(rate)
        floor.append(measured(native)[1])
    return Row(
        PART,
        what,
        beside,
        statistics.median(here),
        statistics.median(floor),
        unit,
        statistics.median(
            dialect_rate / native_rate for dialect_rate, native_rate in zip(here, floor, strict=True)
        ),
        "at least",
        TARGET,
        {"workers": cores(), "rounds": ROUNDS, "slowest_ms": slowest},
    )
