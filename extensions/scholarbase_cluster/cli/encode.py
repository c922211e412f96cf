"""``scholarbase encode``: vectors of papers, computed outside an ingest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from scholarbase.cli.encoders import encoder_location, open_encoders
from scholarbase.errors import InvalidRequest
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
    type=click.Choice(["text", "arxiv", "title"]),
    help="Which papers to encode, as for ingest. [env: SCHOLARBASE_KEEP; default: text]",
)
@click.option("--columns", metavar="FIELD=COLUMN,...", help="The columns of CSV files, as for ingest.")
@click.option("--papers", type=int, help="Papers in a partition, a multiple of 128. [default: 8192]")
@click.option("--device", help="Where the encoder runs, such as cpu or cuda:0. [env: SCHOLARBASE_DEVICE]")
@click.option(
    "--requests",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    help="Requests at once to an embeddings URL, for each worker.",
)
@click.option(
    "--ray",
    metavar="ADDRESS",
    help="Encode on this Ray cluster: local starts one here, auto finds that of this machine, or HOST:PORT.",
)
@click.option("--workers", type=int, help="Workers on Ray. [default: as many as there is room for]")
@click.option("--cpus-per-worker", type=float, help="CPUs of a worker on Ray. [default: 1]")
@click.option(
    "--gpus-per-worker", type=float, help="GPUs of a worker on Ray; may be a fraction. [default: 0]"
)
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
    requests: int,
    ray: str | None,
    workers: int | None,
    cpus_per_worker: float | None,
    gpus_per_worker: float | None,
    restart: bool,
) -> None:
    """Encode the papers of SOURCES, as an ingest of them would, into Parquet files in --out.

    Run the same command again to resume after an interruption: partitions with a file are not encoded again.
    """
    from scholarbase.ingest.plans import IngestRules
    from scholarbase.ingest.sources import parse_columns
    from scholarbase.progress import reporter
    from scholarbase_cluster.encode.job import EncodeOptions
    from scholarbase_cluster.encode.job import encode as run
    from scholarbase_cluster.encode.partitions import PAPERS

    options = EncodeOptions(
        keep=IngestRules(keep or settings.keep, profile=settings.profile or "default").keep_rule,  # type: ignore[arg-type]
        columns={} if columns is None else parse_columns(columns),
        papers=PAPERS if papers is None else papers,
        max_reject_share=settings.max_reject_share,
    )
    placement = {"workers": workers, "cpus": cpus_per_worker, "gpus": gpus_per_worker}
    given: dict[str, Any] = {name: value for name, value in placement.items() if value is not None}
    if ray is None and given:
        raise InvalidRequest("--workers, --cpus-per-worker and --gpus-per-worker are of Ray: give --ray too.")
    # The encoder of this process tells its spec when workers encode, and may have another device than theirs.
    with open_encoders(settings, device if ray is None else None, encoder, None, requests) as (model, _):
        assert model is not None
        runner = None
        if ray is not None:
            from scholarbase_cluster.encode.on_ray import RayOptions, WorkerEncoder, encode_on_ray

            key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
            workers_encoder = WorkerEncoder(
                encoder_location(encoder), model.spec, device or settings.device, key
            )
            runner = partial(encode_on_ray, encoder=workers_encoder, options=RayOptions(ray, **given))
        done = run(
            sources,
            out,
            model,
            options,
            runner=runner,
            restart=restart,
            reporter=reporter(settings.progress_seconds),
        )
    click.echo(
        f"{out}: {done.counts['vectors']:,} vectors of {done.counts['papers']:,} papers in "
        f"{done.counts['partitions']:,} files, by {done.encoder.name}."
    )
