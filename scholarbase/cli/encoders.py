"""``scholarbase encoder``: describe encoders, and store their vectors for reranking."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scholarbase.cli.groups import Commands
from scholarbase.cli.options import json_option, print_json, require_library, setting_options
from scholarbase.settings import Settings

if TYPE_CHECKING:
    from scholarbase.encoders import Encoder


@click.group("encoder", cls=Commands)
def encoder_group() -> None:
    """Train a static encoder on a library, and describe encoders."""


@encoder_group.command(short_help="Describe an encoder.")
@click.argument("name")
@click.option("--query-encoder", help="A second model, for queries: describe both.")
@setting_options("device")
@json_option
@click.pass_obj
def info(settings: Settings, name: str, query_encoder: str | None, device: str | None, as_json: bool) -> None:
    """Describe the encoder NAME, a name, path or URL as for ingest: what the manifest of a library has of it."""
    with open_encoders(settings, device, name, query_encoder) as (encoder, queries):
        from scholarbase.encoders.paired import PairedEncoder

        assert encoder is not None
        spec = (encoder if queries is None else PairedEncoder(encoder, queries)).spec.to_dict()
    if as_json:
        print_json(spec)
        return
    from scholarbase.cli.display import show_facts

    query = spec.pop("query", {})
    show_facts(spec | {f"query {key}": value for key, value in query.items()})


@encoder_group.command(short_help="Store an encoder's vectors of a library, for reranking.")
@click.argument("library", type=click.Path(path_type=Path))
@click.option("--encoder", "name", required=True, help="A name, path or URL as for ingest.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder of the vectors, new.")
@click.option(
    "--vectors",
    type=click.Path(path_type=Path),
    help="Vectors that the encoder computed elsewhere (.npy with ids.txt, or Parquet).",
)
@setting_options("device")
@click.pass_obj
def store(
    settings: Settings, library: Path, name: str, out: Path, vectors: Path | None, device: str | None
) -> None:
    """Store the vectors of the papers of LIBRARY, so that the encoder can rerank searches in milliseconds.

    Run the same command again to resume after an interruption.
    """
    from scholarbase.ingest.stored import store_vectors
    from scholarbase.progress import reporter

    with open_encoders(settings, device, name, None) as (encoder, _):
        assert encoder is not None
        folder, progress = require_library(library, settings), reporter(settings.progress_seconds)
        count = store_vectors(folder, out, encoder, encoder_location(name), vectors, progress)
    click.echo(f"{count:,} vectors are in {out}: use them with SCHOLARBASE_RERANKERS=NAME={out.resolve()}.")


@contextmanager
def open_encoders(
    settings: Settings, device: str | None, name: str | None, query_name: str | None, requests: int = 1
) -> Iterator[tuple[Encoder | None, Encoder | None]]:
    """Open the encoder and the query encoder of the options, each None without a name, and close them at the end.

    ``device`` is for the first: the second may be a service or a static encoder, which have none. ``requests`` may run
    at once if the first is a service.
    """
    from scholarbase.encoders import open_encoder

    key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
    with ExitStack() as stack:
        encoder = queries = None
        if name is not None:
            encoder = open_encoder(name, device=device or settings.device, api_key=key, requests=requests)
            stack.callback(encoder.close)
        if query_name is not None:
            queries = open_encoder(query_name, api_key=key)
            stack.callback(queries.close)
        yield encoder, queries


def encoder_location(name: str) -> str:
    """What opens an encoder from any folder: its name or URL, or its absolute path."""
    return str(Path(name).resolve()) if Path(name).exists() else name
