"""Time of an ingest compared with the bare sum of its work, and its memory with an ingest of a quarter of the papers.

The bare sum is the minimum work of any ingest of catalogue, full text, edges and BM25, done sequentially in one process
with all inputs in memory: read and parse the source files; ``executemany`` of the rows of the finished library; FTS5's
``INSERT ... SELECT`` of the same texts; Qdrant Edge's BM25 vectors of the same texts, upserted and optimized. It has no
joins, normalization, hashes or recovery.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
import qdrant_edge as qdrant

from benchmarks import corpus, memory
from benchmarks.rows import Row, Setting
from scholarbase.indexes import schema
from scholarbase.indexes.filters import category_keys
from scholarbase.indexes.vectors import edge
from scholarbase.indexes.vectors.base import BM25, Payload, VectorConfig, edge_config
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, engine_model
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import Manifest, read_manifest

ROOT: Final = Path(__file__).resolve().parent.parent.parent
TIME_TARGET: Final = 1.3
MEMORY_TARGET: Final = 1.3
ROWS_PER_TRANSACTION: Final = 10_000
TEXTS_PER_TRANSACTION: Final = 20_000
POINTS_PER_UPSERT: Final = 2_000
ROUNDS: Final = 3
ROUNDS_RANGE: Final = (1_000, 100_000)
"""Numbers of papers that are measured in several rounds, since one short ingest is noisy. Fewer papers only test the
benchmark itself."""
MEMORY_PARTS: Final = 4
TABLES: Final = (*schema.COUNTED_TABLES, "venue_names")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ingested:
    """An ingest: seconds, processor seconds, reported stages, peak memory."""

    seconds: float
    cpu_seconds: float
    stages: list[dict[str, Any]]
    peak: memory.Peak


@dataclass(slots=True)
class Clock:
    """Seconds of ``running`` blocks by name, and their processor seconds in all."""

    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: float = 0.0

    @property
    def sum(self) -> float:
        return sum(self.seconds.values())

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        began, worked = time.perf_counter(), time.process_time()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began
        self.cpu_seconds += time.process_time() - worked


class StageTimes:
    """A :class:`scholarbase.progress.Reporter` that records the start and duration of each stage."""

    def __init__(self) -> None:
        self.stages: list[dict[str, Any]] = []
        self._began = time.perf_counter()

    @contextmanager
    def stage(self, name: str, unit: str | None, total: int | None, done: int = 0) -> Iterator[StageTimes]:
        began = time.perf_counter()
        yield self
        ended = time.perf_counter()
        self.stages.append({"name": name, "began": began - self._began, "seconds": ended - began})

    def advance(self, count: int) -> None: ...

    def at(self, done: int) -> None: ...


def run(setting: Setting) -> list[Row]:
    """Rows of time and memory. Builds the library of the setting, its bare sum, and a library of a quarter."""
    rounds = []
    fewest, most = ROUNDS_RANGE
    for _ in range(ROUNDS if fewest <= setting.papers <= most else 1):
        here = ingest_in_process(setting.corpus, setting.library)
        floor = bare_sum(setting.corpus, setting.library, setting.work / "bare")
        rounds.append((here, floor))
    rounds.sort(key=lambda pair: pair[0].seconds / pair[1].sum)
    manifest, _ = read_manifest(setting.library)
    work = setting.work / "quarter"
    shutil.rmtree(work, ignore_errors=True)
    corpus.cut(setting.corpus, work / "corpus", MEMORY_PARTS)
    quarter = ingest_in_process(work / "corpus", work / "library")
    quarter_manifest, _ = read_manifest(work / "library")
    shutil.rmtree(work)
    papers = [library_manifest.counts["papers"] for library_manifest in (manifest, quarter_manifest)]
    return [time_row(rounds, manifest), memory_row(rounds[0][0], quarter, papers)]


def time_row(rounds: Sequence[tuple[Ingested, Clock]], manifest: Manifest) -> Row:
    """The row of the median round. ``rounds`` are sorted by ratio."""
    here, bare = rounds[len(rounds) // 2]
    return Row(
        part="ingest",
        what="ingest of catalogue, FTS5, edges and BM25",
        beside="the bare sum of its work",
        here=manifest.counts["papers"] / here.seconds,
        floor=manifest.counts["papers"] / bare.sum,
        unit="papers/s",
        ratio=here.seconds / bare.sum,
        bound="at most",
        target=TIME_TARGET,
        notes={
            "seconds": here.seconds,
            "stages": here.stages,
            "floor_seconds": bare.sum,
            "floor_parts": bare.seconds,
            "cpu_seconds": [here.cpu_seconds, bare.cpu_seconds],
            "ratios": [ingested.seconds / bare.sum for ingested, bare in rounds],
            "counts": {table: manifest.counts[table] for table in schema.COUNTED_TABLES},
        },
    )


def memory_row(whole: Ingested, quarter: Ingested, papers: Sequence[int]) -> Row:
    """The row of peak resident memory, mapped files included. ``papers`` are the sizes of the two libraries."""
    return Row(
        part="ingest",
        what=f"peak memory of that ingest, {papers[0]:,} papers",
        beside=f"that of {papers[1]:,}",
        here=whole.peak.resident,
        floor=quarter.peak.resident,
        unit="MB",
        ratio=whole.peak.resident / quarter.peak.resident,
        bound="at most",
        target=MEMORY_TARGET,
        notes={
            "papers": list(papers),
            "anonymous_mb": [whole.peak.anonymous, quarter.peak.anonymous],
            "largest_process_mb": [whole.peak.largest, quarter.peak.largest],
            "processes": [whole.peak.processes, quarter.peak.processes],
        },
    )


def ingest_in_process(sources: Path, library: Path) -> Ingested:
    """Ingest into a new library in a process of its own."""
    shutil.rmtree(library, ignore_errors=True)
    sync()
    command = [
        sys.executable,
        "-m",
        "benchmarks.parts.ingest",
        str(sources.resolve()),
        str(library.resolve()),
    ]
    output, peak = memory.run(command, ROOT)
    return Ingested(**json.loads(output), peak=peak)


def sync() -> None:
    """Write pending data to the disk before a measurement."""
    if hasattr(os, "sync"):
        os.sync()


# -- the bare sum ---------------------------------------------------------------------------------------


def bare_sum(sources: Path, library: Path, work: Path) -> Clock:
    """Measure each part of the work. Rows are read from the finished ``library``, which is not measured."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    clock = Clock()
    sync()
    with clock.running("read and parse"):
        parse(sources)
    with closing(sqlite3.connect(f"file:{library.resolve()}/catalog.sqlite?mode=ro", uri=True)) as finished:
        with closing(schema.open_for_building(work / "catalog.sqlite")) as growing:
            insert_rows(finished, growing, clock)
            insert_text(growing, clock)
        upsert_points(finished, library, work / "vectors", clock)
    shutil.rmtree(work)
    return clock


def parse(sources: Path) -> None:
    """Parse every line of every source file."""
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        with corpus.open_lines(path) as lines:
            for line in lines:
                orjson.loads(line)


def insert_rows(finished: sqlite3.Connection, growing: sqlite3.Connection, clock: Clock) -> None:
    """Insert the rows of every table, all columns, in the order of its key, which is cheapest."""
    for table in TABLES:
        rows = finished.execute(f"SELECT * FROM {table}")
        insert = f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows.description))})"
        for batch in batches(rows.fetchmany, ROWS_PER_TRANSACTION):
            with clock.running("insert the rows"):
                growing.execute("BEGIN")
                growing.executemany(insert, batch)
                growing.execute("COMMIT")


def insert_text(growing: sqlite3.Connection, clock: Clock) -> None:
    """Index the full text with the same schema."""
    last = growing.execute("SELECT max(id) FROM papers").fetchone()[0]
    with clock.running("index full text"):
        for start in range(0, last, TEXTS_PER_TRANSACTION):
            growing.execute(
                """
                INSERT INTO fulltext(rowid, title, abstract)
                SELECT p.id, p.title, a.abstract FROM papers AS p LEFT JOIN abstracts AS a ON a.paper_id = p.id
                WHERE p.id > ? AND p.id <= ?
                """,
                (start, start + TEXTS_PER_TRANSACTION),
            )
        growing.execute("INSERT INTO fulltext(fulltext) VALUES ('optimize')")
        growing.execute("PRAGMA journal_mode = DELETE")  # moves the last pages out of the log


def upsert_points(finished: sqlite3.Connection, library: Path, path: Path, clock: Clock) -> None:
    """Compute BM25 vectors with Edge's tokenizer, and upsert points with the library's payload, indexes and segment
    size."""
    manifest, _ = read_manifest(library)
    parameters = Bm25Parameters.from_dict(manifest.bm25)
    model = engine_model(parameters.k1, parameters.b, parameters.average_length)
    config = VectorConfig()
    edge.EdgeWriter.open(path, config).close()
    shard = qdrant.EdgeShard.load(str(path), edge_config(config))
    rows = finished.execute(
        """
        SELECT id, title, abstract, first_day, last_day, categories, venue_key, citation_count
        FROM papers LEFT JOIN abstracts ON paper_id = id ORDER BY id
        """
    )
    unsealed = 0
    for batch in batches(rows.fetchmany, POINTS_PER_UPSERT):
        documents = [document(row, parameters.title_weight) for row in batch]
        with clock.running("embed"):
            vectors = [model.embed_document(text) for _, text, _ in documents]
        with clock.running("upsert"):
            points = [
                qdrant.Point(paper_id, {BM25: vector} if vector.indices else {}, payload)
                for (paper_id, _, payload), vector in zip(documents, vectors, strict=True)
            ]
            shard.update(qdrant.UpdateOperation.upsert_points(points))
        unsealed += len(batch)
        if unsealed >= edge.SEGMENT_POINTS:
            optimize(shard, clock)
            unsealed = 0
    optimize(shard, clock)
    with clock.running("optimize"):
        shard.close()


def optimize(shard: qdrant.EdgeShard, clock: Clock) -> None:
    with clock.running("optimize"):
        shard.flush()
        shard.optimize()
        shard.flush()


def document(row: Sequence[Any], title_weight: int) -> tuple[int, str, dict[str, Any]]:
    """A paper's id, indexed text and payload, from its row."""
    paper_id, title, abstract, first_day, last_day, categories, venue, citation_count = row
    text = "\n".join([*[title] * title_weight, *([abstract] if abstract else [])])
    payload = Payload(first_day, last_day, category_keys((categories or "").split()), venue, citation_count)
    return paper_id, unicodedata.normalize("NFC", text), payload.to_dict()


def batches(fetch: Callable[[int], list[T]], size: int) -> Iterator[list[T]]:
    """The rows of a cursor in batches."""
    while batch := fetch(size):
        yield batch


def main(sources: str, library: str) -> None:
    """Ingest, and print seconds, processor seconds and stages as JSON."""
    times = StageTimes()
    began, worked = time.perf_counter(), cpu_seconds()
    ingest([sources], library, rules=IngestRules(keep="arxiv"), reporter=times)
    seconds, worked = time.perf_counter() - began, cpu_seconds() - worked
    print(json.dumps({"seconds": seconds, "cpu_seconds": worked, "stages": times.stages}))


def cpu_seconds() -> float:
    """Processor seconds of this process and its ended child processes."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


if __name__ == "__main__":
    main(*sys.argv[1:])
