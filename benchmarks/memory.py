"""Peak memory of a command and all processes that it starts, and the peak of a folder's size."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SAMPLE_SECONDS: Final = 0.05
DISK_SAMPLE_SECONDS: Final = 1.0
_MB: Final = 1024  # /proc counts in kB
_COUNTED: Final = ("VmRSS", "RssAnon", "VmHWM")


@dataclass(slots=True)
class Peak:
    """Megabytes, each at its own peak.

    ``largest`` is the largest resident set of one process, as recorded by the kernel; ``together`` that of all
    processes in one sample, shared pages counted in each; ``anonymous`` its part that is not mapped from files.
    ``disk_bytes`` are those of a folder, and of deleted files on its disk that the processes still have open.
    """

    largest: float = 0.0
    together: float = 0.0
    anonymous: float = 0.0
    processes: int = 0
    disk_bytes: int = 0

    @property
    def resident(self) -> float:
        """The peak of the command: the kernel's record for one process, the samples' sum for several."""
        return max(self.largest, self.together)

    def sample(self, pid: int) -> None:
        """Update the peaks with the current memory of the process tree."""
        statuses = [status for process in process_tree(pid) if (status := _status(process))]
        self.largest = max([self.largest, *(status["VmHWM"] for status in statuses)])
        self.together = max(self.together, sum(status["VmRSS"] for status in statuses))
        self.anonymous = max(self.anonymous, sum(status["RssAnon"] for status in statuses))
        self.processes = max(self.processes, len(statuses))

    def sample_disk(self, pid: int, folder: Path) -> None:
        """Update the peak of ``disk_bytes``."""
        if not folder.is_dir():
            return
        opened = [
            path for process in process_tree(pid) for path in _entries(Path(f"/proc/{process}/fd"), "*")
        ]
        # Unlike rglob, it skips folders that were removed meanwhile.
        here = (Path(root, name) for root, _, names in os.walk(folder) for name in names)
        files = _blocks(here, deleted=False) | _blocks(opened, deleted=True)
        device = folder.stat().st_dev
        self.disk_bytes = max(self.disk_bytes, sum(size for key, size in files.items() if key[0] == device))


def run(command: Sequence[str], folder: Path, growing: Path | None = None) -> tuple[str, Peak]:
    """Run a command in a folder. Returns its standard output, its peak memory, and the peak size of ``growing``.

    Raises:
        RuntimeError: the system has no /proc, or the command failed; its errors are on standard error.
    """
    if not Path("/proc/self/status").is_file():
        raise RuntimeError("Memory is read from /proc, which this system does not have: measure on Linux.")
    peak, ended = Peak(), threading.Event()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:

        def watch() -> None:
            next_disk = 0.0
            while not ended.wait(SAMPLE_SECONDS):
                peak.sample(process.pid)
                if growing is not None and time.monotonic() >= next_disk:
                    peak.sample_disk(process.pid, growing)
                    next_disk = time.monotonic() + DISK_SAMPLE_SECONDS

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            printed, _ = process.communicate()
        finally:
            ended.set()
            watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}.")
    return printed, peak


def process_tree(pid: int) -> list[int]:
    """The ids of a process and all its descendants."""
    pids = [pid]
    for parent in pids:
        for task in _children_files(parent):
            try:
                pids.extend(int(child) for child in task.read_text().split())
            except OSError:  # the process has ended
                continue
    return pids


def _children_files(pid: int) -> list[Path]:
    return _entries(Path(f"/proc/{pid}/task"), "*/children")


def _entries(folder: Path, pattern: str) -> list[Path]:
    try:
        return list(folder.glob(pattern))
    except OSError:
        return []


def _blocks(paths: Iterable[Path], *, deleted: bool) -> dict[tuple[int, int], int]:
    """Bytes on disk of the regular files that still exist, by device and inode."""
    blocks = {}
    for path in paths:
        try:
            facts = path.stat()
        except OSError:
            continue
        if stat.S_ISREG(facts.st_mode) and (facts.st_nlink == 0) == deleted:
            blocks[facts.st_dev, facts.st_ino] = facts.st_blocks * 512
    return blocks


def _status(pid: int) -> dict[str, float] | None:
    """Megabytes by name; None if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    values = {name: value for name, _, value in (line.partition(":") for line in lines) if name in _COUNTED}
    if len(values) < len(_COUNTED):  # it is ending, and has no memory
        return None
    return {name: int(value.split()[0]) / _MB for name, value in values.items()}
