"""Processes that are forked from one that has imported ScholarBase.

A new Python process takes half a second of CPU time for the imports of a command, and two for those of a server. A fork
takes some milliseconds, has its own arguments, environment, folder and pipes, and can be killed. Tests of imports, and
of how a process starts, start new ones.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parent.parent
CLI = "from scholarbase.cli import main; main(prog_name='scholarbase')"
COMMANDS = ("scholarbase.cli", "scholarbase.ingest.job", "scholarbase.search.library")
SERVERS = (*COMMANDS, "scholarbase.api.server", "scholarbase.api.app")
_LENGTH = struct.Struct("!I")


class Fork:
    """A process, with what tests use of :class:`subprocess.Popen`."""

    def __init__(self, parent: _Parent, pid: int, stdout: TextIO | None, stderr: TextIO | None) -> None:
        self._parent = parent
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        with self._lock:
            if self.returncode is None:
                self.returncode = self._parent.ask({"pid": self.pid})
            return self.returncode

    def wait(self, timeout: float = 300.0) -> int:
        """The exit status. Raises subprocess.TimeoutExpired after ``timeout`` seconds."""
        end = time.monotonic() + timeout
        pause = 0.001
        while (status := self.poll()) is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout)
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        return status

    def communicate(self, timeout: float = 300.0) -> tuple[str, str]:
        """What it writes until it ends. It is killed after ``timeout`` seconds."""
        outputs = {"stdout": "", "stderr": ""}

        def read(name: str, file: TextIO) -> None:
            with file:
                outputs[name] = file.read()

        files = {"stdout": self.stdout, "stderr": self.stderr}
        readers = [threading.Thread(target=read, args=item) for item in files.items() if item[1] is not None]
        watch = threading.Timer(timeout, self.kill)
        watch.start()
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        self.wait(timeout)
        watch.cancel()
        watch.join()
        return outputs["stdout"], outputs["stderr"]

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.terminate()
        self.wait(60)
        for file in (self.stdout, self.stderr):
            if file is not None:
                file.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def fork(
    code: str,
    *arguments: str | Path,
    imports: Sequence[str] = COMMANDS,
    stdout: bool = True,
    cwd: Path | None = None,
    **environment: str,
) -> Fork:
    """Run ``code`` in a process with these arguments.

    Args:
        imports: modules that the process has from the start.
        stdout: connect its output to a pipe, as its errors always are.
        environment: variables beside those of this process.
    """
    return _parent().fork(
        {
            "code": code,
            "arguments": ["-c", *map(str, arguments)],
            "imports": list(imports),
            "cwd": str(cwd or Path.cwd()),
            "environment": dict(os.environ) | environment,
        },
        stdout,
    )


def run_fork(*arguments: str | Path, code: str = CLI, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line, or other code, in a process of its own until it ends."""
    process = fork(code, *arguments, **options)
    output, errors = process.communicate()
    return subprocess.CompletedProcess(arguments, process.wait(60), output, errors)


class _Parent:
    """The process that forks the others. It has one thread."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from tests.forks import _serve; exec(_serve({theirs.fileno()}))"],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "OPENBLAS_NUM_THREADS": "1",  # others do not live through a fork
                },
            )
        atexit.register(self._close)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()

    def ask(self, request: dict[str, Any], files: Sequence[int] = ()) -> Any:
        data = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._socket, [_LENGTH.pack(len(data))], files)
            self._socket.sendall(data)
            return json.loads(_receive(self._socket, _LENGTH.unpack(_receive(self._socket, _LENGTH.size))[0]))

    def fork(self, request: dict[str, Any], stdout: bool) -> Fork:
        pipes = [os.pipe() for _ in range(2 if stdout else 1)]
        writing = [end for _, end in pipes]
        pid = self.ask(request, writing if stdout else [1, *writing])
        for end in writing:
            os.close(end)
        *out, errors = (os.fdopen(end, encoding="utf-8") for end, _ in pipes)
        return Fork(self, pid, out[0] if out else None, errors)


@cache
def _parent() -> _Parent:
    return _Parent()


def _receive(connection: socket.socket, size: int) -> bytes:
    data = connection.recv(size, socket.MSG_WAITALL)
    assert len(data) == size, "the other process has ended"
    return data


def _serve(descriptor: int) -> str:
    """Fork and return the code to run in each process forked, and nothing in this one when the tests end."""
    connection = socket.socket(fileno=descriptor)
    while True:
        header, files, _, _ = socket.recv_fds(connection, _LENGTH.size, 2)
        if not header:
            return ""
        request = json.loads(_receive(connection, _LENGTH.unpack(header)[0]))
        if "pid" in request:
            pid, status = os.waitpid(request["pid"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            for name in request["imports"]:
                import_module(name)
            gc.freeze()
            answer = os.fork()
            if answer == 0:
                connection.close()
                for number, file in enumerate(files, 1):
                    os.dup2(file, number)
                    os.close(file)
                sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
                sys.stderr = sys.__stderr__ = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
                os.environ.clear()
                os.environ.update(request["environment"])
                added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
                sys.path[1:1] = [path for path in added if path and path not in sys.path]
                os.chdir(request["cwd"])
                sys.argv = request["arguments"]
                return str(request["code"])
            for file in files:
                os.close(file)
        data = json.dumps(answer).encode()
        connection.sendall(_LENGTH.pack(len(data)) + data)
