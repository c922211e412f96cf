"""A call of a session on its way: what its budgets leave, what the session changes of it, and what is kept of it."""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Final

from scholarbase.errors import BudgetExhausted, InvalidRequest, ScholarBaseError
from scholarbase.models import MAX_IDS
from scholarbase.models.checks import as_of_day
from scholarbase.models.runs import CallKind
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.sessions.progress import Standing
from scholarbase.sessions.session import CallRecord, Session, now
from scholarbase.sessions.store import SessionStore
from scholarbase.trajectories.calls import TOOLS
from scholarbase.trajectories.figures import LOOKING

WRITE_SECONDS: Final = 0.25
"""How long an answer waits for its call to be written. One that is not written by then still will be."""
BUDGET_SECONDS: Final = 30.0
"""How long a call waits to hear what its budgets leave: without that it must not go on."""


@dataclass(frozen=True, slots=True)
class Given:
    """An answer as a trajectory has it: ids, best first, the tool's scores where it has such, and estimated tokens."""

    ids: tuple[str, ...]
    scores: tuple[float, ...] | None
    tokens: int


def given(content: Mapping[str, Any], tokens: int) -> Given:
    """The papers of any answer, from its JSON, and what it takes."""
    ids: list[str] = []
    scores: list[float] = []
    _gather(content, ids, scores)
    return Given(tuple(ids), tuple(scores) if ids and len(scores) == len(ids) else None, tokens)


def _gather(content: Mapping[str, Any], ids: list[str], scores: list[float]) -> None:
    if "results" not in content:
        ids.append(content["id"])
        return
    for item in content["results"]:
        if isinstance(item, list):
            _gather({"results": item}, ids, scores)
        elif item is None:
            continue
        elif "paper" in item:
            ids.append(item["paper"]["id"])
            if "score" in item:
                scores.append(item["score"])
        else:
            _gather(item, ids, scores)


@dataclass(slots=True)
class Recording:
    """One call of a session, or ``count`` of one request: ``begin`` it, ``apply`` what the session says, and then
    ``finish`` or ``fail``.

    Futures are the store's: wait for one as long as the constants above say.
    """

    store: SessionStore
    session: Session
    tool: str
    snapshot: str
    parent: int | None = None
    round: int | None = None
    count: int = 1
    key: str | None = None
    standing: Standing | None = None
    asked: bool = False
    began: float = field(default_factory=clock.perf_counter)
    time: str = field(default_factory=now)

    @property
    def kind(self) -> CallKind:
        return TOOLS[self.tool]

    def asks(self, calls: Sequence[Mapping[str, Any]], request: object) -> None:
        """Say what is asked for, before ``begin``: the same key with another request is another call."""
        if self.asked:
            return
        self.asked = True
        self.count = len(calls)
        if self.key is not None:
            asked = repr((self.tool, request)).encode("utf-8", "backslashreplace")
            self.key = f"{self.key}:{hashlib.sha256(asked).hexdigest()[:32]}"

    def needs_standing(self, exclude_seen: bool) -> bool:
        """Whether the call must hear of the session's past before it is made."""
        return exclude_seen or self.parent is not None or bool(self.session.limits)

    def begin(self, exclude_seen: bool) -> Future[Standing]:
        """Ask for the call's place in the budgets. The future raises BudgetExhausted; set ``standing`` to what it
        gives."""
        return self.store.begin(
            self.session,
            self.kind,
            count=self.count,
            with_seen=exclude_seen,
            key=self._key(0),
            parent=self.parent,
        )

    def seen_besides(self, papers: Iterable[str]) -> None:
        """Papers that an earlier call of the same request has given."""
        assert self.standing is not None
        self.standing = replace(self.standing, seen=self.standing.seen.union(papers))

    def changes(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments that the session changes: its ``as_of``, and ``exclude_ids`` for ``exclude_seen``.

        Raises:
            InvalidRequest: the call asks for a later ``as_of`` than its session has.
        """
        changed: dict[str, Any] = {}
        own, asked = self.session.as_of, arguments.get("as_of")
        if own is not None and asked is None:
            changed["as_of"] = own
        elif own is not None and _last_day(asked) > _last_day(own):
            raise InvalidRequest(
                f"as_of {asked!r} is later than {own!r}, the as_of of the session {self.session.id!r}: give that or "
                "an earlier one, or leave it out."
            )
        if arguments.get("exclude_seen"):
            assert self.standing is not None
            # The call's own first, in their order.
            ids = [*(arguments.get("exclude_ids") or ()), *sorted(self.standing.seen)]
            if len(ids) > MAX_IDS:
                raise InvalidRequest(
                    f"The session {self.session.id!r} has been given {len(self.standing.seen)} papers, and {MAX_IDS} "
                    "is the most that exclude_seen leaves out: open another session, or page by offset."
                )
            changed |= {"exclude_ids": ids, "exclude_seen": False}
        return changed

    def left(self, answers: Sequence[Given]) -> dict[str, int]:
        """What the budgets leave after these answers; empty for a session without limits."""
        assert self.standing is not None
        left = dict(self.standing.left)
        if "candidates" in left and self.kind in LOOKING:
            new = {i for answer in answers for i in answer.ids} - self.standing.candidates
            left["candidates"] -= len(new)
        if "tokens" in left:
            left["tokens"] -= sum(answer.tokens for answer in answers)
        return {name: max(rest, 0) for name, rest in left.items()}

    def finish(self, calls: Sequence[tuple[Mapping[str, Any], Given]]) -> list[Future[int]]:
        """Keep what was asked and given, call by call; the time of several is shared evenly."""
        seconds = (clock.perf_counter() - self.began) / len(calls)
        return [
            self.store.record(self.session, self._record(arguments, answer, seconds, place))
            for place, (arguments, answer) in enumerate(calls)
        ]

    def fail(self, arguments: Mapping[str, Any], error: Exception) -> Future[int]:
        """Keep a call that failed, with its sentence."""
        sentence = (str(error) if isinstance(error, ScholarBaseError) else "") or "The server met an error."
        # It has no key: the same call sent again may be answered, and what it then gives is kept.
        record = CallRecord(
            tool=self.tool,
            kind=self.kind,
            arguments=self._kept(arguments),
            ids=(),
            time=self.time,
            seconds=round(clock.perf_counter() - self.began, 6),
            parent=self.parent,
            round=self.round,
            snapshot=self.snapshot,
            tokens=estimate_tokens(sentence),
            error=sentence,
            counted=not isinstance(error, BudgetExhausted),
            taken=self.standing.taken if self.standing is not None else 0,
        )
        return self.store.record(self.session, record)

    def _kept(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments as they are kept: what is null was not given, and the session's ``as_of`` is said of each call."""
        kept = {name: value for name, value in arguments.items() if value is not None}
        if self.session.as_of is not None:
            kept.setdefault("as_of", self.session.as_of)
        return kept

    def _record(self, arguments: Mapping[str, Any], answer: Given, seconds: float, place: int) -> CallRecord:
        return CallRecord(
            tool=self.tool,
            kind=self.kind,
            arguments=self._kept(arguments),
            ids=answer.ids,
            scores=answer.scores,
            time=self.time,
            seconds=round(seconds, 6),
            tokens=answer.tokens,
            parent=self.parent,
            round=self.round,
            snapshot=self.snapshot,
            key=self._key(place),
            taken=1 if self.standing is not None and self.standing.taken else 0,
        )

    def _key(self, place: int) -> str | None:
        return self.key and f"{self.key}:{place}"


def _last_day(as_of: Any) -> int:
    return as_of_day(as_of)
