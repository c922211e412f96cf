"""Comparisons for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from scholarbase.terminal import escape
from scholarbase_research.evaluation.comparison import Change, Comparison
from scholarbase_research.evaluation.statistics import PairedTest
from scholarbase_research.evaluation.tables import Table, rounded
from scholarbase_research.evaluation.terminal import new_table, open_console, print_table


def show_comparison(comparison: Comparison, top: int) -> None:
    """The differences of the second run from the first, by measure and by query."""
    console = open_console()
    first_name, second_name = _names(comparison.a, comparison.b)
    console.print(f"[bold]{second_name}[/bold] against [bold]{first_name}[/bold]")
    for name, values in comparison.differing.items():
        a, b = ("–" if value is None else escape(str(value)) for value in values)
        console.print(f"[dim]{escape(name)}: {a} → {b}[/dim]")
    table = new_table("measure", first_name, second_name, "difference", "p", "gained", "lost", "same")
    for compared in comparison.measures:
        test = compared.test
        table.add_row(
            comparison.label(compared.measure),
            number_cell(compared.a),
            number_cell(compared.b),
            difference_cell(test),
            "< 0.001" if test.p < 0.001 else number_cell(test.p),
            *(f"{len(changes):,}" for changes in (compared.gained, compared.lost, compared.same)),
        )
    console.print(table)
    console.print("[dim]p: paired randomisation test, two-sided.[/dim]")
    for note in comparison.notes:
        console.print(f"[dim]{escape(note)}[/dim]")
    if comparison.measures and top:
        first = comparison.measures[0]
        label = comparison.label(first.measure)
        _show_changes(console, "gained", label, first.gained[:top])
        _show_changes(console, "lost", label, first.lost[:top])


def _names(a: str, b: str) -> tuple[str, str]:
    """The names of two runs, numbered if they are equal."""
    return (f"{escape(a)} (1)", f"{escape(b)} (2)") if a == b else (escape(a), escape(b))


def _show_changes(console: Console, change_type: str, label: str, changes: Iterable[Change]) -> None:
    rows = [(change.query_id, change.text, change.a, change.b) for change in changes]
    if rows:
        caption = f"{change_type} most by {label}"
        print_table(console, Table.of(change_type, caption, ["Query", ""], ["From", "To"], rows))
    else:
        console.print(f"\n[dim]No query {change_type} by {label}.[/dim]")


def number_cell(value: float | None) -> str:
    """A number with three decimals; a dash for none."""
    return rounded(value, 3)


def difference_cell(test: PairedTest) -> str:
    """The difference of a paired test with its interval."""
    if not test.n:
        return "–"
    return f"{test.difference:+.3f} [dim]{test.low:+.3f} to {test.high:+.3f}[/dim]"
