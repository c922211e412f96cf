"""Trajectories: an agent's tool calls as JSON lines. docs/trajectories.md describes the keys."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.files import text_lines
from scholarbase.identifiers import parse
from scholarbase.models.calls import CALL_KINDS, CallKind
from scholarbase.models.checks import shown
from scholarbase.trajectories.kinds import TOOLS, kind_of

_MOST: Final = 10**12
"""The greatest number of a call, tokens or seconds: JSON has no sums of more than 64 bits."""
_RFC_3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d):(\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class RawCall:
    """A checked line of a trajectory. ``ids`` are in canonical form, not yet resolved in a library.

    ``where`` names file and line. ``call`` and ``round`` are None if the line lacks them.
    """

    where: str
    query_id: str
    tool: str
    kind: CallKind
    ids: tuple[str, ...]
    call: int | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    scores: tuple[float, ...] | None = None
    time: str | None = None
    ended: str | None = None
    seconds: float | None = None
    tokens: int | None = None
    parent: int | None = None
    round: int | None = None
    snapshot: str | None = None
    session: str | None = None
    query: str | None = None
    error: str | None = None
    error_type: str | None = None
    thought: str | None = None


KEYS: Final = tuple(f.name for f in fields(RawCall) if f.name != "where")


def read_trajectory(path: Path) -> list[RawCall]:
    """Read the tool calls of a file of JSON lines, gzip or not, in order. Empty lines are skipped.

    Raises:
        QueryFileError: the file is missing, empty or damaged, or a line is invalid; the message names the line.
    """
    calls = []
    canonical: dict[str, str] = {}
    for number, text in text_lines(path):
        if not text.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise QueryFileError(f"{where} is not valid JSON ({error}): fix or remove the line.") from error
        try:
            calls.append(raw_call(row, where, canonical))
        except InvalidRequest as error:
            raise QueryFileError(f"{where}: {error}") from error
    if not calls:
        raise QueryFileError(f"{path} has no calls: a trajectory has one JSON object per line for each call.")
    return calls


def raw_call(row: Any, where: str, canonical: dict[str, str]) -> RawCall:
    """The call in a line, whose ids are added to ``canonical`` by their written forms. Raises InvalidRequest."""
    values = _values(row)
    for key, (accepts, expected) in _CHECKS.items():
        if key in values and not accepts(values[key]):
            raise InvalidRequest(f"{key} is {shown(values[key])}: it must be {expected}.")
    tool = values["tool"]
    kind = values["kind"] = values.get("kind") or kind_of(tool)
    if kind is None:
        raise InvalidRequest(
            f"the tool {tool!r} is not a ScholarBase tool: give its kind, one of {', '.join(CALL_KINDS)}."
        )
    if tool in TOOLS and kind != TOOLS[tool]:
        raise InvalidRequest(f"the kind of {tool} is {TOOLS[tool]!r}, not {kind!r}: correct or remove kind.")
    if "error" in values and values["ids"]:
        raise InvalidRequest(
            f"a call with an error has no results: ids must be [], not {len(values['ids'])} ids."
        )
    for requested in values["ids"]:
        if requested not in canonical:
            canonical[requested] = str(parse(requested))
    values["ids"] = tuple(canonical[requested] for requested in values["ids"])
    if "scores" in values:
        values["scores"] = tuple(map(float, values["scores"]))
        if len(values["scores"]) != len(values["ids"]):
            raise InvalidRequest(
                f"scores has {len(values['scores'])} numbers and ids has {len(values['ids'])}: give one score per id."
            )
    return RawCall(where=where, **values)


def _values(row: Any) -> dict[str, Any]:
    """The keys and values of a line. A null value counts as a missing key."""
    if not isinstance(row, dict):
        raise InvalidRequest("it is not a JSON object: a call is an object with query_id, tool and ids.")
    for key in row:
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "put it into arguments, or remove it."
            raise InvalidRequest(f"unknown key {key!r}: a call has {', '.join(KEYS)}; {hint}")
    values = {key: value for key, value in row.items() if value is not None}
    for key in ("query_id", "tool", "ids"):
        if key not in values:
            raise InvalidRequest(f"it lacks {key}: every call has query_id, tool and ids.")
    return values


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= _MOST


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _are_arguments(value: object) -> bool:
    """Whether a value is an object that can be written again: JSON is read with four times as many levels."""
    try:
        return isinstance(value, dict) and bool(orjson.dumps(value))
    except TypeError:
        return False


def moment(value: object) -> datetime | None:
    """The time of https://www.rfc-editor.org/rfc/rfc3339#section-5.6, leap seconds included; None for anything else."""
    match = _RFC_3339.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    day, minute, second, fraction, offset = match.groups()
    second = "59" if second == "60" else second
    try:
        return datetime.fromisoformat(f"{day}T{minute}:{second}{(fraction or '')[:7]}{offset.upper()}")
    except ValueError:
        return None


def _is_time(value: object) -> bool:
    return moment(value) is not None


_TEXT: Final = (_is_text, "a non-empty string")
_CHECKS: Final[dict[str, tuple[Callable[[Any], bool], str]]] = {
    "query_id": _TEXT,
    "tool": _TEXT,
    "kind": (lambda v: v in CALL_KINDS, f"one of {', '.join(CALL_KINDS)}"),
    "call": (lambda v: _is_whole(v, 1), "a whole number, 1 for a query's first call"),
    "arguments": (_are_arguments, "an object of JSON with at most 250 levels"),
    "ids": (lambda v: isinstance(v, list) and all(isinstance(i, str) for i in v), "a list of paper ids"),
    "scores": (lambda v: isinstance(v, list) and all(map(_is_number, v)), "a list of numbers"),
    "time": (_is_time, "an RFC 3339 time, such as 2025-03-01T12:30:00Z"),
    "ended": (_is_time, "an RFC 3339 time, such as 2025-03-01T12:30:00Z"),
    "seconds": (lambda v: _is_number(v) and 0 <= v <= _MOST, "a number of seconds, 0 or more"),
    "tokens": (lambda v: _is_whole(v, 0), "a whole number of 0 or more"),
    "parent": (lambda v: _is_whole(v, 1), "the number of an earlier call"),
    "round": (lambda v: _is_whole(v, 1), "a whole number, 1 for a query's first round"),
    "snapshot": _TEXT,
    "session": _TEXT,
    "query": _TEXT,
    "error": _TEXT,
    "error_type": _TEXT,
    "thought": _TEXT,
}
