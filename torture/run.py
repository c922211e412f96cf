"""Attacks on a server and on libraries, run by `make torture`: each promise, how it is tested, and whether it is kept.

Each part runs in its own process and writes its rows to the results folder as it ends. With all parts, or with
``--page``, docs/measurements.md is written again.

    python torture/run.py --parts access flips

Exits with status 1 if a promise is broken or a part failed, 2 on invalid arguments.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

# The folder above this script's is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rich.console import Console
from rich.table import Table

from benchmarks.measurements import write
from scholarbase.files import atomic_write
from torture.parts import PARTS
from torture.rows import Setting

HERE: Final = Path(__file__).resolve().parent
BROKEN, BAD_USE = 1, 2
MOST_SECONDS: Final = 3600.0
"""A part that takes longer is stopped, and counts as failed."""
STOP_SECONDS: Final = 60.0
WIDTH: Final = 170
STATES: Final = {True: "kept", False: "broken", None: "not tested"}


def run(part: str, setting: Setting, results: Path) -> None:
    """Run one part in this process. Its rows are written as they come, so that an interrupted part keeps some."""
    began, started = datetime.now(UTC).date().isoformat(), time.monotonic()
    results.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for row in importlib.import_module(f"torture.parts.{part}").run(setting):
        rows.append(row.to_dict())
        rows[-1]["figure"] = row.figure.replace(f"{setting.work}{os.sep}", "")
        seconds = round(time.monotonic() - started)
        content = {"part": part, "began": began, "seconds": seconds, "slice": setting.is_slice, "rows": rows}
        with atomic_write(results / f"{part}.json") as file:
            file.write(f"{json.dumps(content, indent=2, ensure_ascii=False)}\n".encode())


def run_in_process(part: str, arguments: list[str], results: Path) -> bool:
    """Run one part in a process group of its own, which ends with the part. Returns whether it succeeded."""
    (results / f"{part}.json").unlink(missing_ok=True)  # so that a failed part shows no earlier results
    command = [sys.executable, str(Path(__file__).resolve()), "--alone", "--parts", part, *arguments]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(MOST_SECONDS) == 0
    except subprocess.TimeoutExpired:
        print(f"{part} took longer than {MOST_SECONDS:,.0f} seconds and was stopped.", flush=True)
        return False
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a part and the servers that it left."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGINT)  # so that the part removes its files and mounts
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def read(folder: Path, part: str) -> dict[str, Any] | None:
    """The results of a part, None if it has none."""
    path = folder / f"{part}.json"
    found: dict[str, Any] | None = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found


def show(results: list[dict[str, Any]], failed: list[str], console: Console) -> int:
    """Print the table. Returns the number of broken promises and failed parts."""
    table = Table("part", "promise", "how it is tested", "figure", "state", show_lines=True)
    rows = [row for result in results for row in result["rows"]]
    for row in rows:
        table.add_row(*_cells(row))
    for part in failed:
        table.add_row(part, "", "its error is printed above", "", "failed")
    console.print(table)
    broken = sum(row["kept"] is False for row in rows)
    untested = sum(row["kept"] is None for row in rows)
    kept = len(rows) - broken - untested
    console.print(
        f"{kept} promises kept, {broken} broken, {untested} not tested, {len(failed)} parts failed."
    )
    return broken + len(failed)


def _cells(row: dict[str, Any]) -> list[str]:
    return [row["part"], row["promise"], row["tested"], row["figure"], STATES[row["kept"]]]


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Attack a server and libraries, and check each promise.")
    parser.add_argument(
        "--data", type=Path, help="the data folder, for a library of 100,000 papers (else the sample)"
    )
    parser.add_argument("--work", type=Path, default=HERE / "work", help="for files that can be rebuilt")
    parser.add_argument("--results", type=Path, help="for the rows, one file per part (torture/results)")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--slice", action="store_true", help="tiny sizes, as the tests run")
    parser.add_argument(
        "--page",
        action="store_true",
        help="write docs/measurements.md; with --parts alone from earlier results",
    )
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"There is no part {', '.join(unknown)}: the parts are {', '.join(PARTS)}.")
    if options.results is None:
        options.results = options.work / "slice" if options.slice else HERE / "results"
    return options


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        # Also where a shell started this in the background, with SIGINT ignored.
        signal.signal(number, signal.default_int_handler)
    data = options.data if options.data is not None and options.data.is_dir() else None
    options.work.mkdir(parents=True, exist_ok=True)
    setting = Setting(data, options.work.resolve(), options.slice)
    if options.alone:
        for part in options.parts:
            run(part, setting, options.results)
        return 0
    passed_on = ["--work", str(options.work), "--results", str(options.results)]
    passed_on += ["--data", str(data)] if data else []
    passed_on += ["--slice"] if options.slice else []
    failed = []
    for part in [part for part in PARTS if part in options.parts]:
        print(f"{part}:", flush=True)
        if not run_in_process(part, passed_on, options.results):
            failed.append(part)
    found = [result for part in PARTS if (result := read(options.results, part)) is not None]
    asked = [result for result in found if result["part"] in options.parts]
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    broken = show(asked, failed, console)
    if options.page or (not options.slice and set(options.parts) == set(PARTS)):
        write()
    return BROKEN if broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
