"""Worker processes: modules that run as commands, and the messages between them and the process that starts them.

``multiprocessing`` may run the caller's script again, and threads share Python's global lock, which Qdrant Edge holds
while it converts points. A message is a JSON value and bytes, after the length of each. The first one that a worker
gets is its job. A :class:`ScholarBaseError` that ends a worker is raised in the other process.

A worker ends when its input does, so also when the process that started it is killed.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from time import monotonic, sleep
from typing import IO, Any, Final

import orjson

from scholarbase import errors
from scholarbase.errors import ScholarBaseError, VectorIndexError
from scholarbase.memory import cores

SUBPROCESS_PAPERS: Final = 20_000
"""Papers from which on a worker is faster: it takes half a second to start."""
_LENGTHS: Final = struct.Struct(">QQ")
_CHUNK: Final = 1 << 20
_POLL_SECONDS: Final = 0.02
_PR_SET_PDEATHSIG: Final = 1

Message = tuple[Any, bytes]
Send = Callable[..., None]
"""Sends a message: its JSON value, and bytes if it has some."""


class WorkerEnded(Exception):
    """A worker ended instead of sending a message. ``status`` is its exit status, negative for a signal."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The process ended with status {status}.")
        self.status = status


class Worker:
    """A worker process, for one thread at a time. Signals of a terminal do not reach it.

    Args:
        module: what runs, with :func:`work`.
        job: a JSON value.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, module: str, job: Any) -> None:
        self._process = subprocess.Popen(
            # With -P, files in the working directory with names of modules are not run in their place.
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=module_environment(),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        with suppress(WorkerEnded):  # its messages say why
            self.send(job)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def send(self, value: Any, data: bytes = b"") -> None:
        """Send a message. Raises WorkerEnded."""
        try:
            _write(self._in, value, data)
        except (OSError, ValueError) as error:  # ended, or closed by another thread
            raise WorkerEnded(self._process.wait()) from error

    def receive(self, seconds: float | None = None, check: Callable[[], None] | None = None) -> Message:
        """The next message. ``check`` is called fifty times a second until it comes, and may raise.

        Raises:
            ScholarBaseError: the worker failed with it.
            WorkerEnded: it ended without a message.
            TimeoutError: the message takes longer than ``seconds``.
        """
        end = None if seconds is None else monotonic() + seconds
        try:
            head = self._read(_LENGTHS.size, end, check)
            value, data = (self._read(size, end, check) for size in _LENGTHS.unpack(head))
        except (EOFError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise WorkerEnded(self._process.wait()) from error
        message = orjson.loads(value)
        if isinstance(message, dict) and "error" in message:
            raise getattr(errors, message["error"])(message["text"])
        return message, data

    def messages(self, what: str) -> Iterator[Message]:
        """All messages until the worker ends.

        Raises:
            VectorIndexError: it failed. ``what`` names its work.
        """
        while True:
            try:
                yield self.receive()
            except WorkerEnded as ended:
                if ended.status == 0:
                    return
                raise VectorIndexError(
                    f"A process of {what} ended with status {ended.status}: see its messages above, and run the same "
                    "command again to continue."
                ) from None

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Kill the process, and wait for its end."""
        self._process.kill()
        self._process.wait()
        for stream in (self._in, self._out):
            with suppress(OSError):
                stream.close()

    def _read(self, size: int, end: float | None, check: Callable[[], None] | None) -> bytes:
        out = self._out.fileno()
        poll = select.poll()
        poll.register(out, select.POLLIN)
        content = bytearray()
        while len(content) < size:
            if check is not None:
                check()
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            if check is not None:
                left = _POLL_SECONDS if left is None else min(left, _POLL_SECONDS)
            if left is not None and not poll.poll(1000 * left):
                continue
            chunk = os.read(out, min(size - len(content), _CHUNK))
            if not chunk:
                raise EOFError
            content += chunk
        return bytes(content)


def pays_off(papers: int) -> bool:
    """Whether a worker for so many papers is faster."""
    return papers >= SUBPROCESS_PAPERS and bool(sys.executable) and cores() > 1


def module_environment() -> dict[str, str]:
    """The environment of a process that finds modules where this one does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}


# -- in the worker --------------------------------------------------------------------------------------


def work(task: Callable[[Any, Send], None], *, outlives_thread: bool = False) -> None:
    """Run ``task`` with the job of this worker and the function that sends messages. What it prints goes to standard
    error.

    Args:
        outlives_thread: the thread that started this process may end before. Otherwise Linux kills it then, also inside
            a call of Qdrant Edge, which no thread of Python can interrupt.
    """
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    first = _read(sys.stdin.buffer)
    if first is None:  # the process that started this one has ended
        sys.exit(1)
    lock = Lock()

    def send(value: Any, data: bytes = b"") -> None:
        with lock:
            _write(out, value, data)

    if not outlives_thread:
        _end_with_thread()
    Thread(target=_end_with_input, daemon=True).start()
    try:
        task(first[0], send)
    except ScholarBaseError as error:
        send({"error": type(error).__name__, "text": str(error)})
        sys.exit(1)


def requests() -> Iterator[Message]:
    """The messages to this worker after its job, until its input ends."""
    return iter(partial(_read, sys.stdin.buffer), None)


def end_with(parent: int) -> None:
    """End this process when its parent has ended: on Linux at once, elsewhere with SIGTERM within a second."""
    _end_with_thread()

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    Thread(target=watch, name="end-with-parent", daemon=True).start()


def _end_with_thread() -> None:
    """Ask Linux to kill this process when the thread that started it ends: prctl(2), PR_SET_PDEATHSIG."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_with_input() -> None:
    poll = select.poll()
    poll.register(sys.stdin.fileno(), 0)  # reports the end of the input, and nothing else
    poll.poll()
    os._exit(1)


def _write(stream: IO[bytes], value: Any, data: bytes) -> None:
    head = orjson.dumps(value)
    stream.write(_LENGTHS.pack(len(head), len(data)) + head)
    stream.write(data)
    stream.flush()


def _read(stream: IO[bytes]) -> Message | None:
    head = stream.read(_LENGTHS.size)
    if len(head) < _LENGTHS.size:
        return None
    size, data = _LENGTHS.unpack(head)
    return orjson.loads(stream.read(size)), stream.read(data)
