"""Crashes at named points of the work: jobs that build, update and copy libraries, and swaps of a served one.

Points are calls that write, sync, rename or remove files of libraries (:mod:`torture.faults`). A job crashes there by
`kill -9`, a full disk, a short write or an I/O error, is run again, and must end with what an undisturbed job makes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from scholarbase.models.encoders import PACKAGED
from torture.crashing import INGEST, JOBS, PACK, REPLACE, SWAP, UNPACK, UPDATE, Job, Lane, Tally, deck
from torture.faults import Unavailable, build
from torture.rows import Row, Setting, say, shown
from torture.swaps import crash_swaps

ENCODERS: Final = ("none", PACKAGED)
"""Each has a lane of its own, and both lanes run at once."""
CRASHES: Final = {
    INGEST: (80, 2),
    UPDATE: (80, 2),
    REPLACE: (30, 0),
    UNPACK: (24, 0),
    PACK: (10, 0),
    SWAP: (6, 0),
}
"""Crashes of each job, and in a slice."""
IN_SEQUENCES: Final = 40
"""Crashes that a state machine orders."""
IN_SWAPS: Final = 30
STEPS: Final = 8
PROMISES: Final = {
    INGEST: "A crashed ingest loses and doubles nothing",
    UPDATE: "A crashed update loses and doubles nothing",
    REPLACE: "A crashed ingest that replaces a library leaves the old one, none, or the new one",
    UNPACK: "A crashed unpack loses nothing",
    PACK: "A crashed pack leaves no incomplete file",
    SWAP: "A crashed change of a link leaves the old target or the new one",
}
SEQUENCES: Final = "Jobs that crash in any order end with the same libraries"
SWAPS: Final = "A crashed swap fails no request but those of the killed process, and mixes no libraries"


def run(setting: Setting) -> Iterator[Row]:
    try:
        preloaded = build(setting.work / "crashes")
    except Unavailable as error:
        for promise in (*PROMISES.values(), SEQUENCES, SWAPS):
            yield Row("crashes", promise, "faults at system calls", str(error), None)
        return
    encoders = ENCODERS[: setting.count(len(ENCODERS), 1)]
    lanes = [Lane(setting.work / "crashes" / name, preloaded, name) for name in encoders]
    counts = {job: count for job in JOBS if (count := setting.count(*CRASHES[job]))}
    in_sequences = setting.count(IN_SEQUENCES, 0)
    try:
        with ThreadPoolExecutor(len(lanes)) as threads:
            list(threads.map(lambda lane: _crash(lane, lanes, counts, in_sequences), lanes))
        for job in counts:
            yield _row(PROMISES[job], _total(lanes, job.name))
        if setting.is_slice:
            return
        yield _row(SEQUENCES, _total(lanes, SEQUENCES), "hypothesis draws the jobs; ")
        yield _row(SWAPS, crash_swaps(lanes[0], preloaded, IN_SWAPS), "2 workers, 2 clients; ")
    finally:
        for lane in lanes:
            lane.close()


def _crash(lane: Lane, lanes: list[Lane], counts: dict[Job, int], in_sequences: int) -> None:
    """Crash the jobs of a lane, until there were enough crashes in all lanes."""
    lane.rehearse(tuple(counts))
    for job, wanted in counts.items():
        _sweep(lane, job, partial(_is_enough, lanes, job.name, wanted))
        say(f"{lane.encoder}: {lane.tallies[job.name].crashes} crashes of {job.name}")
    if in_sequences:
        lane.part = SEQUENCES
        _sequences(lane, partial(_is_enough, lanes, SEQUENCES, in_sequences), in_sequences)
        say(f"{lane.encoder}: {lane.tallies[SEQUENCES].crashes} crashes in sequences")


def _is_enough(lanes: list[Lane], name: str, wanted: int) -> bool:
    return _total(lanes, name).crashes >= wanted


def _total(lanes: list[Lane], name: str) -> Tally:
    """The tallies of all lanes as one."""
    total = Tally()
    for lane in lanes:
        total.add(lane.tallies[name])
    return total


def _row(promise: str, tally: Tally, how: str = "") -> Row:
    outcomes = ", ".join(f"{number:,} {name}" for name, number in sorted(tally.outcomes.items()))
    tested = f"{how}{tally.crashes} crashes at {len(tally.points)} points ({outcomes}), then run again and compared"
    figure = shown(tally.wrong) or f"{tally.crashes} of {tally.crashes} survived"
    return Row("crashes", promise, tested, figure, not tally.wrong)


def _sweep(lane: Lane, job: Job, is_enough: Callable[[], bool]) -> None:
    """Crash a job at one point after the other, one to three times before it is run to its end."""
    rng = random.Random(f"{lane.encoder} {job.name}")
    faults = deck(lane.points[job.name], rng)
    while not is_enough():
        lane.begin(job)
        story: list[str] = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            fault = next(faults, None)
            if fault is None or is_enough() or (story and lane.is_made(job.makes)):
                break
            lane.crash(job, fault)
            story.append(str(fault))
        lane.finish(job, ", ".join(story) or "no crash")
        if not story:
            break


# -- sequences -------------------------------------------------------------------------------------------


def _sequences(lane: Lane, is_enough: Callable[[], bool], most: int) -> None:
    """Let a state machine crash and finish jobs in any order. It does not shrink: what is wrong is in the tallies, and
    a step takes a second."""
    run_state_machine_as_test(
        _machine(lane, is_enough),
        settings=settings(
            max_examples=most,
            stateful_step_count=STEPS,
            derandomize=True,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


def _machine(lane: Lane, is_enough: Callable[[], bool]) -> type[RuleBasedStateMachine]:
    # Not drawn: hypothesis would begin with the first call of the first point again and again.
    faults = {job: deck(lane.points[job.name], random.Random(lane.encoder)) for job in JOBS}

    class Operator(RuleBasedStateMachine):
        """Runs jobs. All that they make is there at the beginning, and at the end."""

        def __init__(self) -> None:
            super().__init__()
            self.unfinished: dict[Job, list[str]] = {}
            self.begun: set[Job] = set()

        @rule(data=st.data())
        def crash(self, data: Any) -> None:
            """Begin a job, or run an unfinished one again, and crash it."""
            missing = {job.makes for job in self.unfinished}
            read = {job.needs for job in self.unfinished}
            ready = [
                job
                for job in JOBS
                if job.needs not in missing and (job in self.unfinished or job.makes not in read)
            ]
            job = data.draw(st.sampled_from(ready))
            story = self.unfinished.setdefault(job, [])
            if is_enough() or (fault := next(faults[job], None)) is None:
                return  # what is drawn must not depend on the other lane
            if job not in self.begun:
                self.begun.add(job)
                lane.begin(job)
            lane.crash(job, fault)
            story.append(str(fault))

        @rule(data=st.data())
        def finish(self, data: Any) -> None:
            if self.unfinished:
                self._finish(data.draw(st.sampled_from(list(self.unfinished))))

        def teardown(self) -> None:
            for job in [job for job in JOBS if job in self.unfinished]:
                self._finish(job)

        def _finish(self, job: Job) -> None:
            story = self.unfinished.pop(job)
            if job in self.begun:
                self.begun.remove(job)
                lane.finish(job, ", ".join(story))

    return Operator
