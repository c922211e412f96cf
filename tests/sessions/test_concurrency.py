"""Many calls at once on a server of two processes: each is recorded once, in order, and in its session's budgets, also
where the server is killed."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from scholarbase.sessions.session import Limits, Session
from scholarbase.sessions.store import SessionStore
from tests.conftest import serving
from tests.sessions.agents import SECONDS as DEADLINE
from tests.sessions.agents import SEED, WORDS
from tests.sessions.test_store import reserve

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("SESSIONS_SECONDS", "1"))
"""How long they call; the environment's variable makes it a minute or an hour."""
SESSIONS = 50

Log = list[tuple[str, list[str], int]]
"""An agent's calls: the query, the ids that were returned, and the call's number, 0 where the response had none."""


async def agent(client: httpx.AsyncClient, name: str, until: float) -> Log:
    log: Log = []
    choose = random.Random(name)
    headers = {"X-ScholarBase-Session": name}
    while not log or time.monotonic() < until:
        # With random limits the requests of two sessions are rarely the same.
        q = f"{choose.choice(WORDS)} {choose.choice(WORDS)}"
        body: dict[str, Any] = {"q": q, "limit": choose.randint(1, 30), "fields": ["id"]}
        path = "/v1/search"
        if choose.random() < 0.2:
            path, body = "/v1/expand", {"seeds": [SEED], "limit": body["limit"], "fields": ["id"]}
        elif choose.random() < 0.2:
            path, body = "/v1/tools/search_papers", {**body, "exclude_seen": True}
        response = await client.post(path, json=body, headers=headers)
        assert response.status_code == 200, response.text
        returned = [item["paper"]["id"] for item in response.json()["results"]]
        number = int(response.headers.get("X-ScholarBase-Call", 0))
        log.append((body.get("q", ""), returned, number))
        if not number:
            # The response did not wait for the disk. The next call may reach the other process, which could write it
            # before this one.
            await _recorded(client, name, len(log))
    return log


async def _recorded(client: httpx.AsyncClient, name: str, calls: int) -> None:
    deadline = time.monotonic() + DEADLINE
    while True:
        response = await client.get(f"/v1/sessions/{name}")  # 404 until the first call is recorded
        if response.status_code == 200 and len(response.text.splitlines()) >= calls:
            return
        assert time.monotonic() < deadline, f"call {calls} of {name} is not recorded"
        await asyncio.sleep(0.05)


async def _all(url: str) -> tuple[dict[str, Log], dict[str, list[dict[str, Any]]], float]:
    limits = httpx.Limits(max_connections=SESSIONS)
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
        # The processes take some seconds to start.
        await asyncio.gather(*(client.get("/v1/search", params={"q": word}) for word in WORDS))
        began = time.monotonic()
        names = [f"agent-{number}" for number in range(SESSIONS)]
        logs = await asyncio.gather(*(agent(client, name, began + SECONDS) for name in names))
        seconds = time.monotonic() - began
        read = [await client.get(f"/v1/sessions/{name}") for name in names]
        lines = [[json.loads(line) for line in response.text.splitlines()] for response in read]
    return dict(zip(names, logs, strict=True)), dict(zip(names, lines, strict=True)), seconds


def test_fifty_sessions_at_once(sample_library: Path, tmp_path: Path, record_property: Any) -> None:
    with serving(sample_library, "--workers", "2", SCHOLARBASE_SESSIONS=str(tmp_path)) as (url, _):
        logs, found, seconds = asyncio.run(_all(url))
    calls = sum(map(len, logs.values()))
    late = sum(number == 0 for log in logs.values() for _, _, number in log)
    figures = f"{calls} calls in {seconds:.1f} s, {calls / seconds:.0f} a second, {late} not waited for"
    record_property("figures", figures)
    print(figures)
    assert min(map(len, logs.values())) >= 1
    for name, log in logs.items():
        lines = found[name]
        assert [line["call"] for line in lines] == list(range(1, len(log) + 1))
        assert {line["session"] for line in lines} == {name}
        recorded = [(line["arguments"].get("q", ""), line["ids"]) for line in lines]
        assert recorded == [(q, returned) for q, returned, _ in log]
        assert all(number in (0, place) for place, (_, _, number) in enumerate(log, 1))
        seen: set[str] = set()
        for line in lines:
            if line["arguments"].get("exclude_seen"):
                assert seen.isdisjoint(line["ids"])
            seen.update(line["ids"])


KILLS = int(os.environ.get("SESSIONS_KILLS", "1"))
LIMIT = 100_000


@contextmanager
def _killed(library: Path, folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A server of two processes: its URL, and a function that kills all of its processes."""
    command = [sys.executable, "-m", "scholarbase.cli", "serve", "--library", str(library), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--workers", "2"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"SCHOLARBASE_SESSIONS": str(folder)},
        start_new_session=True,
    )

    def kill() -> None:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE)

    assert process.stderr is not None
    try:
        served = (re.search(r"Serving .* at (http://\S+) with", line) for line in process.stderr)
        url = next(found[1] for found in served if found)
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        yield url, kill
        kill()
        reader.join(DEADLINE)
    finally:
        kill()
        process.stderr.close()


class Calls:
    """What a client sent in a session until the server was killed, and what it got back."""

    def __init__(self, url: str, session: str, seed: int) -> None:
        self._choose = random.Random(f"{session} {seed}")
        self._url = url
        self._session = session
        self.sent = 0
        self.answered = 0
        self.papers: set[str] = set()

    def run(self) -> None:
        choose = self._choose
        with httpx.Client(base_url=self._url, timeout=DEADLINE) as client:
            while True:
                q = f"{choose.choice(WORDS)} {choose.choice(WORDS)}"
                body = {
                    "q": q,
                    "limit": choose.randint(1, 30),
                    "offset": choose.randint(0, 50),
                    "fields": ["id"],
                }
                self.sent += 1
                try:
                    found = client.post(
                        "/v1/search", json=body, headers={"X-ScholarBase-Session": self._session}
                    )
                except httpx.HTTPError:  # killed
                    return
                assert found.status_code == 200, found.text
                self.papers.update(item["paper"]["id"] for item in found.json()["results"])
                self.answered += 1


@pytest.mark.parametrize("number", range(KILLS))
def test_budgets_lost_units_when_a_server_was_killed(
    sample_library: Path, tmp_path: Path, number: int
) -> None:
    name = f"s{number}"
    with SessionStore(tmp_path) as store:
        store.open(Session(name, limits=Limits(calls=LIMIT, candidates=LIMIT))).result(DEADLINE)
    with _killed(sample_library, tmp_path) as (url, kill), ThreadPoolExecutor(8) as pool:
        clients = [Calls(url, name, seed) for seed in range(8)]
        running = [pool.submit(client.run) for client in clients]
        while sum(client.answered for client in clients) < 20:
            # Read while the processes open the file for writing.
            httpx.get(f"{url}/v1/sessions/{name}", timeout=DEADLINE)
        time.sleep(random.Random(number).random() / 2)
        kill()
        for one in running:
            one.result(DEADLINE)
    with SessionStore(tmp_path) as store:
        lines = [json.loads(line) for line in store.lines(name)]
        state = reserve(store, store.session(name).session).result(DEADLINE)
    used = LIMIT - state.remaining["calls"] - 1
    assert len(lines) == used
    assert sum(client.answered for client in clients) <= used <= sum(client.sent for client in clients)
    answered = [line for line in lines if "error" not in line]
    assert len(answered) >= sum(client.answered for client in clients)
    assert state.candidates >= set[str]().union(*(client.papers for client in clients))
