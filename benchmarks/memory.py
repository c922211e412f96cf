"""How much memory a command takes at its peak, with every process that it starts."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECONDS_BETWEEN_LOOKS: Final = 0.05
_MB: Final = 1024  # /proc counts in kB
_COUNTED: Final = ("VmRSS", "RssAnon", "VmHWM")


@dataclass(slots=True)
class Peak:
    """Megabytes, each at its own peak.

    ``largest`` is the greatest resident set that any one process ever had, as the kernel recorded it; ``together`` is
    that of all processes at one look, pages that they share counted in each; ``anonymous`` is the part of it that no
    file stands behind. Mapped files count in the first two.
    """

    largest: float = 0.0
    together: float = 0.0
    anonymous: float = 0.0
    processes: int = 0

    @property
    def resident(self) -> float:
        """What the command took: of one process what the kernel recorded, of several what they held together."""
        return max(self.largest, self.together)

    def look(self, pid: int) -> None:
        """Take in how the process and those below it stand now."""
        seen = [status for each in family(pid) if (status := _status(each))]
        self.largest = max([self.largest, *(status["VmHWM"] for status in seen)])
        self.together = max(self.together, sum(status["VmRSS"] for status in seen))
        self.anonymous = max(self.anonymous, sum(status["RssAnon"] for status in seen))
        self.processes = max(self.processes, len(seen))


def run(command: Sequence[str], folder: Path) -> tuple[str, Peak]:
    """Run a command in a folder; what it printed, and its peak.

    Raises:
        RuntimeError: there is no /proc to look into, or the command failed; its errors are on standard error.
    """
    if not Path("/proc/self/status").is_file():
        raise RuntimeError("Memory is read from /proc, which this system does not have: measure on Linux.")
    peak, ended = Peak(), threading.Event()
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:

        def watch() -> None:
            while not ended.wait(SECONDS_BETWEEN_LOOKS):
                peak.look(process.pid)

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


def family(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    for parent in found:
        for task in _children_files(parent):
            try:
                found.extend(int(child) for child in task.read_text().split())
            except OSError:  # it ended since
                continue
    return found


def _children_files(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return []


def _status(pid: int) -> dict[str, float] | None:
    """Megabytes by name; None of a process that ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    values = {name: value for name, _, value in (line.partition(":") for line in lines) if name in _COUNTED}
    if len(values) < len(_COUNTED):  # it is about to end, and holds no memory
        return None
    return {name: int(value.split()[0]) / _MB for name, value in values.items()}
