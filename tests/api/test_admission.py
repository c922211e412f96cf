"""Time limits and queues: what runs at once, for how long, and what waits."""

import asyncio
import os
import re
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from scholarbase.api import admission as admission_module
from scholarbase.api.admission import ARRIVED, PAPERS_AT_ONCE, TURN_SECONDS, Admission, Capacity, release
from scholarbase.api.routes import about
from scholarbase.api.routes.about import VALID_SECONDS, ReadinessChecks
from scholarbase.deadlines import DEADLINE, check, time_limit
from scholarbase.errors import Busy, Cancelled, InvalidRequest, TimeLimit
from scholarbase.settings import load_settings
from tests.api.raw import connected, problem, read_all
from tests.conftest import serving, serving_in_thread
from tests.rerankers.scripted import running_reranker
from tests.sessions.agents import wait_until

SECONDS = 60


class Client:
    """A client that has sent a request without a body."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        self._sent = False

    async def receive(self) -> dict[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    def request(self) -> Request:
        return Request({"type": "http", "method": "GET", "headers": []}, self.receive)


@asynccontextmanager
async def admission(**settings: Any) -> AsyncIterator[Admission]:
    admission = Admission(load_settings(**settings))
    try:
        yield admission
    finally:
        admission.close()


def until_deadline() -> None:
    """Work without end that checks its deadline."""
    while True:
        check("The work", "work less")
        threading.Event().wait(0.001)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_time_limit_counted_from_the_end_of_the_wait() -> None:
    """A request that waited for 4 s had its response after 9 s, of a limit of 5 s."""
    async with admission(readers=1) as admitted:
        http = Client().request()
        http.scope[ARRIVED] = time.monotonic() - 599
        with pytest.raises(TimeLimit, match="was stopped at the time limit of 600 s: work less"):
            await admitted.execute(until_deadline, http=http, short=False, papers=1)
        go = threading.Event()
        running = asyncio.create_task(
            admitted.execute(lambda: go.wait(SECONDS), http=Client().request(), short=False, papers=1)
        )
        await asyncio.sleep(0)
        late = Client().request()
        late.scope[ARRIVED] = time.monotonic() - 599.9
        with pytest.raises(Busy, match="The request waited for a thread of this server for"):
            await admitted.execute(lambda: None, http=late, short=False, papers=1)
        go.set()
        await running


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
async def test_long_work_gives_way_to_quick_work() -> None:
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    async with admission() as admitted:
        quick, long = [
            await admitted.execute(priority, http=Client().request(), short=False, quick=is_quick, papers=1)
            for is_quick in (True, False)
        ]
    assert quick == priority()
    assert long == min(19, quick + 5)


async def test_a_waiting_request_that_is_cancelled_takes_nothing() -> None:
    units = Capacity(1, 10, "units")
    assert units.take(1)
    waiting = [asyncio.create_task(units.wait(1)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    units.release(1)  # lends to the second, which is cancelled before it runs
    waiting[1].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert not waiting[2].cancelled()
    units.release(1)
    assert units.take(1)


@pytest.mark.parametrize("steps", range(5))
async def test_a_request_cancelled_just_after_its_turn_kept_its_units_for_good(steps: int) -> None:
    capacity = Capacity(1, 10, "a thread")
    assert capacity.take(1)
    client = admission_module._Client(Client().request(), lambda: None)
    waiting = asyncio.create_task(client.unless_gone(capacity.wait(1), lambda: capacity.release(1)))
    await asyncio.sleep(0.01)
    capacity.release(1)  # lends the unit to the request
    for _ in range(steps):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert capacity.take(1) is waiting.cancelled()
    client.forget()


async def test_more_requests_than_the_queue_holds_are_rejected() -> None:
    async with admission(readers=1, queue=1) as admitted:
        go = threading.Event()

        def execute() -> asyncio.Task[bool]:
            work = admitted.execute(lambda: go.wait(SECONDS), http=Client().request(), short=False, papers=1)
            return asyncio.create_task(work)

        running, waiting = execute(), execute()
        await asyncio.sleep(0.01)
        with pytest.raises(Busy, match="1 requests wait for a thread of this server: retry in a second"):
            await execute()
        go.set()
        assert await running
        assert await waiting


async def test_papers_in_memory_are_limited() -> None:
    async with admission(readers=4) as admitted:
        first = Client().request()
        await admitted.execute(lambda: None, http=first, short=False, papers=PAPERS_AT_ONCE)
        # The thread has ended, but the response is not sent yet.
        second = asyncio.create_task(
            admitted.execute(lambda: "second", http=Client().request(), short=True, papers=101)
        )
        few = Client().request()
        assert await admitted.execute(lambda: "few", http=few, short=True, papers=100) == "few"
        # A default search of ten papers waited for the large responses of others, for 20 s.
        quick = Client().request()
        found = await admitted.execute(lambda: "quick", http=quick, short=False, quick=True, papers=100)
        assert found == "quick"
        await asyncio.sleep(0.01)
        assert not second.done()
        release(first)
        assert await second == "second"


async def test_a_client_that_disconnects_cancels_its_work() -> None:
    async with admission(readers=1) as admitted:
        running, queued = Client(), Client()
        tasks = [
            asyncio.create_task(
                admitted.execute(until_deadline, http=client.request(), short=False, papers=1)
            )
            for client in (running, queued)
        ]
        await asyncio.sleep(0.01)
        for client, task in ((queued, tasks[1]), (running, tasks[0])):
            client.gone.set()
            with pytest.raises(Cancelled, match="the client disconnected"):
                await task
        # The thread is free again.
        free = Client().request()
        assert await admitted.execute(lambda: "free", http=free, short=False, papers=1) == "free"


async def test_the_body_of_a_watched_request_can_be_read_later() -> None:
    """Watching for a disconnect consumed the body of a GET, so that recording its failure waited for ever."""
    async with admission() as admitted:
        http = Client().request()
        await admitted.execute(lambda: None, http=http, short=False, papers=1)
        assert await http.body() == b""


async def test_work_that_ignores_its_deadline_gets_its_response_all_the_same() -> None:
    async with admission(readers=1, timeout=0.05) as admitted:
        go = threading.Event()
        with pytest.raises(TimeLimit, match=r"stopped at the time limit of 0.05 s: request less at once"):
            await admitted.execute(lambda: go.wait(SECONDS), http=Client().request(), short=False, papers=1)
        # Its thread is still taken.
        waiting = asyncio.create_task(
            admitted.execute(lambda: "next", http=Client().request(), short=False, papers=1)
        )
        await asyncio.sleep(0.01)
        assert not waiting.done()
        go.set()
        assert await waiting == "next"


async def test_the_error_of_work_that_ignores_its_deadline_did_not_say_what_took_long() -> None:
    def work(go: threading.Event) -> None:
        check("The first step", "step less")
        with time_limit(1000):
            check("The second step", "step shorter")
            go.wait(SECONDS)

    async with admission(readers=1, timeout=0.5) as admitted:
        go = threading.Event()
        with pytest.raises(TimeLimit) as caught:
            await admitted.execute(
                lambda: work(go), http=Client().request(), short=False, papers=1, timeout=0.5
            )
        go.set()
    assert str(caught.value) == "The second step was stopped at the time limit of 0.5 s: step shorter."


async def test_short_work_that_takes_long_moves_to_a_thread() -> None:
    async with admission() as admitted:
        loop = threading.get_ident()
        threads: list[int] = []

        def work() -> float:
            threads.append(threading.get_ident())
            if len(threads) == 1:
                until_deadline()
            deadline = DEADLINE.get()
            assert deadline is not None
            return deadline.seconds

        seconds = await admitted.execute(work, http=Client().request(), short=True, papers=100)
        assert threads[0] == loop != threads[1]
        assert seconds == load_settings().timeout == 600


async def test_many_short_requests_at_once_kept_others_from_the_event_loop() -> None:
    """A hundred clients that pipelined searches delayed /healthz by seconds."""
    async with admission() as admitted:
        order: list[str] = []

        def work() -> None:
            order.append("short")
            threading.Event().wait(TURN_SECONDS)

        tasks = [
            asyncio.create_task(admitted.execute(work, http=Client().request(), short=True, papers=1))
            for _ in range(10)
        ]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0)
            order.append("other")
        await asyncio.gather(*tasks)
        # At most two fit into one turn, since each takes the whole of it.
        assert order.count("short") == 10
        assert "short,short,short" not in ",".join(order)


async def test_short_requests_that_wait_are_bounded_and_run_in_order() -> None:
    async with admission(queue=5) as admitted:
        order: list[int] = []

        def work(number: int) -> int:
            order.append(number)
            threading.Event().wait(2 * TURN_SECONDS)
            return number

        def task(number: int) -> asyncio.Task[int]:
            execute = admitted.execute(lambda: work(number), http=Client().request(), short=True, papers=1)
            return asyncio.create_task(execute)

        tasks = [task(number) for number in range(7)]
        await until(lambda: len(order) > 1)
        tasks[3].cancel()  # its client has gone
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert order == [0, 1, 2, 4, 5]
        assert results[4:6] == [4, 5]
        assert isinstance(results[6], Busy)
        assert "5 requests wait for the event loop of this server" in str(results[6])
        assert await task(7) == 7


async def test_a_request_cannot_have_more_time_than_the_server_allows() -> None:
    async with admission(timeout=3) as admitted:
        with pytest.raises(InvalidRequest, match="timeout is 4: this server allows 3 seconds at most"):
            await admitted.execute(lambda: None, http=Client().request(), short=True, papers=1, timeout=4.0)
        with pytest.raises(TimeLimit, match=r"was stopped at the time limit of 0.01 s: "):
            await admitted.execute(
                until_deadline, http=Client().request(), short=False, papers=1, timeout=0.01
            )


async def test_readiness_is_known_while_a_check_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(about, "WAIT_SECONDS", 0.1)
    go = threading.Event()
    checks: list[int] = []

    def parts() -> dict[str, str]:
        checks.append(1)
        go.wait(SECONDS)
        return {"catalog": "ok"}

    readiness = ReadinessChecks(parts)
    state = await readiness.state()
    assert re.fullmatch(r"its check has taken \d+ s and is not finished", state["library"])
    assert await readiness.state() != {"catalog": "ok"}
    assert len(checks) == 1  # not one for each request
    go.set()
    await until(lambda: readiness._running is None)
    assert await readiness.state() == {"catalog": "ok"}
    go.clear()
    readiness._checked -= VALID_SECONDS / 2
    assert await readiness.state() == {"catalog": "ok"}
    go.set()
    readiness.close()


# -- real servers -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_requests_that_waited_or_ran_at_sigterm_got_no_response(sample_library: Path) -> None:
    said: list[str] = []
    options = ("--sessions", "none")
    with running_reranker() as service:
        settings = {
            "SCHOLARBASE_TIMEOUT": "3600",
            "SCHOLARBASE_READERS": "1",
            "SCHOLARBASE_RERANKERS": f"slow={service.url}",
        }
        with serving(sample_library, *options, said=said, **settings) as (url, process), ExitStack() as stack:
            service.released.clear()
            clients = [stack.enter_context(connected(url)) for _ in range(4)]
            for number, client in enumerate(clients):
                client.sendall(
                    b"GET /v1/search?q=theory+%d&rerank=slow HTTP/1.1\r\nHost: localhost\r\n\r\n" % number
                )
            wait_until(lambda: len(service.bodies) == 2)  # of the opening, and of the search that runs
            for _ in range(2):  # requests are read in the order of their arrival
                assert httpx.get(f"{url}/v1/snapshot").status_code == 200
            process.send_signal(signal.SIGTERM)
            for client in reversed(clients):
                stopped = problem(read_all(client))
                assert stopped["status"] == 503
                assert stopped["detail"] == "The server is stopping: send the request again in a moment."
            process.wait(SECONDS)
            service.released.set()
    assert len(service.bodies) == 2
    assert not [line for line in said if "Traceback" in line]


def test_a_search_over_the_time_limit_is_504(sample: Any) -> None:
    with serving_in_thread(sample, timeout=1e-6, sessions="none") as url:
        stopped = httpx.get(f"{url}/v1/search", params={"q": "strings", "engine": "fts5"}, timeout=SECONDS)
        assert stopped.status_code == 504
        assert stopped.headers["Content-Type"] == "application/problem+json"
        problem = stopped.json()
        assert problem["title"] == "Time limit reached"
        assert problem["type"].endswith("#time-limit")
        assert "was stopped at the time limit of 1e-06 s: " in problem["detail"]
        for path in ("/healthz", "/readyz", "/metrics"):
            assert httpx.get(f"{url}{path}", timeout=SECONDS).status_code == 200


def test_an_invalid_timeout_is_rejected(server: str) -> None:
    for value in ("0", "-1", "nan", "inf", "4000", "soon"):
        refused = httpx.get(f"{server}/v1/search?q=a&timeout={value}")
        assert refused.status_code == 400
        assert "timeout is" in refused.json()["detail"]
