"""What the calls of a session have come to: what it has been given, what its budgets leave, and its trajectory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from scholarbase.errors import BudgetExhausted, InvalidRequest
from scholarbase.identifiers import parse
from scholarbase.models.runs import CallKind
from scholarbase.sessions.session import CallRecord, Session, now
from scholarbase.trajectories.figures import LOOKING

_DEPTH: Final = 100
"""How deep arguments are kept; orjson writes 254 levels."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a session stands before a call: what its budgets leave, and what it has been given.

    ``left`` has the limits that there are; ``candidates`` and ``seen`` are the ids of the papers that search and
    expansion calls, and all calls, have given, where they were asked for. ``again``: the call is kept already, and this
    is how things stood before it. ``taken``: how many calls were taken from the budgets.
    """

    left: dict[str, int] = field(default_factory=dict)
    candidates: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    again: bool = False
    taken: int = 0


@dataclass(slots=True)
class Progress:
    """What the calls of a session have come to, as far as this process has read them."""

    opened: str = ""
    """When the session opened: another one of the same name, opened later, is not this one."""
    last: int = 0
    tokens: int = 0
    first: dict[str, int] = field(default_factory=dict)
    """Id to the first call that gave it."""
    candidates: set[str] = field(default_factory=set)

    def take(self, number: int, stored: bytes) -> None:
        """The next call."""
        line: dict[str, Any] = orjson.loads(stored)
        self.last = number
        self.tokens += line.get("tokens", 0)
        if line["kind"] == "answer":
            return  # the agent's own words, which nothing gave it
        for paper_id in line["ids"]:
            self.first.setdefault(paper_id, number)
        if line["kind"] in LOOKING:
            self.candidates.update(line["ids"])


def check_budgets(session: Session, left: dict[str, int], kind: CallKind, count: int) -> None:
    """Raises BudgetExhausted: something that the calls take has nothing left."""
    wanted = {"calls": count, "tokens": count}
    if kind in LOOKING:
        wanted["candidates"] = count
    if kind == "expand":
        wanted["expansions"] = count
    for name, needed in wanted.items():
        if name in left and left[name] < needed:
            limit = session.limits.to_dict()[name]
            rest = max(left[name], 0)
            raise BudgetExhausted(
                f"The session {session.id!r} may have {limit} {name}, and {rest} are left: "
                + (
                    "answer with what has been found."
                    if rest == 0
                    else f"this call takes {needed}; ask for less at once."
                )
            )


_REFUSAL: Final = re.compile(
    r"The session '[^']+' may have \d+ (calls|expansions|candidates|tokens), and \d+ are left: ", re.ASCII
)


def is_refusal(error: str | None) -> bool:
    """Whether a recorded call's error is that a budget of its session refused it."""
    return error is not None and _REFUSAL.match(error) is not None


def stored_line(session: Session, call: CallRecord) -> bytes:
    """A call as it is stored: its line of the trajectory but for what the calls before it say, which is told when the
    trajectory is read (:class:`Telling`): its number, and parent and round where the caller did not know them."""
    line: dict[str, Any] = {
        "query_id": session.query_id,
        "tool": call.tool,
        "kind": call.kind,
        "arguments": dict(call.arguments),
        "ids": list(call.ids),
        "scores": None if call.scores is None else list(call.scores),
        "time": call.time or now(),
        "seconds": call.seconds,
        "tokens": call.tokens,
        "parent": call.parent,
        "round": call.round,
        "snapshot": call.snapshot,
        "session": session.id,
        "query": session.query,
        "error": call.error,
    }
    return dumps({key: value for key, value in line.items() if value is not None})


class Telling:
    """A session's trajectory as it is told, line after line from the first."""

    def __init__(self) -> None:
        self._round = 0
        self._given: dict[str, int] = {}

    def line(self, number: int, stored: bytes) -> bytes:
        """The line of the next call."""
        row: dict[str, Any] = orjson.loads(stored)
        parent = row.pop("parent", None)
        if (parent is None or parent >= number) and row["kind"] != "search":
            # An expansion or a look-up follows from the call that last gave one of the papers that it names.
            parent = max((self._given.get(i, 0) for i in _named(row["arguments"])), default=0) or None
        self._round = max(row.pop("round", self._round + 1), self._round)
        if row["kind"] != "answer":  # the agent's own words, which nothing gave it
            self._given.update(dict.fromkeys(row["ids"], number))
        told = {"parent": parent} if parent is not None and parent < number else {}
        first = {"query_id": row.pop("query_id"), "call": number}
        last = {key: row.pop(key) for key in ("snapshot", "session", "query", "error") if key in row}
        return orjson.dumps({**first, **row, **told, "round": self._round, **last})


def dumps(line: dict[str, Any]) -> bytes:
    """A line as JSON, whatever a call that was refused may have been told."""
    try:
        return orjson.dumps(line)
    except TypeError:
        # A call that was refused may hold anything: half a surrogate pair, a number beyond 64 bits, a hundred lists
        # in each other.
        return orjson.dumps(_plain(line))


def _plain(value: Any, depth: int = 0) -> Any:
    plain: Any = value
    if isinstance(value, float):
        plain = float(value)
    elif isinstance(value, Mapping) and depth < _DEPTH:
        plain = {_text(str(key)): _plain(item, depth + 1) for key, item in value.items()}
    elif isinstance(value, list | tuple) and depth < _DEPTH:
        plain = [_plain(item, depth + 1) for item in value]
    elif isinstance(value, str):
        plain = _text(value)
    elif not (value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63)):
        try:
            plain = _text(repr(value))
        except (RecursionError, ValueError):  # ValueError: an integer of thousands of digits
            plain = f"a {type(value).__name__} that cannot be shown"
    return plain


def _text(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode()


def _named(arguments: Any) -> list[str]:
    """The papers that a call's arguments name, by the canonical forms of their ids."""
    named: list[str] = []
    for key in ("paper_id", "ids", "seeds"):
        value = arguments.get(key)
        for written in value if isinstance(value, list | tuple) else [value]:
            with suppress(InvalidRequest):
                if isinstance(written, str):
                    named.append(str(parse(written)))
    return named
