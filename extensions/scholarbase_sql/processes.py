"""The workers that run SQL statements (:mod:`.worker`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock, Semaphore
from typing import Any, Final

from scholarbase.deadlines import check, time_limit, turn
from scholarbase.errors import Busy, InvalidSql, LibraryError
from scholarbase.workers import Worker, WorkerEnded

START_SECONDS: Final = 30.0
"""How long a worker may take to start."""
_MODULE: Final = "scholarbase_sql.worker"

check_time: Final = partial(
    check,
    "The SQL statement",
    "use conditions on paper_id or document_id, join fewer views, or group fewer rows",
)


class Workers:
    """A number of workers, which start when they are needed. Safe to share between threads.

    Args:
        size: statements that run at once. As many wait; more are rejected.
        job: returns the job of a worker.
        opened: is called with the snapshot id of each library that a worker has opened, and may raise.
    """

    def __init__(self, size: int, job: Callable[[], dict[str, str]], opened: Callable[[str], None]) -> None:
        self._size = size
        self._job = job
        self._opened = opened
        self._admitted = Semaphore(2 * size)
        self._turns = Semaphore(size)
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._lock = Lock()
        self._is_closed = False

    def run(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The response to a statement.

        Raises:
            InvalidSql: the statement is refused, or needs too much memory.
            TimeLimit, Cancelled: it took longer, or the deadline of the context ended.
            Busy: too many statements wait.
            LibraryError: no worker can be started.
        """
        if not self._admitted.acquire(blocking=False):
            raise Busy(
                f"{self._size} SQL statements run and {self._size} wait in this process: retry in a second, or send "
                "fewer at once."
            )
        try:
            with time_limit(seconds):
                check_time()
                with turn(self._turns):
                    return self._respond(request)
        finally:
            self._admitted.release()

    def close(self) -> None:
        """Kill all workers. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            workers = list(self._all)
            self._all.clear()
            self._idle.clear()
        for worker in workers:
            worker.close()

    def _respond(self, request: dict[str, Any]) -> dict[str, Any]:
        worker = self._take()
        try:
            worker.send(request)
            response, _ = worker.receive(check=check_time)
        except WorkerEnded as ended:
            self._remove(worker)
            raise InvalidSql(
                f"The process of the statement ended (status {ended.status}), which too much memory can cause: select "
                "fewer rows and columns, or cut texts with substr."
            ) from None
        except BaseException:
            self._remove(worker)
            raise
        with self._lock:
            if not self._is_closed:
                self._idle.append(worker)
        if "refused" in response:
            raise InvalidSql(response["refused"])
        result: dict[str, Any] = response
        return result

    def _take(self) -> Worker:
        """An idle worker, or a new one."""
        while True:
            with self._lock:
                if self._is_closed:
                    raise LibraryError("The library is closed: open it again.")
                if not self._idle:
                    break
                worker = self._idle.pop()
            if worker.status is None:
                return worker
            self._remove(worker)
        try:
            worker = Worker(_MODULE, self._job())
        except OSError as error:
            raise LibraryError(f"No process for SQL can be started ({error}): retry later.") from error
        with self._lock:
            self._all.add(worker)
        try:
            snapshot, _ = worker.receive(START_SECONDS, check_time)
            self._opened(snapshot)
        except BaseException as error:
            self._remove(worker)
            if isinstance(error, WorkerEnded | TimeoutError):
                raise LibraryError(
                    f"The process for SQL did not start (status {worker.status}): see the log of the server."
                ) from error
            raise
        return worker

    def _remove(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.close()
