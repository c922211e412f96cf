"""The tool calls of an agent as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

CallKind = Literal["search", "match", "expand", "inspect", "answer"]
CALL_KINDS: Final[tuple[CallKind, ...]] = get_args(CallKind)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of an agent; docs/trajectories.md has the JSON form. ``ids`` are canonical, best first.

    ``kind`` is what the call did: search, expand, inspect, or answer (the agent's final ranking).
    """

    query_id: str
    call: int
    tool: str
    kind: CallKind
    arguments: Mapping[str, Any]
    ids: tuple[str, ...]
    round: int
    parent: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    error: str | None = None
