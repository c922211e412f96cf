"""Comparisons and reports: ``scholarbase eval compare`` and ``eval report``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from scholarbase.errors import InvalidRequest
from scholarbase_research.cli.runs import across_option, common_measures, measure_option

A_PATH = click.Path(path_type=Path)


@click.command("compare")
@click.argument("a", type=A_PATH)
@click.argument("others", metavar="B...", nargs=-1, required=True, type=A_PATH)
@click.option(
    "--top", default=5, show_default=True, help="Queries to show with the largest gains and losses."
)
@measure_option
@across_option
def compare(
    a: Path, others: Sequence[Path], top: int, measures: Sequence[str], across_snapshots: bool
) -> None:
    """Show what each run B gains and loses against run A, by query."""
    from scholarbase_research.evaluation.comparison import compare as compare_runs
    from scholarbase_research.evaluation.display import show_comparison
    from scholarbase_research.evaluation.runs import read_run

    if top < 0:
        raise InvalidRequest(f"--top is {top}: it must be 0 or more.")
    first, *rest = map(read_run, (a, *others))
    names = common_measures([first, *rest], measures)
    for run in rest:
        show_comparison(compare_runs(first, run, names, across_snapshots=across_snapshots), top)


@click.command("report", short_help="Write a report of RUNS.")
@click.argument("runs", nargs=-1, required=True, type=A_PATH)
@click.option("--out", type=A_PATH, default="report", show_default=True, help="The report's folder.")
@click.option("--title", help="The report's title.")
@click.option("--drill-down", default=10, show_default=True, help="Results to show per query and run.")
@measure_option
@across_option
def report(runs: Sequence[Path], out: Path, measures: Sequence[str], **options: Any) -> None:
    """Write a report of RUNS: one page, and its tables as Markdown and CSV.

    The other runs are tested against the first one.
    """
    from scholarbase_research.evaluation.report import write_report
    from scholarbase_research.evaluation.runs import read_run

    read = list(map(read_run, runs))
    page = write_report(read, out, measures=common_measures(read, measures), **options)
    click.echo(f"The report is at {page}.", err=True)
