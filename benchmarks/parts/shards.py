"""A library's vectors in one, two and four shards: processor time and memory of building and searching, and recall.

The points of one library are written again as an ingest writes them, and searched with real questions, each in a
process of its own. The lists of BM25 and of exact dense search must be equal. Processor time
is that of the process with all threads, so that it can be measured beside other work.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any, Final

from benchmarks.rows import Row, Setting
from benchmarks.timing import questions
from scholarbase.encoders import open_encoder
from scholarbase.indexes import catalog
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25, ScoredId
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.edge import EdgeWriter
from scholarbase.indexes.vectors.halves import restored
from scholarbase.indexes.vectors.index import EdgeIndex
from scholarbase.indexes.vectors.shards import open_local, shard_folders, shard_of
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.manifest import read_manifest
from scholarbase.models.encoders import PACKAGED
from scholarbase.search.legs import Bm25Queries

PART: Final = "shards"
SHARDS: Final = (1, 2, 4)
LIMIT: Final = 100
QUESTIONS: Final = 200
ROUNDS: Final = 3
FULL_SCAN_KB: Final = 1_000
"""Vectors of a shard up to which no graph is searched."""
_BATCH: Final = 2_000


def run(setting: Setting) -> list[Row]:
    """Rows of building and searching two and four shards beside one.

    Raises:
        RuntimeError: BM25 or exact dense search returns other lists.
    """
    library = setting.work / f"library-shards-{setting.papers}"
    if not (library / "files.json").exists():
        with closing(open_encoder(PACKAGED)) as encoder:
            ingest(
                [setting.corpus / "arxiv"],
                library,
                encoder=encoder,
                encoder_location=PACKAGED,
                rules=IngestRules(keep="arxiv"),
            )
    asked = setting.work / "questions.json"
    asked.write_text(json.dumps(questions(setting, QUESTIONS)))
    builds: dict[int, dict[str, float]] = {}
    for shards in SHARDS:
        builds[shards] = _child("build", library, setting.work / f"shards-{shards}", shards)
    measured: dict[int, list[dict[str, Any]]] = {shards: [] for shards in SHARDS}
    for _ in range(ROUNDS):
        for shards in SHARDS:
            measured[shards].append(_child("search", library, setting.work / f"shards-{shards}", asked))
    for shards in SHARDS[1:]:
        for name in ("bm25", "exact"):
            if measured[shards][0]["lists"][name] != measured[1][0]["lists"][name]:
                raise RuntimeError(f"{name} returns other lists with {shards} shards than with one.")
    return [row for shards in SHARDS[1:] for row in _rows(shards, builds, measured)]


def _rows(
    shards: int, builds: dict[int, dict[str, float]], measured: dict[int, list[dict[str, Any]]]
) -> list[Row]:
    rows = []

    def add(what: str, here: float, floor: float, unit: str, **notes: Any) -> None:
        ratio = here / floor
        rows.append(Row(PART, f"{shards} shards: {what}", "one shard", here, floor, unit, ratio, notes=notes))

    def searches(name: str, shards: int) -> float:
        return min(float(figures["cpu_ms"][name]) for figures in measured[shards])

    add("building, processor time", builds[shards]["cpu_s"], builds[1]["cpu_s"], "s")
    add("building, memory of a process", builds[shards]["memory_mb"], builds[1]["memory_mb"], "MB")
    for name, what in (
        ("bm25", "BM25"),
        ("approximate", "approximate dense search"),
        ("exact", "exact dense search"),
    ):
        add(f"{what}, processor time", searches(name, shards), searches(name, 1), "ms", questions=QUESTIONS)
    memory, floor = (min(figures["memory_mb"] for figures in measured[count]) for count in (shards, 1))
    add("searching, memory of the process", memory, floor, "MB")
    recall, floor = (_recall(measured[count][0]["lists"]) for count in (shards, 1))
    add(f"recall of approximate dense search at {LIMIT}", recall, floor, "")
    return rows


def _recall(lists: dict[str, list[list[int]]]) -> float:
    pairs = zip(lists["exact_ids"], lists["approximate_ids"], strict=True)
    return statistics.fmean(len({*exact} & {*near}) / len(exact) for exact, near in pairs)


def _child(*arguments: object) -> Any:
    """What a process of this module prints."""
    command = [sys.executable, "-m", __spec__.name, *map(str, arguments)]
    root = Path(__file__).resolve().parents[2]
    return json.loads(subprocess.run(command, check=True, capture_output=True, cwd=root).stdout)


# -- in a process of its own ----------------------------------------------------------------------------


def build(library: Path, folder: Path, shards: int) -> dict[str, float]:
    """Write the points of a library into shards, one after the other."""
    cpu = 0.0
    with closing(EdgeIndex.open(library / "vectors")) as index:
        # So that also a quarter of the papers has a graph that is searched.
        config = replace(index.config, full_scan_kb=FULL_SCAN_KB)
        for number, path in enumerate(shard_folders(folder, shards)):
            with closing(EdgeWriter.open(path, config)) as writer:
                for batch in index.points(_BATCH):
                    points = [
                        point if point.dense is None else replace(point, dense=restored(point.dense))
                        for point in batch
                        if shard_of(point.id, shards) == number
                    ]
                    began = process_time()
                    writer.upsert(points)
                    cpu += process_time() - began
                began = process_time()
                writer.finish()
                cpu += process_time() - began
    return {"cpu_s": cpu, "memory_mb": _peak()}


def search(library: Path, folder: Path, asked: Path) -> dict[str, Any]:
    """Milliseconds of processor time of each kind of search, and the lists."""
    texts: list[str] = json.loads(asked.read_text())
    text = Bm25Text(Bm25Parameters.from_dict(read_manifest(library)[0].bm25))
    with closing(open_encoder(PACKAGED)) as encoder, closing(Catalog(library / catalog.FILE_NAME)) as papers:
        queries = Bm25Queries(text, papers.document_frequencies)
        words, vectors = [queries.vector(question) for question in texts], encoder.encode_queries(texts).dense
    with closing(open_local(folder)) as index:
        kinds: dict[str, Callable[[int], list[ScoredId]]] = {
            "bm25": lambda n: index.search_sparse(BM25, words[n], LIMIT, NO_FILTERS),
            "approximate": lambda n: index.search_dense(vectors[n], LIMIT, NO_FILTERS),
            "exact": lambda n: index.search_dense(vectors[n], LIMIT, NO_FILTERS, exact=True),
        }
        lists: dict[str, Any] = {}
        times: dict[str, float] = {}
        for name, kind in kinds.items():
            for n in range(0, len(texts), 10):  # reads the files
                kind(n)
            began = process_time()
            results = [kind(n) for n in range(len(texts))]
            times[name] = 1000 * (process_time() - began) / len(texts)
            lists[name] = results
            lists[f"{name}_ids"] = [[hit.id for hit in hits] for hits in results]
        return {"cpu_ms": times, "lists": lists, "memory_mb": _peak()}


def _peak() -> float:
    """Megabytes, mapped files included. Not ``ru_maxrss``, which begins with the memory of the parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "build":
        print(json.dumps(build(Path(rest[0]), Path(rest[1]), int(rest[2]))))
    else:
        print(json.dumps(search(*map(Path, rest))))
