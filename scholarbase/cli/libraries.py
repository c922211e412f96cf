"""Commands on whole libraries: what they contain, whether they are intact, and how two of them differ; and libraries
of an older format."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import click
import orjson

from scholarbase.cli.options import (
    json_option,
    library_option,
    print_json,
    require_library,
)
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings

_KINDS: Final = (("paper", "papers"), ("edge", "edges"))
_CHANGES: Final = ("added", "removed", "changed")


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
        click.echo(f"{'*' if row['served'] else ' '} {row['name']}  {about}")


def _prune(folder: Path, keep: int | None, *, prune: bool, as_json: bool) -> None:
    from scholarbase.search.snapshots import prune as run

    if keep is None or not prune or as_json:
        raise InvalidRequest("Pruning takes --prune and --keep NUMBER together, and no --json.")
    for library in run(folder, keep):
        click.echo(f"Removed {library.path} (snapshot {library.snapshot or 'unknown'}).")


@click.command(short_help="Compare the papers and edges of two libraries.")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print each change as a JSON line.")
def diff(old: Path, new: Path, as_json: bool) -> None:
    """Count the papers and edges that were added, removed and changed from the library OLD to NEW."""
    from scholarbase.search.difference import differences
    from scholarbase.search.snapshots import locate

    counts: Counter[tuple[str, str]] = Counter()
    for change in differences(locate(old), locate(new)):
        counts[change.kind, change.what] += 1
        if as_json:
            click.echo(orjson.dumps(change.to_dict()))
    if not as_json:
        for kind, name in _KINDS:
            click.echo(f"{name}: " + ", ".join(f"{counts[kind, what]:,} {what}" for what in _CHANGES))
