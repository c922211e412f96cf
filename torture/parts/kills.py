"""`kill -9` at random times: of ingests, of servers, of workers and of the encoder."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.memory import process_tree
from benchmarks.servers import Server, serving
from scholarbase.manifest import read_manifest
from torture.judge import Judge
from torture.libraries import SAMPLE, dense, environment, sample, tiny_model
from torture.requests import request
from torture.rows import Row, Setting, say, shown

INGESTS, SERVERS, WORKERS, ENCODERS = (130, 0), (40, 0), (20, 1), (10, 0)
"""Kills in a whole run, 200 in all, and in a slice."""
KILLS_PER_LIBRARY: Final = 10
WAIT_SECONDS: Final = 120.0
CALLS: Final = 1_000_000
SMALL_BATCHES: Final = """
import sys
from scholarbase.cli import main
from scholarbase.indexes.vectors import edge
from scholarbase import workers
from scholarbase.ingest import encoding, reading, text, vectors
reading.LINES_PER_COMMIT, vectors.POINTS_PER_UPSERT, vectors.UPSERTS_PER_FLUSH = 100, 50, 2
text.ROWS_PER_COMMIT, workers.SUBPROCESS_PAPERS = 100, 1
edge.SEGMENT_POINTS, edge.DENSE_SEGMENT_POINTS = 330, 770
encoding.DOCUMENTS_PER_PART = 64
main(sys.argv[1:])
"""
"""The command line with small batches, so that kills occur between and during many commits."""


def run(setting: Setting) -> Iterator[Row]:
    yield _servers(setting, "worker")
    if not setting.is_slice:
        yield _encoders(setting)
        yield _servers(setting, "server")
        yield _ingests(setting)


# -- ingests ---------------------------------------------------------------------------------------------


def _start(library: Path) -> subprocess.Popen[bytes]:
    arguments = ["ingest", *map(str, SAMPLE), "--library", str(library)]
    return subprocess.Popen(
        [sys.executable, "-c", SMALL_BATCHES, *arguments],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _ingests(setting: Setting) -> Row:
    wanted = setting.count(*INGESTS)
    chance = random.Random(15)
    folder = setting.work / "killed"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    began = time.monotonic()
    whole = _start(folder / "whole")
    _wait_until_begun(whole, folder / "whole")
    working = time.monotonic()
    assert whole.wait(600) == 0
    work = time.monotonic() - working
    right = read_manifest(folder / "whole")[1]
    say(f"an ingest takes {time.monotonic() - began:.1f} s")
    killed, survived, wrong = 0, 0, []
    with Judge() as judge:
        while killed < wanted:
            library, kills = folder / "library", min(KILLS_PER_LIBRARY, wanted - killed)
            shutil.rmtree(library, ignore_errors=True)
            for _ in range(kills):
                process = _start(library)
                # From the start of the process on, so that some kills hit the beginning, and some the last moves.
                _wait_until_begun(process, library)
                time.sleep(chance.uniform(0, 2 * work / kills))
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                killed += 1
            finished = _start(library).wait(600)
            snapshot = read_manifest(library)[1] if finished == 0 else None
            verified = judge("verify", library) if finished == 0 else ""
            if snapshot == right and verified == "ok":
                survived += kills
            else:
                wrong.append(f"after {kills} kills status {finished}, snapshot {snapshot}, {verified}")
            say(f"{killed} kills of ingests, {survived} survived")
    shutil.rmtree(folder)
    tested = f"{killed} kills at random times, {KILLS_PER_LIBRARY} for each library, then run to the end and verified"
    figure = f"{survived} of {killed} survived" + (f"; {shown(wrong)}" if wrong else "")
    return Row("kills", "A killed ingest ends with the same snapshot id", tested, figure, survived == killed)


def _wait_until_begun(process: subprocess.Popen[bytes], library: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while process.poll() is None and not library.exists() and time.monotonic() < deadline:
        time.sleep(0.005)


# -- servers and workers ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Agent:
    """A client with a session that has a budget: counts the responses that it received."""

    name: str
    received: int = 0
    sent: int = 0
    wrong: list[str] = field(default_factory=list)

    def search(self, url: str) -> None:
        self.sent += 1
        body = {"q": f"theory {self.sent}", "limit": 3, "fields": ["id"]}
        found = request(
            url,
            "POST",
            "/v1/search",
            body,
            headers={"X-ScholarBase-Session": self.name},
            timeout=WAIT_SECONDS,
        )
        if found.status == 200:
            self.received += 1
        elif found.status is not None and found.status not in (503, 504):
            self.wrong.append(f"status {found.status}: {found.body[:100]!r}")


def _servers(setting: Setting, kind: str) -> Row:
    """Kill servers, or one worker of two, while agents send recorded calls; then compare what was recorded."""
    wanted = setting.count(*(SERVERS if kind == "server" else WORKERS))
    workers = 1 if kind == "server" else 2
    chance, killed, wrong = random.Random(15), 0, []
    with TemporaryDirectory() as folder:
        agents = [Agent(f"agent-{number}") for number in range(4)]
        is_open = False
        while killed < wanted:
            with serving(sample(setting), workers=workers, SCHOLARBASE_SESSIONS=folder) as server:
                if not is_open:
                    for agent in agents:
                        _open(server.url, agent)
                    is_open = True
                else:
                    wrong += _compared(server.url, agents)
                kills = 1 if kind == "server" else wanted - killed
                for _ in range(kills):
                    if not _killed(server, kind, agents, chance):
                        wrong.append(f"{kind} {killed} was not replaced within {WAIT_SECONDS:.0f} s")
                    killed += 1
                if kind == "worker":
                    wrong += _compared(server.url, agents)
            say(f"{killed} kills of {kind}s, {len(wrong)} faults")
        if kind == "server":
            with serving(sample(setting), workers=workers, SCHOLARBASE_SESSIONS=folder) as server:
                wrong += _compared(server.url, agents)
    wrong += [text for agent in agents for text in agent.wrong]
    received = sum(agent.received for agent in agents)
    tested = f"{killed} kills of the {kind} while 4 agents with budgets search; {received:,} responses"
    figure = shown(wrong) or f"{killed} of {killed} survived: no recorded call and no unit of a budget lost"
    return Row("kills", f"A killed {kind} loses no recorded call and no budget", tested, figure, not wrong)


def _open(url: str, agent: Agent) -> None:
    opened = request(url, "POST", "/v1/sessions", {"session": agent.name, "limits": {"calls": CALLS}})
    assert opened.status == 201, opened


def _killed(server: Server, kind: str, agents: list[Agent], chance: random.Random) -> bool:
    """Kill a process while the agents search. Returns whether the server responds again, if it should."""
    ended = threading.Event()

    def search(agent: Agent) -> None:
        while not ended.is_set():
            agent.search(server.url)

    threads = [threading.Thread(target=search, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    time.sleep(chance.uniform(0.05, 1.0))
    pid = server.process.pid if kind == "server" else chance.choice(_workers(server.process.pid))
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    if kind == "server":
        server.process.wait()
        ended.set()
        for thread in threads:
            thread.join()
        return True
    back = _wait(
        lambda: len(_workers(server.process.pid)) == 2 and request(server.url, "GET", "/readyz").status == 200
    )
    ended.set()
    for thread in threads:
        thread.join()
    return back


def _workers(pid: int) -> list[int]:
    """The workers of a server, which are forks of its first process."""
    mine = Path(f"/proc/{pid}/cmdline").read_bytes()
    found = []
    for child in process_tree(pid)[1:]:
        with suppress(OSError):
            if Path(f"/proc/{child}/cmdline").read_bytes() == mine:
                found.append(child)
    return found


def _compared(url: str, agents: list[Agent]) -> list[str]:
    """Compare the recorded calls and the budgets with the responses that the agents received."""
    wrong = []
    for agent in agents:
        got: list[Any] = []

        def is_recorded(agent: Agent = agent, got: list[Any] = got) -> bool:
            lines = request(url, "GET", f"/v1/sessions/{agent.name}")
            report = request(url, "GET", f"/v1/sessions/{agent.name}/report")
            got[:] = [len(lines.body.splitlines()), report]
            return lines.status == 200 and got[0] >= agent.received

        if not _wait(is_recorded, 10.0):
            wrong.append(f"{agent.received - got[0]} of {agent.received} received calls are not recorded")
        spent = _spent(url, agent)
        if spent is None or spent < agent.received:
            wrong.append(f"the budget counts {spent} calls, and {agent.received} responses were received")
    return wrong


def _spent(url: str, agent: Agent) -> int | None:
    """The calls that the budget of a session has counted, from the header of one more call."""
    body = {"q": "theory", "limit": 1, "fields": ["id"]}
    found = request(url, "POST", "/v1/search", body, headers={"X-ScholarBase-Session": agent.name})
    agent.sent += 1
    agent.received += found.status == 200
    for part in found.headers.get("x-scholarbase-budget", "").replace(";", ",").split(","):
        name, _, value = part.strip().partition("=")
        if name == "calls":
            return CALLS - int(value.partition("/")[0])
    return None


def _wait(happened: Callable[[], bool], seconds: float = WAIT_SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if happened():
            return True
        time.sleep(0.1)
    return False


# -- the encoder -----------------------------------------------------------------------------------------


def _encoders(setting: Setting) -> Row:
    promise = "A killed encoder is replaced"
    wanted = setting.count(*ENCODERS)
    library = dense(setting)
    if library is None:
        return Row("kills", promise, f"{wanted} kills", "torch is not installed", None)
    wrong: list[str] = []
    with (
        TemporaryDirectory() as folder,
        serving(
            library,
            workers=2,
            SCHOLARBASE_ENCODER=str(tiny_model(setting)),
            SCHOLARBASE_SESSIONS="none",
            SCHOLARBASE_RUNTIME_DIR=folder,
        ) as server,
    ):
        right = request(server.url, "GET", "/v1/search?q=string+theory&mode=dense").body
        for number in range(wanted):
            encoders = [pid for pid in process_tree(server.process.pid)[1:] if _maps(pid, "libtorch")]
            if len(encoders) != 1:
                wrong.append(f"{len(encoders)} processes have the model")
                break
            os.kill(encoders[0], signal.SIGKILL)

            def is_back(number: int = number) -> bool:
                # Another query each time: vectors of earlier ones are cached.
                found = request(
                    server.url, "GET", f"/v1/search?q=gauge+theory+{number}+{time.monotonic_ns()}&mode=dense"
                )
                if found.status not in (200, 503, 504):
                    wrong.append(f"status {found.status}")
                return found.status == 200

            if not _wait(is_back):
                wrong.append(f"no dense search within {WAIT_SECONDS:.0f} s after kill {number}")
                break
            say(f"{number + 1} kills of encoders, {len(wrong)} faults")
        again = request(server.url, "GET", "/v1/search?q=string+theory&mode=dense").body
        if right != again:
            wrong.append("another response than before the kills")
    tested = f"{wanted} kills of the encoder's process (2 workers), dense searches until one succeeds"
    return Row("kills", promise, tested, shown(wrong) or f"{wanted} of {wanted} survived", not wrong)


def _maps(pid: int, name: str) -> bool:
    try:
        return name in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False
