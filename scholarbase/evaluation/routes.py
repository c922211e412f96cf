"""By which call each answer was found: the calls that raised recall, and the route to each answer.

ScholarQuest (arXiv:2606.20235) shows these for single questions (its tables 10 and 11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase.models.runs import Call, CallKind, JudgedAnswer, JudgedQuery, Run
from scholarbase.trajectories.figures import LOOKING

LETTERS: Final[Mapping[CallKind, str]] = {
    "search": "S",
    "match": "M",
    "expand": "E",
    "inspect": "I",
    "answer": "A",
}
KINDS: Final[tuple[CallKind, ...]] = (*LOOKING, "answer")
"""The kinds of call that can find an answer. A final answer may name papers that no call returned."""
_SUBJECTS: Final = (
    *("q", "query", "queries", "title", "titles", "keyword", "keywords", "text"),
    *("seeds", "seed", "id", "ids", "paper_id", "paper_ids", "paper", "papers", "arxiv_id"),
)
"""Names of the argument that says what a call looks for, in the tools here and in those of other agents."""
_LONGEST: Final = 300


def calls_of(run: Run) -> dict[str, list[Call]]:
    """The calls of each query by its id. A ranking without calls, such as that of a plain search, is one call."""
    calls: dict[str, list[Call]] = {query.id: [] for query in run.queries}
    if run.manifest.kind == "trajectory":
        for call in run.calls:
            calls[call.query_id].append(call)
        return calls
    for query in run.queries:
        ids = tuple(result.id for result in run.rankings.get(query.id, ()))
        seconds = run.seconds.get(query.id)
        calls[query.id] = [Call(query.id, 1, "search", "search", {"q": query.text}, ids, 1, seconds=seconds)]
    return calls


def check_known(run: Run) -> None:
    """Raises InvalidRequest: the run is imported, so its calls are unknown."""
    if run.manifest.kind == "import":
        raise InvalidRequest(
            f"The run {run.name!r} is imported and its calls are unknown: give the agent's trajectory."
        )


@dataclass(frozen=True, slots=True)
class Gain:
    """A call that found answers which no earlier call had.

    ``new`` are these, ``found`` the number of all so far, ``total`` that of the query's answers.
    """

    call: int
    kind: CallKind
    tool: str
    subject: str
    new: tuple[str, ...]
    found: int
    total: int

    @property
    def recall(self) -> float:
        return self.found / self.total

    @property
    def label(self) -> str:
        """Such as ``S4 search: keyframe selection``."""
        return f"{LETTERS[self.kind]}{self.call} {self.kind}: {self.subject}"


def gains(query: JudgedQuery, calls: Sequence[Call]) -> list[Gain]:
    """The calls of a query that raised recall, in order.

    Counted are the results of search, match and expansion calls, and the papers of the last answer. Answers that the
    library does not hold count as answers too.
    """
    relevant = frozenset(answer.paper_id for answer in query.relevant)
    known = [call for call in calls if call.error is None]
    last = max((call.call for call in known if call.kind == "answer"), default=None)
    seen: dict[str, None] = {}
    raising = []
    for call in known:
        if call.kind not in LOOKING and not (call.kind == "answer" and call.call == last):
            continue
        new = tuple(dict.fromkeys(i for i in call.ids if i in relevant and i not in seen))
        if new:
            seen |= dict.fromkeys(new)
            raising.append(
                Gain(call.call, call.kind, call.tool, subject(call), new, len(seen), len(relevant))
            )
    return raising


def all_gains(run: Run) -> dict[str, list[Gain]]:
    """The gains of each query by its id. Raises as :func:`check_known`."""
    check_known(run)
    calls = calls_of(run)
    return {query.id: gains(query, calls[query.id]) for query in run.queries}


def routes(found: Sequence[Gain]) -> dict[str, Gain]:
    """Each found answer with the call that found it first. Answers that are missing were missed."""
    return {paper_id: gain for gain in found for paper_id in gain.new}


def subject(call: Call) -> str:
    """What a call looks for: its query, title or seeds; all of its arguments as JSON if none has a known name."""
    for name in _SUBJECTS:
        value = call.arguments.get(name)
        if isinstance(value, str) and value.strip():
            return _cut(value)
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return _cut(", ".join(value))
    return _cut(orjson.dumps(dict(call.arguments)).decode()) if call.arguments else ""


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."


class RouteCounts(NamedTuple):
    """How the answers of a run's queries were found. ``calls`` are those that look for papers or answer, ``raising``
    those of them that raised recall."""

    calls: int
    raising: int
    answers: int
    by_kind: Mapping[CallKind, int]

    @property
    def missed(self) -> int:
        return self.answers - sum(self.by_kind.values())


def route_counts(run: Run, gains_of: Mapping[str, Sequence[Gain]]) -> RouteCounts:
    """Add up the gains of all queries, by query id."""
    by_kind: Counter[CallKind] = Counter()
    for found in gains_of.values():
        for gain in found:
            by_kind[gain.kind] += len(gain.new)
    calls = sum(call.kind in KINDS for of_query in calls_of(run).values() for call in of_query)
    answers = sum(len({answer.paper_id for answer in query.relevant}) for query in run.queries)
    return RouteCounts(calls, sum(map(len, gains_of.values())), answers, by_kind)


# -- single queries -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """An answer. ``routes`` has a text for each run, such as ``S4 search: ...``; None where the run missed it."""

    paper_id: str
    title: str | None
    year: int | None
    held: bool
    grade: int
    routes: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A query, its answers, the newest first, and by which call each run found them.

    ``names`` are the runs'; ``gains`` the calls that raised recall, without imported runs.
    """

    query: JudgedQuery
    names: tuple[str, ...]
    answers: tuple[CaseAnswer, ...]
    gains: Mapping[str, tuple[Gain, ...]]

    def to_dict(self) -> dict[str, Any]:
        """The case for JSON, with the routes of each answer by run."""
        return {
            **{name: getattr(self.query, name) for name in ("id", "text", "intent", "category", "date")},
            "answers": [
                {**asdict(answer), "routes": dict(zip(self.names, answer.routes, strict=True))}
                for answer in self.answers
            ],
            "calls_that_raised_recall": {
                name: [{**asdict(gain), "recall": gain.recall} for gain in raising]
                for name, raising in self.gains.items()
            },
        }


def run_labels(runs: Sequence[Run]) -> tuple[str, ...]:
    """The runs' names; repeated names get a number."""
    counts = Counter(run.name for run in runs)
    seen: Counter[str] = Counter()
    labels = []
    for run in runs:
        seen[run.name] += 1
        labels.append(run.name if counts[run.name] == 1 else f"{run.name} ({seen[run.name]})")
    return tuple(labels)


def case_of(runs: Sequence[Run], query_id: str) -> Case:
    """The query with this id in all runs. Raises InvalidRequest: a run does not have it."""
    names = run_labels(runs)
    queries: list[JudgedQuery] = []
    gained: dict[str, tuple[Gain, ...]] = {}
    taken: list[Mapping[str, str]] = []
    for name, run in zip(names, runs, strict=True):
        query = next((query for query in run.queries if query.id == query_id), None)
        if query is None:
            raise InvalidRequest(
                f"The run {name!r} has no query {shown(query_id, 80)}: give the id of one of its own."
            )
        queries.append(query)
        if run.manifest.kind == "import":
            taken.append({result.id: "in the ranking" for result in run.rankings.get(query_id, ())})
            continue
        gained[name] = tuple(gains(query, calls_of(run)[query_id]))
        taken.append({paper_id: gain.label for paper_id, gain in routes(gained[name]).items()})
    answers: dict[str, JudgedAnswer] = {}
    for answer in (answer for query in queries for answer in query.relevant):
        if answer.paper_id not in answers or not answers[answer.paper_id].held:
            answers[answer.paper_id] = answer
    listed = [_case_answer(answer, runs, taken) for answer in answers.values()]
    listed.sort(key=lambda answer: (answer.year or 0, answer.paper_id), reverse=True)
    return Case(queries[0], names, tuple(listed), gained)


def _case_answer(answer: JudgedAnswer, runs: Sequence[Run], taken: Sequence[Mapping[str, str]]) -> CaseAnswer:
    note = next((run.papers[answer.paper_id] for run in runs if answer.paper_id in run.papers), None)
    title, year = (note.title, note.year) if note else (None, None)
    found = tuple(of_run.get(answer.paper_id) for of_run in taken)
    return CaseAnswer(answer.paper_id, title, year, answer.held, answer.grade, found)
