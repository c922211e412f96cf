"""``scholarbase encode``: vectors of papers, computed outside an ingest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from scholarbase.cli.encoders import open_encoders
from scholarbase.models.encoders import PACKAGED
from scholarbase.settings import Settings


@click.command(short_help="Encode the papers of a snapshot, for ingest --vectors.")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the vectors, empty or new.",
)
@click.option(
    "--encoder",
    default=PACKAGED,
    show_default=True,
    help="The encoder: the one in the package, BAAI/bge-m3, another name or path, or an embeddings URL.",
)
@click.option(
    "--keep",
    type=click.Choice(["arxiv", "abstract", "title"]),
    help="Which papers to encode, as for ingest. [env: SCHOLARBASE_KEEP; default: arxiv]",
)
@click.option("--columns", metavar="FIELD=COLUMN,...", help="The columns of CSV files, as for ingest.")
@click.option("--papers", type=int, help="Papers in a partition, a multiple of 128. [default: 8192]")
@click.option("--device", help="Where the encoder runs, such as cpu or cuda:0. [env: SCHOLARBASE_DEVICE]")
@click.option("--restart", is_flag=True, help="Replace vectors of other sources or another encoder.")
@click.pass_obj
def encode(
    settings: Settings,
    sources: Sequence[Path],
    out: Path,
    encoder: str,
    keep: str | None,
    columns: str | None,
    papers: int | None,
    device: str | None,
    restart: bool,
) -> None:
    """Encode the papers of SOURCES, as an ingest of them would, into Parquet files in --out.

    Run the same command again to resume after an interruption: partitions with a file are not encoded again.
    """
    from scholarbase.ingest.encode.job import EncodeOptions
    from scholarbase.ingest.encode.job import encode as run
    from scholarbase.ingest.encode.partitions import PAPERS
    from scholarbase.ingest.sources import parse_columns
    from scholarbase.progress import reporter

    options = EncodeOptions(
        keep=keep or settings.keep,  # type: ignore[arg-type]
        columns={} if columns is None else parse_columns(columns),
        papers=PAPERS if papers is None else papers,
        max_reject_share=settings.max_reject_share,
    )
    with open_encoders(settings, device, encoder, None) as (model, _):
        assert model is not None
        done = run(
            sources, out, model, options, restart=restart, reporter=reporter(settings.progress_seconds)
        )
    click.echo(
        f"{out}: {done.counts['vectors']:,} vectors of {done.counts['papers']:,} papers in "
        f"{done.counts['partitions']:,} files, by {done.encoder.name}."
    )
