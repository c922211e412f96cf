"""Trajectories: an agent's tool calls as JSON lines, read and written. docs/trajectories.md describes the keys.

with TrajectoryWriter(path) as writer:
    writer.append("q1", "search_papers", ids, arguments={"q": "speculative decoding"})
"""

from __future__ import annotations

import difflib
import math
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import orjson

from scholarbase.errors import InvalidRequest, QueryFileError, RunExists
from scholarbase.files import storage_errors, text_lines
from scholarbase.identifiers import parse
from scholarbase.models.runs import CALL_KINDS, CallKind

TOOLS: Final[dict[str, CallKind]] = {
    "search_papers": "search",
    "match_titles": "match",
    "check_references": "inspect",
    "get_papers": "inspect",
    "get_citations": "expand",
    "get_references": "expand",
    "expand_papers": "expand",
    "similar_papers": "expand",
    "sql": "inspect",
    "search_passages": "search",
    "read_paper": "inspect",
    "paper_text": "inspect",
    "find_in_paper": "inspect",
    "paper_passages": "inspect",
    "citation_contexts": "expand",
    "answer": "answer",
}
"""The kind of call of each of ScholarBase's tools."""
ACTIONS: Final[dict[str, CallKind]] = {"retrieve": "search", "query": "inspect", "view": "inspect"}
"""The kind of call of the actions of the tool set ``airqa``. Other agents may have tools of these names."""

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


# -- reading --------------------------------------------------------------------------------------------


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
            calls.append(_raw_call(row, where, canonical))
        except InvalidRequest as error:
            raise QueryFileError(f"{where}: {error}") from error
    if not calls:
        raise QueryFileError(f"{path} has no calls: a trajectory has one JSON object per line for each call.")
    return calls


def _raw_call(row: Any, where: str, canonical: dict[str, str]) -> RawCall:
    """Raises InvalidRequest: the line is invalid."""
    values = _values(row)
    for key, (accepts, expected) in _CHECKS.items():
        if key in values and not accepts(values[key]):
            raise InvalidRequest(f"{key} is {_shorten(values[key])}: it must be {expected}.")
    tool = values["tool"]
    kind = values.setdefault("kind", TOOLS.get(tool, ACTIONS.get(tool)))
    if kind is None:
        raise InvalidRequest(
            f"the tool {tool!r} is not a ScholarBase tool: give its kind, one of {', '.join(CALL_KINDS)}."
        )
    if tool == "match_titles" and kind == "search":  # as written before matches had a kind of their own
        kind = values["kind"] = "match"
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


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_whole(value: object, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= low


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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
    "arguments": (lambda v: isinstance(v, dict), "an object"),
    "ids": (lambda v: isinstance(v, list) and all(isinstance(i, str) for i in v), "a list of paper ids"),
    "scores": (lambda v: isinstance(v, list) and all(map(_is_number, v)), "a list of numbers"),
    "time": (_is_time, "an RFC 3339 time, such as 2025-03-01T12:30:00Z"),
    "ended": (_is_time, "an RFC 3339 time, such as 2025-03-01T12:30:00Z"),
    "seconds": (lambda v: _is_number(v) and v >= 0, "a number of seconds, 0 or more"),
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


def _as_json(value: Any) -> Any:
    """A value with the types of JSON, for tuples and other mappings."""
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


# -- writing --------------------------------------------------------------------------------------------


class TrajectoryWriter:
    """Writes a trajectory call by call, unbuffered, so that a killed process loses no earlier call. Thread-safe. Use it
    in a ``with`` block, or ``close`` it.

    Args:
        path: the file, in an existing folder.
        append: append to an existing file. Without it, an existing file is an error.
        snapshot, session: written to every line unless None.

    Raises:
        RunExists: the file exists, and ``append`` is off.
        QueryFileError: ``append`` is on, and the file cannot be read or its last line is incomplete.
    """

    def __init__(
        self, path: Path, *, append: bool = False, snapshot: str | None = None, session: str | None = None
    ) -> None:
        self._path = path
        self._common = {"snapshot": snapshot, "session": session}
        self._lock = threading.Lock()
        self._last: dict[str, int] = {}
        self._canonical: dict[str, str] = {}
        if path.exists():
            if not append:
                raise RunExists(f"{path} already exists: give another file, or append to it by append=True.")
            self._read_existing()
        with storage_errors(path):
            self._file = path.open("ab", buffering=0)

    def _read_existing(self) -> None:
        if not self._path.stat().st_size:
            return
        for raw in read_trajectory(self._path):
            if raw.call is None:
                raise QueryFileError(
                    f"{raw.where} lacks call: only a file with call numbers can be appended to."
                )
            self._last[raw.query_id] = max(raw.call, self._last.get(raw.query_id, 0))
        with self._path.open("rb") as file:
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                raise QueryFileError(f"The last line of {self._path} is incomplete: remove or complete it.")

    def append(self, query_id: str, tool: str, ids: Sequence[str], **keys: Any) -> int:
        """Write one call, with the other keys of the format as arguments. ``time`` defaults to now.

        Returns: the call's number, for the ``parent`` of later calls.

        Raises:
            InvalidRequest: the call is invalid; nothing is written.
            StorageError: the file cannot be written; earlier calls are complete.
        """
        began = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._lock:
            number = self._last.get(query_id, 0) + 1
            row = {
                "query_id": query_id,
                "call": number,
                "tool": tool,
                "ids": ids,
                "time": began,
                **keys,
                **self._common,
            }
            line = {key: _as_json(value) for key, value in row.items() if value is not None}
            _raw_call(line, "the call", self._canonical)
            parent = line.get("parent")
            if parent is not None and parent >= number:
                raise InvalidRequest(
                    f"parent is {parent}, and this is call {number}: give the number of an earlier call."
                )
            try:
                written = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
            except TypeError as failure:
                raise InvalidRequest(f"arguments cannot be written as JSON: {failure}.") from failure
            self._write(written)
            self._last[query_id] = number
        return number

    def _write(self, line: bytes) -> None:
        with storage_errors(self._path):
            whole = os.fstat(self._file.fileno()).st_size
            try:
                while line:
                    line = line[self._file.write(line) :]
            except OSError:
                # A partly written line would make the file unreadable.
                self._file.truncate(whole)
                raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
