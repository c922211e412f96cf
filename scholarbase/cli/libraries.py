"""Commands on whole libraries: what they contain, whether they are intact, and how two of them differ; and libraries
that are moved, or of an older format."""

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
    require_target,
    target_option,
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


@click.command(short_help="Write a library as one file.")
@click.argument("library", type=click.Path(path_type=Path))
@click.argument("file", metavar="FILE.tar.zst", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@click.option(
    "--without-vectors",
    is_flag=True,
    help="Leave out the vectors of papers, for servers whose vectors are on a Qdrant server.",
)
@click.pass_obj
def pack(settings: Settings, library: Path, file: Path, force: bool, without_vectors: bool) -> None:
    """Write LIBRARY as FILE.tar.zst, and its hash as FILE.tar.zst.sha256.

    Every block is compared with its hash. The file gets its name when it is complete.
    """
    from scholarbase.progress import reporter
    from scholarbase.updates.packing import pack as run

    show = reporter(settings.progress_seconds)
    done = run(library, file, force=force, vectors=not without_vectors, reporter=show)
    click.echo(
        f"{file}: snapshot {done.snapshot}, {done.files:,} files, {done.bytes / 1e6:,.1f} MB packed into "
        f"{done.packed_bytes / 1e6:,.1f} MB, SHA-256 {done.sha256}."
    )


@click.command(short_help="Write a packed library to a folder.")
@click.argument("source", metavar="FILE|URL")
@target_option
@click.option("--sha256", help="The SHA-256 of the packed file. [default: that in FILE.sha256, if it exists]")
@click.pass_obj
def unpack(settings: Settings, source: str, library: Path | None, sha256: str | None) -> None:
    """Write the library in FILE or at URL, which "scholarbase pack" wrote, to the folder --library.

    Every block is compared with its hash, and the library appears when it is complete. Run the same command again after
    an interruption.
    """
    from scholarbase.progress import reporter
    from scholarbase.updates.unpacking import unpack as run

    path = require_target(library, settings)
    manifest = run(source, path, sha256=sha256, reporter=reporter(settings.progress_seconds))
    click.echo(f"{path}: snapshot {manifest.snapshot}, {manifest.counts['papers']:,} papers.")


@click.command("libraries", short_help="List the libraries that can be downloaded.")
@json_option
@click.pass_obj
def libraries(settings: Settings, as_json: bool) -> None:
    """List the libraries of the catalogue, SCHOLARBASE_CATALOGUE. Those with * are downloaded."""
    import msgspec

    from scholarbase.responses.text import plain
    from scholarbase.updates.catalogue import read_catalogue

    entries = read_catalogue(settings)
    if as_json:
        print_json([msgspec.structs.asdict(entry) for entry in entries])
        return
    if not entries:
        click.echo("The catalogue has no libraries.", err=True)
    for entry in entries:
        mark = "*" if (settings.libraries_folder / entry.name).is_dir() else " "
        click.echo(
            f"{mark} {entry.name}  {plain(entry.description)} {entry.papers:,} papers; {entry.packed_bytes / 1e6:,.1f} "
            f"MB to download, {entry.bytes / 1e6:,.1f} MB on disk; {plain(entry.licence)}; snapshot {entry.snapshot}"
        )


@click.command("get", short_help="Download a library of the catalogue.")
@click.argument("name")
@click.pass_obj
def get(settings: Settings, name: str) -> None:
    """Download the library NAME of the catalogue, compare it with its hash and unpack it.

    Other commands find it as --library NAME. Run the same command again after an interruption.
    """
    from scholarbase.progress import reporter
    from scholarbase.updates.catalogue import get as run

    manifest = run(name, settings, reporter=reporter(settings.progress_seconds))
    click.echo(
        f"{settings.libraries_folder / name}: snapshot {manifest.snapshot}, {manifest.counts['papers']:,} papers. "
        f"Serve it with: scholarbase serve --library {name}"
    )


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
