"""By which call each answer was found: the calls that raised recall, and the route to each answer.

ScholarQuest (arXiv:2606.20235) shows these for single questions (its tables 10 and 11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.models.calls import Call, CallKind
from scholarbase.models.checks import shown
from scholarbase.trajectories.figures import LOOKING
from scholarbase_research.evaluation.run_data import JudgedAnswer, JudgedQuery, PaperNote, Run

LETTERS: Final[Mapping[CallKind, str]] = {
    "search": "S",
    "match": "M",
    "expand": "E",
    "inspect": "I",
    "answer": "A",
}
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


def routes(found: Sequence[Gain]) -> dict[str, Gain]:
    """Each found answer with the call that found it first. Answers that are missing were missed."""
    return {paper_id: gain for gain in found for paper_id in gain.new}


def subject(call: Call) -> str:
    """What a call looks for: its query, title or seeds; all of its arguments as JSON if none has a known name."""
    for name in _SUBJECTS:
        argument = call.arguments.get(name)
        if isinstance(argument, str) and argument.strip():
            return _cut(argument)
        if isinstance(argument, list) and argument and all(isinstance(item, str) for item in argument):
            return _cut(", ".join(argument))
    return _cut(orjson.dumps(dict(call.arguments)).decode()) if call.arguments else ""


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."


# -- single queries -------------------------------------------------------------------------------------


def run_labels(runs: Sequence[Run]) -> tuple[str, ...]:
    """The runs' names; repeated names get a number."""
    counts = Counter(run.name for run in runs)
    seen: Counter[str] = Counter()
    labels = []
    for run in runs:
        seen[run.name] += 1
        labels.append(run.name if counts[run.name] == 1 else f"{run.name} ({seen[run.name]})")
    return tuple(labels)


def case_of(runs: Sequence[Run], query_id: str) -> dict[str, Any]:
    """A query in all runs, for JSON: its facts; its ``answers``, the newest first; and ``calls_that_raised_recall`` by
    run, without imported runs. ``routes`` of an answer are by run, such as ``S4 search: x``, None where it was missed.

    Raises:
        InvalidRequest: a run does not have the query.
    """
    names = run_labels(runs)
    queries: list[JudgedQuery] = []
    raising: dict[str, list[dict[str, Any]]] = {}
    taken: dict[str, dict[str, str]] = {}
    for name, run in zip(names, runs, strict=True):
        query = next((query for query in run.queries if query.id == query_id), None)
        if query is None:
            raise InvalidRequest(
                f"The run {name!r} has no query {shown(query_id, 80)}: give the id of one of its own."
            )
        queries.append(query)
        if run.manifest.kind == "import":
            taken[name] = {result.id: "in the ranking" for result in run.rankings.get(query_id, ())}
            continue
        gained = gains(query, calls_of(run)[query_id])
        raising[name] = [{**asdict(gain), "recall": gain.recall} for gain in gained]
        taken[name] = {paper_id: gain.label for paper_id, gain in routes(gained).items()}
    answers: dict[str, JudgedAnswer] = {}
    for answer in (answer for query in queries for answer in query.relevant):
        if answer.paper_id not in answers or not answers[answer.paper_id].held:
            answers[answer.paper_id] = answer
    notes = {name: note for run in reversed(runs) for name, note in run.papers.items()}
    listed = []
    for answer in answers.values():
        note = notes.get(answer.paper_id, PaperNote(None, None))
        facts = {"paper_id": answer.paper_id, "title": note.title, "year": note.year, "held": answer.held}
        found_by = {name: of_run.get(answer.paper_id) for name, of_run in taken.items()}
        listed.append({**facts, "grade": answer.grade, "routes": found_by})
    listed.sort(key=lambda row: (row["year"] or 0, row["paper_id"]), reverse=True)
    about = {name: getattr(queries[0], name) for name in ("id", "text", "intent", "category", "date")}
    return {**about, "answers": listed, "calls_that_raised_recall": raising}
