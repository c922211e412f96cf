"""By which call each answer was found: the calls that raised recall, and the route to each answer.

ScholarQuest (arXiv:2606.20235) shows these for single questions (its tables 10 and 11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.models.runs import Call, CallKind, JudgedQuery, Run
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


def gains(run: Run, query: JudgedQuery) -> list[Gain]:
    """The calls of a query that raised recall, in order. A plain search is one call.

    Counted are the results of search, match and expansion calls, and the papers of the last answer. Answers that the
    library does not hold count as answers too.

    Raises:
        InvalidRequest: the run is imported, so its calls are unknown.
    """
    if run.manifest.kind == "import":
        raise InvalidRequest(
            f"The run {run.name!r} is imported and its calls are unknown: give the agent's trajectory."
        )
    relevant = frozenset(answer.paper_id for answer in query.relevant)
    if not relevant:
        return []
    if run.manifest.kind == "search":
        ids = tuple(result.id for result in run.rankings.get(query.id, ()))
        calls: Sequence[Call] = [Call(query.id, 1, "search", "search", {"q": query.text}, ids, 1)]
    else:
        calls = [call for call in run.calls if call.query_id == query.id and call.error is None]
    last = max((call.call for call in calls if call.kind == "answer"), default=None)
    seen: dict[str, None] = {}
    out = []
    for call in calls:
        if call.kind not in LOOKING and not (call.kind == "answer" and call.call == last):
            continue
        new = tuple(dict.fromkeys(i for i in call.ids if i in relevant and i not in seen))
        if new:
            seen |= dict.fromkeys(new)
            out.append(Gain(call.call, call.kind, call.tool, subject(call), new, len(seen), len(relevant)))
    return out


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
    return _cut(orjson.dumps(_plain(call.arguments)).decode()) if call.arguments else ""


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in arguments.items()}


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
    is_search = run.manifest.kind == "search"
    calls = len(run.queries) if is_search else sum(call.kind in KINDS for call in run.calls)
    answers = sum(len({answer.paper_id for answer in query.relevant}) for query in run.queries)
    return RouteCounts(calls, sum(map(len, gains_of.values())), answers, by_kind)


def all_gains(run: Run) -> dict[str, list[Gain]]:
    """The gains of each query by its id. Raises as :func:`gains`."""
    calls: dict[str, list[Call]] = {}
    for call in run.calls:
        calls.setdefault(call.query_id, []).append(call)
    own = (
        Run(run.manifest, (query,), run.rankings, calls=tuple(calls.get(query.id, ())))
        for query in run.queries
    )
    return {query.id: gains(part, query) for query, part in zip(run.queries, own, strict=True)}
