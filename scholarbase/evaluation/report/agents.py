"""Tables and curves of a report about agents: the cost of their calls, and the failed queries."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from scholarbase.evaluation.efficiency import Efficiency, efficiency, recall_by_call
from scholarbase.evaluation.report.analysis import shared_failures
from scholarbase.evaluation.report.contents import Measured, depths
from scholarbase.evaluation.report.plots import Curve
from scholarbase.evaluation.report.tables import Cell, Table

FIGURES: Final = {
    "rounds": ("Rounds", 2),
    "search_calls": ("Search calls", 2),
    "match_calls": ("Title matches", 2),
    "expand_calls": ("Expansion calls", 2),
    "inspect_calls": ("Inspections", 2),
    "failed_calls": ("Failed calls", 2),
    "candidates": ("Candidates", 1),
    "recall_100": ("R@100", 3),
    "recall": ("R@All", 3),
    "seconds": ("Seconds", 2),
    "tokens": ("Tokens", 0),
    "recall_100_per_100": ("R@100 per 100 candidates", 3),
}
"""Figures of :class:`Efficiency` to their headings and the digits shown."""


def has_agents(measured: Measured) -> bool:
    """Whether any run is of an agent."""
    return any(run.manifest.kind == "trajectory" for run in measured.runs)


def agent_tables(measured: Measured) -> list[Table]:
    """The efficiency of all runs, their failures, and the queries for which agents found no answer."""
    computed = [efficiency(run) for run in measured.runs]
    tables = [_efficiency(measured, computed), _failures(measured, computed)]
    failed = _failed_queries(measured, computed)
    tables += [failed] if failed.rows else []
    return [*tables, *shared_failures(measured, computed)]


def _efficiency(measured: Measured, computed: list[Efficiency]) -> Table:
    # Columns without a value are omitted, as the table is wide.
    rare = ("inspect_calls", "failed_calls")
    shown = [
        name
        for name in FIGURES
        if any(each.means[name] if name in rare else each.means[name] is not None for each in computed)
    ]
    return Table.of(
        "efficiency",
        "Cost and results of the calls, means over queries",
        ["Run"],
        [FIGURES[name][0] for name in shown] + ["The same, pooled"],
        [
            [
                Cell(label),
                *(Cell(value=each.means[name], digits=FIGURES[name][1]) for name in shown),
                Cell(value=each.pooled_recall_100_per_100),
            ]
            for label, each in zip(measured.labels, computed, strict=True)
        ],
        [
            "A plain search counts as one search call per query. Candidates: distinct papers found by search and "
            "expansion calls. R@100 per 100 candidates is a mean over the queries with candidates; pooled, it is the "
            "mean R@100 divided by the mean number of candidates in hundreds. Inspections and failed calls are shown "
            "if there are any.",
            depths(measured),
        ],
    )


def _failures(measured: Measured, computed: list[Efficiency]) -> Table:
    rows = []
    for label, each in zip(measured.labels, computed, strict=True):
        failures = each.failures
        calls = [failure.calls for failure in failures if failure.calls is not None]
        rows.append(
            [
                Cell(label),
                Cell(value=len(failures), digits=0),
                Cell(value=len(failures) / len(each.queries) if each.queries else None),
                Cell(value=fmean(f.candidates for f in failures) if failures else None, digits=1),
                Cell(value=fmean(calls) if calls else None, digits=1),
                Cell(value=fmean(f.answers for f in failures) if failures else None, digits=1),
                Cell(value=fmean(f.held for f in failures) if failures else None, digits=1),
            ]
        )
    return Table.of(
        "failures",
        "Queries without any answer found",
        ["Run"],
        ["Queries", "Share", "Candidates seen", "Calls", "Answers", "Answers held"],
        rows,
        ["Candidates, calls and answers: means over these queries."],
    )


def _failed_queries(measured: Measured, computed: list[Efficiency]) -> Table:
    rows = [
        [
            Cell(label),
            Cell(failure.query_id),
            Cell(failure.text),
            *(
                Cell(value=count, digits=0)
                for count in (failure.candidates, failure.calls, failure.answers, failure.held)
            ),
        ]
        for label, run, each in zip(measured.labels, measured.runs, computed, strict=True)
        if run.manifest.kind == "trajectory"
        for failure in each.failures
    ]
    return Table.of(
        "failed-queries",
        "Queries for which an agent found no answer",
        ["Run", "Id", "Query"],
        ["Candidates seen", "Calls", "Answers", "Answers held"],
        rows,
    )


def call_curves(measured: Measured) -> list[Curve]:
    """Recall after each tool call, for the runs with known calls."""
    curves = []
    for place, (label, run) in enumerate(zip(measured.labels, measured.runs, strict=True)):
        if run.manifest.kind != "import" and (recall := recall_by_call(run)):
            curves.append(Curve(place, label, list(range(1, len(recall) + 1)), recall))
    return curves
