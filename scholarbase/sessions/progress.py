"""The progress of a session: the papers its calls returned, its budgets, and its trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from scholarbase.errors import BudgetExhausted, InvalidRequest
from scholarbase.identifiers import parse
from scholarbase.models.calls import CallKind
from scholarbase.sessions.session import CallRecord, Limits, Session, now, rfc3339
from scholarbase.trajectories.figures import LOOKING

MAX_RECORDED: Final = 2**19
"""Bytes of a request's arguments that are recorded. The calls of a batch have equal shares."""
NOT_RECORDED: Final = "not_recorded"
"""The one argument of a call whose arguments are not recorded: their size in bytes."""
MAX_ERROR: Final = 2000
"""Characters of an error message that are recorded."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A session before a call: what its budgets leave, and the papers that it has returned.

    ``remaining`` has an item for each limit of the session. ``candidates`` are the ids of the papers that search and
    expansion calls returned, where they are limited, and ``seen`` those of all calls, where requested. ``numbers`` are
    those of the calls that were counted in the budgets for it; none where it was recorded before, and this is the state
    before it. ``answered`` is the number of the call with the agent's answer, None before that.
    """

    remaining: dict[str, int] = field(default_factory=dict)
    candidates: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    numbers: tuple[int, ...] = ()
    answered: int | None = None


@dataclass(slots=True)
class Progress:
    """The sums over a session's calls, as far as this process has read them."""

    opened: str = ""
    """When the session opened: one of the same name that opened later is another session."""
    last: int = 0
    calls: int = 0
    expansions: int = 0
    tokens: int = 0
    first: dict[str, int] = field(default_factory=dict)
    """Id to the number of the first call that returned it."""
    candidates: set[str] = field(default_factory=set)
    open: set[int] = field(default_factory=set)
    """The numbers of calls without a response, which are added again once they have one."""
    answered: int | None = None
    """The number of the first answer."""

    def add(self, number: int, stored: bytes | Mapping[str, Any], *, is_open: bool = False) -> None:
        """Add the next call, or one that was open."""
        line: Mapping[str, Any] = orjson.loads(stored) if isinstance(stored, bytes) else stored
        is_answer = line["kind"] == "answer"  # written by the agent, not returned to it
        if number > self.last:
            self.last = number
            if not is_answer and line.get("error_type") != BudgetExhausted.slug:
                self.calls += 1
                self.expansions += line["kind"] == "expand"
        self.open.discard(number)
        if is_open:
            self.open.add(number)
            return
        self.tokens += line.get("tokens") or 0
        if is_answer:
            if line.get("error") is None:
                self.answered = number if self.answered is None else min(number, self.answered)
            return
        for paper_id in line["ids"]:
            self.first[paper_id] = min(number, self.first.get(paper_id, number))
        if line["kind"] in LOOKING:
            self.candidates.update(line["ids"])

    def state(self, limits: Limits, *, with_seen: bool = False, before: int | None = None) -> BudgetState:
        """The state for a call, which is recorded as number ``before`` already, or is the next."""
        seen = (i for i, first in self.first.items() if before is None or first < before) if with_seen else ()
        return BudgetState(
            remaining={name: limit - self._used(name) for name, limit in limits.to_dict().items()},
            candidates=frozenset(self.candidates) if limits.candidates is not None else frozenset(),
            seen=frozenset(seen),
            answered=self.answered if before is None or (self.answered or 0) < before else None,
        )

    def _used(self, name: str) -> int:
        return len(self.candidates) if name == "candidates" else int(getattr(self, name))


def check_budgets(session: Session, remaining: dict[str, int], kind: CallKind, count: int) -> None:
    """Raises BudgetExhausted: the budgets do not leave enough for ``count`` calls of this kind."""
    wanted = {"calls": count, "tokens": count}
    if kind in LOOKING:
        wanted["candidates"] = count
    if kind == "expand":
        wanted["expansions"] = count
    for name, needed in wanted.items():
        if name in remaining and remaining[name] < needed:
            limit = session.limits.to_dict()[name]
            rest = max(remaining[name], 0)
            raise BudgetExhausted(
                f"The session {session.id!r} may have {limit} {name}, and {rest} are left: "
                + (
                    "answer with what has been found."
                    if rest == 0
                    else f"this call takes {needed}; ask for less at once."
                )
            )


def stored_line(call: CallRecord) -> bytes:
    """A call's line of the trajectory as it is stored. :class:`TrajectoryReader` adds what the session has, and what
    depends on earlier calls: the number, and parent and round where the caller named none."""
    arguments = dumps(call.arguments)
    if len(arguments) * call.calls > MAX_RECORDED:
        arguments = dumps({NOT_RECORDED: len(arguments)})
    error = call.error
    if error is not None:
        error = error if len(error) <= MAX_ERROR else f"{error[:MAX_ERROR]}..."
        error = error.encode("utf-8", "backslashreplace").decode()
    line: dict[str, Any] = {
        "tool": call.tool,
        "kind": call.kind,
        "arguments": orjson.Fragment(arguments),
        "ids": list(call.ids),
        "scores": None if call.scores is None else list(call.scores),
        "time": call.time or now(),
        "seconds": call.seconds,
        "tokens": call.tokens,
        "parent": call.parent,
        "round": call.round,
        "snapshot": call.snapshot,
        "error": error,
        "error_type": call.error_type,
    }
    return _without_nulls(line)


def _without_nulls(line: Mapping[str, Any]) -> bytes:
    return orjson.dumps({key: value for key, value in line.items() if value is not None})


class TrajectoryReader:
    """Makes the lines of a session's trajectory of those that are stored, in the order in which the calls ended."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._round = 0
        self._places: dict[int, int] = {}
        """Numbers of the calls so far, to their places in the order."""
        self._last_returned: dict[str, int] = {}

    def line(self, number: int, ended: int, stored: bytes) -> bytes:
        """The line of the next call."""
        call: dict[str, Any] = orjson.loads(stored)
        parent = call.pop("parent", None)
        if parent not in self._places and call["kind"] not in ("search", "match"):
            # An expansion or a look-up follows from the call that last returned one of the papers that it names.
            returned = {self._last_returned[i] for i in _named(call["arguments"]) if i in self._last_returned}
            parent = max(returned, key=self._places.__getitem__, default=None)
        if parent not in self._places:
            parent = None
        self._places[number] = len(self._places)
        self._round = max(call.pop("round", self._round + 1), self._round)
        if call["kind"] != "answer":  # written by the agent, not returned to it
            self._last_returned.update(dict.fromkeys(call["ids"], number))
        snapshot, error, error_type = (call.pop(key, None) for key in ("snapshot", "error", "error_type"))
        line = {
            "query_id": self._session.query_id,
            "call": number,
            **call,
            "ended": rfc3339(ended),
            "parent": parent,
            "round": self._round,
            "snapshot": snapshot,
            "session": self._session.id,
            "query": self._session.query,
            "error": error,
            "error_type": error_type,
        }
        return _without_nulls(line)


def dumps(arguments: Mapping[str, Any]) -> bytes:
    """Arguments as JSON. Those of an invalid call may be anything, such as half a surrogate pair, a number beyond 64
    bits or hundreds of nested lists: they are written as one text then."""
    try:
        return orjson.dumps(arguments)
    except TypeError:
        pass
    try:
        text = ascii(arguments)
    except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
        text = f"a {type(arguments).__name__} that cannot be shown"
    return orjson.dumps({"arguments": text})


def _named(arguments: Any) -> list[str]:
    """The canonical ids of the papers that a call's arguments name."""
    named: list[str] = []
    for key in ("paper_id", "ids", "seeds"):
        value = arguments.get(key)
        for written in value if isinstance(value, list | tuple) else [value]:
            with suppress(InvalidRequest):
                if isinstance(written, str):
                    named.append(str(parse(written)))
    return named
