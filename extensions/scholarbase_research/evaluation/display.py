"""Tables of ceilings, sweeps and comparisons for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from scholarbase.terminal import escape
from scholarbase_research.evaluation.comparison import Change, Comparison
from scholarbase_research.evaluation.grids import Point
from scholarbase_research.evaluation.oracles import OracleTable
from scholarbase_research.evaluation.statistics import Interval, PairedTest
from scholarbase_research.evaluation.sweeps import SweepResult
from scholarbase_research.evaluation.tables import Table, rounded
from scholarbase_research.evaluation.terminal import new_table, open_console, print_table


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


def interval_cell(interval: Interval) -> str:
    """A mean with its interval."""
    if interval.n < 2:  # no interval for one value
        return number_cell(interval.mean)
    return f"{interval.mean:.3f} [dim]{escape(f'[{interval.low:.3f}, {interval.high:.3f}]')}[/dim]"
