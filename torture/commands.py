"""Runs commands of ScholarBase in processes that are forked from one which has imported the package.

The imports take longer than a command on a small library. Batches are small, so that faults occur between and during
many commits.

Each line of standard input is a JSON list of arguments and a file for the output; each line of standard output is the
status of the process, negative for a signal.

    python -m torture.commands
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from benchmarks.servers import ROOT
from scholarbase.cli import main as run_cli
from scholarbase.indexes.vectors import edge
from scholarbase.ingest import encoding, reading, text, vectors
from scholarbase.updates import job as update_job
from scholarbase_download import packing, unpacking
from torture.libraries import environment

SECONDS: Final = 300.0
LINK: Final = "link"
"""The command that lets a link name another folder, in one step: what an operator runs to swap libraries."""
_IMPORTED: Final = (packing, unpacking, update_job)


class Ended(NamedTuple):
    """The status of a process, and what it printed."""

    status: int
    output: str


class Commands:
    """The process that forks. Its environment has ``variables``, so that LD_PRELOAD holds in all commands."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._output = folder / "output.txt"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "torture.commands"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(OPENBLAS_NUM_THREADS="1", **variables),
        )

    def __call__(self, *arguments: str | Path) -> Ended:
        """Run one command to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        killer = threading.Timer(SECONDS, self._process.kill)
        killer.start()
        try:
            self._process.stdin.write(json.dumps([[*map(str, arguments)], str(self._output)]) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        finally:
            killer.cancel()
        if not line:
            raise RuntimeError(f"{arguments[0]} did not end within {SECONDS:.0f} s:\n{self._said()}")
        return Ended(int(line), self._said())

    def _said(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Commands:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _use_small_batches() -> None:
    settings: dict[Any, dict[str, int]] = {
        reading: {"LINES_PER_COMMIT": 20},
        vectors: {"POINTS_PER_UPSERT": 5, "UPSERTS_PER_FLUSH": 1},
        text: {"ROWS_PER_COMMIT": 5},
        edge: {"SEGMENT_POINTS": 10, "DENSE_SEGMENT_POINTS": 10},
        encoding: {"DOCUMENTS_PER_STATIC_PART": 6},
    }
    for module, values in settings.items():
        for name, value in values.items():
            assert hasattr(module, name), name
            setattr(module, name, value)


def _run(arguments: list[str], output: str) -> NoReturn:
    """Be a process of this command."""
    ends = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor, target in ((ends[0], 0), (ends[1], 1), (ends[1], 2)):
        os.dup2(descriptor, target)
    if arguments[0] == LINK:
        link, new = Path(arguments[1]), Path(arguments[1] + ".new")
        try:
            new.unlink(missing_ok=True)
            new.symlink_to(arguments[2])
            new.replace(link)
        except OSError as error:
            sys.exit(f"scholarbase: {error}")
        sys.exit(0)
    run_cli(arguments)
    sys.exit(0)


def main() -> None:
    _use_small_batches()
    while line := sys.stdin.readline():
        arguments, output = json.loads(line)
        child = os.fork()
        if not child:
            _run(arguments, output)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
