"""Episodes of agents in training: tasks from a query set, tools with budgets, and rewards from the evaluation.

``scholarbase-verifiers``, ``scholarbase-openenv`` and ``examples/inspect_task.py`` are these episodes in the interfaces
of other packages. An episode is a session of the library or its server, so that its trajectory is a run of
``scholarbase eval trajectory``, whose figures its reward equals.
"""

from __future__ import annotations

import json
import math
import random
import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from scholarbase.cli.agents import opened_sessions
from scholarbase.cli.options import open_source
from scholarbase.client import Client
from scholarbase.errors import BudgetExhausted, InvalidRequest, ScholarBaseError, StorageError
from scholarbase.models.checks import as_of_day
from scholarbase.search.library import Library
from scholarbase.sessions.session import CallRecord, Limits, Session
from scholarbase.sessions.store import SessionStore
from scholarbase.settings import load_settings
from scholarbase.tools import Tools
from scholarbase_research.agents.react import ANSWER_TOOL, answer_ids
from scholarbase_research.evaluation.answers import resolve_answers
from scholarbase_research.evaluation.formats import read_queries
from scholarbase_research.evaluation.measures import evaluate, parse_measure
from scholarbase_research.evaluation.queries import Query
from scholarbase_research.evaluation.requests import QUERY_DATE, last_date
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.runs import run_manifest
from scholarbase_research.evaluation.trajectories import RANKINGS, Ranking, read_calls
from scholarbase_research.trajectory_lines import RawCall, raw_call

WRITE_SECONDS: Final = 30.0
ANSWERED: Final = "The answer is recorded."


@dataclass(frozen=True)
class Rules:
    """What an episode allows, and its reward.

    Args:
        measure: a measure of a run, such as ``R@100``.
        ranking: what it is of: ``answer-only``, the answer; ``observed``, the papers seen; ``answer``, both.
        cost: what each call of a tool reduces the reward by.
        calls: the most calls of tools. None: no limit.
        tokens: the most tokens of all responses, by the estimate of docs/agents.md. None: no limit.
        as_of: the point in time of all episodes, ``query`` for the date of each query, or None.
    """

    measure: str = "R@100"
    ranking: Ranking = "answer-only"
    cost: float = 0.0
    calls: int | None = 20
    tokens: int | None = None
    as_of: str | None = None

    def __post_init__(self) -> None:
        """Check the rules. Raises InvalidRequest."""
        parse_measure(self.measure)
        if self.ranking not in RANKINGS:
            raise InvalidRequest(f"There is no ranking {self.ranking!r}: use one of {', '.join(RANKINGS)}.")
        if not math.isfinite(self.cost):
            raise InvalidRequest(f"The cost of a call is {self.cost}: give a finite number.")
        if self.as_of not in (None, QUERY_DATE):
            as_of_day(self.as_of)


@dataclass
class Episode:
    """One attempt at a task. ``done`` is true after the answer, and after a second call without budget."""

    environment: Episodes
    query: Query
    name: str
    tools: Tools
    done: bool = False
    answered: bool = False
    refused: int = field(default=0, repr=False)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool or ``answer``. Returns the text that the model reads, which for a failed call is the error.

        Raises:
            InvalidRequest: the episode has ended.
            ScholarBaseError: the library or its server fails.
        """
        if self.done:
            raise InvalidRequest(f"The episode {self.name!r} has ended: start another one.")
        if tool == "answer":
            ids, problem = answer_ids(arguments)
            return problem if problem is not None else self.answer(ids)
        try:
            return self.tools.call_as_text(tool, arguments)
        except BudgetExhausted as error:
            self.refused += 1
            self.done = self.refused > 1
            return str(error)
        except ScholarBaseError as error:
            return _observed(error)

    def answer(self, ids: Sequence[str]) -> str:
        """Record the answer, best first, which ends the episode."""
        self.environment.record_answer(self.name, ids)
        self.done = self.answered = True
        return ANSWERED

    @property
    def reward(self) -> float:
        """The reward of what the session has recorded."""
        return self.environment.reward(self.name, self.query.id)


class Episodes:
    """Tasks and their episodes, on a library or a server.

    Args:
        location: the folder of a library, or the URL of a server.
        queries: a file or folder of any query set that ``scholarbase eval`` reads.
        rules: budgets, dates and the reward.
        sessions: the folder of a library's sessions; by default the settings name it. A server has its own.
        encoder: the query encoder of a library, by default its own.

    Raises:
        QueryFileError: the queries cannot be read, the library has none of their answers, or one lacks the date that
            ``as_of`` requires.
        InvalidRequest: a rule is invalid.
    """

    def __init__(
        self,
        location: str | Path,
        queries: str | Path,
        rules: Rules | None = None,
        *,
        sessions: str | Path | None = None,
        encoder: str | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self._limits = Limits(calls=self.rules.calls, tokens=self.rules.tokens)
        settings = load_settings()
        is_url = str(location).startswith(("http://", "https://"))
        query_set = read_queries(Path(queries))
        with ExitStack() as stack:
            source = open_source(
                settings, None if is_url else Path(location), str(location) if is_url else None, encoder
            )
            self.source: Library | Client = source
            stack.enter_context(source)
            self._store = None
            if isinstance(source, Library):
                self._store = stack.enter_context(
                    opened_sessions(settings, None if sessions is None else str(sessions))
                )
            judged = resolve_answers(source, query_set)
            self._counts = judged.counts
            self._judged = {query.id: query for query in judged.queries if query.relevant}
            self.queries = replace(
                query_set, queries=tuple(query for query in query_set.queries if query.id in self._judged)
            )
            self._tasks = {query.id: query for query in self.queries.queries}
            self._dates = {query.id: self._date(query) for query in self.queries.queries}
            self._about = source.snapshot()
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    @property
    def tasks(self) -> tuple[Query, ...]:
        """The queries with a relevant answer."""
        return self.queries.queries

    @cached_property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools and ``answer`` as function schemas, in OpenAI's form."""
        return [*Tools(self.source).schemas("openai"), ANSWER_TOOL]

    def start(
        self, task: str | int | None = None, *, seed: int | None = None, name: str | None = None
    ) -> Episode:
        """Open an episode.

        Args:
            task: the id of a query or its place among :attr:`tasks`; by default ``seed`` chooses.
            seed: the same seed chooses the same task.
            name: the session's name, by default a new one.

        Raises:
            InvalidRequest: no task has this id or place.
            SessionExists: a session has this name.
        """
        if task is None:
            query = random.Random(seed).choice(self.tasks)
        elif isinstance(task, int) and not isinstance(task, bool) and 0 <= task < len(self.tasks):
            query = self.tasks[task]
        elif isinstance(task, str) and task in self._tasks:
            query = self._tasks[task]
        else:
            raise InvalidRequest(
                f"There is no task {task!r}: give the id of a query, or 0 to {len(self.tasks) - 1}."
            )
        name = name or f"episode-{secrets.token_hex(8)}"
        session = Session(
            name, query_id=query.id, query=query.text, as_of=self._dates[query.id], limits=self._limits
        )
        if isinstance(self.source, Client):
            self.source.open_session(
                name, query=query.text, query_id=query.id, as_of=session.as_of, limits=self._limits.to_dict()
            )
        return Episode(self, query, name, self._tools(session))

    def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool outside of episodes, without a record. Raises ScholarBaseError as :meth:`Episode.call`."""
        try:
            return Tools(self.source).call_as_text(tool, arguments)
        except ScholarBaseError as error:
            return _observed(error)

    def resume(self, name: str, task: str) -> Episode:
        """The episode of a session that another process may have opened, as far as its calls have come.

        Raises:
            InvalidRequest: the task is unknown.
            SessionNotFound: the session does not exist.
        """
        if task not in self._tasks:
            raise InvalidRequest(f"There is no task {task!r}: give the id of a query.")
        calls = self.calls(name)
        answered = any(call.kind == "answer" for call in calls)
        refused = sum(call.error_type == BudgetExhausted.slug for call in calls)
        episode = Episode(self, self._tasks[task], name, self._tools(name), answered or refused > 1, answered)
        episode.refused = refused
        return episode

    def record_answer(self, name: str, ids: Sequence[str]) -> None:
        """Record the answer of an episode."""
        if isinstance(self.source, Client):
            self.source.record_answer(name, ids)
            return
        papers = self.source.papers(ids, fields=("id",))
        known = tuple(
            paper_id if paper is None else paper.id for paper_id, paper in zip(ids, papers, strict=True)
        )
        record = CallRecord("answer", "answer", {}, known, snapshot=self.source.snapshot_id)
        self._sessions.record(self._sessions.session(name).session, [record]).result(WRITE_SECONDS)

    def reward(self, name: str, task: str) -> float:
        """The measure of a session's trajectory, minus the cost of its calls. A call that failed costs too; one that
        the budget refused does not."""
        calls = self.calls(name)
        counted = sum(call.kind != "answer" and call.error_type != BudgetExhausted.slug for call in calls)
        return self.measured(calls, task) - self.rules.cost * counted

    def calls(self, name: str) -> list[RawCall]:
        """The calls of a session."""
        return [raw_call(line, name, {}) for line in self.lines(name)]

    def measured(self, calls: Sequence[RawCall], task: str) -> float:
        """The measure of calls, as ``scholarbase eval trajectory`` computes it."""
        queries = replace(self.queries, queries=(self._tasks[task],))
        judged = (self._judged[task],)
        run = read_calls(calls, self.source, queries, judged, ranking=self.rules.ranking)
        manifest = run_manifest(self._about, queries, self._counts, run.kind, task, "", run.search)
        measured = evaluate(Run(manifest, judged, run.rankings), [self.rules.measure])
        return measured.values(self.rules.measure)[task]

    def held_answers(self, task: str) -> list[str]:
        """The relevant papers of a task that the library holds."""
        return [answer.paper_id for answer in self._judged[task].relevant if answer.held]

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The trajectory of an episode (docs/trajectories.md)."""
        if isinstance(self.source, Client):
            return self.source.trajectory(name)
        return [json.loads(line) for line in self._sessions.lines(name)]

    def export(self, names: Iterable[str], folder: Path) -> list[Path]:
        """Write trajectories for ``scholarbase eval trajectory``: of each task the first episode to one file, the
        second to the next, since a run has one episode of a task. Returns the files."""
        runs: dict[int, list[str]] = defaultdict(list)
        episodes: dict[str, int] = defaultdict(int)
        for name in names:
            lines = self.lines(name)
            if not lines:
                continue
            task = lines[0]["query_id"]
            runs[episodes[task]] += [json.dumps(line, ensure_ascii=False) + "\n" for line in lines]
            episodes[task] += 1
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"trajectory-{number + 1}.jsonl" for number in runs]
        for path, written in zip(paths, runs.values(), strict=True):
            path.write_text("".join(written), "utf-8")
        return paths

    @property
    def _sessions(self) -> SessionStore:
        if self._store is None:
            raise StorageError("A server has its own sessions.")
        return self._store

    def _tools(self, session: Session | str) -> Tools:
        if isinstance(self.source, Client):
            return Tools(self.source, session=session.id if isinstance(session, Session) else session)
        return Tools(self.source, session=session, store=self._store)

    def _date(self, query: Query) -> str | None:
        return last_date(query) if self.rules.as_of == QUERY_DATE else self.rules.as_of


def _observed(error: ScholarBaseError) -> str:
    """The text of a failed call. Raises the error if it is one of the library or its server."""
    if error.status >= 500:
        raise error
    return str(error)
