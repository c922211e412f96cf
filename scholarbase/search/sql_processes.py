"""The processes that run SQL statements (:mod:`.sql_worker`): starting, waiting for and killing them."""

from __future__ import annotations

import json
import select
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Final

import orjson

from scholarbase.deadlines import DEADLINE, check
from scholarbase.errors import Busy, InvalidSql, LibraryError, TimeLimit
from scholarbase.search.sql_worker import LENGTH
from scholarbase.workers import module_command, module_environment

START_SECONDS: Final = 30.0
"""How long a process may take to start."""
POLL_SECONDS: Final = 0.02
"""How often a waiting thread looks whether its time is over."""
ACTIVITY: Final = "The SQL statement"
ADVICE: Final = "use conditions on paper_id or document_id, join fewer views, or group fewer rows"
_CHUNK: Final = 2**16


class Worker:
    """A process with the files of one library open. For one thread at a time.

    Args:
        paths: the files, as :mod:`.sql_worker` reads them.

    Raises:
        LibraryError: the process cannot be started, or cannot open the files.
    """

    def __init__(self, paths: dict[str, str]) -> None:
        command = module_command("scholarbase.search.sql_worker", json.dumps(paths))
        try:
            # A session of its own, so that signals of a terminal end only the parent.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=module_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise LibraryError(f"No process for SQL can be started ({error}): retry later.") from error
        try:
            self.snapshot: str | None = self._read(monotonic() + START_SECONDS)["snapshot"]
        except BaseException as error:
            self.close()
            deadline = DEADLINE.get()
            if isinstance(error, TimeoutError) and deadline is not None and deadline.remaining <= 0:
                raise deadline.error(ACTIVITY, ADVICE) from error
            if isinstance(error, EOFError | TimeoutError):
                raise LibraryError(
                    f"The process for SQL did not start (status {self._process.returncode}): see the log of the server."
                ) from error
            raise

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def status(self) -> int:
        """The exit status of a process that has closed its output."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(START_SECONDS)
        self._process.kill()
        return self._process.wait()

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The response to a statement.

        Raises:
            TimeoutError: it takes longer, or the deadline of the context ended. The process must be closed.
            EOFError: the process has ended.
        """
        message = orjson.dumps({**request, "seconds": seconds})
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(LENGTH.pack(len(message)) + message)
            self._process.stdin.flush()
        except OSError as error:
            raise EOFError from error
        return self._read(monotonic() + seconds)

    def _read(self, end: float) -> dict[str, Any]:
        content = self._read_bytes(LENGTH.size, end)
        read: dict[str, Any] = orjson.loads(self._read_bytes(LENGTH.unpack(content)[0], end))
        return read

    def _read_bytes(self, size: int, end: float) -> bytes:
        assert self._process.stdout is not None
        out = self._process.stdout
        poll = select.poll()
        poll.register(out, select.POLLIN)
        content = b""
        while len(content) < size:
            deadline = DEADLINE.get()
            left = end - monotonic() if deadline is None else min(end - monotonic(), deadline.remaining)
            if left <= 0:
                raise TimeoutError
            if not poll.poll(1000 * min(left, POLL_SECONDS)):
                continue
            chunk = out.read1(min(size - len(content), _CHUNK))  # type: ignore[attr-defined]
            if not chunk:
                raise EOFError
            content += chunk
        return content

    def close(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


class Workers:
    """A number of processes, which start when they are needed. Safe to share between threads.

    Args:
        size: statements that run at once. As many wait; more are rejected.
        start: starts one.
    """

    def __init__(self, size: int, start: Callable[[], Worker]) -> None:
        self._size = size
        self._start = start
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._changed = threading.Condition()
        self._running = self._waiting = 0
        self._is_closed = False

    def run(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The response to a statement.

        Raises:
            InvalidSql: the statement is refused, or needs too much memory.
            TimeLimit, Cancelled: it took longer, or the deadline of the context ended.
            Busy: too many statements wait.
            LibraryError: no process can be started.
        """
        check(ACTIVITY, ADVICE)
        end = monotonic() + seconds
        with self._turn(end, seconds):
            worker = self._take()
            is_done = False
            try:
                answer = worker.ask(request, max(0.0, end - monotonic()))
                is_done = True
            except TimeoutError:
                raise _late(seconds) from None
            except EOFError:
                raise InvalidSql(
                    f"The process of the statement ended (status {worker.status}), which too much memory can cause: "
                    "select fewer rows and columns, or cut texts with substr."
                ) from None
            finally:
                if is_done:
                    self._give(worker)
                else:
                    self._remove(worker)
        if "error" in answer:
            raise InvalidSql(answer["error"])
        return answer

    def close(self) -> None:
        """Kill all processes. A second call does nothing."""
        with self._changed:
            self._is_closed = True
            workers = list(self._all)
            self._idle.clear()
            self._all.clear()
        for worker in workers:
            worker.close()

    @contextmanager
    def _turn(self, end: float, seconds: float) -> Iterator[None]:
        with self._changed:
            if self._running >= self._size:
                if self._waiting >= self._size:
                    raise Busy(
                        f"{self._running} SQL statements run and {self._waiting} wait in this process: retry in a "
                        "second, or send fewer at once."
                    )
                self._waiting += 1
                try:
                    while self._running >= self._size:
                        check(ACTIVITY, ADVICE)
                        if monotonic() >= end:
                            raise _late(seconds)
                        self._changed.wait(POLL_SECONDS)
                finally:
                    self._waiting -= 1
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify()

    def _take(self) -> Worker:
        """An idle process, or a new one."""
        while True:
            with self._changed:
                worker = self._idle.pop() if self._idle else None
            if worker is None:
                break
            if worker.is_alive:
                return worker
            self._remove(worker)
        worker = self._start()
        with self._changed:
            is_closed = self._is_closed
            if not is_closed:
                self._all.add(worker)
        if is_closed:
            worker.close()
            raise LibraryError("The library is closed: open it again.")
        return worker

    def _give(self, worker: Worker) -> None:
        with self._changed:
            if not self._is_closed:
                self._idle.append(worker)

    def _remove(self, worker: Worker) -> None:
        with self._changed:
            self._all.discard(worker)
        worker.close()


def _late(seconds: float) -> Exception:
    deadline = DEADLINE.get()
    if deadline is not None and deadline.remaining <= 0:
        return deadline.error(ACTIVITY, ADVICE)
    return TimeLimit(f"{ACTIVITY} was stopped at the time limit of {seconds:g} s: {ADVICE}.")
