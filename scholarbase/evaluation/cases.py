"""Single queries: their answers, the newest first, and by which call each run found them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from scholarbase.errors import InvalidRequest
from scholarbase.evaluation.report.contents import labels
from scholarbase.evaluation.routes import Gain, gains, routes
from scholarbase.models.checks import shown
from scholarbase.models.runs import JudgedAnswer, JudgedQuery, PaperNote, Run


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
    """A query. ``names`` are the runs'; ``gains`` the calls that raised recall, without imported runs."""

    query: JudgedQuery
    names: tuple[str, ...]
    answers: tuple[CaseAnswer, ...]
    gains: Mapping[str, tuple[Gain, ...]]


def case_of(runs: Sequence[Run], query_id: str) -> Case:
    """The query with this id in all runs. Raises InvalidRequest: a run does not have it."""
    names = labels(runs)
    found = [next((query for query in run.queries if query.id == query_id), None) for run in runs]
    for name, query in zip(names, found, strict=True):
        if query is None:
            raise InvalidRequest(
                f"The run {name!r} has no query {shown(query_id, 80)}: give the id of one of its own."
            )
    queries = [query for query in found if query is not None]
    gained: dict[str, tuple[Gain, ...]] = {}
    taken: list[Mapping[str, str]] = []
    for name, run, query in zip(names, runs, queries, strict=True):
        if run.manifest.kind == "import":
            taken.append({result.id: "in the ranking" for result in run.rankings.get(query_id, ())})
            continue
        gained[name] = tuple(gains(run, query))
        taken.append({paper_id: gain.label for paper_id, gain in routes(gained[name]).items()})
    answers: dict[str, JudgedAnswer] = {}
    for query in queries:
        for answer in query.relevant:
            known = answers.get(answer.paper_id)
            if known is None or not known.held:
                answers[answer.paper_id] = answer
    listed = [_answer(answer, runs, taken) for answer in answers.values()]
    listed.sort(key=lambda one: (one.year or 0, one.paper_id), reverse=True)
    return Case(queries[0], names, tuple(listed), gained)


def _answer(answer: JudgedAnswer, runs: Sequence[Run], taken: Sequence[Mapping[str, str]]) -> CaseAnswer:
    unknown = PaperNote(None, None)
    note = next((run.papers[answer.paper_id] for run in runs if answer.paper_id in run.papers), unknown)
    found = tuple(own.get(answer.paper_id) for own in taken)
    return CaseAnswer(answer.paper_id, note.title, note.year, answer.held, answer.grade, found)


def case_json(case: Case) -> dict[str, Any]:
    """The case for JSON, with the routes of each answer by run."""
    query = case.query
    return {
        **{name: getattr(query, name) for name in ("id", "text", "intent", "category", "date")},
        "answers": [
            {**asdict(answer), "routes": dict(zip(case.names, answer.routes, strict=True))}
            for answer in case.answers
        ],
        "calls_that_raised_recall": {
            name: [{**asdict(gain), "recall": gain.recall} for gain in own]
            for name, own in case.gains.items()
        },
    }
