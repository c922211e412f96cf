"""Worker processes: messages in both directions, errors, and how they end."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scholarbase.errors import InvalidRequest, VectorIndexError
from scholarbase.workers import Worker, WorkerEnded

WORKER = """
import os, sys
from scholarbase.errors import InvalidRequest
from scholarbase.workers import requests, work

def task(job, send):
    print("goes to standard error")
    for number in range(job.get("count", 0)):
        send(number, bytes([number]) * 100_000)
    if "refused" in job:
        raise InvalidRequest(job["refused"])
    if "status" in job:
        os._exit(job["status"])
    for value, data in requests():
        if value == "sleep":
            while True: pass
        send({"value": value, "pid": os.getpid()}, data[::-1])

work(task, outlives_thread=True)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "worker_of_test.py").write_text(WORKER)
    monkeypatch.syspath_prepend(tmp_path)
    return "worker_of_test"


def test_requests_are_answered_and_a_slow_one_ends_at_its_time_limit(module: str) -> None:
    with closing(Worker(module, {})) as worker:
        for data in (b"", b"abc", b"ab" * 500_000):
            worker.send("x", data)
            assert worker.receive(60) == ({"value": "x", "pid": worker.pid}, data[::-1])
        worker.send("sleep")
        with pytest.raises(TimeoutError):
            worker.receive(0.1)
    assert worker.status == -9
    with pytest.raises(WorkerEnded):
        worker.send("x")


def test_messages_come_in_order_and_the_workers_error_is_raised(module: str) -> None:
    received: list[int] = []
    with (
        closing(Worker(module, {"count": 3, "refused": "no such job"})) as worker,
        pytest.raises(InvalidRequest, match="no such job"),
    ):
        received += (value for value, _ in worker.messages("the test"))
    assert received == [0, 1, 2]
    with (
        closing(Worker(module, {"status": 3})) as worker,
        pytest.raises(VectorIndexError, match="A process of the test ended with status 3: see its messages"),
    ):
        list(worker.messages("the test"))


def test_a_worker_ends_with_its_input(module: str) -> None:
    """Also in the middle of its work, as when the process that started it was killed."""
    with closing(Worker(module, {})) as worker:
        worker.send("sleep")
        worker._in.close()
        end = time.monotonic() + 60
        while worker.status is None:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert worker.status == 1
