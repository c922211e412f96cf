"""Scores of predicted answers: ``scholarbase eval qa``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import orjson

from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings
from scholarbase_research.cli.models import models

if TYPE_CHECKING:
    from scholarbase_research.evaluation.qa.judging import Judge, Messages
    from scholarbase_research.llm.base import LanguageModel, Role

A_PATH = click.Path(path_type=Path)
JUDGEMENTS_AT_ONCE: Final = 8
PATIENCE: Final = 10
"""Failures of the judge's service in sequence that end the job."""


@click.command("qa", short_help="Score predicted answers to questions.")
@click.argument("predictions", type=A_PATH)
@click.argument("examples", type=A_PATH)
@click.option("--rows", type=A_PATH, help="Write the scores of each example to this file, as JSON lines.")
@click.option(
    "--bertscore", type=A_PATH, help="Compute BERTScore with the transformers model in this folder."
)
@click.option("--bertscore-layer", type=int, help="The layer of that model, from 1.")
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
    bertscore: Path | None,
    bertscore_layer: int | None,
    judge_url: str | None,
    cassette: Path | None,
    record: bool,
    model_timeout: float,
    skip_broken: bool,
    as_json: bool,
) -> None:
    """Score the answers in PREDICTIONS by the functions, options or reference answers in EXAMPLES.

    Both are JSON lines or JSON arrays; docs/qa-scoring.md describes them.
    """
    from scholarbase.extras import check_installed
    from scholarbase.files import atomic_write, storage_errors
    from scholarbase_research.evaluation.qa.bertscore import BertScorer
    from scholarbase_research.evaluation.qa.display import rows_jsonl, scores_json, show_scores
    from scholarbase_research.evaluation.qa.examples import read_examples, read_predictions
    from scholarbase_research.evaluation.qa.scoring import score

    check_installed("evaluation", "The evaluation")
    if (bertscore is None) != (bertscore_layer is None):
        raise InvalidRequest(
            "--bertscore and --bertscore-layer belong together: give the model's folder and layer."
        )
    similar = None
    if bertscore is not None and bertscore_layer is not None:
        similar = BertScorer(bertscore, bertscore_layer)
    with models(settings, cassette, record, "none", model_timeout, JUDGEMENTS_AT_ONCE) as opened:
        scores = score(
            read_examples(examples, skip_broken=skip_broken),
            read_predictions(predictions, skip_broken=skip_broken),
            judge=None if judge_url is None else _judge(opened.open(judge_url)),
            similar_texts=similar,
            concurrency=JUDGEMENTS_AT_ONCE,
        )
    if rows is not None:
        with storage_errors(rows), atomic_write(rows) as file:
            file.write(rows_jsonl(scores))
    if as_json:
        click.echo(orjson.dumps(scores_json(scores), option=orjson.OPT_INDENT_2).decode())
    else:
        show_scores(scores)


def _judge(model: LanguageModel) -> Judge:
    """A model as the judge of answers. ``PATIENCE`` failures in sequence end the job, as does a wrong key."""
    from scholarbase.errors import ModelError
    from scholarbase_research.llm.base import Message, ModelRequest

    failures = 0
    last: ModelError | None = None

    def reply(messages: Messages) -> str:
        nonlocal failures, last
        if last is not None:
            raise last  # so that no thread asks again while the job ends
        roles: dict[str, Role] = {"system": "system", "assistant": "assistant"}
        sent = tuple(Message(roles.get(one["role"], "user"), one["content"]) for one in messages)
        try:
            text = model.complete(ModelRequest(sent, temperature=0.0)).text
        except ModelError as error:
            failures += 1
            if not error.temporary:
                last = error
            elif failures >= PATIENCE:
                last = ModelError(f"{error} These were {PATIENCE} failures in sequence.")
                raise last from error
            raise
        failures = 0
        return text

    return reply
