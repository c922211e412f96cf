"""The progress of a session: the papers its calls returned, its budgets, and its trajectory."""

from __future__ import annotations

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
"""Levels of arguments that are recorded; orjson writes 254."""


@dataclass(frozen=True, slots=True)
class BudgetState:
    """A session before a call: what its budgets leave, and the papers that it has returned.

    ``remaining`` has an item for each limit of the session. ``candidates`` are the ids of the papers that search and
    expansion calls returned, where they are limited, and ``seen`` those of all calls, where requested.
    ``already_recorded``: the call was recorded before, and this is the state before it. ``reserved``: how many calls
    were counted in the budgets for it.
    """

    remaining: dict[str, int] = field(default_factory=dict)
    candidates: frozenset[str] = frozenset()
    seen: frozenset[str] = frozenset()
    already_recorded: bool = False
    reserved: int = 0


@dataclass(slots=True)
class Progress:
    """The sums over a session's calls, as far as this process has read them."""

    opened: str = ""
    """When the session opened: one of the same name that opened later is another session."""
    last: int = 0
    tokens: int = 0
    first: dict[str, int] = field(default_factory=dict)
    """Id to the number of the first call that returned it."""
    candidates: set[str] = field(default_factory=set)

    def add(self, number: int, stored: bytes) -> None:
        """Add the next call."""
        line: dict[str, Any] = orjson.loads(stored)
        self.last = number
        self.tokens += line.get("tokens", 0)
        if line["kind"] == "answer":
            return  # written by the agent, not returned to it
        for paper_id in line["ids"]:
            self.first.setdefault(paper_id, number)
        if line["kind"] in LOOKING:
            self.candidates.update(line["ids"])


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


def stored_line(session: Session, call: CallRecord) -> bytes:
    """A call's line of the trajectory as it is stored. :class:`TrajectoryReader` adds what depends on earlier calls:
    the number, and parent and round where the caller named none."""
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
        "error_type": call.error_type,
    }
    return dumps({key: value for key, value in line.items() if value is not None})


class TrajectoryReader:
    """Makes the lines of a session's trajectory of those that are stored, from the first on."""

    def __init__(self) -> None:
        self._round = 0
        self._last_returned: dict[str, int] = {}

    def line(self, number: int, stored: bytes) -> bytes:
        """The line of the next call."""
        row: dict[str, Any] = orjson.loads(stored)
        parent = row.pop("parent", None)
        if (parent is None or parent >= number) and row["kind"] != "search":
            # An expansion or a look-up follows from the call that last returned one of the papers that it names.
            parent = max((self._last_returned.get(i, 0) for i in _named(row["arguments"])), default=0) or None
        self._round = max(row.pop("round", self._round + 1), self._round)
        if row["kind"] != "answer":  # written by the agent, not returned to it
            self._last_returned.update(dict.fromkeys(row["ids"], number))
        parents = {"parent": parent} if parent is not None and parent < number else {}
        first = {"query_id": row.pop("query_id"), "call": number}
        last = {key: row.pop(key) for key in _LAST_KEYS if key in row}
        return orjson.dumps({**first, **row, **parents, "round": self._round, **last})


_LAST_KEYS: Final = ("snapshot", "session", "query", "error", "error_type")


def dumps(line: dict[str, Any]) -> bytes:
    """A line as JSON, whatever the arguments of an invalid call are."""
    try:
        return orjson.dumps(line)
    except TypeError:
        # They may be anything: half a surrogate pair, a number beyond 64 bits, a hundred nested lists.
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
    """The canonical ids of the papers that a call's arguments name."""
    named: list[str] = []
    for key in ("paper_id", "ids", "seeds"):
        value = arguments.get(key)
        for written in value if isinstance(value, list | tuple) else [value]:
            with suppress(InvalidRequest):
                if isinstance(written, str):
                    named.append(str(parse(written)))
    return named
