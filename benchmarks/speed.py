"""Speed: what `make bench` runs. Every part stands beside its floor, measured in the same run.

A library of arXiv papers is built from the data folder, and real questions (AutoScholarQuery) are asked of it in the
process. Ratios are the results; seconds depend on the machine.

    python benchmarks/speed.py --data ../shared/data --papers 100000
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import sqlite3
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import orjson
import qdrant_edge
from rich.console import Console
from rich.table import Table

from scholarbase.indexes import fulltext, query_syntax
from scholarbase.indexes.catalog import Catalog
from scholarbase.indexes.filters import NO_FILTERS
from scholarbase.indexes.vectors.base import BM25
from scholarbase.indexes.vectors.bm25 import Bm25Parameters, Bm25Text
from scholarbase.indexes.vectors.edge import EdgeIndex
from scholarbase.ingest.job import ingest
from scholarbase.library import Library
from scholarbase.progress import reporter

QUESTIONS = 200


def cut(data: Path, papers: int, target: Path) -> None:
    """The first records of the arXiv snapshot."""
    with lzma.open(data / "arxiv" / "arxiv-metadata-oai-snapshot.json.xz") as lines, target.open("wb") as out:
        out.writelines(islice(lines, papers))


def bare_ingest(source: Path, work: Path) -> float:
    """Seconds of the work that no ingest can do without: parse, insert the rows, FTS5, BM25 vectors, optimize."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    began = time.perf_counter()
    with source.open("rb") as lines:
        rows = [(i, r["title"], r["abstract"]) for i, r in enumerate(map(orjson.loads, lines), 1)]
    db = sqlite3.connect(work / "bare.sqlite")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE papers (id INTEGER PRIMARY KEY, title TEXT, abstract TEXT)")
    db.executemany("INSERT INTO papers VALUES (?, ?, ?)", rows)
    db.execute(
        f"CREATE VIRTUAL TABLE words USING fts5(title, abstract, content='papers', tokenize='{fulltext.TOKENIZER}')"
    )
    db.execute("INSERT INTO words(rowid, title, abstract) SELECT id, title, abstract FROM papers")
    db.commit()
    db.execute("INSERT INTO words(words) VALUES ('optimize')")
    db.commit()
    db.close()
    config = qdrant_edge.EdgeConfig(
        sparse_vectors={BM25: qdrant_edge.EdgeSparseVectorParams(modifier=qdrant_edge.Modifier.Idf)},
        wal_enabled=False,
    )
    (work / "shard").mkdir()
    shard = qdrant_edge.EdgeShard.create(str(work / "shard"), config)
    model = qdrant_edge.Bm25(qdrant_edge.Bm25Config(language="english"))
    for start in range(0, len(rows), 2000):
        points = [
            qdrant_edge.Point(i, {BM25: model.embed_document(f"{title}\n{abstract}")}, {"day": i})
            for i, title, abstract in rows[start : start + 2000]
        ]
        shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    shard.optimize()
    shard.flush()
    shard.close()
    return time.perf_counter() - began


def median(call: Callable[[str], object], questions: Sequence[str]) -> float:
    """Milliseconds of a call, the median over the questions, the first ten times not counted."""
    for question in questions[:10]:
        call(question)
    times = []
    for question in questions:
        began = time.perf_counter()
        call(question)
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure speed beside its floors.")
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with arxiv/ and autoscholar/ in it"
    )
    parser.add_argument("--papers", type=int, default=int(os.environ.get("PAPERS", "100000")))
    parser.add_argument("--work", type=Path, default=Path("benchmarks/work"))
    options = parser.parse_args()
    if not (options.data / "arxiv").is_dir():
        print(
            f"No arXiv snapshot in {options.data}: give --data a folder with arxiv/ in it.", file=sys.stderr
        )
        return 2
    options.work.mkdir(parents=True, exist_ok=True)
    source = options.work / f"arxiv-{options.papers}.json"
    cut(options.data, options.papers, source)
    lines = (options.data / "autoscholar" / "queries.jsonl").read_text().splitlines()
    questions = [json.loads(line)["final_query"] for line in lines[:QUESTIONS]]

    table = Table(
        f"{options.papers:,} arXiv records", "here", "floor", "ratio", "floor is", title_justify="left"
    )

    def row(name: str, here: float, floor: float, unit: str, what: str) -> None:
        table.add_row(name, f"{here:,.2f} {unit}", f"{floor:,.2f} {unit}", f"{here / floor:.2f}", what)

    floor = bare_ingest(source, options.work / "bare")
    library_path = options.work / f"library-{options.papers}"
    shutil.rmtree(library_path, ignore_errors=True)
    began = time.perf_counter()
    ingest([source], library_path, reporter=reporter())
    row(
        "ingest",
        time.perf_counter() - began,
        floor,
        "s",
        "parse, executemany, FTS5, Edge upsert and optimize, bare",
    )

    with Library.open(library_path) as library:
        # The engines themselves, without what stands around them.
        vectors = EdgeIndex.open(library_path / "vectors")
        text = Bm25Text(Bm25Parameters.from_dict(library.manifest.bm25))
        papers = Catalog(library_path / "catalog.sqlite")

        def edge(question: str) -> object:
            return vectors.search_sparse(BM25, text.query(question), 101, NO_FILTERS)

        def fts5(question: str) -> object:
            with papers.connection() as db:
                return fulltext.search(db, query_syntax.free_text(question) or "", 100)

        engine = median(edge, questions)
        ours = median(lambda q: library.search(q, limit=100, fields=["title"]), questions)
        row("sparse search, 100 titles", ours, engine, "ms", "Edge's own top 101")
        row("Edge's top 101", engine, median(fts5, questions), "ms", "FTS5's ranked OR")
        vectors.close()
        papers.close()

    Console(width=None if sys.stdout.isatty() else 150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
