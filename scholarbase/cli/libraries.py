"""``scholarbase pack``, ``unpack`` and ``upgrade``: libraries that are moved, or of an older format."""

from __future__ import annotations

from pathlib import Path

import click

from scholarbase.cli.options import require_target, target_option
from scholarbase.settings import Settings


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


@click.command(short_help="Write a library of an older format as one of the present format.")
@click.argument("old", metavar="LIBRARY", type=click.Path(path_type=Path))
@target_option
@click.pass_obj
def upgrade(settings: Settings, old: Path, library: Path | None) -> None:
    """Write LIBRARY, which has an older format, as one of the present format to the folder --library.

    Where that needs the sources, nothing is written, and the message names what is missing and the command that builds
    the library again.
    """
    from scholarbase.updates.upgrading import upgrade as run

    require_target(library, settings)
    run(old)
