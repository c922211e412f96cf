"""Tables of a report by two properties of the queries, of shared failures, and of the calls that found answers.

ScholarQuest (arXiv:2606.20235) has these tables: 7 (answers by intent), 4 (failures), 10 (calls) and 11 (routes).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from scholarbase.evaluation.breakdown import dimensions, group_label, group_order
from scholarbase.evaluation.crossing import OVERALL, cross
from scholarbase.evaluation.efficiency import Efficiency
from scholarbase.evaluation.report.contents import Measured
from scholarbase.evaluation.report.tables import MISSING, Cell, Table, with_best
from scholarbase.evaluation.routes import KINDS, Gain, all_gains, route_counts, routes

ALL: Final = "Overall"


def crossed(measured: Measured) -> list[Table]:
    """Recall by number of answers (rows) and intent (columns), if there are several of both."""
    shown = {by for run in measured.runs for by in dimensions(run)}
    if not {"answers", "intent"} <= shown:
        return []
    names = dict.fromkeys((measured.recall, *(["R@All"] if "R@All" in measured.measures else [])))
    return [_crossed(measured, name) for name in names]


def _crossed(measured: Measured, measure: str) -> Table:
    crossing = cross(measured.runs, measured.evaluations, "answers", "intent", measure)
    rows = []
    for row in crossing.rows:
        cells: list[Cell] = []
        for column in crossing.columns:
            found = [{"": Cell(value=one.mean)} for one in crossing.cells[row, column]]
            cells += [best[""] for best in with_best(found)]
        count = max(one.n for one in crossing.cells[row, OVERALL])
        rows.append([Cell(row or ALL), Cell(value=count, digits=0), *cells])
    return Table.of(
        f"by-answers-and-intent-{measure.lower().replace('@', '-')}",
        f"{measured.heading(measure)} by number of answers and intent, over all answers",
        ["Answers"],
        [
            "Queries",
            *(f"{column or ALL}: {label}" for column in crossing.columns for label in measured.labels),
        ],
        rows,
        ["Means over queries. Bold: the best run of each group."]
        if len(measured.runs) > 1
        else ["Means over queries."],
    )


# -- failures -------------------------------------------------------------------------------------------


def shared_failures(measured: Measured, computed: Sequence[Efficiency]) -> list[Table]:
    """The queries for which no agent found an answer, by intent and one by one; nothing with a single agent."""
    agents = [
        (label, each)
        for label, run, each in zip(measured.labels, measured.runs, computed, strict=True)
        if run.manifest.kind == "trajectory"
    ]
    if len(agents) < 2:
        return []
    failed = set.intersection(*({failure.query_id for failure in each.failures} for _, each in agents))
    queries = [query for query in measured.runs[0].queries if query.id in failed]
    candidates = [{row.query_id: row.candidates for row in each.queries} for _, each in agents]
    judged = sum(row.recall is not None for row in agents[0][1].queries)

    def row_of(label: str, ids: Sequence[str]) -> list[Cell]:
        means = (fmean(seen[i] for i in ids) if ids else None for seen in candidates)
        return [Cell(label), Cell(value=len(ids), digits=0), *(Cell(value=mean, digits=1) for mean in means)]

    intents = Counter(group_label(query, "intent", {}) for query in queries)
    by_intent = [
        row_of(intent, [query.id for query in queries if group_label(query, "intent", {}) == intent])
        for intent in group_order("intent", [intent for intent, _ in intents.most_common()])
    ]
    headings = [f"Candidates: {label}" for label, _ in agents]
    share = f"{len(queries) / judged:.2%}" if judged else MISSING
    summary = Table.of(
        "shared-failures",
        "Queries for which no agent found an answer, by intent",
        ["Intent"],
        ["Failures", *headings],
        [*by_intent, row_of(ALL, [query.id for query in queries])],
        [
            f"{len(queries):,} of {judged:,} queries with answers ({share}). Candidates: means over these queries."
        ],
    )
    if not queries:
        return [summary]
    listed = Table.of(
        "shared-failed-queries",
        "The queries for which no agent found an answer",
        ["Intent", "Id", "Query"],
        ["Answers", *headings],
        [
            [
                Cell(group_label(query, "intent", {})),
                Cell(query.id),
                Cell(query.text),
                Cell(value=len(query.relevant), digits=0),
                *(Cell(value=seen[query.id], digits=0) for seen in candidates),
            ]
            for query in queries
        ],
    )
    return [summary, listed]


# -- calls ----------------------------------------------------------------------------------------------


class Found:
    """The gains of every run whose calls are known, computed once for all tables."""

    def __init__(self, measured: Measured) -> None:
        self.measured = measured
        self.runs = [
            (label, run, all_gains(run))
            for label, run in zip(measured.labels, measured.runs, strict=True)
            if run.manifest.kind != "import"
        ]


def route_table(found: Found) -> Table:
    """How many calls raised recall, and by which kind of call the answers were found first."""
    rows = []
    for label, run, gains_of in found.runs:
        counts = route_counts(run, gains_of)
        share = counts.raising / counts.calls if counts.calls else None
        numbers = (*(counts.by_kind.get(kind, 0) for kind in KINDS), counts.missed)
        rows.append(
            [
                Cell(label),
                Cell(value=counts.calls, digits=0),
                Cell(value=counts.raising, digits=0),
                Cell(value=share),
                Cell(value=counts.answers, digits=0),
                *(Cell(value=number, digits=0) for number in numbers),
            ]
        )
    return Table.of(
        "routes-by-kind",
        "The calls that raised recall, and the answers that each kind of call found first",
        ["Run"],
        [
            "Calls",
            "Raised recall",
            "Share",
            "Answers",
            "Search",
            "Title match",
            "Expansion",
            "Answer only",
            "Missed",
        ],
        rows,
        [
            "Calls: searches, title matches, expansions and answers. Answer only: named in the last answer, "
            "returned by no call. tables/calls-that-raised-recall.csv and tables/routes.csv have each of them."
        ],
    )


def call_files(found: Found) -> list[Table]:
    """Each call that raised recall, and each answer with its route in each run. These are files only: they are long."""
    return [_calls(found), _routes(found)]


def _calls(found: Found) -> Table:
    rows = [
        [
            *(
                Cell(text)
                for text in (label, query_id, gain.kind, gain.tool, gain.subject, " ".join(gain.new))
            ),
            *(Cell(value=number, digits=0) for number in (gain.call, gain.found, gain.total)),
            Cell(value=gain.recall),
        ]
        for label, _, gains_of in found.runs
        for query_id, own in gains_of.items()
        for gain in own
    ]
    return Table.of(
        "calls-that-raised-recall",
        "The calls that raised recall",
        ["Run", "Query", "Kind", "Tool", "Query or seeds", "New answers"],
        ["Call", "Found", "Answers", "Recall"],
        rows,
    )


def _routes(found: Found) -> Table:
    shown: list[list[Cell]] = []
    notes = [run.papers for _, run, _ in found.runs]
    first = found.runs[0][1] if found.runs else None
    for query in first.queries if first else ():
        by_run: list[Mapping[str, Gain]] = [
            routes(gains_of.get(query.id, ())) for _, _, gains_of in found.runs
        ]
        for answer in query.relevant:
            note = next((papers[answer.paper_id] for papers in notes if answer.paper_id in papers), None)
            taken = (own[answer.paper_id].label if answer.paper_id in own else "missed" for own in by_run)
            title = note.title if note else None
            shown.append([Cell(query.id), Cell(answer.paper_id), Cell(title or MISSING), *map(Cell, taken)])
    table = Table.of(
        "routes",
        "The route to each answer",
        ["Query", "Answer", "Title", *(label for label, _, _ in found.runs)],
        [],
        shown,
    )
    return replace(table, stubs=3)
