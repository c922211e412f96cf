"""Jobs that crash at named points of their work, and are run again.

A lane is a folder in which the jobs of an operator run one after the other: ``ingest`` builds ``first``, ``update``
makes ``second`` from it, ``replace`` builds another library in the place of one, ``pack`` and ``unpack`` copy
``second``, and ``link`` lets ``current`` name it. Each job was run once undisturbed: that is where its points come
from, and what it must end with.
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scholarbase.errors import LibraryError
from scholarbase.manifest import read_manifest
from tests.updates import releases
from torture.commands import LINK, Commands, Ended
from torture.faults import ACTIONS, Fault, Faults, Point
from torture.judge import Judge
from torture.libraries import copy
from torture.rows import say

CHANGES: Final = 60
SEED: Final = 18
_SEARCHED: Final = ("open",)
"""Operations at which only swaps are crashed: a job that ends when it reads loses nothing."""


@dataclass(frozen=True, slots=True)
class Job:
    """A command. ``{}`` in an argument stands for the lane's folder.

    Args:
        makes: what it makes in the lane.
        needs: what it reads there.
        over: what is in its place before.
    """

    name: str
    arguments: tuple[str, ...]
    makes: str
    needs: str | None = None
    over: str | None = None


INGEST: Final = Job("ingest", ("ingest", "{}/../full", "--library", "{}/first", "--keep", "title"), "first")
UPDATE: Final = Job(
    "update", ("update", "{}/first", "{}/../changes", "--library", "{}/second"), "second", "first"
)
REPLACE: Final = Job(
    "replace",
    ("ingest", "{}/../next", "--library", "{}/replaced", "--keep", "title", "--restart"),
    "replaced",
    "first",
    over="first",
)
PACK: Final = Job("pack", ("pack", "{}/second", "{}/packed.tar.zst"), "packed.tar.zst", "second")
UNPACK: Final = Job(
    "unpack", ("unpack", "{}/packed.tar.zst", "--library", "{}/unpacked"), "unpacked", "packed.tar.zst"
)
SWAP: Final = Job(LINK, (LINK, "{}/current", "second"), "current", "second")
JOBS: Final = (INGEST, UPDATE, REPLACE, PACK, UNPACK, SWAP)


def make_sources(folder: Path) -> None:
    """Two random small releases of every dataset, ``full`` and ``next``, and the ``changes`` between them."""
    rng = random.Random(SEED)
    before = releases.first(rng)
    after = releases.changed(rng, before, CHANGES)
    for name in ("full", "next", "changes"):
        shutil.rmtree(folder / name, ignore_errors=True)
    releases.write(rng, before, folder / "full")
    releases.write(rng, after, folder / "next")
    releases.write_diff(rng, before, after, folder / "changes")


@dataclass(slots=True)
class Tally:
    """The crashes of a job, and what went wrong."""

    crashes: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    points: set[str] = field(default_factory=set)
    missed: int = 0
    """Faults at calls that the job did not come to, as it had done them before."""
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.crashes += other.crashes
        self.outcomes += other.outcomes
        self.points |= other.points
        self.missed += other.missed
        self.wrong += other.wrong


class Lane:
    """A folder in which jobs crash, one at a time.

    Args:
        preloaded: what :func:`torture.faults.build` compiled.
        encoder: the name of the encoder for ``ingest``.
    """

    def __init__(self, folder: Path, preloaded: Path, encoder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.work = folder.resolve() / "libraries"
        self.work.mkdir()
        make_sources(folder)
        self.encoder = encoder
        self.faults = Faults(preloaded, folder / "fault")
        self.commands = Commands(folder, self.faults.environment)
        self.judge = Judge()
        self.tallies: defaultdict[str, Tally] = defaultdict(Tally)
        self.part = ""
        """What the next crashes are counted as; by default the name of the job."""
        self.points: dict[str, list[Point]] = {}
        self._right: dict[str, str] = {}
        self._names: dict[str, set[str]] = {}
        self._needs: dict[str, dict[str, tuple[int, int]]] = {}

    def close(self) -> None:
        self.commands.close()
        self.judge.close()

    def __enter__(self) -> Lane:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- undisturbed ------------------------------------------------------------------------------------

    def rehearse(self, jobs: tuple[Job, ...] = JOBS) -> None:
        """Run the jobs undisturbed, and record their points and results."""
        for job in jobs:
            self._put(job)
            self.faults.trace(self.work)
            ended = self._run(job)
            self.faults.clear()
            if ended.status:
                raise RuntimeError(f"{job.name} failed without a fault:\n{ended.output}")
            self.points[job.name] = [one for one in self.faults.points() if one.operation not in _SEARCHED]
            self._right[job.name] = self._made(job)
            self._names[job.name] = _entries(self.work / job.makes)

    # -- disturbed --------------------------------------------------------------------------------------

    def begin(self, job: Job) -> None:
        """Remove what the job makes."""
        self.faults.clear()
        self._put(job)
        if job is PACK:  # the bytes are those of the library's present files
            self._run(job)
            self._right[job.name] = self._made(job)
            self._put(job)
        if job.needs:
            self._needs[job.name] = _stats(self.work / job.needs)

    def crash(self, job: Job, fault: Fault) -> None:
        """Run the job with a fault, and check what it leaves."""
        tally = self.tallies[self.part or job.name]
        self.faults.set(self.work, fault)
        ended = self._run(job)
        self.faults.clear()
        if not self.faults.taken():
            tally.missed += 1
            self._note(job, "without a fault", _last(ended) if ended.status else None)
            return
        tally.crashes += 1
        tally.points.add(fault.point.name)
        wrong = None
        if ended.status == 0:
            tally.outcomes["tolerated"] += 1
        elif ended.status < 0:
            tally.outcomes["killed"] += 1
            if not fault.kills or ended.status != -9:
                wrong = f"ended by signal {-ended.status}"
        else:
            tally.outcomes["refused"] += 1
            if "Traceback" in ended.output or "scholarbase: " not in ended.output:
                wrong = f"no reason: {_last(ended)}"
        self._note(job, f"at {fault}", wrong or self._half_made(job))

    def finish(self, job: Job, story: str) -> None:
        """Run the job again without a fault, and compare what it makes with what the undisturbed job made."""
        self.faults.clear()
        # "pack" refuses to replace a file, also one that was complete before the kill.
        ended = Ended(0, "") if job is PACK and self.is_made(job.makes) else self._run(job)
        wrong = f"run again: status {ended.status}, {_last(ended)}" if ended.status else self._different(job)
        self._note(job, f"after {story}", wrong)
        if wrong:
            self._put(job)
            self._run(job)

    def is_made(self, name: str) -> bool:
        """Whether a complete library, file or link of this name is there."""
        path = self.work / name
        return (path / "files.json").is_file() if path.is_dir() else path.exists()

    def _note(self, job: Job, when: str, wrong: str | None) -> None:
        if wrong:
            text = f"{self.encoder} {job.name} {when}: {wrong}"
            self.tallies[self.part or job.name].wrong.append(text)
            say(text)

    # -- checks -----------------------------------------------------------------------------------------

    def _half_made(self, job: Job) -> str | None:
        """What is wrong with what a crashed job left: it must be whole, absent, or not finished."""
        if not self.is_made(job.makes):
            return None
        made = self._made(job)
        allowed = {self._right[job.name]}
        if job.over:
            allowed.add(snapshot(self.work / job.over))
        if made not in allowed:
            return f"it left {made}"
        return self._refused(job)

    def _different(self, job: Job) -> str | None:
        made = self._made(job)
        if made != self._right[job.name]:
            return f"{made} instead of {self._right[job.name]}"
        names = _entries(self.work / job.makes)
        if names != self._names[job.name]:
            return f"other files: {sorted(names ^ self._names[job.name])[:5]}"
        if job.needs and (self.work / f".{job.needs}-views").exists():
            self.judge("open", self.work / job.needs)  # which removes the views of killed processes
        known = {"packed.tar.zst.sha256", *(one.makes for one in JOBS)}
        # Other jobs may be unfinished.
        others = tuple(one.makes for one in JOBS if one is not job)
        found = [entry.name for entry in self.work.iterdir() if entry.name not in known]
        left = [name for name in found if not name.lstrip(".").startswith(others)]
        if left:
            return f"left over: {left[:5]}"
        if job.needs and _stats(self.work / job.needs) != self._needs[job.name]:
            return f"{job.needs} has changed"
        return self._refused(job)

    def _refused(self, job: Job) -> str | None:
        if job.makes == PACK.makes:
            return None
        verified = self.judge("verify", self.work / job.makes)
        return None if verified == "ok" else f"not verified: {verified}"

    def _made(self, job: Job) -> str:
        path = self.work / job.makes
        if path.is_dir():
            return snapshot(path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        listed = path.with_name(f"{path.name}.sha256").read_text().split()[0]
        return digest if listed == digest else f"{digest}, listed as {listed}"

    # -- running ----------------------------------------------------------------------------------------

    def _run(self, job: Job) -> Ended:
        arguments = [one.replace("{}", str(self.work)) for one in job.arguments]
        if job.arguments[0] == "ingest":
            arguments += ["--encoder", self.encoder]
        return self.commands(*arguments)

    def _put(self, job: Job) -> None:
        path = self.work / job.makes
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if job.over:
            copy(self.work / job.over, path)


def deck(points: list[Point], rng: random.Random) -> Iterator[Fault]:
    """Every action at every point, at random calls of the point: each point once before any comes again."""
    left = [(point, rng.sample(ACTIONS[point.operation], len(ACTIONS[point.operation]))) for point in points]
    while left:
        rng.shuffle(left)
        for point, actions in left:
            yield Fault(point, rng.randint(1, point.count), actions.pop())
        left = [(point, actions) for point, actions in left if actions]


def snapshot(library: Path) -> str:
    try:
        return read_manifest(library)[1]
    except LibraryError as error:
        return f"{type(error).__name__}: {error}"


def _entries(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()} if path.is_dir() else {path.name}


def _stats(path: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file, which change when it is written."""
    files = [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
    return {str(one): (one.stat().st_size, one.stat().st_mtime_ns) for one in files}


def _last(ended: Ended) -> str:
    lines = [line for line in ended.output.splitlines() if line.strip()]
    return lines[-1] if lines else f"status {ended.status} and no output"
