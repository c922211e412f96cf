"""Twenty agents on two servers behind a balancer, with sessions in PostgreSQL; one server is killed half way."""

import json
import os
import random
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.balancer import balancing
from benchmarks.postgres import ProgramMissing
from scholarbase.errors import BudgetExhausted
from tests.conftest import serving
from tests.extensions.cluster.postgres import PASSWORD, QUOTED, running_postgres
from tests.sessions.agents import SECONDS, WORDS, wait_until

pytestmark = pytest.mark.slow

AGENTS = 20
SESSIONS = ("shared-1", "shared-2", "shared-3", "shared-4")
CALLS = int(os.environ.get("NODES_CALLS", "40"))
"""The budget of each session."""


@dataclass
class Nodes:
    url: str
    kill_first: Any
    said: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def nodes(sample_library: Path) -> Iterator[Nodes]:
    said: list[str] = []
    with running_postgres() as postgres, ExitStack() as stack:
        sessions = {"SCHOLARBASE_SESSIONS": postgres.url()}
        both = [stack.enter_context(serving(sample_library, said=said, **sessions)) for _ in range(2)]
        try:
            url = stack.enter_context(balancing(*(url for url, _ in both)))
        except ProgramMissing as error:
            pytest.skip(str(error))
        yield Nodes(url, both[0][1].kill, said)


class Agent:
    """Searches in a session until its budget is used up, and repeats a search that had no response."""

    def __init__(self, nodes: Nodes, number: int) -> None:
        self._url = nodes.url
        self.session = SESSIONS[number % len(SESSIONS)]
        self._choose = random.Random(number)
        self.answered: list[tuple[str, list[str], int]] = []
        """Query, returned ids and the call's number of each call; 0 where the response did not wait for it."""
        self.lost = 0

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=SECONDS) as client:
            while self._call(client, f"{self._choose.choice(WORDS)} {self._choose.random():.6f}"):
                pass

    def _call(self, client: httpx.Client, q: str) -> bool:
        headers = {"X-ScholarBase-Session": self.session, "Idempotency-Key": secrets.token_hex(8)}
        while True:
            try:
                response = client.post(
                    "/v1/search", json={"q": q, "limit": 5, "fields": ["id"]}, headers=headers
                )
            except httpx.HTTPError:
                self.lost += 1
                continue
            if response.status_code in (502, 503):  # from the balancer: the server was killed
                assert "scholarbase" not in response.text.lower(), response.text
                self.lost += 1
                continue
            break
        if response.status_code == 403:
            assert response.json()["type"].endswith("budget-exhausted")
            return False
        assert response.status_code == 200, response.text
        ids = [item["paper"]["id"] for item in response.json()["results"]]
        self.answered.append((q, ids, int(response.headers.get("X-ScholarBase-Call", 0))))
        return True


def trajectory(url: str, name: str) -> list[dict[str, Any]]:
    text = httpx.get(f"{url}/v1/sessions/{name}", timeout=SECONDS).text
    return [json.loads(line) for line in text.splitlines()]


def has_lines(url: str, name: str, count: int) -> bool:
    return len(trajectory(url, name)) >= count


def is_opened(url: str, name: str) -> bool:
    """Open a session. On a busy machine the balancer may take a slow server for one that is down."""
    opened = httpx.post(
        f"{url}/v1/sessions", json={"session": name, "limits": {"calls": CALLS}}, timeout=SECONDS
    )
    if opened.status_code in (502, 503):
        return False
    assert opened.status_code in (201, 409), opened.text  # 409: opened before, without a response
    return True


def test_twenty_agents_share_sessions_and_budgets_while_a_server_is_killed(nodes: Nodes) -> None:
    for name in SESSIONS:
        wait_until(partial(is_opened, nodes.url, name))
    agents = [Agent(nodes, number) for number in range(AGENTS)]
    with ThreadPoolExecutor(AGENTS) as pool:
        running = [pool.submit(agent.run) for agent in agents]
        half = len(SESSIONS) * CALLS // 2
        wait_until(lambda: sum(len(agent.answered) for agent in agents) >= half)
        nodes.kill_first()
        for one in running:
            one.result(SECONDS)
    for name in SESSIONS:
        mine = [agent for agent in agents if agent.session == name]
        # Calls that the killed server had begun are recorded as failed when its lease has ended.
        wait_until(partial(has_lines, nodes.url, name, CALLS + len(mine)))
        lines = trajectory(nodes.url, name)
        assert sorted(line["call"] for line in lines) == list(range(1, len(lines) + 1)), "no gap, none twice"
        ends = [line["ended"] for line in lines]
        assert ends == sorted(ends)
        # Each agent was refused once, when the budget was used up.
        lines = [line for line in lines if line.get("error_type") != BudgetExhausted.slug]
        assert len(lines) == CALLS
        failed = [line for line in lines if "error" in line]
        assert all("no response" in line["error"] for line in failed)
        assert len(failed) <= sum(agent.lost for agent in mine)
        good = [(line["arguments"]["q"], line["ids"], line["call"]) for line in lines if "error" not in line]
        numbers = {q: number for q, _, number in good}
        for agent in mine:
            asked = [q for q, _, _ in agent.answered]
            assert [q for q, _, _ in good if q in set(asked)] == asked, "in the order in which it made them"
            assert all(number in (0, numbers[q]) for q, _, number in agent.answered)
        answered = {q: ids for agent in mine for q, ids, _ in agent.answered}
        recorded = {q: ids for q, ids, _ in good}
        assert {q: recorded[q] for q in answered} == answered
        # A call that was recorded, and whose response was lost with the server, was repeated with its key.
        assert recorded.keys() == answered.keys()
    assert sum(agent.lost for agent in agents) > 0, "the server was killed while it had calls"
    text = "".join(nodes.said)
    assert PASSWORD not in text
    assert QUOTED not in text
