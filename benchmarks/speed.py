"""Speed: what `make bench` runs. Every part stands beside its floor, measured in the same run.

A library of arXiv papers is built from the data folder, in copies where more papers are asked for than it holds, and
real questions are asked of it. Ratios are the results; seconds are notes, since machines differ and are noisy. Each
part runs in a process of its own and leaves its rows in the results folder as it ends, so that a run that was cut off
is finished with ``--parts``.

    python benchmarks/speed.py --data ../shared/data --papers 100000

Exits with status 1 where a row is short of its target or a part failed, 2 on bad use.
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

# Run as a script from a checkout, this file's folder is on the path, and the one above it is not.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from benchmarks import corpus, machine
from benchmarks.parts import PARTS
from benchmarks.rows import Setting
from scholarbase.files import atomic_write

FULL_SIZE: Final = 1_500_000
HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE / "results"
SHORT, BAD_USE = 1, 2
WIDTH: Final = 170
"""Columns of the table where it goes to no terminal."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a part left: its rows as they stand in its file, the machine's facts and the day it began."""

    part: str
    papers: int
    began: str
    machine: dict[str, Any]
    rows: list[dict[str, Any]]


def write(result: Result, folder: Path) -> None:
    """Write ``<part>.json``, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {
            "papers": result.papers,
            "machine": result.machine,
            "rows": result.rows,
            "began": result.began,
        },
        indent=2,
        ensure_ascii=False,
    )
    with atomic_write(folder / f"{result.part}.json") as file:
        file.write(f"{text}\n".encode())


def read(folder: Path, part: str) -> Result | None:
    """What a part left in a folder of results, None where it left nothing."""
    path = folder / f"{part}.json"
    if not path.is_file():
        return None
    written = json.loads(path.read_text(encoding="utf-8"))
    return Result(part, written["papers"], written["began"], written["machine"], written["rows"])


def run(part: str, setting: Setting, results: Path) -> None:
    """Run one part in this process and write its rows."""
    began = datetime.now(UTC).date().isoformat()
    corpus.make(setting)
    rows = importlib.import_module(f"benchmarks.parts.{part}").run(setting)
    written = [row.to_dict() for row in rows]
    write(Result(part, setting.papers, began, machine.facts(), written), results)


def run_apart(part: str, setting: Setting, results: Path) -> bool:
    """Run one part in a process of its own, so that its memory and caches are nobody else's; whether it ended well."""
    (results / f"{part}.json").unlink(missing_ok=True)  # a part that fails must not pass for an earlier one
    command = [sys.executable, str(Path(__file__).resolve()), "--alone", "--parts", part]
    command += ["--data", str(setting.data), "--papers", str(setting.papers)]
    command += ["--work", str(setting.work), "--results", str(results)]
    return subprocess.run(command, check=False).returncode == 0


def show(results: list[Result], failed: list[str], ran: list[str], console: Console) -> int:
    """Print the table and what it comes to; how many rows are short of their targets, and parts failed."""
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
        table.add_row(part, "its error stands above", "", "", "", "", "failed")
    console.print(table)
    console.print(f"{short} of {judged} rows short of their targets, {len(failed)} parts failed.")
    return short + len(failed)


def number(value: float) -> str:
    """Three digits that count, and whole numbers with separators."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure speed beside its floors.")
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
        help="for what can be made again: corpus, libraries",
    )
    parser.add_argument(
        "--results",
        type=Path,
        help="where the rows go, a file a part (benchmarks/results; in the work folder where the size is another)",
    )
    parser.add_argument("--parts", nargs="+", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"There is no part {', '.join(unknown)}: the parts are {', '.join(PARTS)}.")
    if options.papers < 1:
        parser.error(f"{options.papers} papers cannot be measured: give --papers one at least.")
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
    asked = [part for part in PARTS if part in options.parts]
    failed = []
    for part in asked:
        if not run_apart(part, setting, options.results):
            failed.append(part)
    found = [result for part in PARTS if (result := read(options.results, part)) is not None]
    same = [result for result in found if result.papers == setting.papers]
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(f"{setting.papers:,} arXiv records, {machine.cores()} cores")
    return SHORT if show(same, failed, asked, console) else 0


if __name__ == "__main__":
    sys.exit(main())
