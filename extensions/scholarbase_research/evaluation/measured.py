"""The results of runs as tables: over all queries, and by group of the queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Final

from scholarbase_research.evaluation.breakdown import group_label, group_order, groups
from scholarbase_research.evaluation.measures import Evaluation, Over, default_measures, evaluate
from scholarbase_research.evaluation.run_data import JudgedQuery, Run
from scholarbase_research.evaluation.statistics import (
    LEVEL,
    RESAMPLES,
    Interval,
    bootstrap_interval,
    paired_test,
)
from scholarbase_research.evaluation.tables import Cell, Table, holm, with_best

NOTE_INTERVAL: Final = (
    f"In brackets: {LEVEL:.0%} bootstrap confidence interval of the mean over queries ({RESAMPLES:,} resamples, "
    "percentile)."
)
NOTE_TEST: Final = (
    "† p < 0.05, ‡ p < 0.01: differs from the first run by a paired two-sided randomisation test over queries, with "
    "p-values corrected for the number of comparisons (Holm)."
)
NOTE_BEST: Final = "Bold: the best of each column."
NOTE_BEST_OF_GROUP: Final = "Bold: the best run of each group."
OVERALL: Final = "Overall"
"""The row and column of all queries."""
OVER: Final[Mapping[Over, str]] = {"all": "all answers", "held": "the answers that the library holds"}
DIMENSIONS: Final = {
    "intent": "intent",
    "category": "category",
    "year": "year of the query",
    "answers": "number of answers",
    "answer-category": "primary category of the answers",
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


@dataclass(frozen=True)
class Measured:
    """The runs of a report with their evaluations. ``labels`` are the runs' names, numbered if repeated."""

    runs: tuple[Run, ...]
    labels: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]

    @classmethod
    def of(cls, runs: Sequence[Run], measures: Sequence[str]) -> Measured:
        """Evaluate the runs, without measures by the default ones that each run is deep enough for.

        Raises as :func:`scholarbase_research.evaluation.measures.evaluate`.
        """
        evaluations = tuple(evaluate(run, measures or default_measures(run)) for run in runs)
        return cls(tuple(runs), run_labels(runs), evaluations)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """The measures of any run."""
        return tuple(dict.fromkeys(name for evaluation in self.evaluations for name in evaluation.measures))

    @cached_property
    def recall(self) -> str:
        """The measure in the list of queries: R@100, else the first recall, else the first measure."""
        recalls = [m for m in self.measures if m.startswith("R@")]
        return "R@100" if "R@100" in recalls else (recalls or list(self.measures))[0]

    @cached_property
    def all_held(self) -> bool:
        """Whether all libraries hold every relevant answer."""
        return all(answer.held for run in self.runs for query in run.queries for answer in query.relevant)

    def heading(self, measure: str) -> str:
        """The measure's name; R@All with its depth if all runs have the same depth."""
        shown = {evaluation.label(measure) for evaluation in self.evaluations}
        return shown.pop() if len(shown) == 1 else measure

    def headings(self) -> list[str]:
        return [self.heading(measure) for measure in self.measures]


def cell(interval: Interval, p: float | None = None) -> Cell:
    """A mean with its interval; no value without queries, and no interval for a single query."""
    if interval.n == 1:
        return Cell(value=interval.mean, p=p)
    if interval.n == 0:
        return Cell()
    return Cell(value=interval.mean, low=interval.low, high=interval.high, p=p)


# -- the results ----------------------------------------------------------------------------------------


def results(measured: Measured, over: Over, *, tested: bool = True) -> Table:
    """The main results: a row for each run, a column for each measure; ``tested`` against the first run."""
    columns = {measure: _column(measured, measure, over, tested) for measure in measured.measures}
    rows = with_best([{m: columns[m][i] for m in columns} for i in range(len(measured.runs))])
    notes = [NOTE_INTERVAL]
    if len(measured.runs) > 1:
        notes += [NOTE_BEST, *([NOTE_TEST] if tested else [])]
    notes += _depths(measured) + [note for e in measured.evaluations for note in e.notes]
    notes += _left_out(measured, over) + _without_self(measured)
    what = "evidence" if all(run.manifest.kind == "passages" for run in measured.runs) else "answers"
    return Table.of(
        f"results-{over}",
        f"Results over {OVER[over].replace('answers', what)}",
        ["Run"],
        ["Queries", *measured.headings()],
        [
            [label, len(evaluation.values(evaluation.measures[0], over)), *row.values()]
            for label, evaluation, row in zip(measured.labels, measured.evaluations, rows, strict=True)
        ],
        list(dict.fromkeys(notes)),
    )


def _column(measured: Measured, measure: str, over: Over, tested: bool) -> list[Cell]:
    values = [e.values(measure, over) if measure in e.measures else {} for e in measured.evaluations]
    ps = [_p(values[0], other) if tested else None for other in values[1:]]
    corrected = iter(holm([p for p in ps if p is not None]))
    shown = [None, *(None if p is None else next(corrected) for p in ps)]
    return [cell(bootstrap_interval(list(v.values())), p) for v, p in zip(values, shown, strict=True)]


def _p(first: Mapping[str, float], other: Mapping[str, float]) -> float | None:
    """The p-value of the difference over the queries with both values, None without such queries."""
    ids = [query_id for query_id in first if query_id in other]
    return paired_test([first[i] for i in ids], [other[i] for i in ids]).p if ids else None


def _depths(measured: Measured) -> list[str]:
    """A note on the depth of R@All, if it is not in the heading."""
    if "R@All" not in measured.measures or measured.heading("R@All") != "R@All":
        return []
    return [depths(measured)]


def depths(measured: Measured) -> str:
    """A note on the depth of R@All in each run."""
    run_depths = (f"{label} {run.depth:,}" for label, run in zip(measured.labels, measured.runs, strict=True))
    return f"R@All is over whole rankings, with these depths: {', '.join(run_depths)}."


def _without_self(measured: Measured) -> list[str]:
    """A note on the runs without documents that have the id of their query."""
    pairs = zip(measured.labels, measured.runs, strict=True)
    labels = [label for label, run in pairs if (run.manifest.search or {}).get("exclude_self")]
    return [f"Without documents that have the id of their query: {', '.join(labels)}."] if labels else []


def _left_out(measured: Measured, over: Over) -> list[str]:
    """Notes on the queries that the means leave out."""
    notes = []
    if unjudged := len(measured.evaluations[0].unjudged):
        notes.append(f"Left out: {query_count(unjudged)} without a relevant answer.")
    if over == "held":
        for label, evaluation in zip(measured.labels, measured.evaluations, strict=True):
            if evaluation.unheld:
                differ = len({e.unheld for e in measured.evaluations}) > 1
                suffix = f" ({label})" if differ else ""
                notes.append(
                    f"Left out: {query_count(len(evaluation.unheld))} without an answer in the library{suffix}."
                )
    return notes


def query_count(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


# -- by group -------------------------------------------------------------------------------------------


def grouped(measured: Measured, by: str) -> Table:
    """The results of all runs by group of the queries. Raises InvalidRequest: unknown dimension."""
    members = [groups(run, by) for run in measured.runs]
    rows: list[list[Cell | str | int]] = []
    # A group may be missing in another library, where two ids of one paper give a query fewer answers.
    for group in group_order(by, dict.fromkeys(label for labels in members for label in labels)):
        queries = [labels.get(group, []) for labels in members]
        cells = [
            {m: cell(bootstrap_interval(_values(evaluation, m, of_run))) for m in measured.measures}
            for evaluation, of_run in zip(measured.evaluations, queries, strict=True)
        ]
        rows += _group_rows(measured, group, list(map(len, queries)), cells)
    return Table.of(
        f"by-{by}",
        f"By {DIMENSIONS[by]}, over all answers",
        [DIMENSIONS[by].capitalize(), "Run"],
        ["Queries", *measured.headings()],
        rows,
        [
            NOTE_INTERVAL,
            *([NOTE_BEST_OF_GROUP] if len(measured.runs) > 1 else []),
            *_depths(measured),
        ],
    )


def crossed(measured: Measured, by: str, columns: str, measure: str) -> Table:
    """The means of all runs by two dimensions, as ScholarQuest (arXiv:2606.20235) has recall by number of answers and
    intent in its table 7. The queries of a row are all of its group, whatever their column."""
    members: list[dict[tuple[str, str], list[JudgedQuery]]] = []
    for run in measured.runs:
        by_labels: dict[tuple[str, str], list[JudgedQuery]] = {}
        for query in run.queries:
            row, column = (group_label(query, name, run.papers) for name in (by, columns))
            # No group has an empty label: it stands for all queries.
            for key in ((row, column), (row, ""), ("", column), ("", "")):
                by_labels.setdefault(key, []).append(query)
        members.append(by_labels)
    keys = dict.fromkeys(key for by_labels in members for key in by_labels)
    headings = [*group_order(columns, dict.fromkeys(column for _, column in keys if column)), ""]
    rows: list[list[Cell | str | int]] = []
    for group in (*group_order(by, dict.fromkeys(row for row, _ in keys if row)), ""):
        values = [
            {column: _values(evaluation, measure, of_run.get((group, column), ())) for column in headings}
            for evaluation, of_run in zip(measured.evaluations, members, strict=True)
        ]
        cells = [{c: Cell(value=fmean(v) if v else None) for c, v in of_run.items()} for of_run in values]
        rows += _group_rows(measured, group or OVERALL, [len(of_run[""]) for of_run in values], cells)
    return Table.of(
        f"by-{by}-and-{columns}-{measure.lower().replace('@', '-')}",
        f"{measured.heading(measure)} by {DIMENSIONS[by]} and {DIMENSIONS[columns]}, over all answers",
        [DIMENSIONS[by].capitalize(), "Run"],
        ["Queries", *(column or OVERALL for column in headings)],
        rows,
        ["Means over queries.", *([NOTE_BEST_OF_GROUP] if len(measured.runs) > 1 else [])],
    )


def _group_rows(
    measured: Measured, group: str, counts: Sequence[int], cells: Sequence[Mapping[str, Cell]]
) -> Iterator[list[Cell | str | int]]:
    """The rows of a group, one for each run; only the first names the group."""
    rows = zip(measured.labels, counts, with_best(cells), strict=True)
    for i, (label, count, row) in enumerate(rows):
        yield [group if i == 0 or len(measured.runs) == 1 else "", label, count, *row.values()]


def _values(evaluation: Evaluation, measure: str, queries: Sequence[JudgedQuery]) -> list[float]:
    if measure not in evaluation.measures:
        return []
    by_query = evaluation.values(measure, "all")
    return [by_query[query.id] for query in queries if query.id in by_query]
