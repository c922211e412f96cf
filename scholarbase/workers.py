"""Worker processes: a module run as a command, with a job on its input and JSON lines on its output.

``multiprocessing`` may run the caller's script again, and threads share Python's global lock, which Qdrant Edge holds
while it converts points. The first line of a worker's input is its job. Each line of its output is a message, or an
error as an object with its class and text. A worker ends with its input, so also when the process that started it is
killed. On Linux the kernel ends it too, since Python's threads wait while Qdrant Edge is inside a long call.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from time import sleep
from typing import Any, Final

import orjson

from scholarbase import errors
from scholarbase.errors import ScholarBaseError, VectorIndexError
from scholarbase.memory import cores

SUBPROCESS_PAPERS: Final = 20_000
"""Papers from which on a subprocess is faster: it takes half a second to start."""
_ERROR: Final = "error"
_PR_SET_PDEATHSIG: Final = 1

Say = Callable[[Any], None]


def pays_off(papers: int) -> bool:
    """Whether a subprocess for the work on so many papers is faster."""
    return papers >= SUBPROCESS_PAPERS and bool(sys.executable) and cores() > 1


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module in another process. With ``-P``, files in the working directory with names of
    modules are not run in their place."""
    return [sys.executable, "-P", "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """The environment of such a process, which finds modules where this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}


def run_workers(
    module: str, jobs: Sequence[Mapping[str, Any]], received: Callable[[int, Any], None], *, what: str
) -> None:
    """Run one worker for each job, and return when all have ended.

    ``received`` is called with the number of a job and each message of its worker, from a thread for each job. When one
    worker fails, the others are killed. ``what`` names the work in errors.

    Raises:
        ScholarBaseError: the error of a worker.
        VectorIndexError: a worker ended early.
    """
    started: list[subprocess.Popen[bytes]] = []

    def run(number: int) -> None:
        process = started[number]
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):  # its output says why
            process.stdin.write(orjson.dumps(jobs[number]) + b"\n")
            process.stdin.flush()
        for line in process.stdout:
            message = orjson.loads(line)
            if isinstance(message, dict) and _ERROR in message:
                raise getattr(errors, message[_ERROR])(message["text"])
            received(number, message)
        if process.wait() != 0:
            raise VectorIndexError(
                f"A process of {what} ended with status {process.returncode}: see its messages above, and run the same "
                "command again to continue."
            )

    try:
        for _ in jobs:
            started.append(
                subprocess.Popen(
                    module_command(module),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=module_environment(),
                    process_group=0,  # Ctrl-C ends the job, which ends it
                )
            )
        with ThreadPoolExecutor(max(1, len(jobs))) as pool:
            running = [pool.submit(run, number) for number in range(len(jobs))]
            try:
                done, _ = wait(running, return_when=FIRST_EXCEPTION)
                for one in done:
                    one.result()
            finally:
                for process in started:
                    process.kill()
    finally:
        for process in started:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()


def end_with_parent() -> None:
    """Ask Linux to kill this process when the thread that started it ends: prctl(2), PR_SET_PDEATHSIG."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def work(task: Callable[[dict[str, Any], Say], None]) -> None:
    """Read the job of this worker process, and run ``task`` with it and a function that sends messages."""
    line = sys.stdin.buffer.readline()
    if not line:  # the process that started this one has ended
        sys.exit(1)
    job = orjson.loads(line)
    lock = Lock()

    def say(message: Any) -> None:
        with lock:
            sys.stdout.buffer.write(orjson.dumps(message) + b"\n")
            sys.stdout.buffer.flush()

    def end_with_input() -> None:
        os.read(sys.stdin.fileno(), 1)
        os._exit(1)

    Thread(target=end_with_input, daemon=True).start()
    end_with_parent()
    try:
        task(job, say)
    except ScholarBaseError as error:
        say({_ERROR: type(error).__name__, "text": str(error)})
        sys.exit(1)


def end_with(parent: int) -> None:
    """End this process when its parent has ended: on Linux at once, elsewhere with SIGTERM within a second."""
    end_with_parent()

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="end-with-parent", daemon=True).start()
