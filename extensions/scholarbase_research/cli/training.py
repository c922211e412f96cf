"""Training of static encoders: ``scholarbase encoder train``."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from scholarbase.cli.options import require_library
from scholarbase.settings import Settings


@click.command(short_help="Train a static encoder on a library.")
@click.argument("library", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The folder of the encoder, empty or new."
)
@click.option("--steps", type=int, help="Steps. [default: 4500]")
@click.option("--dimensions", type=int, help="Dimensions of the vectors. [default: 256]")
@click.option("--vocabulary", type=int, help="Tokens of the vocabulary. [default: 29000]")
@click.option("--seed", type=int, help="The seed of the random numbers. [default: 0]")
@click.option("--threads", type=int, help="Threads; the bytes of the result depend on them. [default: 1]")
@click.option("--batch", type=int, help="Papers in a step. [default: 2048]")
@click.option("--rate", type=float, help="Adam's learning rate in the first step. [default: 0.002]")
@click.option("--restart", is_flag=True, help="Start over, or replace an encoder trained with other options.")
@click.pass_obj
def train(settings: Settings, /, library: Path, out: Path, restart: bool, **options: Any) -> None:
    """Train a static encoder on the titles and abstracts of LIBRARY. Needs the extra training.

    Run the same command again to resume after an interruption. The same library, options and seed give the same
    files.
    """
    from scholarbase.encoders.static import FILES
    from scholarbase.indexes import catalog
    from scholarbase.manifest import read_manifest
    from scholarbase.progress import reporter
    from scholarbase_research.training import TrainingOptions
    from scholarbase_research.training import train as run

    library = require_library(library, settings)
    read_manifest(library)
    chosen = TrainingOptions(**{name: value for name, value in options.items() if value is not None})
    with closing(catalog.Catalog(library / catalog.FILE_NAME, readers=1)) as papers:
        run(papers.texts, out, chosen, restart=restart, reporter=reporter(settings.progress_seconds))
    size = sum((out / name).stat().st_size for name in FILES)
    click.echo(f"The encoder is in {out} ({size / 1e6:,.1f} MB): use it with --encoder {out}.")
