"""Tables and curves of a report, as data without layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import numpy as np

from scholarbase.errors import InvalidRequest
from scholarbase.evaluation.averages import Average
from scholarbase.evaluation.breakdown import break_down, dimensions, group_order
from scholarbase.evaluation.measures import Evaluation, Over, evaluate, recall_curve
from scholarbase.evaluation.report.plots import MAX_PANELS, Curve, Panel
from scholarbase.evaluation.report.published import published
from scholarbase.evaluation.report.tables import MISSING, Cell, Table, holm, with_best
from scholarbase.evaluation.statistics import LEVEL, RESAMPLES, Interval, bootstrap_interval, paired_test
from scholarbase.models.runs import Run

NOTE_INTERVAL: Final = (
    f"In brackets: {LEVEL:.0%} bootstrap confidence interval of the mean over queries ({RESAMPLES:,} resamples, "
    "percentile)."
)
NOTE_TEST: Final = (
    "† p < 0.05, ‡ p < 0.01: differs from the first run by a paired two-sided randomisation test over queries, with "
    "p-values corrected for the number of comparisons (Holm)."
)
NOTE_BEST: Final = "Bold: the best of each column."
OVER: Final[Mapping[Over, str]] = {"all": "all answers", "held": "the answers that the library holds"}
DIMENSIONS: Final = {
    "intent": "intent",
    "category": "category",
    "year": "year of the query",
    "answers": "number of answers",
    "answer-category": "primary category of the answers",
}


@dataclass(frozen=True)
class Measured:
    """The runs of a report with their evaluations. ``labels`` are the runs' names, numbered if repeated."""

    runs: tuple[Run, ...]
    labels: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]

    @classmethod
    def of(cls, runs: Sequence[Run], measures: Sequence[str]) -> Measured:
        """Evaluate the runs. Raises as :func:`scholarbase.evaluation.measures.evaluate`."""
        return cls(tuple(runs), labels(runs), tuple(evaluate(run, measures) for run in runs))

    def evaluation(self, run: Run) -> Evaluation:
        """The evaluation of one of the runs. Raises InvalidRequest: it is another run."""
        for place, one in enumerate(self.runs):
            if one is run:
                return self.evaluations[place]
        raise InvalidRequest(f"The run {run.name!r} is not among the runs of the report: add it.")

    @property
    def measures(self) -> tuple[str, ...]:
        return self.evaluations[0].measures

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


def labels(runs: Sequence[Run]) -> tuple[str, ...]:
    """The runs' names; repeated names get a number."""
    counts = Counter(run.name for run in runs)
    seen: Counter[str] = Counter()
    out = []
    for run in runs:
        seen[run.name] += 1
        out.append(run.name if counts[run.name] == 1 else f"{run.name} ({seen[run.name]})")
    return tuple(out)


def cell(interval: Interval, p: float | None = None) -> Cell:
    """A mean with its interval; no value without queries, and no interval for a single query."""
    if interval.n == 1:
        return Cell(value=interval.mean, p=p)
    if interval.n == 0:
        return Cell()
    return Cell(value=interval.mean, low=interval.low, high=interval.high, p=p)


# -- the results ----------------------------------------------------------------------------------------


def results(measured: Measured, over: Over) -> Table:
    """The main results: a row for each run, a column for each measure."""
    columns = {measure: _column(measured, measure, over) for measure in measured.measures}
    rows = with_best([{m: columns[m][i] for m in columns} for i in range(len(measured.runs))])
    notes = [NOTE_INTERVAL]
    if len(measured.runs) > 1:
        notes += [NOTE_BEST, NOTE_TEST]
    notes += _depths(measured) + [note for e in measured.evaluations for note in e.notes]
    notes += _left_out(measured, over)
    return Table.of(
        f"results-{over}",
        f"Results over {OVER[over]}",
        ["Run"],
        ["Queries", *measured.headings()],
        [
            [
                Cell(label),
                Cell(value=len(evaluation.values(measured.measures[0], over)), digits=0),
                *(row[measure] for measure in measured.measures),
            ]
            for label, evaluation, row in zip(measured.labels, measured.evaluations, rows, strict=True)
        ],
        list(dict.fromkeys(notes)),
    )


def averages(computed: Sequence[Average]) -> Table:
    """The figures of systems with several runs: means over the runs, and their spread."""
    return Table.of(
        "averages",
        "Means over several runs of one system, over all answers",
        ["System", "Figure"],
        ["Runs", "Mean", "Standard deviation", "Lowest", "Highest"],
        [
            [
                Cell(one.name),
                Cell(figure),
                Cell(value=len(one.runs), digits=0),
                *(Cell(value=v) for v in spread),
            ]
            for one in computed
            for figure, spread in one.figures.items()
        ],
        [
            *(f"{one.name}: {', '.join(one.runs)}." for one in computed),
            "Each run's figure is its mean over queries; the standard deviation is that of the sample of runs (n - 1).",
        ],
    )


def _column(measured: Measured, measure: str, over: Over) -> list[Cell]:
    values = [evaluation.values(measure, over) for evaluation in measured.evaluations]
    ps: list[float | None] = [None]
    tested = [_p(values[0], other) for other in values[1:]]
    corrected = iter(holm([p for p in tested if p is not None]))
    ps += [None if p is None else next(corrected) for p in tested]
    return [cell(bootstrap_interval(list(v.values())), p) for v, p in zip(values, ps, strict=True)]


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
    each = (f"{label} {run.depth:,}" for label, run in zip(measured.labels, measured.runs, strict=True))
    return f"R@All is over whole rankings, with these depths: {', '.join(each)}."


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


# -- runs and query set ---------------------------------------------------------------------------------


def query_set(measured: Measured) -> Table:
    """The query set: its name, format, hash and count."""
    facts = measured.runs[0].manifest.queries
    shown = {"name": "Name", "format": "Format", "sha256": "SHA-256", "count": "Queries"}
    rows = [[Cell(shown[key]), _fact(facts[key])] for key in shown if key in facts]
    rows += [[Cell("Notes" if i == 0 else ""), Cell(str(n))] for i, n in enumerate(facts.get("notes", ()))]
    return Table.of("query-set", "The query set", ["Fact", "Value"], [], rows)


def settings(measured: Measured) -> Table:
    """The settings of each run: a row for each setting, a column for each run."""
    manifests = [run.manifest for run in measured.runs]
    rows: dict[str, list[Any]] = {
        "Kind": [m.kind for m in manifests],
        "Snapshot": [m.snapshot for m in manifests],
        "Papers": [m.papers for m in manifests],
        "ScholarBase": [m.version for m in manifests],
        "Identity": [m.identity for m in manifests],
    }
    for key in dict.fromkeys(key for m in manifests for key in m.search or {}):
        rows[f"search: {key}"] = [(m.search or {}).get(key, MISSING) for m in manifests]
    for key in dict.fromkeys(key for m in manifests for key in m.answers):
        # Counts that are 0 in all runs are left out, except for absent answers.
        if key == "absent" or any(m.answers.get(key) for m in manifests):
            rows[f"answers: {key}"] = [m.answers.get(key, MISSING) for m in manifests]
    rows["Deepest ranking"] = [run.depth for run in measured.runs]
    rows["Queries without results"] = [
        sum(not run.rankings.get(query.id) for query in run.queries) for run in measured.runs
    ]
    return Table.of(
        "settings",
        "How each run was made",
        ["Fact", *measured.labels],
        [],
        [[Cell(name), *map(_fact, values)] for name, values in rows.items()],
    )


def _fact(value: Any) -> Cell:
    if value is None:
        return Cell(MISSING)
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, int):
        return Cell(f"{value:,}")
    if isinstance(value, Mapping):
        return Cell(", ".join(f"{key} {_fact(v).shown}" for key, v in sorted(value.items())) or MISSING)
    if isinstance(value, list | tuple):
        return Cell(", ".join(_fact(v).shown for v in value) or MISSING)
    return Cell(str(value))


def timing(measured: Measured) -> Table | None:
    """The times of the searches, None if no run has them."""
    if not any(run.seconds for run in measured.runs):
        return None
    rows = []
    for label, run in zip(measured.labels, measured.runs, strict=True):
        seconds = np.array(list(run.seconds.values()))
        if not seconds.size:
            rows.append([Cell(label), Cell(value=0, digits=0), Cell(), Cell(), Cell()])
            continue
        p50, p95 = np.percentile(seconds, [50, 95]) * 1000
        total = float(seconds.sum())
        rows.append(
            [
                Cell(label),
                Cell(value=seconds.size, digits=0),
                Cell(value=seconds.size / total if total > 0 else None, digits=1),
                Cell(value=float(p50), digits=1),
                Cell(value=float(p95), digits=1),
            ]
        )
    return Table.of(
        "timing",
        "How long the searches took, cold: the vectors of each query computed anew",
        ["Run"],
        ["Queries timed", "Queries/s, one at a time", "p50, ms", "p95, ms"],
        rows,
        [
            "A repeated query is warm: its vectors are cached, which saves the encoder's time. A server's cache may "
            "hold queries of earlier runs.",
            "Times vary between machines and repetitions. They are not part of a run's identity.",
        ],
    )


def published_comparison(measured: Measured) -> Table | None:
    """The runs' figures beside published ones with their sources; None without published figures."""
    collection = published(measured.runs[0].manifest.queries, measured.runs[0].queries[0].id)
    if collection is None:
        return None
    measures = [m for m in measured.measures if any(m in figure.values for figure in collection.figures)]
    if not measures:
        return None
    rows = [
        [
            Cell(label),
            *(Cell(value=evaluation.mean(measure)) for measure in measures),
            Cell("this report"),
        ]
        for label, evaluation in zip(measured.labels, measured.evaluations, strict=True)
    ]
    rows += [
        [
            Cell(figure.system),
            *(Cell(value=figure.values.get(measure)) for measure in measures),
            Cell(figure.source, url=figure.url),
        ]
        for figure in collection.figures
    ]
    result = Table.of(
        "published",
        f"Beside published figures for {collection.shown}",
        ["System"],
        [*(measured.heading(m) if m != "R@All" else m for m in measures), "Source"],
        rows,
        [
            "Published figures are from other indexes, and from other corpora if the snapshot differs: they give an "
            f"orientation, not a ranking. {MISSING}: not reported.",
            *([depths(measured)] if "R@All" in measures else []),
        ],
    )
    return replace(result, columns=(*result.columns[:-1], replace(result.columns[-1], numeric=False)))


# -- by group -------------------------------------------------------------------------------------------


def by_group(measured: Measured) -> list[Table]:
    """A table for each property of the queries with several groups."""
    shown = {by for run in measured.runs for by in dimensions(run)}
    return [_grouped(measured, by) for by in DIMENSIONS if by in shown]


def _grouped(measured: Measured, by: str) -> Table:
    grouped = [
        {group.label: group for group in break_down(run, evaluation, by)}
        for run, evaluation in zip(measured.runs, measured.evaluations, strict=True)
    ]
    rows = []
    # A group may be missing in another library, where two ids of one paper give a query fewer answers.
    for group in group_order(by, dict.fromkeys(group for groups in grouped for group in groups)):
        cells = with_best(
            [
                {m: cell(groups[group].values[m]) if group in groups else Cell() for m in measured.measures}
                for groups in grouped
            ]
        )
        for i, (label, row) in enumerate(zip(measured.labels, cells, strict=True)):
            first = Cell(group if i == 0 or len(measured.runs) == 1 else "")
            count = Cell(value=grouped[i][group].n if group in grouped[i] else 0, digits=0)
            rows.append([first, Cell(label), count, *(row[m] for m in measured.measures)])
    return Table.of(
        f"by-{by}",
        f"By {DIMENSIONS[by]}, over all answers",
        [DIMENSIONS[by].capitalize(), "Run"],
        ["Queries", *measured.headings()],
        rows,
        [
            NOTE_INTERVAL,
            *(["Bold: the best run of each group."] if len(measured.runs) > 1 else []),
            *_depths(measured),
        ],
    )


# -- curves ---------------------------------------------------------------------------------------------


def depth_panels(measured: Measured) -> list[Panel]:
    """Recall against depth, over all answers, and over held answers if they differ."""
    panels = []
    for over in ("all",) if measured.all_held else ("all", "held"):
        curves = []
        for place, (label, run) in enumerate(zip(measured.labels, measured.runs, strict=True)):
            if over == "held" and not measured.evaluations[place].held[measured.measures[0]]:
                continue
            depths, recall = recall_curve(run, over)  # type: ignore[arg-type]
            curves.append(Curve(place, label, depths.tolist(), recall.tolist()))
        if curves:
            panels.append(Panel(f"over {OVER[over]}", tuple(curves)))  # type: ignore[index]
    return panels


def distribution_panels(measured: Measured) -> list[Panel]:
    """The distribution of recall over all queries and over those of each intent, up to ``MAX_PANELS`` panels."""
    groups = {"": {query.id for query in measured.runs[0].queries}}
    intents = Counter(query.intent for query in measured.runs[0].queries if query.intent is not None)
    if len(intents) > 1 or (intents and intents.total() < len(measured.runs[0].queries)):
        kept = {intent for intent, _ in intents.most_common(MAX_PANELS - 1)}
        groups = {"all queries": groups[""]} | {
            intent: {query.id for query in measured.runs[0].queries if query.intent == intent}
            for intent in intents
            if intent in kept
        }
    panels = []
    for title, ids in groups.items():
        curves = []
        for place, (label, evaluation) in enumerate(zip(measured.labels, measured.evaluations, strict=True)):
            values = [v for query_id, v in evaluation.values(measured.recall).items() if query_id in ids]
            curves.append(Curve(place, label, *at_least(values)))
        if any(curve.x for curve in curves):
            count = len([i for i in measured.evaluations[0].values(measured.recall) if i in ids])
            panels.append(Panel(f"{title} ({count:,})" if title else "", tuple(curves)))
    return panels


def at_least(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The share of values that are at least x, at every x from 0 to 1 where it changes; at 0 the share above 0."""
    if not values:
        return [], []
    sample = np.sort(np.asarray(values))
    x = np.unique(np.concatenate([[0.0, 1.0], sample]))
    share = 1 - np.searchsorted(sample, x, side="left") / sample.size
    share[0] = np.mean(sample > 0)
    return x.tolist(), share.tolist()
