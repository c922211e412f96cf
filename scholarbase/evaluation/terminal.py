"""Tables on a terminal, in one style."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from scholarbase.evaluation.statistics import Interval, PairedTest


def open_console() -> Console:
    """Standard output."""
    # Without a terminal, rich would wrap at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 130, highlight=False, soft_wrap=False)


def number_cell(value: float | None) -> str:
    """A number with three decimals; a dash for none."""
    return "–" if value is None or math.isnan(value) else f"{value:.3f}"


def difference_cell(test: PairedTest) -> str:
    """The difference of a paired test with its interval."""
    if not test.n:
        return "–"
    return f"{test.difference:+.3f} [dim]{test.low:+.3f} to {test.high:+.3f}[/dim]"


def interval_cell(interval: Interval, narrow: bool = False) -> str:
    """A mean with its interval, in two lines, or three if ``narrow``."""
    if not interval.n:
        return "–"
    if interval.n == 1:  # no interval for one query
        return f"{interval.mean:.3f}"
    dash = "–\n" if narrow else "–"
    return f"{interval.mean:.3f}\n[dim]{interval.low:.3f}{dash}{interval.high:.3f}[/dim]"


def print_table(console: Console, build: Callable[[bool], Table]) -> None:
    """Print a table, with narrow cells if the console is not wide enough: rich would truncate figures."""
    table = build(False)
    width = console.measure(table, options=console.options.update_width(1_000)).maximum
    console.print(table if width <= console.width else build(True))


def new_table(*headings: str | Column, **options: Any) -> Table:
    """An empty table."""
    return Table(*headings, **{"box": None, "header_style": "bold", "pad_edge": False} | options)


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
