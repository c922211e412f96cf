"""Servers to measure: the ``serve`` command in its own processes, and their memory and processor time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.memory import process_tree

ROOT: Final = Path(__file__).resolve().parent.parent
START_SECONDS: Final = 600.0
STOP_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1
IDLE_SECONDS: Final = 0.5
IDLE_SHARE: Final = 0.1
"""Share of one core that an idle server may use, since its processes watch each other."""
_ANNOUNCED: Final = re.compile(r"Serving .* at (http://\S+) with")


class ServerError(Exception):
    """A server did not start, or has ended."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of a server's processes: proportional set size, where a page shared by n processes counts 1/n."""

    pss: int
    anonymous: int
    """Without mapped files: the library's pages, which the system can reclaim."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server at ``url``."""

    url: str
    process: subprocess.Popen[bytes]
    output: int
    """The descriptor of the file with what the server logged."""

    def log(self) -> str:
        """What the server logged so far; valid until the server's block ends."""
        return os.pread(self.output, os.fstat(self.output).st_size, 0).decode(errors="replace")

    def processes(self) -> list[int]:
        """The process ids of the server and its descendants."""
        if self.process.poll() is not None:
            raise ServerError(
                f"The server ended with status {self.process.returncode} while it was measured."
            )
        return process_tree(self.process.pid)

    def cpu_seconds(self) -> float:
        """Processor time of all processes of the server so far."""
        return sum(map(_cpu_seconds, self.processes()))

    def memory(self) -> Memory:
        """Current memory of all processes of the server.

        Raises:
            ServerError: the server has ended, or the system is not Linux.
        """
        pss = anonymous = 0
        for pid in self.processes():
            try:
                rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            except (FileNotFoundError, ProcessLookupError) as error:
                if not Path("/proc/self/smaps_rollup").exists():
                    raise ServerError(
                        "Memory is read from /proc/PID/smaps_rollup: measure on Linux."
                    ) from error
                continue  # the process has ended
            pss += _kilobytes(rollup, "Pss")
            anonymous += _kilobytes(rollup, "Pss_Anon")
        return Memory(pss * 1024, anonymous * 1024)


def _kilobytes(rollup: str, name: str) -> int:
    match = re.search(rf"^{name}: +(\d+) kB", rollup, re.MULTILINE)
    if match is None:
        raise ServerError(f"/proc/PID/smaps_rollup lacks {name}: measure on Linux 5.4 or later.")
    return int(match[1])


@contextmanager
def serving(
    library: Path,
    *,
    workers: int,
    module: str = "scholarbase.cli",
    prefix: Sequence[str] = (),
    start_seconds: float = START_SECONDS,
    **environment: str,
) -> Iterator[Server]:
    """Run ``scholarbase serve`` on a free port with default settings until the block ends.

    Args:
        module: the module of the command line.
        prefix: a command that runs the server's, such as ``prlimit --nofile=64``.
        start_seconds: how long the server may take to start.
        environment: added to this process's environment, of which SCHOLARBASE_ variables are not passed on. With
            ``SCHOLARBASE_RESPONSE_CACHE_MB="0"`` equal requests are computed again.

    Raises:
        ServerError: the server did not start; the message has its output.
    """
    command = [*prefix, sys.executable, "-m", module, "serve", "--library", str(library), "--port", "0"]
    command += ["--workers", str(workers)]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SCHOLARBASE_")}
    inherited["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    # Output goes to a file: reading it from a pipe would use a core.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=inherited | environment, stdin=subprocess.DEVNULL
        )
        try:
            server = Server(_address(process, output.fileno(), start_seconds), process, output.fileno())
            _wait_until_idle(server, workers, start_seconds)
            yield server
        finally:
            _stop(process)


def _address(process: subprocess.Popen[bytes], output: int, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while True:
        ended = process.poll() is not None
        text = os.pread(output, 1_000_000, 0).decode(errors="replace")
        if announced := _ANNOUNCED.search(text):
            return announced[1]
        if ended or time.monotonic() > deadline:
            raise ServerError(f"The server did not start (status {process.returncode}). Its output:\n{text}")
        time.sleep(POLL_SECONDS)


def _wait_until_idle(server: Server, workers: int, seconds: float) -> None:
    """Wait for processes that start after the address is logged: the first of them would get every call."""
    expected = workers + 1
    deadline = time.monotonic() + seconds
    before: dict[int, float] = {}
    while time.monotonic() < deadline:
        now = {pid: _cpu_seconds(pid) for pid in server.processes()}
        used = sum(now.values()) - sum(before.values())
        if len(now) >= expected and now.keys() == before.keys() and used < IDLE_SECONDS * IDLE_SHARE:
            return
        before = now
        time.sleep(IDLE_SECONDS)
    raise ServerError(f"The server at {server.url} was not idle {seconds:g} seconds after its start.")


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
