"""Swaps of a served library that crash: the server, a worker, or the process that writes the link."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from benchmarks.memory import process_tree
from benchmarks.servers import Server, serving
from torture.commands import LINK
from torture.crashing import Lane, Tally, deck, snapshot
from torture.faults import Fault, Faults, Point
from torture.libraries import copy
from torture.requests import request
from torture.rows import say

PATHS: Final = (
    "/v1/search?q=graph+lattice&limit=5",
    "/v1/search?q=%22neural%22&limit=20",
    "/v1/title-match?title=Tensor+Quark+Entropy&limit=3",
    "/v1/snapshot",
)
CLIENTS: Final = 2
NAMES: Final = ("one", "two")
WAIT_SECONDS: Final = 120.0
WRITER: Final = (
    Fault(Point("rename", "current", 1), 1, "kill before"),
    Fault(Point("rename", "current", 1), 1, "kill after"),
    Fault(Point("remove", "current.new", 1), 1, "kill after"),
)
WRITER_SHARE: Final = 0.2
"""The share of crashes of the process that writes the link."""
_HEADER: Final = "x-scholarbase-snapshot"


def crash_swaps(lane: Lane, preloaded: Path, wanted: int) -> Tally:
    """Swap two libraries of a server with two workers to and fro, with a crash in each swap, while clients search."""
    folder = lane.work.parent / "swaps"
    folder.mkdir()
    for name, library in zip(NAMES, ("first", "second"), strict=True):
        copy(lane.work / library, folder / name)
    run = _Swaps(lane, folder, Faults(preloaded, folder.parent / "swap-fault"))
    while run.tally.crashes < wanted:
        run.serve(wanted)
        say(f"{run.tally.crashes} crashes of swaps, {len(run.tally.wrong)} faults")
    return run.tally


class _Swaps:
    def __init__(self, lane: Lane, folder: Path, faults: Faults) -> None:
        self.tally = Tally()
        self._lane = lane
        self._folder = folder
        self._faults = faults
        self._link = folder / "current"
        self._snapshots = {name: snapshot(folder / name) for name in NAMES}
        self._expected: dict[tuple[str, str], bytes] = {}
        self._rng = random.Random(18)
        self._decks: dict[str, Iterator[Fault]] = {}
        self._at = 0
        """The place in ``NAMES`` of the library that the link names."""
        lane.faults.clear()
        lane.commands(LINK, self._link, NAMES[0])

    def serve(self, wanted: int) -> None:
        """Run a server until it has ended by a crash, or there were enough crashes."""
        self._faults.clear()
        variables = self._faults.environment
        with serving(
            self._link,
            workers=2,
            SCHOLARBASE_SESSIONS="none",
            LD_PRELOAD=variables["LD_PRELOAD"],
            TORTURE_FAULT=variables["TORTURE_FAULT"],
        ) as server:
            processes = process_tree(server.process.pid)
            if not self._decks:
                self._rehearse(server)
            with self._clients(server) as cut:
                while self.tally.crashes < wanted and server.process.poll() is None:
                    cut[0] += self._swap(server)
            if server.process.poll() is None:
                return
        if not _wait(lambda: not any(_is_alive(pid) for pid in processes)):
            self.tally.wrong.append("workers outlive their server")

    def _rehearse(self, server: Server) -> None:
        """Swap to each library once, and record the points and the responses."""
        for _ in NAMES:
            self._at = 1 - self._at
            name = NAMES[self._at]
            self._lane.commands(LINK, self._link, name)
            self._faults.trace(self._folder)
            server.process.send_signal(signal.SIGHUP)
            if not _wait(lambda name=name: self._serves(server, name)):  # type: ignore[misc]
                raise RuntimeError(f"The server did not swap:\n{server.log()}")
            self._faults.clear()
            points = [
                # Calls are counted in each process, and three of them were recorded.
                replace(one, count=max(1, one.count // 3))
                for one in self._faults.points()
                if one.pattern.lstrip(".").startswith(name)
            ]
            self._decks[name] = deck(points, self._rng)
            for path in PATHS:
                self._expected[self._snapshots[name], path] = request(server.url, "GET", path).body

    def _swap(self, server: Server) -> int:
        """Swap with a crash, and again until the new library is served. Returns how many connections it may cut."""
        name = NAMES[1 - self._at]
        by_writer = self._rng.random() < WRITER_SHARE
        fault = self._rng.choice(WRITER) if by_writer else next(self._decks[name], None)
        if fault is None:
            self._decks[name] = deck([], self._rng)
            raise RuntimeError("There are no more points of a swap.")
        if by_writer:
            self._lane.faults.set(self._folder, fault)
            self._lane.commands(LINK, self._link, name)
            self._lane.faults.clear()
            is_taken = self._lane.faults.taken()
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.2)
            self._lane.commands(LINK, self._link, name)
        else:
            self._lane.commands(LINK, self._link, name)
            self._faults.set(self._folder, fault)
            server.process.send_signal(signal.SIGHUP)
            _wait(
                lambda: (
                    self._faults.taken() or server.process.poll() is not None or self._serves(server, name)
                )
            )
            self._faults.clear()
            is_taken = self._faults.taken()
        self._at = 1 - self._at
        self.tally.crashes += is_taken
        self.tally.missed += not is_taken
        if is_taken:
            self.tally.points.add(("link: " if by_writer else "") + fault.point.name)
        time.sleep(0.5)  # a process that was killed ends
        has_ended = server.process.poll() is not None
        if is_taken and fault.kills:
            self.tally.outcomes[f"{'link' if by_writer else 'server' if has_ended else 'worker'} killed"] += 1
        elif is_taken:
            self.tally.outcomes["failed calls"] += 1
        if has_ended:
            return 0
        for _ in range(3):
            server.process.send_signal(signal.SIGHUP)
            if _wait(lambda: self._serves(server, name) and len(process_tree(server.process.pid)) >= 3, 20.0):
                break
        else:
            self.tally.wrong.append(f"swap after {fault}: {name} is not served")
        return CLIENTS if is_taken and fault.kills and not by_writer else 0

    def _serves(self, server: Server, name: str) -> bool:
        """Whether several new connections, which workers share, are answered from this library."""
        found = {request(server.url, "GET", "/healthz").headers.get(_HEADER) for _ in range(6)}
        return found == {self._snapshots[name]}

    @contextmanager
    def _clients(self, server: Server) -> Iterator[list[int]]:
        """Clients that check each response. Yields a list whose first item is the number of connections that may end
        without a response."""
        ended, allowed, cuts = threading.Event(), [0], [0]

        def search() -> None:
            for path in (PATHS[number % len(PATHS)] for number in count()):
                if ended.is_set():
                    return
                found = request(server.url, "GET", path)
                if found.status is None:
                    cuts[0] += server.process.poll() is None
                    time.sleep(0.05)
                elif found.status != 200:
                    self.tally.wrong.append(f"{path}: status {found.status} {found.body[:200]!r}")
                elif found.body != self._expected.get((found.headers.get(_HEADER, ""), path)):
                    self.tally.wrong.append(f"{path}: a response that is of no snapshot")
                else:
                    self.tally.outcomes["responses"] += 1

        threads = [threading.Thread(target=search) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield allowed
        finally:
            ended.set()
            for thread in threads:
                thread.join()
            if server.process.poll() is None and cuts[0] > allowed[0]:
                self.tally.wrong.append(f"{cuts[0]} connections ended without a response, {allowed[0]} may")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(happened: Callable[[], bool], seconds: float = WAIT_SECONDS) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if happened():
            return True
        time.sleep(0.05)
    return False
