"""Replay a recorded session on a library, and compare: on the snapshot that it was recorded on, nothing differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.errors import InvalidRequest, QueryFileError, ScholarBaseError
from scholarbase.models.checks import shown
from scholarbase.search.library import Library
from scholarbase.sessions.progress import NOT_RECORDED, Progress
from scholarbase.sessions.recording import SessionCall
from scholarbase.sessions.session import Session
from scholarbase.tools.calling import call_tool
from scholarbase.tools.definitions import recorded_tool
from scholarbase_research.trajectory_lines import KEYS, read_trajectory

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
        orjson.dumps({"call": number, **{key: value for key, value in row.items() if value is not None}})
        for number, row in enumerate(rows, 1)
    ]
    return session, lines, len(calls) - len(rows)


def replay(library: Library, session: Session, lines: Iterable[bytes]) -> Iterator[Replayed]:
    """Run a session's calls again, in their order, each after the recorded calls before it and with the ``as_of`` of
    the session.

    The agent's own answers and calls that failed are returned as they were recorded.
    """
    progress = Progress()
    for number, line in enumerate(lines, 1):
        recorded: dict[str, Any] = orjson.loads(line)
        call = SessionCall(session, recorded["tool"], progress.state(session.limits, with_seen=True))
        progress.add(number, recorded)
        if recorded["kind"] == "answer" or recorded.get("error") is not None:
            yield Replayed(recorded, recorded, None)
            continue
        replayed = _run(library, call, recorded)
        form = _FORMS.get(recorded["tool"]) if _is_one(recorded) else None
        if form is not None and differences([replayed]):
            other = _run(library, call, recorded, form)
            replayed = replayed if differences([other]) else other
        if replayed.content is not None and "budget" in replayed.content:
            left = progress.state(session.limits).remaining
            content = {**replayed.content, "budget": {name: max(rest, 0) for name, rest in left.items()}}
            replayed = replace(replayed, content=content)
        yield replayed


def _run(
    library: Library,
    call: SessionCall,
    row: dict[str, Any],
    form: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Replayed:
    arguments = row.get("arguments", {})
    try:
        if (size := arguments.get(NOT_RECORDED)) is not None:
            size = f"{size:,}" if isinstance(size, int) else shown(size)
            raise InvalidRequest(
                f"The arguments of this call were not recorded, since they have {size} bytes: it cannot be run again."
            )
        tool = recorded_tool(row["tool"])
        response = call_tool(library, tool, tool.canonical(arguments), replace(call), form=form)
    except ScholarBaseError as error:
        return Replayed(row, {"ids": [], "error": str(error), "snapshot": library.snapshot_id}, None)
    [returned] = response.returned
    now: dict[str, Any] = {"ids": list(returned.ids), "snapshot": library.snapshot_id}
    if returned.scores is not None:
        now["scores"] = list(returned.scores)
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


def differences(replayed: Iterable[Replayed]) -> list[Difference]:
    """The calls whose results differ. Messages of two failures are not compared, since a native call and a tool may
    word the same one differently."""
    all_differences: list[Difference] = []
    for call in replayed:
        for what in COMPARED:
            before, after = call.recorded.get(what), call.now.get(what)
            if what == "error" and before is not None and after is not None:
                continue
            if before != after:
                recorded = call.recorded
                all_differences.append(Difference(recorded["call"], recorded["tool"], what, before, after))
                break
    return all_differences


def _shown(recorded: Any, now: Any) -> str:
    if isinstance(recorded, list) and isinstance(now, list):
        pairs = list(zip(recorded, now, strict=False))
        position = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
        return (
            f"differ from place {position + 1}: {_some(recorded, position)} were recorded, {_some(now, position)} came "
            f"now ({len(recorded)} and {len(now)} in all)"
        )
    return f"was {recorded!r} and is {now!r}"


def _some(values: Sequence[Any], position: int) -> str:
    return repr(list(values[position : position + SHOWN])) if position < len(values) else "none"
