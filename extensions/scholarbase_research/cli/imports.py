"""Runs of other systems: ``scholarbase eval import`` and ``scholarbase eval trajectory``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scholarbase.cli.options import open_source, source_options
from scholarbase.settings import Settings
from scholarbase_research.cli.runs import (
    A_PATH,
    command_line,
    measure_option,
    name_option,
    queries_options,
    read_query_set,
    show_measures,
)

if TYPE_CHECKING:
    from scholarbase_research.evaluation.imports import Imported
    from scholarbase_research.evaluation.run_data import Run


def _import_run(
    settings: Settings,
    read: Callable[..., Imported],
    file: Path,
    queries: Path,
    options: dict[str, Any],
) -> Run:
    """Write what ``read`` finds in the results of another system as a run, and show it."""
    from scholarbase.extras import check_installed
    from scholarbase_research.evaluation.answers import resolve_answers
    from scholarbase_research.evaluation.imports import import_run

    check_installed("evaluation", "The evaluation")
    query_set = read_query_set(queries, options["metadata"], options["skip_broken"])
    name = options["name"] or file.name.lstrip(".").split(".")[0] or "run"
    chosen = {key: options[key] for key in ("library", "url", "encoder")}
    with open_source(settings, **chosen, default_encoder="none") as source:
        judged = resolve_answers(source, query_set)
        run = import_run(
            source,
            read,
            query_set,
            judged.queries,
            judged.counts,
            options["out"] / name,
            name=name,
            command=command_line(),
            restart=options["restart"],
        )
    show_measures([run], options["measures"], options["as_json"])
    click.echo(f"The run is at {options['out'] / name}.", err=True)
    return run


@click.command("trajectory", short_help="Convert an agent's tool calls to a run.")
@click.argument("calls", type=A_PATH)
@click.argument("queries", type=A_PATH)
@click.option(
    "--ranking",
    type=click.Choice(["answer", "answer-only", "observed"]),
    default="answer",
    show_default=True,
    help="The agent's ranking: its answer and then all other papers it saw, its answer alone, or the papers it saw.",
)
@name_option("the file's name")
@measure_option
@queries_options
@source_options
@click.pass_obj
def trajectory(settings: Settings, /, calls: Path, queries: Path, ranking: Any, **options: Any) -> None:
    """Convert an agent's tool CALLS for QUERIES to a run. docs/trajectories.md describes the file."""
    from scholarbase_research.evaluation.trajectories import read_calls
    from scholarbase_research.trajectory_lines import read_trajectory

    read = partial(read_calls, read_trajectory(calls), ranking=ranking)
    _import_run(settings, read, calls, queries, options)


@click.command("import", short_help="Import the results of another system.")
@click.argument("run_file", metavar="RUN", type=A_PATH)
@click.argument("queries", type=A_PATH)
@name_option("the file's name")
@measure_option
@queries_options
@source_options
@click.pass_obj
def import_(settings: Settings, /, run_file: Path, queries: Path, **options: Any) -> None:
    """Import the results of another system for QUERIES: a TREC run, or JSON lines with ids or titles.

    A line of JSON has query_id or query, and results: a list of objects with any of id, link, title and year.
    """
    from scholarbase.extras import check_installed
    from scholarbase_research.evaluation.imports import read_trec
    from scholarbase_research.evaluation.results import is_results, read_results

    check_installed("evaluation", "The evaluation")
    if not is_results(run_file):
        _import_run(settings, partial(read_trec, run_file), run_file, queries, options)
        return
    run = _import_run(settings, partial(read_results, run_file), run_file, queries, options)
    facts = run.manifest.search or {}
    click.echo(
        f"{facts['results']:,} results: {facts['by_id']:,} found by id, {facts['by_title']:,} by title, "
        f"{facts['absent']:,} not in the library ({facts['other_year']:,} with a title of another year), "
        f"{facts['duplicates']:,} duplicates; {facts['queries_without_results']:,} queries without results.",
        err=True,
    )
