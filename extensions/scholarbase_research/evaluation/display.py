"""Tables of ceilings and sweeps for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.markup import escape

from scholarbase.evaluation.terminal import (
    difference_cell,
    interval_cell,
    new_table,
    number_cell,
    open_console,
)
from scholarbase_research.evaluation.grids import Point
from scholarbase_research.evaluation.oracles import OracleTable
from scholarbase_research.evaluation.sweeps import SweepResult


def show_oracles(tables: Sequence[OracleTable]) -> None:
    """Ceilings of recall."""
    console = open_console()
    for oracle in tables:
        headings = ("", "recall, all answers", "recall, held", "candidates", "queries")
        table = new_table(*headings, title=escape(oracle.title), title_justify="left")
        for row in oracle.rows:
            candidates = "–" if row.candidates is None else f"{row.candidates:,.0f}"
            table.add_row(
                escape(row.name),
                number_cell(row.recall),
                number_cell(row.held),
                candidates,
                f"{row.queries:,}",
            )
        console.print(table)
        for note in oracle.notes:
            console.print(f"[dim]{escape(note)}[/dim]")
        console.print()


def show_sweep(result: SweepResult) -> None:
    """The best point of a sweep and the baseline, on the test half."""
    console = open_console()
    best, baseline, change = result.best_on_test, result.baseline_on_test, result.change
    console.print(
        f"[dim]{len(result.sweep.points):,} points; best point chosen by {escape(result.measure)} on "
        f"{len(result.tune_queries):,} queries, measured below on the other {len(result.test_queries):,}[/dim]"
    )
    table = new_table("", f"{result.measure}, test half", "settings")
    table.add_row("best", interval_cell(best), escape(_settings(result.best)))
    table.add_row("baseline", interval_cell(baseline), escape(_settings(result.sweep.baseline)))
    console.print(table)
    p = "p < 0.001" if change.p < 0.001 else f"p = {change.p:.3f}"
    console.print(
        f"Difference {difference_cell(change)}, {p} [dim](paired randomisation test, two-sided)[/dim]"
    )
    for name, value in result.best.variables().items():
        console.print(f"  {name}={escape(value)}")
    for note in result.notes:
        console.print(f"[dim]{escape(note)}[/dim]")


def _settings(point: Point) -> str:
    facts = {name: value for name, value in point.to_dict().items() if value != {}}
    return ", ".join(f"{name} {value}" for name, value in facts.items())
