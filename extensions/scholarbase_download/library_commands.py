"""Libraries that are moved: ``pack``, ``unpack``, ``libraries`` and ``get``; and how two of them differ: ``diff``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import click
import orjson

from scholarbase.cli.options import json_option, print_json, require_library, require_target, target_option
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings

_KINDS: Final = (("paper", "papers"), ("edge", "edges"))
_CHANGES: Final = ("added", "removed", "changed")


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
    from scholarbase_download.packing import pack as run

    if not file.name.endswith(".tar.zst"):
        raise InvalidRequest(f"{file} cannot name a packed library: choose a FILE that ends in .tar.zst.")
    show = reporter(settings.progress_seconds)
    done = run(
        require_library(library, settings), file, force=force, vectors=not without_vectors, reporter=show
    )
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
    from scholarbase_download.unpacking import unpack as run

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
    from scholarbase_download.catalogue import read_catalogue

    entries = read_catalogue(settings)
    if as_json:
        print_json([msgspec.structs.asdict(entry) for entry in entries])
        return
    if not entries:
        click.echo(
            "The catalogue has no libraries: name another with SCHOLARBASE_CATALOGUE, or make one of your files with "
            '"scholarbase ingest", or the sample with "scholarbase demo".',
            err=True,
        )
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
    from scholarbase_download.catalogue import get as run

    manifest = run(name, settings, reporter=reporter(settings.progress_seconds))
    click.echo(
        f"{settings.libraries_folder / name}: snapshot {manifest.snapshot}, {manifest.counts['papers']:,} papers. "
        f"Serve it with: scholarbase serve --library {name}"
    )


@click.command(short_help="Compare the papers and edges of two libraries.")
@click.argument("old", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print each change as a JSON line.")
@click.pass_obj
def diff(settings: Settings, old: Path, new: Path, as_json: bool) -> None:
    """Count the papers and edges that were added, removed and changed from the library OLD to NEW."""
    from scholarbase.search.snapshots import locate
    from scholarbase_download.difference import differences

    counts: Counter[tuple[str, str]] = Counter()
    folders = [locate(require_library(library, settings)) for library in (old, new)]
    for change in differences(*folders):
        counts[change.kind, change.what] += 1
        if as_json:
            click.echo(orjson.dumps(change.to_dict()))
    if not as_json:
        for kind, name in _KINDS:
            click.echo(f"{name}: " + ", ".join(f"{counts[kind, what]:,} {what}" for what in _CHANGES))
