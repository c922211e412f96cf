"""Speed benchmarks, run by `make bench`: every part and its floor, measured in the same run.

A library of arXiv papers is built from the data folder, with copies if more papers are requested than it has, and
searched with real questions. Ratios are the results; seconds are notes, since machines differ and are noisy. Each part
runs in its own process and writes its rows to the results folder as it ends, so that an interrupted run can be finished
with ``--parts``.

    python benchmarks/speed.py --data ../shared/data --papers 100000

Exits with status 1 if a row is short of its target or a part failed, 2 on invalid arguments.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from benchmarks import corpus, machine
from benchmarks.parts import OWN_LIBRARIES, PARTS
from benchmarks.rows import Setting
from scholarbase.files import atomic_write
from scholarbase.ingest.job import ingest
from scholarbase.ingest.plans import IngestRules

FULL_SIZE: Final = 1_500_000
HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE / "results"
SHORT, BAD_USE = 1, 2
WIDTH: Final = 170
"""Columns of the table if the output is not a terminal."""


@dataclass(frozen=True, slots=True)
class Result:
    """The results of a part: rows as in its file, facts of the machine, and the day of its start."""

    part: str
    papers: int
    began: str
    machine: dict[str, Any]
    rows: list[dict[str, Any]]


def write(result: Result, folder: Path) -> None:
    """Write ``<part>.json`` atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {name: getattr(result, name) for name in ("papers", "machine", "rows", "began")}
    with atomic_write(folder / f"{result.part}.json") as file:
        file.write(f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode())


def read(folder: Path, part: str) -> Result | None:
    """Read the results of a part, None without a file."""
    path = folder / f"{part}.json"
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    return Result(part, content["papers"], content["began"], content["machine"], content["rows"])


def run(part: str, setting: Setting, results: Path) -> None:
    """Run one part in this process and write its rows."""
    began = datetime.now(UTC).date().isoformat()
    corpus.make(setting)
    if part not in OWN_LIBRARIES and not setting.library.is_dir():
        ingest([setting.corpus], setting.library, rules=IngestRules(keep="arxiv"))
    rows = importlib.import_module(f"benchmarks.parts.{part}").run(setting)
    write(Result(part, setting.papers, began, machine.facts(), [row.to_dict() for row in rows]), results)


def run_in_process(part: str, setting: Setting, results: Path) -> bool:
    """Run one part in its own process, with its own memory and caches. Returns whether it succeeded."""
    (results / f"{part}.json").unlink(missing_ok=True)  # so that a failed part shows no earlier results
    command = [sys.executable, str(Path(__file__).resolve()), "--alone", "--parts", part]
    command += ["--data", str(setting.data), "--papers", str(setting.papers)]
    command += ["--work", str(setting.work), "--results", str(results)]
    return subprocess.run(command, check=False).returncode == 0


def show(results: list[Result], failed: list[str], ran: list[str], console: Console) -> int:
    """Print the table and a summary. Returns the number of rows short of their targets and failed parts."""
    table = Table("part", "what", "here", "floor", "ratio", "reach", "state", title_justify="left")
    short = judged = 0
    for result in results:
        when = "" if result.part in ran else f" ({result.began})"
        for row in result.rows:
            state = {None: "", True: "reached", False: "short"}[row["reached"]]
            short += row["reached"] is False
            judged += row["reached"] is not None
            reach = f"{row['bound']} {row['target']:g}" if row["bound"] else ""
            what = f"{row['what']}\n  beside {row['beside']}"
            here, floor = (f"{number(row[side])} {row['unit']}".strip() for side in ("here", "floor"))
            ratio = number(row["ratio"])
            table.add_row(f"{result.part}{when}", what, here, floor, ratio, reach, state)
    for part in failed:
        table.add_row(part, "its error is printed above", "", "", "", "", "failed")
    console.print(table)
    console.print(f"{short} of {judged} rows short of their targets, {len(failed)} parts failed.")
    return short + len(failed)


def number(value: float) -> str:
    """Three significant digits; from 100 whole numbers with separators."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure speed and compare it with its floors.")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        help="a folder with arxiv/, s2ag-citations/, autoscholar/, scifact/",
    )
    parser.add_argument(
        "--papers",
        type=int,
        default=os.environ.get("PAPERS") or FULL_SIZE,
        help="arXiv records (%(default)s)",
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=HERE / "work",
        help="for files that can be rebuilt: corpus, libraries",
    )
    parser.add_argument(
        "--results",
        type=Path,
        help="for the rows, one file per part (benchmarks/results; at another size in the work folder)",
    )
    parser.add_argument("--parts", nargs="+", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"There is no part {', '.join(unknown)}: the parts are {', '.join(PARTS)}.")
    if options.papers < 1:
        parser.error(f"{options.papers} papers cannot be measured: give --papers 1 or more.")
    for source in (corpus.arxiv_source, corpus.s2ag_source):
        try:
            source(options.data)
        except FileNotFoundError as error:
            parser.error(str(error))
    if options.results is None:
        whole = options.papers == FULL_SIZE
        options.results = RESULTS if whole else options.work / f"results-{options.papers}"
    return options


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    setting = Setting(options.data, options.papers, options.work)
    setting.work.mkdir(parents=True, exist_ok=True)
    if options.alone:
        for part in options.parts:
            run(part, setting, options.results)
        return 0
    parts = [part for part in PARTS if part in options.parts]
    failed = [part for part in parts if not run_in_process(part, setting, options.results)]
    results = [result for part in PARTS if (result := read(options.results, part)) is not None]
    same = [result for result in results if result.papers == setting.papers]
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(f"{setting.papers:,} arXiv records, {machine.cores()} cores")
    return SHORT if show(same, failed, parts, console) else 0


if __name__ == "__main__":
    sys.exit(main())
