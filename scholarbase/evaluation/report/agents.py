"""What a report says of agents: what their calls cost, and which questions they failed."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from scholarbase.evaluation.efficiency import Efficiency, efficiency, recall_by_call
from scholarbase.evaluation.report.contents import Measured, depths
from scholarbase.evaluation.report.plots import Curve
from scholarbase.evaluation.report.tables import Cell, Table, table

FIGURES: Final = {
    "rounds": ("Rounds", 2),
    "search_calls": ("Search calls", 2),
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
    """Whether one of the runs is an agent's."""
    return any(run.manifest.kind == "trajectory" for run in measured.runs)


def agent_tables(measured: Measured) -> list[Table]:
    """The efficiency of every run, plain searches among them, and the questions of which agents found nothing."""
    found = [efficiency(run) for run in measured.runs]
    tables = [_efficiency(measured, found), _failures(measured, found)]
    failed = _failed_queries(measured, found)
    return [*tables, failed] if failed.rows else tables


def _efficiency(measured: Measured, found: list[Efficiency]) -> Table:
    # A column that is nothing for every run would only make a wide table wider.
    rare = ("inspect_calls", "failed_calls")
    shown = [
        name
        for name in FIGURES
        if any(each.means[name] if name in rare else each.means[name] is not None for each in found)
    ]
    return table(
        "efficiency",
        "What the calls cost and what they found, mean over queries",
        ["Run"],
        [FIGURES[name][0] for name in shown] + ["The same, pooled"],
        [
            [
                Cell(label),
                *(Cell(value=each.means[name], digits=FIGURES[name][1]) for name in shown),
                Cell(value=each.pooled_recall_100_per_100),
            ]
            for label, each in zip(measured.labels, found, strict=True)
        ],
        [
            "A plain search counts as one search call a query. Candidates: distinct papers that search and expansion "
            "calls found. R@100 per 100 candidates is a mean over the queries that saw any; pooled, it is the mean "
            "R@100 divided by the mean hundreds of candidates. Inspections and failed calls have a column where there "
            "were any.",
            depths(measured),
        ],
    )


def _failures(measured: Measured, found: list[Efficiency]) -> Table:
    rows = []
    for label, each in zip(measured.labels, found, strict=True):
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
    return table(
        "failures",
        "Queries of which no answer was found",
        ["Run"],
        ["Queries", "Share", "Candidates seen", "Calls", "Answers", "Answers held"],
        rows,
        ["Candidates, calls and answers: means over these queries."],
    )


def _failed_queries(measured: Measured, found: list[Efficiency]) -> Table:
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
        for label, run, each in zip(measured.labels, measured.runs, found, strict=True)
        if run.manifest.kind == "trajectory"
        for failure in each.failures
    ]
    return table(
        "failed-queries",
        "Queries of which an agent found no answer",
        ["Run", "Id", "Query"],
        ["Candidates seen", "Calls", "Answers", "Answers held"],
        rows,
    )


def call_curves(measured: Measured) -> list[Curve]:
    """Recall against tool calls, of every run whose calls are known."""
    curves = []
    for place, (label, run) in enumerate(zip(measured.labels, measured.runs, strict=True)):
        if run.manifest.kind != "import" and (recall := recall_by_call(run)):
            curves.append(Curve(place, label, list(range(1, len(recall) + 1)), recall))
    return curves
