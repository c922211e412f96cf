"""A run's measures by groups of its queries: intent, category, year, number and categories of answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from scholarbase.errors import InvalidRequest
from scholarbase.evaluation.measures import Evaluation, Over
from scholarbase.evaluation.statistics import Interval, bootstrap_interval
from scholarbase.models.runs import JudgedQuery, PaperNote, Run

Dimension = Literal["intent", "category", "year", "answers", "answer-category"]

DIMENSIONS: Final[tuple[Dimension, ...]] = ("intent", "category", "year", "answers", "answer-category")
_BY_SIZE: Final = ("intent", "category", "answer-category")
"""Dimensions whose largest group is shown first."""
NONE: Final = "(none)"
"""The label of queries without a value of the dimension."""

BUCKETS: Final = ((1, 4), (5, 25), (26, 50), (51, 100), (101, 150), (151, 200), (201, None))
"""Classes of the number of answers, first and last: ScholarQuest's five, one below and one above."""


@dataclass(frozen=True, slots=True)
class Group:
    """The ``n`` queries with one label, and the mean of each measure with its confidence interval.

    The interval's ``n`` is lower if some of the queries have no value.
    """

    label: str
    n: int
    values: dict[str, Interval]


def summary(evaluation: Evaluation, over: Over = "all") -> dict[str, Interval]:
    """The mean of each measure over all queries, with its bootstrap confidence interval."""
    return {
        measure: bootstrap_interval(list(evaluation.values(measure, over).values()))
        for measure in evaluation.measures
    }


def break_down(run: Run, evaluation: Evaluation, by: str, *, over: Over = "all") -> list[Group]:
    """The run's measures by group. Every query is in exactly one group; ``(none)`` is the last.

    ``by`` is ``intent`` or ``category`` (largest group first), ``year`` of the query's date, or ``answers``, the
    number of relevant answers, held or not; or ``answer-category``, the most frequent primary category of the relevant
    answers that the library holds, the first one in the alphabet of several (ScholarQuest's figure 2).

    Raises:
        InvalidRequest: the dimension is unknown, or the evaluation is of other queries.
    """
    members = _members(run, by)
    known = {*evaluation.values(evaluation.measures[0]), *evaluation.unjudged}
    if known != {query.id for query in run.queries}:
        raise InvalidRequest(
            f"The evaluation of {evaluation.run!r} is of other queries than the run {run.name!r}: "
            "give the run that was evaluated."
        )
    groups = []
    for label, queries in members.items():
        values = {}
        for measure in evaluation.measures:
            by_query = evaluation.values(measure, over)
            values[measure] = bootstrap_interval([by_query[q.id] for q in queries if q.id in by_query])
        groups.append(Group(label, len(queries), values))
    return groups


def dimensions(run: Run) -> list[Dimension]:
    """The dimensions with two groups or more."""
    return [by for by in DIMENSIONS if len(_members(run, by)) > 1]


def group_label(query: JudgedQuery, by: str, papers: Mapping[str, PaperNote]) -> str:
    """The label of the query's group; ``papers`` are those of its run. Raises InvalidRequest: unknown dimension."""
    if by not in DIMENSIONS:
        raise InvalidRequest(f"Unknown dimension {by!r}: it is one of {', '.join(DIMENSIONS)}.")
    return (_answer_category(query, papers) if by == "answer-category" else _LABELS[by](query)) or NONE


def _members(run: Run, by: str) -> Mapping[str, list[JudgedQuery]]:
    """The queries of each label, in display order."""
    members: dict[str, list[JudgedQuery]] = {}
    for query in run.queries:
        members.setdefault(group_label(query, by, run.papers), []).append(query)
    if by in _BY_SIZE:
        largest = sorted(members, key=lambda name: (name == NONE, -len(members[name]), name))
        return {name: members[name] for name in largest}
    return {name: members[name] for name in group_order(by, members)}


def group_order(by: str, labels: Iterable[str]) -> list[str]:
    """Labels in display order: years and numbers of answers ascending, others unchanged, ``(none)`` last."""

    def place(label: str) -> tuple[bool, int, str]:
        first = int(label.rstrip("+").partition("-")[0]) if by == "answers" and label != NONE else 0
        return label == NONE, first, label

    if by in _BY_SIZE:
        return sorted(labels, key=lambda label: label == NONE)
    return sorted(labels, key=place)


def _bucket(query: JudgedQuery) -> str | None:
    count = len({answer.paper_id for answer in query.relevant})
    for first, last in BUCKETS:
        if count >= first and (last is None or count <= last):
            return f"{first}+" if last is None else f"{first}-{last}"
    return None


def _answer_category(query: JudgedQuery, papers: Mapping[str, PaperNote]) -> str | None:
    notes = (papers.get(answer.paper_id) for answer in query.relevant)
    counts = Counter(note.category for note in notes if note is not None and note.category is not None)
    return min(counts, key=lambda name: (-counts[name], name), default=None)


_LABELS: Final[dict[str, Callable[[JudgedQuery], str | None]]] = {
    "intent": lambda query: query.intent,
    "category": lambda query: query.category,
    "year": lambda query: query.date[:4] if query.date else None,
    "answers": _bucket,
}
