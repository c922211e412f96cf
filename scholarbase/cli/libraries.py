"""Commands on whole libraries: what they contain, and whether they are intact."""

from __future__ import annotations

from pathlib import Path

import click

from scholarbase.cli.options import (
    json_option,
    library_option,
    print_json,
    require_library,
)
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings
from scholarbase.terminal import printable


@click.command()
@library_option
@json_option
@click.pass_obj
def info(settings: Settings, library: Path | None, as_json: bool) -> None:
    """Show the contents and the sources of a library."""
    from scholarbase.manifest import read_manifest

    path = require_library(library, settings)
    manifest, snapshot = read_manifest(path)
    if as_json:
        click.echo(manifest.to_bytes(), nl=False)
        return
    from scholarbase.cli.display import show_info

    show_info(path, manifest, snapshot)


@click.command(short_help="Check a library against its manifest.")
@library_option
@click.pass_obj
def verify(settings: Settings, library: Path | None) -> None:
    """Check a library: counts, edges, full text, vectors against rows, and the manifest's hash."""
    from scholarbase.search.verification import verify as run

    path = require_library(library, settings)
    for line in run(path):
        click.echo(line)
    click.echo(f"The library at {path} matches its manifest.")


@click.command(short_help="List the libraries in a folder.")
@click.argument("folder", type=click.Path(path_type=Path))
@json_option
@click.option(
    "--prune",
    is_flag=True,
    help='Remove all but the last libraries by name, and the one that the link "current" names.',
)
@click.option("--keep", type=click.IntRange(1), help="With --prune, the number of libraries to keep.")
def snapshots(folder: Path, as_json: bool, prune: bool, keep: int | None) -> None:
    """List the complete libraries in FOLDER by name, with their snapshots.

    The one that a server of FOLDER serves is marked with *: the library that the link "current" names, or else the last
    one.
    """
    if prune or keep is not None:
        _prune(folder, keep, prune=prune, as_json=as_json)
        return
    from scholarbase.search.snapshots import locate
    from scholarbase.search.snapshots import snapshots as run

    listed = run(folder)
    served = locate(folder) if listed else None
    rows = [
        {
            "name": library.path.name,
            "snapshot": library.snapshot,
            "papers": library.manifest.counts["papers"] if library.manifest else None,
            "served": library.path.resolve() == served,
            "problem": library.problem,
        }
        for library in listed
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        about = row["problem"] or f"{row['snapshot']}  {row['papers']:,} papers"
        click.echo(f"{'*' if row['served'] else ' '} {row['name']}  {printable(about)}")


def _prune(folder: Path, keep: int | None, *, prune: bool, as_json: bool) -> None:
    from scholarbase.search.snapshots import prune as run

    if keep is None or not prune or as_json:
        raise InvalidRequest("Pruning takes --prune and --keep NUMBER together, and no --json.")
    for library in run(folder, keep):
        click.echo(f"Removed {library.path} (snapshot {library.snapshot or 'unknown'}).")
