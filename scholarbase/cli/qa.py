"""Scores of predicted answers: ``scholarbase eval qa``."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from scholarbase.errors import InvalidRequest

A_PATH = click.Path(path_type=Path)


@click.command("qa", short_help="Score predicted answers to questions.")
@click.argument("predictions", type=A_PATH)
@click.argument("examples", type=A_PATH)
@click.option("--rows", type=A_PATH, help="Write the scores of each example to this file, as JSON lines.")
@click.option(
    "--bertscore", type=A_PATH, help="Compute BERTScore with the transformers model in this folder."
)
@click.option("--bertscore-layer", type=int, help="The layer of that model, from 1.")
@click.option("--skip-broken", is_flag=True, help="Skip broken lines, and count them.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def qa(
    predictions: Path,
    examples: Path,
    rows: Path | None,
    bertscore: Path | None,
    bertscore_layer: int | None,
    skip_broken: bool,
    as_json: bool,
) -> None:
    """Score the answers in PREDICTIONS by the functions, options or reference answers in EXAMPLES.

    Both are JSON lines or JSON arrays; docs/qa-scoring.md describes them.
    """
    from scholarbase.evaluation.qa.bertscore import BertScorer
    from scholarbase.evaluation.qa.display import rows_jsonl, scores_json, show_scores
    from scholarbase.evaluation.qa.examples import read_examples, read_predictions
    from scholarbase.evaluation.qa.scoring import score
    from scholarbase.extras import check_installed
    from scholarbase.files import atomic_write, storage_errors

    check_installed("evaluation", "The evaluation")
    if (bertscore is None) != (bertscore_layer is None):
        raise InvalidRequest(
            "--bertscore and --bertscore-layer belong together: give the model's folder and layer."
        )
    similar = None
    if bertscore is not None and bertscore_layer is not None:
        similar = BertScorer(bertscore, bertscore_layer)
    scores = score(
        read_examples(examples, skip_broken=skip_broken),
        read_predictions(predictions, skip_broken=skip_broken),
        similar_texts=similar,
    )
    if rows is not None:
        with storage_errors(rows), atomic_write(rows) as file:
            file.write(rows_jsonl(scores))
    if as_json:
        click.echo(orjson.dumps(scores_json(scores), option=orjson.OPT_INDENT_2).decode())
    else:
        show_scores(scores)
