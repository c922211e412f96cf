"""Comparison of two runs of one query set: gains and losses by query, and significance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, NamedTuple

from scholarbase_research.evaluation.measures import Evaluation, evaluate
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.runs import check_comparable
from scholarbase_research.evaluation.statistics import PairedTest, paired_test


class Change(NamedTuple):
    """A query's value in both runs; ``difference`` is b - a."""

    query_id: str
    text: str
    a: float
    b: float
    difference: float


@dataclass(frozen=True, slots=True)
class MeasureComparison:
    """One measure of both runs, over the queries with a value in both: the two means, the paired test of their
    difference, and the queries that gained or lost (greatest change first) or stayed the same."""

    measure: str
    a: float
    b: float
    test: PairedTest
    gained: tuple[Change, ...]
    lost: tuple[Change, ...]
    same: tuple[Change, ...]


@dataclass(frozen=True)
class Comparison:
    """Two runs, measure by measure.

    ``differing`` has the search settings that differ, with both values, None where a run lacks the setting. ``notes``
    are sentences to show with the figures.
    """

    a: str
    b: str
    measures: tuple[MeasureComparison, ...]
    differing: Mapping[str, tuple[Any, Any]]
    evaluations: tuple[Evaluation, Evaluation]
    notes: tuple[str, ...] = ()

    def label(self, measure: str) -> str:
        """The measure's name for tables; R@All with the depths of the two runs."""
        labels = dict.fromkeys(evaluation.label(measure) for evaluation in self.evaluations)
        if len(labels) == 1:
            return next(iter(labels))
        return (
            f"{measure} (depths {' and '.join(f'{evaluation.depth:,}' for evaluation in self.evaluations)})"
        )


def compare(a: Run, b: Run, measures: Sequence[str], *, across_snapshots: bool = False) -> Comparison:
    """Compare run ``b`` with run ``a``, query by query, over all answers.

    Raises:
        RunMismatch: the query sets differ, or the snapshots differ and ``across_snapshots`` is off.
        InvalidRequest, EvaluationError: as ``evaluate``.
    """
    check_comparable(a, b, across_snapshots=across_snapshots)
    first, second = evaluate(a, measures), evaluate(b, measures)
    texts = {query.id: query.text for query in a.queries}
    compared = tuple(_compare(name, first, second, texts) for name in first.measures)
    return Comparison(
        a=a.name,
        b=b.name,
        measures=compared,
        differing=_differing(a, b),
        evaluations=(first, second),
        notes=_notes(first, second, a, b),
    )


def _compare(
    measure: str, first: Evaluation, second: Evaluation, texts: Mapping[str, str]
) -> MeasureComparison:
    a, b = first.values(measure), second.values(measure)
    changes = [
        Change(query_id, texts[query_id], a[query_id], b[query_id], b[query_id] - a[query_id])
        for query_id in a
        if query_id in b
    ]
    ranked = sorted(changes, key=lambda change: -abs(change.difference))
    return MeasureComparison(
        measure=measure,
        a=fmean(change.a for change in changes) if changes else float("nan"),
        b=fmean(change.b for change in changes) if changes else float("nan"),
        test=paired_test([change.a for change in changes], [change.b for change in changes]),
        gained=tuple(change for change in ranked if change.difference > 0),
        lost=tuple(change for change in ranked if change.difference < 0),
        same=tuple(change for change in ranked if change.difference == 0),
    )


def _differing(a: Run, b: Run) -> dict[str, tuple[Any, Any]]:
    ours, theirs = a.manifest.search or {}, b.manifest.search or {}
    return {
        key: (ours.get(key), theirs.get(key))
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    }


def _notes(first: Evaluation, second: Evaluation, a: Run, b: Run) -> tuple[str, ...]:
    notes = list(dict.fromkeys((*first.notes, *second.notes)))
    name = first.measures[0]
    one_sided = set(first.values(name)) ^ set(second.values(name))
    if one_sided:
        notes.append(
            f"Queries with a relevant answer in only one of the runs are left out: {len(one_sided):,}."
        )
    ours, theirs = (
        {query.id: {(answer.paper_id, answer.grade) for answer in query.relevant} for query in run.queries}
        for run in (a, b)
    )
    other = sum(answers != theirs.get(query_id) for query_id, answers in ours.items())
    if other:
        notes.append(
            f"Queries whose answers differ between the runs: {other:,}. Part of the difference may come from the "
            "answers, not from the search."
        )
    if "R@All" in first.measures and first.depth != second.depth:
        notes.append(
            f"R@All is to depth {first.depth:,} in {a.name!r} and to depth {second.depth:,} in {b.name!r}."
        )
    return tuple(notes)
