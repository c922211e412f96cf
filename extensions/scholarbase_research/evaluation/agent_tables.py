"""Tables and curves of a report about agents: the cost of their calls, and the queries that they failed.

ScholarQuest (arXiv:2606.20235) has these tables: 4 (failures) and 10 (calls).
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean
from typing import Final

from scholarbase_research.evaluation.breakdown import group_label, group_order
from scholarbase_research.evaluation.efficiency import Efficiency, efficiency, mean_recall_by_call
from scholarbase_research.evaluation.measured import OVERALL, Measured, depths
from scholarbase_research.evaluation.report.page import Section
from scholarbase_research.evaluation.report.plots import Curve, recall_by_call
from scholarbase_research.evaluation.run_data import Run
from scholarbase_research.evaluation.tables import MISSING, Cell, Table

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


class Agents:
    """What the tables of agents are computed from, once for all of them."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.computed = [efficiency(run) for run in measured.runs]

    @property
    def runs(self) -> list[tuple[str, Run, Efficiency]]:
        """Label, run and figures of all runs."""
        return list(zip(self.measured.labels, self.measured.runs, self.computed, strict=True))

    @property
    def agents(self) -> list[tuple[str, Run, Efficiency]]:
        """Those of the agents."""
        return [triple for triple in self.runs if triple[1].manifest.kind == "trajectory"]


def sections(measured: Measured) -> Iterator[Section]:
    """The section of a report with a run of an agent."""
    if any(run.manifest.kind == "trajectory" for run in measured.runs):
        curves = call_curves(measured)
        drawn = [recall_by_call(curves)] if curves else []
        yield Section("agents", "Tool calls", (*drawn, *agent_tables(Agents(measured))))


def agent_tables(compared: Agents) -> list[Table]:
    """The efficiency of all runs, and their failures."""
    failed = _failed_queries(compared)
    tables = [_efficiency(compared), _failures(compared), *([failed] if failed.rows else [])]
    if len(compared.agents) > 1:
        tables.append(shared_failures(compared))
    return tables


def _efficiency(compared: Agents) -> Table:
    # Columns without a value are omitted, as the table is wide.
    rare = ("inspect_calls", "failed_calls")
    shown = [
        name
        for name in FIGURES
        if any(
            computed.means[name] if name in rare else computed.means[name] is not None
            for computed in compared.computed
        )
    ]
    return Table.of(
        "efficiency",
        "Cost and results of the calls, means over queries",
        ["Run"],
        [FIGURES[name][0] for name in shown] + ["The same, pooled"],
        [
            [
                label,
                *(Cell(value=computed.means[name], digits=FIGURES[name][1]) for name in shown),
                computed.pooled_recall_100_per_100,
            ]
            for label, _, computed in compared.runs
        ],
        [
            "A plain search counts as one search call per query. Candidates: distinct papers found by search and "
            "expansion calls. R@100 per 100 candidates is a mean over the queries with candidates; pooled, it is the "
            "mean R@100 divided by the mean number of candidates in hundreds. Inspections and failed calls are shown "
            "if there are any.",
            depths(compared.measured),
        ],
    )


# -- failures -------------------------------------------------------------------------------------------


def _failed(run: Run, figures: Efficiency) -> list[list[int | None]]:
    """Candidates, calls, answers and held answers of each query with no answer found."""
    queries = {query.id: query.relevant for query in run.queries}
    return [
        [
            row.candidates,
            figures.calls[row.query_id],
            len(queries[row.query_id]),
            sum(answer.held for answer in queries[row.query_id]),
        ]
        for row in figures.failures
    ]


def _failures(compared: Agents) -> Table:
    rows = []
    for label, run, computed in compared.runs:
        failed = _failed(run, computed)
        columns = ([n for n in column if n is not None] for column in zip(*failed, strict=True))
        means = [fmean(column) if column else None for column in columns] or [None] * 4
        share = len(failed) / len(computed.queries) if computed.queries else None
        rows.append([label, len(failed), share, *(Cell(value=mean, digits=1) for mean in means)])
    return Table.of(
        "failures",
        "Queries without any answer found",
        ["Run"],
        ["Queries", "Share", "Candidates seen", "Calls", "Answers", "Answers held"],
        rows,
        ["Candidates, calls and answers: means over these queries."],
    )


def _failed_queries(compared: Agents) -> Table:
    rows = []
    for label, run, computed in compared.agents:
        texts = {query.id: query.text for query in run.queries}
        for row, counts in zip(computed.failures, _failed(run, computed), strict=True):
            rows.append([label, row.query_id, texts[row.query_id], *counts])
    return Table.of(
        "failed-queries",
        "Queries for which an agent found no answer",
        ["Run", "Id", "Query"],
        ["Candidates seen", "Calls", "Answers", "Answers held"],
        rows,
    )


def shared_failures(compared: Agents) -> Table:
    """The queries for which no agent found an answer, by intent."""
    agents = compared.agents
    failed = set.intersection(*({row.query_id for row in computed.failures} for _, _, computed in agents))
    candidates = [{row.query_id: row.candidates for row in computed.queries} for _, _, computed in agents]
    judged = sum(row.recall is not None for row in agents[0][2].queries)
    by_intent: dict[str, list[str]] = {}
    for query in compared.measured.runs[0].queries:
        if query.id in failed:
            by_intent.setdefault(group_label(query, "intent", {}), []).append(query.id)
    largest = sorted(by_intent, key=lambda intent: -len(by_intent[intent]))
    groups = [(intent, by_intent[intent]) for intent in group_order("intent", largest)]
    rows: list[list[Cell | str | int]] = []
    for intent, ids in (*groups, (OVERALL, sorted(failed))):
        means = (fmean(of_agent[i] for i in ids) if ids else None for of_agent in candidates)
        rows.append([intent, len(ids), *(Cell(value=mean, digits=1) for mean in means)])
    share = f"{len(failed) / judged:.2%}" if judged else MISSING
    return Table.of(
        "shared-failures",
        "Queries for which no agent found an answer, by intent",
        ["Intent"],
        ["Failures", *(f"Candidates: {label}" for label, _, _ in agents)],
        rows,
        [
            f"{len(failed):,} of {judged:,} queries with answers ({share}). Candidates: means over these queries."
        ],
    )


# -- calls ----------------------------------------------------------------------------------------------


def call_curves(measured: Measured) -> list[Curve]:
    """Recall after each tool call, for the runs with known calls."""
    curves = []
    for position, (label, run) in enumerate(zip(measured.labels, measured.runs, strict=True)):
        if run.manifest.kind != "import" and (recall := mean_recall_by_call(run)):
            curves.append(Curve(position, label, list(range(1, len(recall) + 1)), recall))
    return curves
