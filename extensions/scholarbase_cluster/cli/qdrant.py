"""``scholarbase load`` and ``scholarbase unload``: a library's vectors on a Qdrant server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scholarbase.cli.options import library_option, require_library
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings

if TYPE_CHECKING:
    from scholarbase_cluster.qdrant.nodes import Nodes
    from scholarbase_cluster.qdrant.transfer import Loaded

_url_option = click.option(
    "--qdrant-url",
    help="The addresses of the Qdrant nodes, separated by commas. [env: SCHOLARBASE_QDRANT_URL]",
)


@click.command(short_help="Load a library's vectors into a Qdrant server.")
@library_option
@_url_option
@click.option(
    "--method",
    type=click.Choice(["snapshot", "points"]),
    help="Send the library's own shards, or points that Qdrant indexes. [default: shards, if the server takes them]",
)
@click.option(
    "--shards",
    type=click.IntRange(1, 10_000),
    help="Shards of a collection of points. [default: the library's, if it has several, else one per node]",
)
@click.option(
    "--replicas",
    type=click.IntRange(1, 64),
    help="Nodes that have each shard. [default: up to 3 of the library's own shards, 2 of points]",
)
@click.option("--parallel", type=click.IntRange(1, 64), help="Batches sent at once. [default: 4 per node]")
@click.option(
    "--prune",
    is_flag=True,
    help="Remove collections of earlier snapshots that no alias names, when all is loaded.",
)
@click.pass_obj
def load(
    settings: Settings,
    library: Path | None,
    qdrant_url: str | None,
    method: str | None,
    shards: int | None,
    replicas: int | None,
    parallel: int | None,
    prune: bool,
) -> None:
    """Load a library's vectors into a Qdrant server, check them on all nodes, then point the alias at them.

    Run the same command again to resume after an interruption. Collections of earlier snapshots stay, since running
    servers search them. --prune removes them, but neither the one that an alias names nor the one that the alias named
    before this load.
    """
    nodes = _nodes(qdrant_url, settings, "Loading vectors into a Qdrant server")
    from scholarbase.indexes.vectors.shards import open_local
    from scholarbase.manifest import read_manifest
    from scholarbase.progress import reporter
    from scholarbase_cluster.qdrant.collection import (
        BY_POINTS,
        BY_SNAPSHOT,
        Placement,
        ShardRefused,
        method_of,
    )
    from scholarbase_cluster.qdrant.collection import prune as prune_collections
    from scholarbase_cluster.qdrant.restoring import load_shards
    from scholarbase_cluster.qdrant.transfer import load_into_server

    path = require_library(library, settings)
    manifest, snapshot = read_manifest(path)
    redivided = shards not in (None, manifest.shards)
    if method == BY_SNAPSHOT and redivided:
        raise InvalidRequest(
            f"--shards {shards} divides points, and the library has {manifest.shards} shards of its own: give "
            "--method points, or leave --shards out."
        )
    total = manifest.counts["points"]
    shown_reason = ""

    def waiting(what: str) -> None:
        nonlocal shown_reason
        if what != shown_reason:
            click.echo(f"Waiting: {what}.", err=True)
            shown_reason = what

    with closing(nodes), closing(open_local(path / "vectors")) as index:
        with reporter(settings.progress_seconds).stage("load vectors", "points", total) as tracker:
            shown = 0

            def progress(done: int, _: int) -> None:
                nonlocal shown
                tracker.advance(done - shown)
                tracker.at(done)
                shown = done

            alias = settings.qdrant_alias
            done = None
            begun = BY_POINTS if redivided else method_of(nodes, alias, snapshot)
            if (method or begun) != BY_POINTS:
                try:
                    done = load_shards(
                        index, nodes, alias, snapshot, progress, replicas=replicas, waiting=waiting
                    )
                except ShardRefused as refusal:
                    if method is not None:
                        raise
                    click.echo(f"{refusal} Its points are sent instead.", err=True)
            if done is None:
                done = load_into_server(
                    index,
                    nodes,
                    alias,
                    snapshot,
                    index.config,
                    progress,
                    placement=Placement(
                        shards or (manifest.shards if manifest.shards > 1 else None), replicas
                    ),
                    at_once=parallel,
                    waiting=waiting,
                )
        _show(done, total, settings.qdrant_alias)
        if prune:
            kept = [done.before] if done.before else []
            for name in prune_collections(nodes, settings.qdrant_alias, kept):
                click.echo(f"Removed {name}.")
        if done.before not in (None, done.collection):
            click.echo(
                f"{done.before} stays, since servers that opened it before still search it. When none does: "
                f"scholarbase unload --snapshot {str(done.before).rpartition('-')[2]}"
            )


@click.command(short_help="Remove a snapshot's vectors from a Qdrant server.")
@click.option("--snapshot", required=True, help="The snapshot's id, or its first 16 digits.")
@_url_option
@click.pass_obj
def unload(settings: Settings, snapshot: str, qdrant_url: str | None) -> None:
    """Remove the vectors of a snapshot from a Qdrant server.

    Those that the alias names are not removed.
    """
    nodes = _nodes(qdrant_url, settings, "Removing vectors from a Qdrant server")
    from scholarbase_cluster.qdrant.collection import unload as run

    with closing(nodes):
        click.echo(f"Removed {run(nodes, settings.qdrant_alias, snapshot)}.")


def _nodes(addresses: str | None, settings: Settings, purpose: str) -> Nodes:
    from scholarbase.extras import check_installed

    check_installed("qdrant", purpose)
    from scholarbase.models.qdrant_addresses import read_addresses
    from scholarbase_cluster.qdrant.nodes import open_nodes

    if addresses is None and settings.qdrant_url is None:
        raise InvalidRequest("No Qdrant server: give --qdrant-url, or set SCHOLARBASE_QDRANT_URL.")
    try:
        listed = settings.qdrant_url if addresses is None else read_addresses(addresses)
    except ValueError as error:
        raise InvalidRequest(f"--qdrant-url: {error}.") from error
    return open_nodes(listed, settings)


def _show(done: Loaded, total: int, alias: str) -> None:
    """Print the state of each replica."""
    for replica in done.survey.replicas:
        points = "" if replica.points is None else f", {replica.points:,} points"
        click.echo(f"shard {replica.shard} on node {replica.peer}: {replica.state}{points}")
    if done.survey.unasked:
        click.echo(
            f"Not asked, since they have no address here: {', '.join(done.survey.unasked)}. Whether they have indexed "
            f"their replicas is unknown."
        )
    click.echo(f"The Qdrant server has {total:,} points as {alias!r} ({done.collection}).")
