"""Comparisons, ceilings and sweeps: ``scholarbase eval compare``, ``eval oracle`` and ``eval sweep``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from scholarbase.cli.options import library_option, open_source, require_library, source_options
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings
from scholarbase_research.cli.runs import across_option, common_measures, measure_option

A_PATH = click.Path(path_type=Path)


@click.command("compare")
@click.argument("a", type=A_PATH)
@click.argument("b", type=A_PATH)
@click.option(
    "--top", default=5, show_default=True, help="Queries to show with the largest gains and losses."
)
@measure_option
@across_option
def compare(a: Path, b: Path, top: int, measures: Sequence[str], across_snapshots: bool) -> None:
    """Show what run B gains and loses against run A, query by query."""
    from scholarbase_research.evaluation.comparison import compare as compare_runs
    from scholarbase_research.evaluation.display import show_comparison
    from scholarbase_research.evaluation.runs import read_run

    if top < 0:
        raise InvalidRequest(f"--top is {top}: it must be 0 or more.")
    first, second = read_run(a), read_run(b)
    names = common_measures([first, second], measures)
    comparison = compare_runs(first, second, names, across_snapshots=across_snapshots)
    show_comparison(comparison, top)


@click.command("oracle", short_help="Show the ceilings of RUNS.")
@click.argument("runs", nargs=-1, required=True, type=A_PATH)
@click.option("--first", "n", default=100, show_default=True, help="Results per query to use.")
@click.option(
    "--hops", type=click.IntRange(0, 2), default=1, show_default=True, help="Citation hops of the expansion."
)
@source_options
@click.pass_obj
def oracle(
    settings: Settings, /, runs: Sequence[Path], n: int, hops: int, as_json: bool, **options: Any
) -> None:
    """Show the ceilings of RUNS: perfect reranking, their union, citation expansion.

    Expansion starts from the first run and uses the library that it was made on.
    """
    from dataclasses import asdict

    from scholarbase.progress import reporter
    from scholarbase_research.evaluation.display import show_oracles
    from scholarbase_research.evaluation.oracles import expansion_table, reranking_ceiling, union_ceiling
    from scholarbase_research.evaluation.runs import read_run

    read = [read_run(path) for path in runs]
    cutoffs = [k for k in (10, 25, 100) if k <= n] or [n]
    tables = [reranking_ceiling(run, n, cutoffs) for run in read]
    if len(read) > 1:
        tables.append(union_ceiling(read, n))
    if hops:
        with open_source(settings, **options, default_encoder="none") as source:
            progress = reporter(settings.progress_seconds)
            tables.append(expansion_table(source, read[0], n, hops=hops, reporter=progress))
    if as_json:
        click.echo(orjson.dumps([asdict(table) for table in tables], option=orjson.OPT_INDENT_2).decode())
    else:
        show_oracles(tables)


@click.command("sweep", short_help="Try every combination of settings in a file.")
@click.argument("sweep_file", metavar="SWEEP", type=A_PATH)
@library_option
@click.option("--out", type=A_PATH, default="sweep", show_default=True, help="The folder for the results.")
@click.option("--concurrency", type=int, help="Concurrent searches; default: the fastest number.")
@click.option("--restart", is_flag=True, help="Start again, or replace another sweep.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.pass_obj
def sweep(
    settings: Settings,
    sweep_file: Path,
    library: Path | None,
    out: Path,
    concurrency: int | None,
    restart: bool,
    as_json: bool,
) -> None:
    """Try every combination of the settings in the TOML file SWEEP.

    The best is chosen on one half of the queries and measured on the other. If interrupted, the same command
    continues the sweep.
    """
    from scholarbase.extras import check_installed
    from scholarbase.progress import reporter
    from scholarbase_research.evaluation.display import show_sweep
    from scholarbase_research.evaluation.grids import read_sweep
    from scholarbase_research.evaluation.sweeps import run_sweep

    check_installed("evaluation", "The evaluation")
    read = read_sweep(sweep_file, require_library(library, settings), settings=settings)
    result = run_sweep(
        read,
        out,
        reporter=reporter(settings.progress_seconds),
        concurrency=concurrency,
        restart=restart,
        settings=settings,
    )
    if as_json:
        click.echo(orjson.dumps(result.to_dict(), option=orjson.OPT_INDENT_2).decode())
    else:
        show_sweep(result)
    click.echo(f"The grid is at {out / 'grid.csv'}.", err=True)


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
