"""Scores of predicted answers: ``scholarbase eval qa``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
import orjson

from scholarbase.settings import Settings
from scholarbase_research.cli.models import models

A_PATH = click.Path(path_type=Path)
JUDGEMENTS_AT_ONCE: Final = 8


@click.command("qa", short_help="Score predicted answers to questions.")
@click.argument("predictions", type=A_PATH)
@click.argument("examples", type=A_PATH)
@click.option("--rows", type=A_PATH, help="Write the scores of each example to this file, as JSON lines.")
@click.option(
    "--judge",
    "judge_url",
    help="The URL with its name of the model that decides open answers, https://host/v1#name.",
)
@click.option(
    "--cassette", type=A_PATH, help="Recorded replies of the judge. Without --record no model is asked."
)
@click.option("--record", is_flag=True, help="Record what the cassette lacks, from the judge.")
@click.option(
    "--model-timeout", default=120.0, show_default=True, help="Seconds for one attempt of the judge."
)
@click.option("--skip-broken", is_flag=True, help="Skip broken lines, and count them.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_obj
def qa(
    settings: Settings,
    /,
    predictions: Path,
    examples: Path,
    rows: Path | None,
    judge_url: str | None,
    skip_broken: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Score the answers in PREDICTIONS by the functions, options or reference answers in EXAMPLES.

    Both are JSON lines or JSON arrays; docs/evaluation.md describes them.
    """
    from scholarbase.extras import check_installed
    from scholarbase.files import atomic_write, storage_errors
    from scholarbase_research.evaluation.qa.display import rows_jsonl, scores_json, show_scores
    from scholarbase_research.evaluation.qa.examples import read_examples, read_predictions
    from scholarbase_research.evaluation.qa.scoring import score

    check_installed("evaluation", "The evaluation")
    with models(settings, options, JUDGEMENTS_AT_ONCE) as opened:
        scores = score(
            read_examples(examples, skip_broken=skip_broken),
            read_predictions(predictions, skip_broken=skip_broken),
            judge=None if judge_url is None else opened.open(judge_url),
            concurrency=JUDGEMENTS_AT_ONCE,
        )
    if rows is not None:
        with storage_errors(rows), atomic_write(rows) as file:
            file.write(rows_jsonl(scores))
    if as_json:
        click.echo(orjson.dumps(scores_json(scores), option=orjson.OPT_INDENT_2).decode())
    else:
        show_scores(scores)
