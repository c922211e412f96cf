"""A library as the files of an agent: ``scholarbase export``."""

from __future__ import annotations

from pathlib import Path

import click

from scholarbase.cli.options import library_option, require_library
from scholarbase.settings import Settings


@click.command("export", short_help="Write a library as the files of an agent.")
@click.argument("out", type=click.Path(path_type=Path))
@library_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["spar-cache", "pasa"]),
    required=True,
    help="SPAR's cache of arXiv papers, one SQLite file, or PaSa's database, two files in a folder.",
)
@click.option("--force", is_flag=True, help="Replace files that exist.")
@click.pass_obj
def export_files(settings: Settings, out: Path, library: Path | None, form: str, force: bool) -> None:
    """Write the papers that have an arXiv id to OUT, as the files that an agent reads.

    The files get their names when they are complete. An interrupted export is started again.
    """
    from scholarbase.progress import reporter
    from scholarbase_research.exports import export

    path = require_library(library, settings)
    done = export(path, form, out, force=force, reporter=reporter(settings.progress_seconds))
    click.echo(f"{done.written:,} of {done.papers:,} papers with an arXiv id are in {out}.")
