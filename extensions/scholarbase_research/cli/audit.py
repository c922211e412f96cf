"""Audits of judged answers: ``scholarbase construct audit``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from scholarbase.cli.options import F, encoder_option, library_option, open_source
from scholarbase.settings import Settings

A_PATH = click.Path(path_type=Path)


@click.group()
def audit() -> None:
    """Let people check what judges decided."""


def scale_option(command: F) -> F:
    return click.option(
        "--scale",
        "scale_text",
        default="0,1,2",
        show_default=True,
        help="The labels of the scores, from the lowest to the highest.",
    )(command)


@audit.command(short_help="Draw judged papers into a sheet.")
@click.argument("run", type=A_PATH)
@click.option("--out", type=A_PATH, required=True, help="The CSV sheet to write.")
@click.option("--per-score", type=int, default=150, show_default=True, help="Papers of each score.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the draw.")
@scale_option
@click.option("--url", help="A ScholarBase server to use instead of a library. [env: SCHOLARBASE_URL]")
@library_option
@encoder_option
@click.pass_obj
def sample(
    settings: Settings, /, run: Path, out: Path, per_score: int, seed: int, scale_text: str, **options: Any
) -> None:
    """Draw judged papers of RUN, the same number of each score, into a sheet for annotators.

    RUN is the folder of a construction. Titles and abstracts come from the library.
    """
    from scholarbase_research.construction.audit.sampling import draw, read_judged, with_texts, write_sheet
    from scholarbase_research.construction.audit.scales import Scale

    scale = Scale.parse(scale_text)
    drawn = draw(read_judged(run, scale), per_score, seed)
    with open_source(settings, **options, default_encoder="none") as source:
        write_sheet(with_texts(drawn.items, source), out)
    for score, count in drawn.drawn.items():
        click.echo(f"Score {score:g}: {count:,} of {drawn.available[score]:,} judged papers.", err=True)
    for label in scale.labels:
        if label not in drawn.drawn:
            click.echo(f"Score {label:g}: no judged papers.", err=True)
    click.echo(f"The sheet is at {out}.", err=True)


@audit.command(short_help="Compare scores with annotators' labels.")
@click.argument("sheets", nargs=-1, required=True, type=A_PATH)
@scale_option
@click.option("--seed", type=int, default=0, show_default=True, help="The seed of the bootstrap.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def report(sheets: Sequence[Path], scale_text: str, seed: int, as_json: bool) -> None:
    """Compare the scores in SHEETS with the majority label of their annotators.

    Rows of one item in several sheets are joined, so each annotator may have a sheet.
    """
    from scholarbase_research.construction.audit.display import audit_json, show_audit
    from scholarbase_research.construction.audit.report import audit as compute
    from scholarbase_research.construction.audit.scales import Scale
    from scholarbase_research.construction.audit.sheets import read_sheets

    scale = Scale.parse(scale_text)
    computed = compute(read_sheets(sheets, scale), scale, seed=seed)
    if as_json:
        click.echo(orjson.dumps(audit_json(computed), option=orjson.OPT_INDENT_2).decode())
    else:
        show_audit(computed)
