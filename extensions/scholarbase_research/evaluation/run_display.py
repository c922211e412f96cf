"""Evaluation results on a terminal, and the same figures for JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from scholarbase.terminal import escape, printable
from scholarbase_research.evaluation.breakdown import parse_pair
from scholarbase_research.evaluation.measured import Measured, crossed, grouped, results
from scholarbase_research.evaluation.measures import OVERS, Evaluation
from scholarbase_research.evaluation.run_data import Run, RunManifest
from scholarbase_research.evaluation.statistics import bootstrap_interval
from scholarbase_research.evaluation.terminal import (
    interval_json,
    open_console,
    print_table,
)

_MAX_NOTES = 5


def show_runs(measured: Measured, by: Sequence[str] = ()) -> None:
    """The tables of a report for a terminal: each measure with its 95% interval, over all answers and over held
    answers; and the groups of the queries by each dimension, or pair of two, in ``by``."""
    console = open_console()
    query_sets: dict[str, list[str]] = {}
    for run in measured.runs:
        query_sets.setdefault(_query_set(run.manifest), []).append(run.name)
    for line, names in query_sets.items():
        console.print(line if len(query_sets) == 1 else f"[dim]{escape(', '.join(names))}:[/dim] {line}")
    differ = any(evaluation.held != evaluation.all for evaluation in measured.evaluations)
    tables = [results(measured, over, tested=False) for over in (OVERS if differ else OVERS[:1])]
    for dimension in by:
        pair = parse_pair(dimension)
        if pair is None:
            tables.append(grouped(measured, dimension))
        else:
            tables += [crossed(measured, *pair, measure) for measure in measured.measures]
    for table in tables:
        print_table(console, table)


def _query_set(manifest: RunManifest) -> str:
    answers = Counter(manifest.answers)
    if manifest.kind == "passages":
        counts = (
            f"{answers['answers']:,} pieces of evidence: {answers['by_id'] + answers['by_title']:,} in full texts, "
            f"{answers['text_absent']:,} not in those of their papers, "
            f"{answers['absent'] - answers['text_absent']:,} of papers not in the library"
        )
    else:
        counts = (
            f"{answers['answers']:,} answers: {answers['by_id']:,} found by id, {answers['by_title']:,} by title, "
            f"{answers['absent']:,} not in the library"
        )
    return (
        f"[dim]{escape(manifest.queries['name'])}: {manifest.queries['count']:,} queries; {counts}, "
        f"{answers['duplicates']:,} duplicates; {manifest.papers:,} papers, snapshot {escape(manifest.snapshot)}[/dim]"
    )


def show_notes(notes: Sequence[str]) -> None:
    """Print the notes on a query file to standard error."""
    for note in notes[:_MAX_NOTES]:
        sys.stderr.write(f"note: {printable(note)}\n")
    if len(notes) > _MAX_NOTES:
        sys.stderr.write(f"note: and {len(notes) - _MAX_NOTES} more, in the runs' manifests\n")


def figures(measured: Measured) -> dict[str, Any]:
    """The figures of all runs for JSON."""
    return {"runs": list(map(_figures, measured.runs, measured.evaluations))}


def _figures(run: Run, evaluation: Evaluation) -> dict[str, Any]:
    intervals = {
        over: {
            name: interval_json(bootstrap_interval(list(evaluation.values(name, over).values())))
            for name in evaluation.measures
        }
        for over in OVERS
    }
    return {
        "name": run.name,
        "snapshot": run.manifest.snapshot,
        "queries": run.manifest.queries,
        "answers": run.manifest.answers,
        "search": run.manifest.search,
        "depth": run.depth,
        "measures": intervals,
    }
