"""Faults at chosen system calls of a process: kills, a full disk, short writes and failed calls.

A small library in C (``faults.c``) is compiled here and loaded with ``LD_PRELOAD``. It counts the calls of libc that
write, sync, rename or remove the files of a folder. It does not see stores to memory-mapped files, so a full disk
under those is tested on a real one (``resources``), and it does not see calls that bypass libc.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_name("faults.c")
KILLS: Final = ("kill before", "kill half", "kill after")
ACTIONS: Final[dict[str, tuple[str, ...]]] = {
    "write": ("kill before", "kill half", "full", "short", "fail"),
    "copy": ("kill before", "kill half", "full", "short", "fail"),
    "sync": ("kill before", "fail"),
    "rename": ("kill before", "kill after", "fail"),
    "remove": ("kill before", "kill after", "fail"),
    "truncate": ("kill before", "kill after"),
    "open": ("kill before", "fail"),
}
"""What can happen at an operation. ``full``: this write and all later ones of the process fail with ENOSPC. ``short``:
half of the bytes are written. ``fail``: EIO."""
_RANDOM: Final = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}"), "*"),
    (re.compile(r"\.[0-9a-f]{8}\.tmp"), ".*.tmp"),
    (re.compile(r"\b(authors|terms)-[a-z0-9_]{8}\b"), r"\1-*"),
)
"""Parts of file names that differ between two runs, and their patterns."""
_DEEP: Final = re.compile(r"(.*\bvectors(?:\.new)?/(?:segments/|temp_segments/)?|.*-views/).+")
"""Files of vectors, which Qdrant names: all of one kind count as one."""


class Unavailable(Exception):
    """Faults cannot be injected on this machine; the message says why."""


@dataclass(frozen=True, order=True, slots=True)
class Point:
    """A named point of a job: an operation on the files of a pattern, and how often an undisturbed job does it."""

    operation: str
    pattern: str
    count: int

    @property
    def name(self) -> str:
        return f"{self.operation} {self.pattern}"


@dataclass(frozen=True, slots=True)
class Fault:
    """An action at the call with this number, from 1, of a point."""

    point: Point
    number: int
    action: str

    @property
    def kills(self) -> bool:
        return self.action in KILLS

    def __str__(self) -> str:
        return f"{self.action} at {self.point.name} {self.number} of {self.point.count}"


def build(folder: Path) -> Path:
    """Compile the library that is preloaded. Raises Unavailable."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not sys.platform.startswith("linux"):
        raise Unavailable("faults need Linux")
    if compiler is None:
        raise Unavailable("no C compiler")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "faults.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{Path(compiler).name} failed: {done.stderr.strip()[:200]}")
    return library


class Faults:
    """Tells processes which fault to take next. The processes need the variables of :attr:`environment`.

    Args:
        library: what :func:`build` compiled.
        path: a file for the present fault, outside of the folder in which faults occur.
    """

    def __init__(self, library: Path, path: Path) -> None:
        self._path = path
        self._marker = path.with_suffix(".taken")
        self._ids = count(1)
        self.environment = {"LD_PRELOAD": str(library), "TORTURE_FAULT": str(path)}
        self.clear()

    def set(self, root: Path, fault: Fault) -> None:
        """Let the next process take a fault below ``root``."""
        self._write(root, fault.point.operation, fault.point.pattern, fault.number, fault.action)

    def trace(self, root: Path) -> None:
        """Record all calls below ``root``, for :meth:`points`."""
        self._write(root, "", "", 0, "trace")

    def clear(self) -> None:
        """No more faults."""
        self._path.unlink(missing_ok=True)

    def taken(self) -> bool:
        """Whether a process has taken the fault."""
        return self._marker.exists()

    def points(self) -> list[Point]:
        """The points of the calls that were recorded."""
        found: Counter[tuple[str, str]] = Counter()
        for line in self._marker.read_text().splitlines():
            operation, _, file = line.partition("\t")
            found[operation, _pattern(file)] += 1
        return sorted(Point(*name, number) for name, number in found.items())

    def _write(self, root: Path, operation: str, pattern: str, number: int, action: str) -> None:
        self._marker.unlink(missing_ok=True)
        lines = [next(self._ids), root.resolve(), operation, pattern, number, action, self._marker]
        # In one step: a process may be reading it.
        new = self._path.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        os.replace(new, self._path)  # noqa: PTH105


def _pattern(file: str) -> str:
    for random, pattern in _RANDOM:
        file = random.sub(pattern, file)
    return _DEEP.sub(r"\1*", file)
