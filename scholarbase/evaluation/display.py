"""Tables of evaluation results for a terminal, and the same figures for JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from scholarbase.evaluation.averages import Average
from scholarbase.evaluation.breakdown import break_down, summary
from scholarbase.evaluation.cases import Case
from scholarbase.evaluation.comparison import Change, Comparison, Place, Row
from scholarbase.evaluation.crossing import OVERALL, Crossing
from scholarbase.evaluation.measures import Evaluation, Over
from scholarbase.evaluation.terminal import (
    difference_cell,
    interval_cell,
    interval_json,
    names_column,
    new_table,
    number_cell,
    open_console,
    print_table,
)
from scholarbase.models.runs import Run, RunManifest

_MARKS = {"same": "", "up": "↑", "down": "↓", "new": "new", "gone": "gone"}
_MAX_NOTES = 5


def show_runs(runs: Sequence[Run], evaluations: Sequence[Evaluation]) -> None:
    """One row per run: each measure with its 95% interval, over all answers and over held answers."""
    console = open_console()
    query_sets: dict[str, list[str]] = {}
    for run in runs:
        query_sets.setdefault(_query_set(run.manifest), []).append(run.name)
    for line, names in query_sets.items():
        console.print(line if len(query_sets) == 1 else f"[dim]{escape(', '.join(names))}:[/dim] {line}")
    passages = all(run.manifest.kind == "passages" for run in runs)
    what = "evidence" if passages else "answers"
    overs: list[tuple[Over, str]] = [("all", f"all {what}")]
    if any(evaluation.held != evaluation.all for evaluation in evaluations):
        overs.append(("held", f"{what} that the library holds"))
    for over, title in overs:
        print_table(console, partial(_runs_table, runs, evaluations, over, title))
    console.print("[dim]Means over queries, with 95% bootstrap intervals.[/dim]")
    for note in dict.fromkeys(note for evaluation in evaluations for note in evaluation.notes):
        console.print(f"[dim]{escape(note)}[/dim]")


def _runs_table(
    runs: Sequence[Run], evaluations: Sequence[Evaluation], over: Over, title: str, narrow: bool
) -> Table:
    names = _columns(evaluations)
    table = new_table(names_column(title), *names.values())
    for run, evaluation in zip(runs, evaluations, strict=True):
        values = summary(evaluation, over)
        cells = []
        for name, heading in names.items():
            # The depth of R@All is in the heading if all runs share it, else in the cell.
            label = evaluation.label(name) if name in values else heading
            depth = "" if label == heading else f"\n[dim]depth {evaluation.depth:,}[/dim]"
            cells.append(interval_cell(values[name], narrow) + depth if name in values else "–")
        table.add_row(escape(run.name), *cells)
    return table


def _columns(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    """Each measure to its heading; R@All with its depth if all runs share it."""
    names = list(dict.fromkeys(name for evaluation in evaluations for name in evaluation.measures))
    labels = {name: {evaluation.label(name) for evaluation in evaluations} for name in names}
    return {name: labels[name].pop() if len(labels[name]) == 1 else name for name in names}


def _query_set(manifest: RunManifest) -> str:
    answers = manifest.answers
    if manifest.kind == "passages":
        return (
            f"[dim]{escape(manifest.queries['name'])}: {manifest.queries['count']:,} queries; "
            f"{answers['answers']:,} pieces of evidence: {answers['by_id'] + answers['by_title']:,} in full texts, "
            f"{answers['text_absent']:,} not in those of their papers, "
            f"{answers['absent'] - answers['text_absent']:,} of papers not in the library, {answers['duplicates']:,} "
            f"duplicates; {manifest.papers:,} papers, snapshot {manifest.snapshot}[/dim]"
        )
    return (
        f"[dim]{escape(manifest.queries['name'])}: {manifest.queries['count']:,} queries; "
        f"{answers['answers']:,} answers: {answers['by_id']:,} found by id, {answers['by_title']:,} by title, "
        f"{answers['absent']:,} not in the library, {answers['duplicates']:,} duplicates; "
        f"{manifest.papers:,} papers, snapshot {manifest.snapshot}[/dim]"
    )


def show_averages(averages: Sequence[Average]) -> None:
    """One row per figure of each system's runs; nothing without averages."""
    if not averages:
        return

    def build(narrow: bool) -> Table:
        table = new_table(
            names_column("mean of runs"), "runs", "figure", "mean", "± deviation", "lowest", "highest"
        )
        for one in averages:
            for place, (figure, spread) in enumerate(one.figures.items()):
                first = (escape(one.name), str(len(one.runs))) if place == 0 else ("", "")
                table.add_row(*first, figure, *map(number_cell, spread))
        return table

    console = open_console()
    print_table(console, build)
    console.print(
        "[dim]Means over queries, averaged over runs; the deviation is that of the sample of runs.[/dim]"
    )


def show_groups(run: Run, evaluation: Evaluation, by: str) -> None:
    """One row per group of a run's queries."""
    headings = [evaluation.label(name) for name in evaluation.measures]
    groups = break_down(run, evaluation, by)

    def build(narrow: bool) -> Table:
        table = new_table(names_column(by), "queries", *headings)
        for group in groups:
            cells = (interval_cell(group.values[name], narrow) for name in evaluation.measures)
            table.add_row(escape(group.label), f"{group.n:,}", *cells)
        return table

    console = open_console()
    console.print(f"\n[bold]{escape(run.name)}[/bold]")
    print_table(console, build)


def show_crossing(crossing: Crossing, runs: Sequence[Run]) -> None:
    """One row per group of the first dimension and run, one column per group of the second."""

    def build(narrow: bool) -> Table:
        table = new_table(names_column(crossing.measure), names_column(""), "queries")
        for column in crossing.columns:
            table.add_column(escape(column or "overall"))
        for row in crossing.rows:
            for place, run in enumerate(runs):
                cells = (crossing.cells[row, column][place] for column in crossing.columns)
                count = crossing.cells[row, OVERALL][place].n
                first = escape(row or "overall") if place == 0 else ""
                table.add_row(
                    first, escape(run.name), f"{count:,}", *(number_cell(cell.mean) for cell in cells)
                )
        return table

    console = open_console()
    console.print()
    print_table(console, build)


def show_case(case: Case) -> None:
    """A query with its answers and the route to each, and the calls that raised recall."""
    console = open_console()
    query = case.query
    facts = ", ".join(fact for fact in (query.intent, query.category, query.date) if fact)
    console.print(f"\n[bold]{escape(query.id)}[/bold]  {escape(query.text)}")
    console.print(f"[dim]{escape(facts + ', ' if facts else '')}{len(case.answers)} answers[/dim]")
    table = new_table("", names_column("answer"), *(names_column(escape(name)) for name in case.names))
    for answer in case.answers:
        absent = "" if answer.held else " [dim]not in the library[/dim]"
        title = f"{escape(answer.title)} " if answer.title else ""
        year = f"{answer.year}" if answer.year else ""
        taken = (escape(route) if route else "[dim]missed[/dim]" for route in answer.routes)
        table.add_row(year, f"{title}[dim]{escape(answer.paper_id)}[/dim]{absent}", *taken)
    console.print(table)
    gained = new_table(
        names_column("run"),
        "call",
        "tool",
        names_column("query or seeds"),
        names_column("new answers"),
        "recall",
    )
    for name, own in case.gains.items():
        for place, gain in enumerate(own):
            gained.add_row(
                escape(name) if place == 0 else "",
                f"{gain.call:,}",
                escape(gain.tool),
                escape(gain.subject),
                escape(", ".join(gain.new)),
                f"{gain.found}/{gain.total}",
            )
    console.print("\n[bold]calls that raised recall[/bold]")
    console.print(gained)


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
    table = new_table("query", "", "from", "to", header_style="dim")
    for change in changes:
        table.add_row(
            escape(change.query_id), escape(change.text), number_cell(change.a), number_cell(change.b)
        )
    if not table.rows:
        console.print(f"\n[dim]No query {change_type} by {label}.[/dim]")
    else:
        console.print(f"\n[bold]{change_type} most by {label}[/bold]")
        console.print(table)


def show_side_by_side(a: Run, b: Run, query_id: str, rows: Sequence[Row]) -> None:
    """Both rankings of one query, with answers marked by a star."""
    query = next(query for query in a.queries if query.id == query_id)
    console = open_console()
    held = sum(answer.held for answer in query.relevant)
    console.print(f"\n[bold]{escape(query_id)}[/bold]  {escape(query.text)}")
    console.print(f"[dim]{len(query.relevant)} answers, {held} of them in the library; ★ answer[/dim]")
    table = new_table("", *_names(a.name, b.name))
    for row in rows:
        table.add_row(f"{row.rank}.", _place(row.a), _place(row.b))
    console.print(table)


def _place(place: Place | None) -> str:
    if place is None:
        return ""
    star = "[green]★[/green] " if place.answer else ""
    mark = f" [dim]{_MARKS[place.mark]}[/dim]" if _MARKS[place.mark] else ""
    return f"{star}{escape(place.title or place.id)} [dim]{escape(place.id)}[/dim]{mark}"


def show_notes(notes: Sequence[str]) -> None:
    """Print the notes on a query file to standard error."""
    for note in notes[:_MAX_NOTES]:
        sys.stderr.write(f"note: {note}\n")
    if len(notes) > _MAX_NOTES:
        sys.stderr.write(f"note: and {len(notes) - _MAX_NOTES} more, in the runs' manifests\n")


def average_json(average: Average) -> dict[str, Any]:
    """The average as JSON."""
    spreads = {figure: spread._asdict() for figure, spread in average.figures.items()}
    return {"name": average.name, "runs": list(average.runs), "figures": spreads}


def figures(run: Run, evaluation: Evaluation) -> dict[str, Any]:
    """A run's figures for JSON."""
    overs: tuple[Over, ...] = ("all", "held")
    return {
        "name": run.name,
        "snapshot": run.manifest.snapshot,
        "queries": run.manifest.queries,
        "answers": run.manifest.answers,
        "search": run.manifest.search,
        "depth": run.depth,
        "measures": {
            over: {name: interval_json(interval) for name, interval in summary(evaluation, over).items()}
            for over in overs
        },
    }
