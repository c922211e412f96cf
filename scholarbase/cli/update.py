"""The command that builds the next library from a library and changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from scholarbase.cli.encoders import open_encoders
from scholarbase.cli.options import named_sources, require_library, sets_option, setting_options
from scholarbase.errors import InvalidRequest
from scholarbase.memory import INGEST_BYTES, check_address_space, with_cores
from scholarbase.settings import Settings


@click.command(short_help="Build the next library from a library and changes.")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("changes", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--library",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder of the new library. OLD does not change.",
)
@sets_option
@click.option(
    "--encoder", help="Where the encoder of OLD is now: a name, a path or a URL. [default: as OLD says]"
)
@click.option(
    "--query-encoder", help="Where the query encoder of OLD is now, if it has one. [default: as OLD says]"
)
@setting_options("device")
@click.option(
    "--max-steps",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="The most steps of changes since OLD was built from a full release.",
)
@click.pass_obj
def update(
    settings: Settings,
    old: Path,
    changes: Sequence[Path],
    library: Path,
    sets: Sequence[str],
    encoder: str | None,
    query_encoder: str | None,
    device: str | None,
    max_steps: int,
) -> None:
    """Build the next library from the library OLD and CHANGES, in order: folders of differences between two releases
    (DATASET/updates and DATASET/deletes, or FROM..TO folders of them), and new source files.

    Papers whose text did not change keep their vectors. Run the same command again to resume after an interruption.
    """
    # Before the imports, which need much of it.
    check_address_space(with_cores(INGEST_BYTES), "An update")
    from scholarbase.cli.summary import print_summary
    from scholarbase.encoders.paired import PairedEncoder
    from scholarbase.manifest import read_manifest
    from scholarbase.progress import reporter
    from scholarbase.responses.text import counted
    from scholarbase.search.opening import check_trusted, stored_encoder
    from scholarbase.updates.job import update as run

    old = require_library(old, settings)
    named = named_sources(sets)
    if not changes and not named:
        raise InvalidRequest("No changes: give folders or files of changes, or --set NAME=SOURCE.")
    has_encoder = read_manifest(old)[0].encoder is not None
    if encoder is not None and not has_encoder:
        raise InvalidRequest(f"The library at {old} has no encoder: leave out --encoder.")
    stored = stored_encoder(old)
    names = [
        named or (stored.get(key) and check_trusted(old, stored[key], option)) if has_encoder else None
        for named, key, option in (
            (encoder, "location", "--encoder"),
            (query_encoder, "query_location", "--query-encoder"),
        )
    ]
    if has_encoder and names[0] is None:
        raise InvalidRequest(f"The library at {old} does not say where its encoder is: give --encoder.")
    with open_encoders(settings, device, names[0], names[1]) as (model, queries):
        manifest = run(
            old,
            changes,
            library,
            encoder=PairedEncoder(model, queries) if model is not None and queries is not None else model,
            sets=named,
            max_steps=max_steps,
            max_reject_share=settings.max_reject_share,
            reporter=reporter(settings.progress_seconds),
        )
    counts = manifest.counts
    click.echo(
        f"Snapshot {manifest.snapshot} in {library}: {counted(counts['papers_added'], 'paper')} added, "
        f"{counts['papers_changed']:,} changed and {counts['papers_removed']:,} removed; "
        f"{counts['papers_encoded']:,} encoded."
    )
    print_summary(library, manifest)
