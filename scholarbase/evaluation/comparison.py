"""Comparison of two runs of one query set: gains and losses by query, significance, and both rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, NamedTuple

from scholarbase.errors import InvalidRequest, RunMismatch
from scholarbase.evaluation import evidence
from scholarbase.evaluation.measures import Evaluation, Over, check_over, evaluate, ranked_ids
from scholarbase.evaluation.statistics import PairedTest, paired_test
from scholarbase.models.checks import check_type
from scholarbase.models.runs import Run

Mark = Literal["same", "up", "down", "new", "gone"]
"""How a paper's rank changed from the first run to the second; ``up`` is nearer to the top."""


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
    over: Over
    snapshots: tuple[str, str]
    measures: tuple[MeasureComparison, ...]
    differing: Mapping[str, tuple[Any, Any]]
    evaluations: tuple[Evaluation, Evaluation]
    notes: tuple[str, ...] = ()

    def label(self, measure: str) -> str:
        """The measure's name for tables; R@All with the depths of the two runs."""
        labels = dict.fromkeys(evaluation.label(measure) for evaluation in self.evaluations)
        if len(labels) == 1:
            return next(iter(labels))
        return f"{measure} (depths {' and '.join(f'{each.depth:,}' for each in self.evaluations)})"

    def of(self, measure: str) -> MeasureComparison:
        """Raises InvalidRequest: the measure was not compared."""
        for compared in self.measures:
            if compared.measure == measure:
                return compared
        names = ", ".join(compared.measure for compared in self.measures)
        raise InvalidRequest(f"{measure} was not compared: use one of {names}.")


def compare(
    a: Run, b: Run, measures: Sequence[str], *, across_snapshots: bool = False, over: Over = "all"
) -> Comparison:
    """Compare run ``b`` with run ``a``, query by query.

    Raises:
        RunMismatch: the query sets differ, or the snapshots differ and ``across_snapshots`` is off.
        InvalidRequest, EvaluationError: as ``evaluate``.
    """
    check_type(a, Run, "a", "a Run")
    check_type(b, Run, "b", "a Run")
    check_comparable(a, b, across_snapshots=across_snapshots)
    check_over(over)
    first, second = evaluate(a, measures), evaluate(b, measures)
    texts = {query.id: query.text for query in a.queries}
    compared = tuple(_compare(name, first, second, texts, over) for name in first.measures)
    return Comparison(
        a=a.name,
        b=b.name,
        over=over,
        snapshots=(a.manifest.snapshot, b.manifest.snapshot),
        measures=compared,
        differing=_differing(a, b),
        evaluations=(first, second),
        notes=_notes(first, second, over, a, b),
    )


def check_comparable(a: Run, b: Run, *, across_snapshots: bool = False) -> None:
    """Raises RunMismatch: the query sets differ, or the snapshots differ and ``across_snapshots`` is off."""
    ours, theirs = a.manifest.queries, b.manifest.queries
    # Other versions may have skipped other broken lines of the same file.
    if ours["sha256"] != theirs["sha256"] or [q.id for q in a.queries] != [q.id for q in b.queries]:
        raise RunMismatch(
            f"The run {a.name!r} is of the query set {ours['name']!r} ({ours['sha256'][:12]}) and {b.name!r} of "
            f"{theirs['name']!r} ({theirs['sha256'][:12]}): compare runs of the same queries."
        )
    if a.manifest.snapshot != b.manifest.snapshot and not across_snapshots:
        raise RunMismatch(
            f"The run {a.name!r} was made on snapshot {a.manifest.snapshot} and {b.name!r} on {b.manifest.snapshot}: "
            "run one of them again on the other's library, or compare them anyway with --across-snapshots."
        )


def _compare(
    measure: str, first: Evaluation, second: Evaluation, texts: Mapping[str, str], over: Over
) -> MeasureComparison:
    a, b = first.values(measure, over), second.values(measure, over)
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


def _notes(first: Evaluation, second: Evaluation, over: Over, a: Run, b: Run) -> tuple[str, ...]:
    notes = list(dict.fromkeys((*first.notes, *second.notes)))
    name = first.measures[0]
    one_sided = set(first.values(name, over)) ^ set(second.values(name, over))
    if one_sided:
        notes.append(
            f"Queries with a relevant answer in only one of the runs are left out: {len(one_sided):,}."
        )
    ours, theirs = _answers(a, over), _answers(b, over)
    other = sum(ours[query_id] != theirs.get(query_id) for query_id in ours)
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


def _answers(run: Run, over: Over) -> dict[str, set[tuple[str, int]]]:
    """The relevant answers, with their grades, by query."""
    return {
        query.id: {(found.paper_id, found.grade) for found in query.relevant if found.held or over == "all"}
        for query in run.queries
    }


# -- rankings -------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """A paper at a rank of one run. ``other`` is its rank in the other run, None if it is not ranked there; ``mark`` is
    the change from the first run to the second."""

    id: str
    title: str | None
    year: int | None
    answer: bool
    other: int | None
    mark: Mark


class Row(NamedTuple):
    """The papers of both runs at a ``rank``, counted from 1; None past the end of a ranking."""

    rank: int
    a: Place | None
    b: Place | None


def side_by_side(a: Run, b: Run, query_id: str, depth: int = 10) -> list[Row]:
    """Both rankings of a query, rank by rank to ``depth`` or the end of the longer one.

    Raises:
        InvalidRequest: a run lacks the query, or the depth is below 1.
    """
    if depth < 1:
        raise InvalidRequest(f"depth is {depth}: it must be 1 or more.")
    ids = []
    answers: set[str] = set()
    for run in (a, b):
        query = next((query for query in run.queries if query.id == query_id), None)
        if query is None:
            raise InvalidRequest(
                f"The run {run.name!r} has no query {query_id!r}: give the id of one of its queries."
            )
        ids.append(ranked_ids(run.rankings.get(query_id, ())))
        relevant = [answer.paper_id for answer in query.relevant]
        answers.update(relevant)
        if run.manifest.kind == "passages":
            answers |= evidence.holding(ids[-1], relevant)
    ranks = [{paper_id: rank for rank, paper_id in enumerate(order, 1)} for order in ids]

    def place(side: int, rank: int) -> Place | None:
        if rank > len(ids[side]):
            return None
        paper_id = ids[side][rank - 1]
        runs = (a, b) if side == 0 else (b, a)
        note = next((run.papers[paper_id] for run in runs if paper_id in run.papers), None)
        return Place(
            id=paper_id,
            title=note.title if note else None,
            year=note.year if note else None,
            answer=paper_id in answers,
            other=ranks[1 - side].get(paper_id),
            mark=_mark(ranks[0].get(paper_id), ranks[1].get(paper_id)),
        )

    last = min(depth, max(map(len, ids)))
    return [Row(rank, place(0, rank), place(1, rank)) for rank in range(1, last + 1)]


def _mark(before: int | None, after: int | None) -> Mark:
    if before is None:
        return "new"
    if after is None:
        return "gone"
    return "same" if before == after else "up" if after < before else "down"
