"""Replay a recorded session on a library, and compare: on the snapshot that it was recorded on, nothing differs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.errors import BudgetExhausted, InvalidRequest, QueryFileError, ScholarBaseError
from scholarbase.search.library import Library
from scholarbase.sessions.progress import NOT_RECORDED
from scholarbase.sessions.recording import BUDGET_SECONDS, Recording
from scholarbase.sessions.session import MAX_WHOLE, Limits, Session
from scholarbase.sessions.store import SessionStore
from scholarbase.sessions.writer import wait_for
from scholarbase.tools.calling import call_recorded
from scholarbase.trajectories.calls import KEYS, read_trajectory
from scholarbase.trajectories.figures import LOOKING

COMPARED: Final = ("error", "ids", "scores")
SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Replayed:
    """A replayed call: its recorded result, its result now, and the response's JSON, None where it failed."""

    recorded: Mapping[str, Any]
    now: Mapping[str, Any]
    content: Mapping[str, Any] | None

    @property
    def ran(self) -> bool:
        """Whether the call ran again: neither failed calls nor the agent's own answers do."""
        return self.now is not self.recorded


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference of a replayed call: ``what`` is ids, scores or error."""

    call: int
    tool: str
    what: str
    recorded: Any
    now: Any

    def __str__(self) -> str:
        return f"call {self.call} ({self.tool}): {self.what} {_shown(self.recorded, self.now)}"


def read_recorded(path: Path) -> tuple[Session, list[bytes], int]:
    """Read a trajectory from a file of JSON lines: its session, without the limits, which a file does not have; the
    calls that did not fail; and how many failed.

    Raises:
        QueryFileError: the file cannot be read, or has several sessions.
    """
    calls = read_trajectory(path)
    names = {call.session for call in calls}
    if len(names) > 1:
        raise QueryFileError(f"{path} has the calls of {len(names)} sessions: give each its own file.")
    first = calls[0]
    session = Session(first.session or path.stem, query_id=first.query_id, query=first.query)
    rows = [{key: getattr(call, key) for key in KEYS} for call in calls if call.error is None]
    lines = [
        orjson.dumps({"call": place, **{key: value for key, value in row.items() if value is not None}})
        for place, row in enumerate(rows, 1)
    ]
    return session, lines, len(calls) - len(rows)


def replay(library: Library, session: Session, lines: Iterable[bytes]) -> Iterator[Replayed]:
    """Run a session's calls again, in their order, in a temporary session with the same ``as_of``.

    The agent's own answers and calls that failed are returned as they were recorded.
    """
    with (
        tempfile.TemporaryDirectory(prefix="scholarbase-replay-") as folder,
        SessionStore(Path(folder)) as store,
    ):
        unlimited = Limits(**dict.fromkeys(session.limits.to_dict(), MAX_WHOLE))
        repeated = wait_for(store.open(replace(session, owner="", limits=unlimited)), BUDGET_SECONDS)
        budgets = _Budgets(session.limits)
        for line in lines:
            row: dict[str, Any] = orjson.loads(line)
            if row["kind"] == "answer" or row.get("error") is not None:
                budgets.spend(row)
                yield Replayed(row, row, None)
                continue
            budgets.spend(row)
            one = _run(library, repeated, store, row)
            if differences([one]) and (form := _FORMS.get(row["tool"])) is not None and _is_one(row):
                other = _run(library, repeated, store, row, form)
                one = one if differences([other]) else other
            if one.content is not None and "budget" in one.content:
                one = replace(one, content={**one.content, "budget": budgets.left()})
            yield one


def _run(
    library: Library,
    session: Session,
    store: SessionStore,
    row: dict[str, Any],
    form: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Replayed:
    # Parents and rounds change no response.
    recording = Recording(store, session, row["tool"], library.snapshot_id)
    arguments = row.get("arguments", {})
    try:
        if NOT_RECORDED in arguments:
            raise InvalidRequest(
                f"The arguments of this call were not recorded, since they have {arguments[NOT_RECORDED]:,} bytes: it "
                "cannot be run again."
            )
        response = call_recorded(library, row["tool"], arguments, recording, form=form)
    except ScholarBaseError as error:
        return Replayed(row, {"ids": [], "error": str(error), "snapshot": library.snapshot_id}, None)
    [found] = response.returned
    now: dict[str, Any] = {"ids": list(found.ids), "snapshot": library.snapshot_id}
    if found.scores is not None:
        now["scores"] = list(found.scores)
    return Replayed(row, now, response.content)


_FORMS: Final[dict[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "get_papers": lambda content: {"snapshot": content["snapshot"], **(content["results"][0] or {})},
    "match_titles": lambda content: {**content, "results": content["results"][0]},
}
"""The responses of a native call for one paper, or one title, from those of the tool: some bytes shorter, so that
``max_tokens`` may hold another paper."""


def _is_one(row: Mapping[str, Any]) -> bool:
    arguments = row.get("arguments", {})
    requested = arguments.get("ids") or arguments.get("titles")
    return "max_tokens" in arguments and isinstance(requested, list) and len(requested) == 1


class _Budgets:
    """What a session's budgets left after each of its recorded calls."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits.to_dict()
        self._used = dict.fromkeys(("calls", "expansions", "tokens"), 0)
        self._candidates: set[str] = set()

    def spend(self, row: Mapping[str, Any]) -> None:
        self._used["tokens"] += row.get("tokens") or 0
        if row["kind"] == "answer" or row.get("error_type") == BudgetExhausted.slug:
            return
        self._used["calls"] += 1
        self._used["expansions"] += row["kind"] == "expand"
        if row["kind"] in LOOKING:
            self._candidates.update(row["ids"])

    def left(self) -> dict[str, int]:
        used = {**self._used, "candidates": len(self._candidates)}
        return {name: max(limit - used[name], 0) for name, limit in self._limits.items()}


def differences(replayed: Iterable[Replayed]) -> list[Difference]:
    """The calls whose results differ. Messages of two failures are not compared, since a native call and a tool may
    word the same one differently."""
    found: list[Difference] = []
    for one in replayed:
        for what in COMPARED:
            before, after = one.recorded.get(what), one.now.get(what)
            if what == "error" and before is not None and after is not None:
                continue
            if before != after:
                row = one.recorded
                found.append(Difference(row["call"], row["tool"], what, before, after))
                break
    return found


def _shown(recorded: Any, now: Any) -> str:
    if isinstance(recorded, list) and isinstance(now, list):
        pairs = list(zip(recorded, now, strict=False))
        place = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        return (
            f"differ from place {place + 1}: {_some(recorded, place)} were recorded, {_some(now, place)} came now "
            f"({len(recorded)} and {len(now)} in all)"
        )
    return f"was {recorded!r} and is {now!r}"


def _some(values: Sequence[Any], place: int) -> str:
    return repr(list(values[place : place + SHOWN])) if place < len(values) else "none"
