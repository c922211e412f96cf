"""``scholarbase agent``: baseline agents."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from scholarbase.cli.groups import Commands
from scholarbase.cli.options import open_source, source_options
from scholarbase.errors import InvalidRequest
from scholarbase.extensions import added_names
from scholarbase.settings import Settings
from scholarbase_research.cli.models import Models, model_options, models, read_prices

if TYPE_CHECKING:
    from scholarbase_research.agents.base import Policy

A_PATH = click.Path(path_type=Path)
POLICIES: Final = ("search", "search-expand", "react")
ADDED: Final = {name: make for name, make in added_names("baselines").items() if name not in POLICIES}
"""Baselines of extensions."""


@click.group("agent", cls=Commands)
def agent() -> None:
    """Run baseline agents on questions."""


@agent.command(short_help="Run an agent on QUESTIONS.")
@click.argument("questions", type=A_PATH)
@click.option(
    "--policy",
    type=click.Choice((*POLICIES, *sorted(ADDED))),
    required=True,
    help="One search; search and expansion by rule; or a model that calls the tools.",
)
@click.option("--out", type=A_PATH, default="agent", show_default=True, help="The folder to write.")
@click.option("--model", "model_url", help="The model of react: a URL with its name, https://host/v1#name.")
@click.option(
    "--limit", default=100, show_default=True, help="Results of a search by rule, and of its answer."
)
@click.option("--turns", default=20, show_default=True, help="Turns of react.")
@click.option("--window", default=5, show_default=True, help="Earlier turns in each prompt of react.")
@click.option(
    "--observation-tokens",
    default=2000,
    show_default=True,
    help="The most tokens of an observation of react.",
)
@click.option("--to", help="The latest date of papers, or query for each question's own date.")
@click.option("--concurrency", default=4, show_default=True, help="Questions at once.")
@model_options
@click.option("--metadata", type=A_PATH, help="The query set's metadata file, if it is in another folder.")
@click.option("--skip-broken", is_flag=True, help="Skip broken lines, and count them.")
@click.option("--restart", is_flag=True, help="Discard finished questions, and start again.")
@source_options
@click.pass_obj
def run(
    settings: Settings,
    /,
    questions: Path,
    policy: str,
    out: Path,
    model_url: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run an agent on the questions of a query file, and write its trajectory to --out.

    "scholarbase eval trajectory" measures it. If interrupted, the same command continues.
    """
    from scholarbase.models.checks import check_whole
    from scholarbase.models.limits import MAX_LIMIT
    from scholarbase.progress import reporter
    from scholarbase.tools import Tools
    from scholarbase_research.agents.job import CHECKPOINT, OUTPUTS, TRAJECTORY, run_agent
    from scholarbase_research.evaluation.formats import read_queries
    from scholarbase_research.evaluation.run_display import show_notes
    from scholarbase_research.jobs import check_inputs

    check_whole(options["limit"], "--limit", 1, MAX_LIMIT)
    if policy in POLICIES and (model_url is None) == (policy == "react"):
        raise InvalidRequest(
            "--policy react needs a model: give --model https://host/v1#name."
            if policy == "react"
            else f"--policy {policy} has no model: leave out --model."
        )
    priced = read_prices(options["prices"])
    metadata = options["metadata"]
    check_inputs(out, (CHECKPOINT, *OUTPUTS), (questions, metadata))
    queries = read_queries(questions, metadata=metadata, skip_broken=options["skip_broken"])
    show_notes(queries.notes)
    with models(settings, options, options["concurrency"]) as opened, ExitStack() as stack:
        chosen = _policy(opened, policy, model_url, options)
        source = open_source(settings, options["library"], options["url"], options["encoder"])
        stack.enter_context(source)
        manifest = run_agent(
            source,
            Tools(source),
            queries,
            chosen,
            out,
            price=priced.get((model_url or "").partition("#")[2]),
            **{name: options[name] for name in ("to", "concurrency", "restart")},
            reporter=reporter(settings.progress_seconds),
        )
    if as_json:
        click.echo(orjson.dumps(manifest, option=orjson.OPT_INDENT_2).decode())
    else:
        stops = ", ".join(f"{count} {stop}" for stop, count in manifest["stops"].items())
        cost = "" if manifest["cost"] is None else f", cost {manifest['cost']:,.4f}"
        click.echo(
            f"{manifest['queries']['count']} questions: {stops}; {manifest['calls_mean']:.1f} calls, responses of "
            f"{manifest['response_tokens_mean']:,.0f} tokens and {manifest['tokens_mean']:,.0f} tokens of a model "
            f"each; {manifest['failed_calls']} failed calls{cost}."
        )
    click.echo(f"The trajectory is {out / TRAJECTORY}.", err=True)


def _policy(opened: Models, name: str, model_url: str | None, options: Mapping[str, Any]) -> Policy:
    from scholarbase_research.agents.policies import SearchExpandPolicy, SearchPolicy
    from scholarbase_research.agents.react import ReactPolicy

    model = None if model_url is None else opened.open(model_url)
    limit = options["limit"]
    if name in ADDED:
        added: Policy = ADDED[name](limit, model)
        return added
    if model is not None:
        return ReactPolicy(model, **{key: options[key] for key in ("turns", "window", "observation_tokens")})
    return SearchPolicy(limit) if name == "search" else SearchExpandPolicy(limit)
