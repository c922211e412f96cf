"""Tables on a terminal, in one style."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Column
from rich.table import Table as Grid

from scholarbase.evaluation.report.tables import Cell, Table
from scholarbase.evaluation.statistics import Interval, PairedTest

_INTERVAL: Final = len("[0.123,")


def open_console() -> Console:
    """Standard output."""
    # Without a terminal, rich would wrap at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 130, highlight=False, soft_wrap=False)


def print_table(console: Console, table: Table) -> None:
    """Print a table of a report, its notes below it."""
    has_interval = [any(row[i].interval for row in table.rows) for i in range(len(table.columns))]
    kinds = [interval_column if intervals else names_column for intervals in has_interval]
    headings = (escape(column.heading) for column in table.columns)
    grid = new_table(*(kind(heading) for kind, heading in zip(kinds, headings, strict=True)))
    for row in table.rows:
        grid.add_row(*map(_shown, row))
    console.print(f"\n[bold]{escape(table.caption)}[/bold]")
    console.print(grid)
    for note in table.notes:
        console.print(f"[dim]{escape(note)}[/dim]")


def _shown(cell: Cell) -> str:
    text = f"[bold]{escape(cell.shown)}[/bold]" if cell.best else escape(cell.shown)
    return f"{text}{cell.mark}\n[dim]{escape(cell.interval)}[/dim]" if cell.interval else text + cell.mark


def number_cell(value: float | None) -> str:
    """A number with three decimals; a dash for none."""
    return "–" if value is None or math.isnan(value) else f"{value:.3f}"


def difference_cell(test: PairedTest) -> str:
    """The difference of a paired test with its interval."""
    if not test.n:
        return "–"
    return f"{test.difference:+.3f} [dim]{test.low:+.3f} to {test.high:+.3f}[/dim]"


def interval_cell(interval: Interval) -> str:
    """A mean with its interval, for an :func:`interval_column`."""
    if interval.n < 2:  # no interval for one value
        return number_cell(interval.mean)
    return f"{interval.mean:.3f}\n[dim]{escape(f'[{interval.low:.3f}, {interval.high:.3f}]')}[/dim]"


def new_table(*headings: str | Column, **options: Any) -> Grid:
    """An empty table of rich."""
    return Grid(*headings, **{"box": None, "header_style": "bold", "pad_edge": False} | options)


def names_column(heading: str) -> Column:
    """A column that wraps long names instead of truncating them."""
    return Column(heading, overflow="fold")


def interval_column(heading: str) -> Column:
    """A column of means, each with its interval in the two lines below it: in one line they are too wide."""
    return Column(heading, overflow="fold", max_width=max(_INTERVAL, *map(len, heading.split())))


def interval_json(interval: Interval) -> dict[str, float | int | None]:
    """An interval for JSON; null without values."""
    known = bool(interval.n)
    return {
        "mean": interval.mean if known else None,
        "low": interval.low if known else None,
        "high": interval.high if known else None,
        "n": interval.n,
    }
