"""Tables on a terminal, in one style."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Column
from rich.table import Table as Grid

from scholarbase.terminal import escape
from scholarbase_research.evaluation.statistics import Interval
from scholarbase_research.evaluation.tables import Cell, Table


def open_console() -> Console:
    """Standard output."""
    # Without a terminal, rich would wrap at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 130, highlight=False, soft_wrap=False)


def print_table(console: Console, table: Table) -> None:
    """Print a table of a report, its notes below it. Means with intervals have a row each, by measure."""
    measured = [i for i in range(len(table.columns)) if any(row[i].interval for row in table.rows)]
    others = [i for i in range(len(table.columns)) if i not in measured]
    headings = list(table.columns)
    if measured:
        headings = ["Measure", *(headings[i] for i in others), "Mean", "95% interval"]
    grid = new_table(*map(names_column, map(escape, headings)))
    for i in measured:
        for n, row in enumerate(table.rows):
            name = escape(table.columns[i]) if n == 0 else ""
            grid.add_row(name, *(_shown(row[k]) for k in others), _shown(row[i]), escape(row[i].interval))
    for row in table.rows if not measured else ():
        grid.add_row(*map(_shown, row))
    console.print(f"\n[bold]{escape(table.caption)}[/bold]")
    console.print(grid)
    for note in table.notes:
        console.print(f"[dim]{escape(note)}[/dim]")


def _shown(cell: Cell) -> str:
    text = f"[bold]{escape(cell.shown)}[/bold]" if cell.best else escape(cell.shown)
    return text + cell.mark


def new_table(*headings: str | Column, **options: Any) -> Grid:
    """An empty table of rich."""
    return Grid(*headings, **{"box": None, "header_style": "bold", "pad_edge": False} | options)


def names_column(heading: str) -> Column:
    """A column that wraps long names instead of truncating them."""
    return Column(heading, overflow="fold")


def interval_json(interval: Interval) -> dict[str, float | int | None]:
    """An interval for JSON; null without values."""
    known = bool(interval.n)
    return {
        "mean": interval.mean if known else None,
        "low": interval.low if known else None,
        "high": interval.high if known else None,
        "n": interval.n,
    }
