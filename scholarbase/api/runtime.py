"""The folder through which the processes of a server tell each other which library to serve.

::

    served.json         the libraries that are served, the current one last, with a number that grows with every change
    workers/PID.json    the number that a worker has reached, and the error if it could not
    failure.json        why a worker cannot serve, so that the server stops
    ready               exists once a worker answers requests
    stopping            exists when the server stops
    lock                held while a process changes what is served
    restarts            a byte for each worker that was replaced
    rates, *.db         rate limits and metrics over all workers
    encoder.sock        where the encoder listens that the workers share
    responses.sock      where the first process listens for the responses that they share

Files are replaced in one step. A process looks at them several times a second, which takes some microseconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from scholarbase import errors
from scholarbase.errors import LibraryError, ScholarBaseError
from scholarbase.files import locked

POLL_SECONDS: Final = 0.1
"""How often a process looks whether something has changed."""
STARTING: Final = -1
"""The number of a worker that has not opened its library yet."""


class Target(NamedTuple):
    """A library to serve: its folder, and its snapshot."""

    folder: Path
    snapshot: str


class Served(NamedTuple):
    """The libraries that are served, the current one last. ``number`` grows with every change."""

    number: int
    held: tuple[Target, ...]

    @property
    def current(self) -> Target:
        return self.held[-1]


class State(NamedTuple):
    """What a worker has reached: the number of :class:`Served`, or STARTING, and the error if it could not."""

    number: int
    error: ScholarBaseError | None = None


class Runtime:
    """The files of a server that runs.

    Args:
        path: an existing folder of its own.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.response_socket = path / "responses.sock"
        self._workers = path / "workers"
        self._workers.mkdir(exist_ok=True)

    # -- what is served ---------------------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock under which one process at a time changes what is served."""
        with locked(self.path / "lock"):
            yield

    def publish(self, targets: tuple[Target, ...]) -> Served:
        """Let all workers serve these libraries, the last one by default."""
        number = self.served().number + 1 if (self.path / "served.json").exists() else 0
        entries = [{"folder": os.fspath(target.folder), "snapshot": target.snapshot} for target in targets]
        self._write(self.path / "served.json", {"number": number, "held": entries})
        return Served(number, targets)

    def served(self) -> Served:
        content = orjson.loads((self.path / "served.json").read_bytes())
        targets = (Target(Path(entry["folder"]), entry["snapshot"]) for entry in content["held"])
        return Served(content["number"], tuple(targets))

    # -- workers ----------------------------------------------------------------------------------------

    def report(self, state: State) -> None:
        """Say what this worker has reached."""
        path = self._workers / f"{os.getpid()}.json"
        self._write(path, {"number": state.number, "error": _as_json(state.error)})

    def workers(self) -> dict[int, State]:
        """The states of the workers that live, by their process ids."""
        states = {}
        for path in self._workers.glob("*.json"):
            pid = int(path.stem)
            state = _state_in(path)
            if state is not None and _is_alive(pid):
                states[pid] = state
        return states

    @property
    def restarts(self) -> int:
        """How many workers ended and were replaced."""
        with suppress(FileNotFoundError):
            return (self.path / "restarts").stat().st_size
        return 0

    def forget(self, pid: int) -> State | None:
        """Remove what a worker that ended has reported, and return it."""
        with (self.path / "restarts").open("ab") as file:
            file.write(b".")
        path = self._workers / f"{pid}.json"
        state = _state_in(path)
        path.unlink(missing_ok=True)
        return state

    def is_ready(self) -> bool:
        """Whether a worker has answered requests."""
        return (self.path / "ready").exists()

    def ready(self) -> None:
        """Say that this worker answers requests from now on."""
        (self.path / "ready").touch()

    # -- the end ----------------------------------------------------------------------------------------

    def fail(self, error: ScholarBaseError) -> None:
        """Say why this server must stop. The first reason counts."""
        mine = self.path / f"failure.{os.getpid()}.json"
        self._write(mine, {"error": _as_json(error)})
        with suppress(FileExistsError):
            os.link(mine, self.path / "failure.json")

    def failure(self) -> ScholarBaseError | None:
        with suppress(FileNotFoundError):
            return _from_json(orjson.loads((self.path / "failure.json").read_bytes())["error"])
        return None

    def stop(self) -> None:
        """Say that the server stops: requests that wait are refused."""
        with suppress(OSError):
            (self.path / "stopping").touch()

    @property
    def is_stopping(self) -> bool:
        return (self.path / "stopping").exists()

    @staticmethod
    def _write(path: Path, content: Any) -> None:
        new = path.with_name(f".{path.name}.{os.getpid()}")
        new.write_bytes(orjson.dumps(content))
        new.replace(path)


def _state_in(path: Path) -> State | None:
    """The state that a worker reported; None where there is no file, because it has ended."""
    with suppress(FileNotFoundError):
        content = orjson.loads(path.read_bytes())
        return State(content["number"], _from_json(content["error"]))
    return None


def _as_json(error: ScholarBaseError | None) -> dict[str, str] | None:
    return None if error is None else {"kind": type(error).__name__, "message": str(error)}


def _from_json(content: dict[str, str] | None) -> ScholarBaseError | None:
    if content is None:
        return None
    kind: type[ScholarBaseError] = getattr(errors, content["kind"], LibraryError)
    return kind(content["message"])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # a process of another user has its number now
        return False
    return True
