"""Servers to measure: the real command in processes of its own, and what memory they hold."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
START_SECONDS: Final = 600.0
STOP_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1
IDLE_SECONDS: Final = 0.5
IDLE_SHARE: Final = 0.1
"""Of one core: what an idle server may use, for its processes look after one another."""
_ANNOUNCED: Final = re.compile(r"Serving .* at (http://\S+) with")


class ServerError(Exception):
    """A server did not start, or has died."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a server's processes: proportional set size, in which a page that n processes share counts 1/n."""

    pss: int
    anonymous: int
    """Without what is mapped from files: the library's pages, which the system takes back when it needs them."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers at ``url``."""

    url: str
    process: subprocess.Popen[bytes]

    def processes(self) -> list[int]:
        """The process ids of the server: its own, and of all that it started."""
        if self.process.poll() is not None:
            raise ServerError(
                f"The server ended with status {self.process.returncode} while it was measured."
            )
        return _descendants(self.process.pid)

    def cpu_seconds(self) -> float:
        """What all processes of the server have taken from the machine's cores so far."""
        return sum(map(_cpu_seconds, self.processes()))

    def memory(self) -> Memory:
        """What all processes of the server hold now.

        Raises:
            ServerError: the server has ended, or the system does not say (it is not Linux).
        """
        pss = anonymous = 0
        for pid in self.processes():
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError) as error:
                if not Path("/proc/self/smaps_rollup").exists():
                    raise ServerError(
                        "Memory is measured by /proc/PID/smaps_rollup, on Linux alone."
                    ) from error
                continue  # it ended since it was listed
            pss += _kilobytes(rollup, "Pss")
            anonymous += _kilobytes(rollup, "Pss_Anon")
        return Memory(pss * 1024, anonymous * 1024)


def _kilobytes(rollup: str, name: str) -> int:
    found = re.search(rf"^{name}: +(\d+) kB", rollup, re.MULTILINE)
    if found is None:
        raise ServerError(f"/proc/PID/smaps_rollup has no {name}: a newer kernel writes it (Linux 5.4).")
    return int(found[1])


def _descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, children.read_text().split())
            except (FileNotFoundError, ProcessLookupError):
                continue  # a thread that has ended
    return found


def cores() -> int:
    """Cores that this process may use: as many processes serve."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def serving(
    library: Path, *, workers: int, module: str = "scholarbase.cli", **environment: str
) -> Iterator[Server]:
    """``scholarbase serve`` on a free port with its default settings, stopped at the end whatever happens.

    Args:
        module: whose command line it is.
        environment: added to this process's own, of which no SCHOLARBASE_ setting is handed on.

    Raises:
        ServerError: it did not start; what it said is in the message.
    """
    command = [sys.executable, "-m", module, "serve", "--library", str(library), "--port", "0"]
    command += ["--workers", str(workers)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SCHOLARBASE_")}
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    # What it says goes to a file, as a service's would: reading it from a pipe would take a share of the cores.
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, env=inherited | environment, stdin=subprocess.DEVNULL
        )
        try:
            server = Server(_address(process, said.fileno()), process)
            _wait_until_idle(server, workers)
            yield server
        finally:
            _stop(process)


def _address(process: subprocess.Popen[bytes], said: int) -> str:
    deadline = time.monotonic() + START_SECONDS
    while True:
        ended = process.poll() is not None
        text = os.pread(said, 1_000_000, 0).decode(errors="replace")
        if announced := _ANNOUNCED.search(text):
            return announced[1]
        if ended or time.monotonic() > deadline:
            raise ServerError(f"The server did not start (status {process.returncode}). It said:\n{text}")
        time.sleep(POLL_SECONDS)


def _wait_until_idle(server: Server, workers: int) -> None:
    """Wait for processes that start after the address is announced: the first of them would be given every call."""
    expected = workers + 1 if workers > 1 else 1
    deadline = time.monotonic() + START_SECONDS
    before: dict[int, float] = {}
    while time.monotonic() < deadline:
        now = {pid: _cpu_seconds(pid) for pid in server.processes()}
        used = sum(now.values()) - sum(before.values())
        if len(now) >= expected and now.keys() == before.keys() and used < IDLE_SECONDS * IDLE_SHARE:
            return
        before = now
        time.sleep(IDLE_SECONDS)
    raise ServerError(f"The server at {server.url} was not idle {START_SECONDS:g} seconds after its start.")


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
