"""Recording a call: counting it in the budgets, applying the session to it, and writing what it returned."""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from scholarbase.errors import InvalidRequest, ScholarBaseError, TimeLimit
from scholarbase.extensions import added_tool
from scholarbase.identifiers import parse
from scholarbase.models.calls import CallKind
from scholarbase.responses.sizing import estimate_tokens
from scholarbase.sessions.progress import BudgetState
from scholarbase.sessions.session import CallRecord, Session, now, unix_time
from scholarbase.sessions.store import SessionStore
from scholarbase.trajectories.figures import LOOKING
from scholarbase.trajectories.kinds import TOOLS, kind_of

UNANSWERED: Final = (
    "The call was counted and has no response: it runs, its server stopped, or its client disconnected."
)
WRITE_SECONDS: Final = 0.25
"""How long a response waits for its call to be written. A call that takes longer is written later."""
BUDGET_SECONDS: Final = 4.0
"""How long a call waits for the state of its budgets, without which it must not run."""


@dataclass(frozen=True, slots=True)
class ReturnedPapers:
    """What a response returned: ids, best first, the tool's scores where it has some, estimated tokens, and the error
    of what was not finished in time, or of a tool whose errors are responses."""

    ids: tuple[str, ...]
    scores: tuple[float, ...] | None
    tokens: int
    error: str | None = None
    error_type: str = TimeLimit.slug


class _Named(msgspec.Struct):
    """The keys of a response, its items and their papers that name papers. No others are read."""

    id: str | None = None
    score: float | None = None
    paper: _Named | None = None
    matches: tuple[_Named, ...] = ()
    results: tuple[_Named | tuple[_Named, ...] | None, ...] | None = None
    reason: str | None = None
    error: str | None = None
    status: int | str | None = None
    passage: dict[str, Any] | None = None
    observation: str | None = None
    error_type: str | None = None
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    @property
    def is_unfinished(self) -> bool:
        return self.error is not None and self.status is not None


_decode: Final = msgspec.json.Decoder(_Named).decode


def returned_papers(content: Mapping[str, Any] | bytes, tokens: int) -> ReturnedPapers:
    """The papers of a response, from its JSON or the bytes of that."""
    response = _decode(content) if isinstance(content, bytes) else msgspec.convert(content, _Named)
    if response.observation is not None and response.error_type is not None:
        return ReturnedPapers((), None, tokens, response.observation, response.error_type)
    results = response.results or ()
    ids: list[str] = []
    scores: list[float] = []
    unfinished = [item for item in (response, *results) if isinstance(item, _Named) and item.is_unfinished]
    if not response.is_unfinished:
        _gather(response, ids, scores)
    has_scores = bool(ids) and len(scores) == len(ids)
    error = unfinished[0].error if unfinished else None
    return ReturnedPapers(tuple(ids), tuple(scores) if has_scores else None, tokens, error)


def _gather(response: _Named, ids: list[str], scores: list[float]) -> None:
    if response.columns:
        ids += _papers_of_rows(response)
        return
    if response.results is None:
        ids += [] if response.id is None else [response.id]
        return
    for item in response.results:
        if isinstance(item, tuple):
            _gather(_Named(results=item), ids, scores)
        elif item is None or item.error is not None:
            continue
        elif item.reason is not None:  # a checked reference
            ids += [
                candidate.paper.id
                for candidate in (item, *item.matches)
                if candidate.paper and candidate.paper.id
            ]
        elif item.passage is not None and (item.paper is None or item.paper.id in ids):
            continue  # a citation of a paper that is not held, or a further passage of a paper
        elif item.paper is not None and item.paper.id is not None:
            ids.append(item.paper.id)
            if item.score is not None:
                scores.append(item.score)
        else:
            _gather(item, ids, scores)


def _papers_of_rows(response: _Named) -> list[str]:
    """The distinct ids in a column ``paper_id`` of rows."""
    if "paper_id" not in response.columns:
        return []
    column = response.columns.index("paper_id")
    values = dict.fromkeys(row[column] for row in response.rows if isinstance(row[column], str))
    return [text for text in values if _is_canonical(text)]


def _is_canonical(text: str) -> bool:
    """Whether a text, which a statement can make of anything, is a paper's id in canonical form."""
    try:
        return str(parse(text)) == text
    except InvalidRequest:
        return False


@dataclass(slots=True)
class SessionCall:
    """A call, or the calls of one request, in a session with a date and with budgets. ``budget`` is the state of the
    session before it, where the call depends on that."""

    session: Session
    tool: str
    budget: BudgetState | None = None

    @property
    def kind(self) -> CallKind:
        return kind_of(self.tool) or "inspect"

    @property
    def ends_with_answer(self) -> bool:
        """Whether the call is refused after the agent's answer."""
        if self.tool in TOOLS:
            return self.kind == "answer"
        added = added_tool(self.tool)
        return added is not None and added.request.ends_with_answer

    def add_seen(self, papers: Iterable[str]) -> None:
        """Add papers that an earlier call of the same request returned."""
        if self.budget is not None:
            self.budget = replace(self.budget, seen=self.budget.seen.union(papers))

    def remaining(self, returned: Sequence[ReturnedPapers]) -> dict[str, int]:
        """What the budgets leave after these responses; empty for a session without limits."""
        assert self.budget is not None
        remaining = dict(self.budget.remaining)
        if "candidates" in remaining and self.kind in LOOKING:
            new = {i for papers in returned for i in papers.ids} - self.budget.candidates
            remaining["candidates"] -= len(new)
        if "tokens" in remaining:
            remaining["tokens"] -= sum(papers.tokens for papers in returned)
        return {name: max(rest, 0) for name, rest in remaining.items()}


@dataclass(slots=True, kw_only=True)
class Recording(SessionCall):
    """Records a call of a session, or the ``count`` calls of one request.

    First ``reserve``, where ``needs_budget`` says so, and set ``budget`` to the result; then run the call; then
    ``record`` or ``record_failure``. Futures are the store's.
    """

    store: SessionStore
    snapshot: str
    parent: int | None = None
    round: int | None = None
    count: int = 1
    key: str | None = None
    has_request: bool = False
    is_recorded: bool = False
    on_unwritten: Callable[[], object] = lambda: None
    """Called where a response does not wait longer for its call to be written."""
    began: float = field(default_factory=clock.perf_counter)
    time: str = field(default_factory=now)

    def set_request(self, calls: Sequence[Mapping[str, Any]], request: object) -> None:
        """Set the number of calls, and add a hash of the request to the key. Only the first request counts."""
        if self.has_request:
            return
        self.has_request = True
        self.count = len(calls)
        if self.key is not None:
            text = repr((self.tool, request)).encode("utf-8", "backslashreplace")
            self.key = f"{self.key}:{hashlib.sha256(text).hexdigest()[:32]}"

    def depends_on_calls(self, exclude_seen: bool) -> bool:
        """Whether the response depends on earlier calls of the session."""
        return exclude_seen or bool(self.session.limits) or self.ends_with_answer

    def needs_budget(self, exclude_seen: bool) -> bool:
        """Whether the session's earlier calls are read first: for the response, or to check the ``parent``."""
        return self.depends_on_calls(exclude_seen) or self.parent is not None

    def reserve(self, exclude_seen: bool) -> Future[BudgetState]:
        """Count the call in the budgets; the future raises BudgetExhausted."""
        calls = [
            self._call(index, {}, error=UNANSWERED, error_type=ScholarBaseError.slug)
            for index in range(self.count)
        ]
        return self.store.reserve(self.session, calls, with_seen=exclude_seen, parent=self.parent)

    def record(self, calls: Sequence[tuple[Mapping[str, Any], ReturnedPapers]]) -> Future[list[int]]:
        """Record each call with its arguments and papers; the time is divided evenly among them."""
        seconds = round((clock.perf_counter() - self.began) / len(calls), 6)
        self.is_recorded = True
        return self.store.record(
            self.session,
            [
                self._call(
                    index,
                    arguments,
                    ids=returned.ids,
                    scores=returned.scores,
                    seconds=seconds,
                    tokens=returned.tokens,
                    error=returned.error,
                    error_type=None if returned.error is None else returned.error_type,
                    calls=len(calls),
                )
                for index, (arguments, returned) in enumerate(calls)
            ],
        )

    def record_failure(self, arguments: Mapping[str, Any], error: Exception) -> Future[list[int]]:
        """Record a call that failed, with its error message; each call of a batch that was counted, the arguments with
        the first. A client's key is left out: a retry may succeed, and is then recorded."""
        self.is_recorded = True
        known = error if isinstance(error, ScholarBaseError) else ScholarBaseError()
        message = known.for_clients or "The server met an error."
        seconds = round(clock.perf_counter() - self.began, 6)
        counted = len(self.budget.numbers) if self.budget is not None else 0
        calls = [
            self._call(
                index,
                {} if index else arguments,
                key=None,
                seconds=seconds,
                tokens=0 if index else estimate_tokens(message),
                error=message,
                error_type=known.slug,
            )
            for index in range(max(counted, 1))
        ]
        return self.store.record(self.session, calls)

    def record_cancellation(self) -> None:
        """Record a call whose client closed the connection, unless it is recorded."""
        if not self.is_recorded:
            self.record_failure({}, ScholarBaseError(UNANSWERED))

    @property
    def write_seconds(self) -> float:
        """How long a response waits for its call to be written: with limits, until ``BUDGET_SECONDS`` after its start,
        since they would otherwise lose what it returned if the server is killed."""
        if not self.session.limits:
            return WRITE_SECONDS
        return max(WRITE_SECONDS, BUDGET_SECONDS - (clock.perf_counter() - self.began))

    def _call(self, index: int, arguments: Mapping[str, Any], **result: Any) -> CallRecord:
        """One of the request's calls. Its arguments are recorded without nulls, and with the session's ``as_of``."""
        recorded = {name: value for name, value in arguments.items() if value is not None}
        if self.session.as_of is not None:
            recorded.setdefault("as_of", self.session.as_of)
        numbers = self.budget.numbers if self.budget is not None else ()
        result.setdefault("key", self.key and f"{self.key}:{index}")
        return CallRecord(
            tool=self.tool,
            kind=self.kind,
            arguments=recorded,
            time=self.time,
            parent=self.parent,
            round=self.round,
            snapshot=self.snapshot,
            number=numbers[index] if index < len(numbers) else None,
            ended=unix_time(),
            **result,
        )
