"""The commands to build, serve, search and check libraries.

Every option is an argument of the Python function behind it. Results go to standard output, everything else to
standard error. The exit status is 0, or the status of the error (:mod:`scholarbase.errors`).
"""

from __future__ import annotations

import errno
import logging
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scholarbase import __version__, logs
from scholarbase.cli.agents import mcp, session
from scholarbase.cli.demo import demo
from scholarbase.cli.encoders import encoder_group, encoder_location, open_encoders
from scholarbase.cli.groups import Commands
from scholarbase.cli.keys import key
from scholarbase.cli.libraries import info, snapshots, verify
from scholarbase.cli.options import (
    json_option,
    library_option,
    local_library,
    named_sources,
    print_json,
    require_library,
    require_target,
    sets_option,
    setting_options,
    target_option,
)
from scholarbase.cli.references import check
from scholarbase.cli.requests import request_commands
from scholarbase.cli.update import update
from scholarbase.errors import InvalidRequest, ScholarBaseError, StorageError
from scholarbase.extensions import chosen
from scholarbase.files import DISK_FAILED, DISK_FULL
from scholarbase.manifest import MOST_SHARDS
from scholarbase.memory import INGEST_BYTES, SERVER_BYTES, check_address_space, memory_errors, with_cores
from scholarbase.models.checks import shown
from scholarbase.models.document_requests import CHUNKINGS
from scholarbase.models.encoders import PACKAGED
from scholarbase.settings import Settings, load_settings
from scholarbase.terminal import printable

if TYPE_CHECKING:
    from scholarbase.cli.doctor import Finding

log = logging.getLogger("scholarbase.cli")

INTERRUPTED = 130
_WRONG_PATHS = (
    *(errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENODEV, errno.ENOENT),
    *(errno.ENOTDIR, errno.ENXIO, errno.EPERM, errno.EROFS, errno.ENOTEMPTY, errno.EINVAL),
)


class _Main(Commands):
    """Prints errors as messages and exits with their status."""

    def main(self, *args: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be UTF-8
        try:
            with memory_errors(
                "stop other programs, or raise the limit (ulimit -v), and run the same command again"
            ):
                super().main(*args, **extra)
                if sys.stdout is not None:
                    sys.stdout.flush()  # at the exit of the process, errors have no status
        except ScholarBaseError as error:
            click.echo(printable(f"scholarbase: {error}"), err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(InvalidRequest.exit_code)
        except (click.Abort, KeyboardInterrupt):
            click.echo(
                "scholarbase: interrupted. Run the same command again to resume a download, ingest, encoding or "
                "evaluation.",
                err=True,
            )
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # The reader of standard output closed it. Without this, Python's shutdown would report it too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except RuntimeError as error:
            if not str(error).startswith("Symlink loop"):  # as Path.resolve has it before Python 3.13
                raise
            click.echo(f"scholarbase: {error}: check the path.", err=True)
            sys.exit(InvalidRequest.exit_code)
        except OSError as error:
            log.debug("The command failed.", exc_info=True)
            if (advice := _advice(error)) is None:
                raise
            click.echo(printable(f"scholarbase: {advice}."), err=True)
            sys.exit(InvalidRequest.exit_code if error.errno in _WRONG_PATHS else StorageError.exit_code)
        sys.exit(0)


def _advice(error: OSError) -> str | None:
    """What to do about an error of the system; None if that is unknown."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{error.strerror}: raise the limit with ulimit -n 1024, and run the same command again"
    if error.errno in DISK_FULL or (error.errno in DISK_FAILED and error.filename is None):
        what = "The output or a file" if error.filename is None else shown(error.filename)
        return f"{what} cannot be written ({error.strerror}): free some disk space, or write to another place"
    if error.filename is not None:
        return f"{shown(error.filename)} cannot be used ({error.strerror}): check the path"
    if "temporary directory" in str(error):
        return f"{error.strerror}: set TMPDIR to a folder that is writable and has space"
    return None


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="scholarbase")
@click.pass_context
def main(context: click.Context) -> None:
    """ScholarBase: a local search server for Semantic Scholar and arXiv snapshots.

    Options override settings from SCHOLARBASE_ environment variables.
    """
    settings = load_settings()
    logs.configure(settings.log_level)
    if settings.extensions:
        chosen()  # refuses unknown names, whether the command needs an extension or not
    context.obj = settings


# -- ingest ---------------------------------------------------------------------------------------------


@main.command(short_help="Build a library from snapshot files.")
@click.argument("sources", nargs=-1, type=click.Path(path_type=Path))
@target_option
@sets_option
@click.option(
    "--columns",
    metavar="FIELD=COLUMN,...",
    help="The columns of CSV files and JSON lines, such as title=Paper,doi=DOI, if their names say nothing.",
)
@click.option(
    "--documents",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Full texts: a file or folder of unarXive or S2ORC JSON lines, JATS XML, HTML of arXiv, Markdown, text or "
    "PDF; may be repeated.",
)
@click.option(
    "--chunker",
    type=click.Choice(CHUNKINGS),
    default="tokens-512",
    show_default=True,
    help="How full texts are cut into passages.",
)
@click.option(
    "--encoder",
    default=PACKAGED,
    show_default=True,
    help="The encoder of dense vectors: the one in the package, BAAI/bge-m3, another name or path, an embeddings URL, "
    "or none.",
)
@click.option(
    "--query-encoder",
    help="A second model of the same dimensions, which encodes queries while --encoder encodes documents.",
)
@click.option(
    "--vectors",
    type=click.Path(path_type=Path),
    help="Vectors that the encoder computed elsewhere (.npy with ids.txt, or Parquet).",
)
@click.option(
    "--shards",
    type=click.IntRange(1, MOST_SHARDS),
    default=1,
    show_default=True,
    help="Shards of the papers' vectors, each of which may be on another node of a Qdrant cluster.",
)
@setting_options("keep", "profile", "device")
@click.option("--no-records", is_flag=True, help="Do not keep the source records, which an update needs.")
@click.option("--restart", is_flag=True, help="Start over, or replace a library built from other sources.")
@click.pass_obj
def ingest(
    settings: Settings,
    /,
    sources: Sequence[Path],
    library: Path | None,
    sets: Sequence[str],
    columns: str | None,
    encoder: str,
    query_encoder: str | None,
    device: str | None,
    keep: Any,
    profile: Any,
    chunker: Any,
    shards: int,
    no_records: bool,
    **options: Any,
) -> None:
    """Build a library from SOURCES: folders or files of a Semantic Scholar release, an arXiv snapshot, a BEIR
    collection, or of your own (BibTeX, RIS, CSL-JSON, CSV, JSON lines).

    Run the same command again to resume after an interruption. The exit status is 28 if files of --documents could not
    be read, which the library then lacks.
    """
    # Before the imports, which need much of it.
    check_address_space(with_cores(INGEST_BYTES), "An ingest")
    from scholarbase.cli.summary import print_summary
    from scholarbase.ingest.job import ingest as run
    from scholarbase.ingest.plans import IngestRules
    from scholarbase.ingest.sources import parse_columns
    from scholarbase.progress import reporter

    named = named_sources(sets)
    if not sources and not named and not options["documents"]:
        raise InvalidRequest(
            "No sources: give the files or folders to ingest, --set NAME=SOURCE, or --documents."
        )
    target = require_target(library, settings)
    rules = IngestRules(
        keep=keep or settings.keep,
        records=not no_records,
        profile=profile or settings.profile or "default",
        max_reject_share=settings.max_reject_share,
        chunker=chunker,
        shards=shards,
    )
    name = None if encoder == "none" else encoder
    with open_encoders(settings, device, name, query_encoder) as (model, queries):
        manifest = run(
            sources,
            target,
            encoder=model,
            encoder_location=encoder_location(encoder),
            query_encoder=queries,
            query_encoder_location=query_encoder and encoder_location(query_encoder),
            sets=named,
            columns={} if columns is None else parse_columns(columns),
            rules=rules,
            reporter=reporter(settings.progress_seconds),
            **options,
        )
    click.echo(f"Snapshot {manifest.snapshot} in {target}")
    print_summary(target, manifest)


@main.command()
@library_option
@setting_options(
    *("host", "port", "dialect", "workers", "encoder", "full_check", "sessions", "watch", "keep_libraries"),
    "public",
)
@click.pass_obj
def serve(settings: Settings, /, library: Path | None, **options: Any) -> None:
    """Serve a library over HTTP.

    --library may be a link to a library, or a folder of libraries. On SIGHUP the server takes the one named then.
    """
    check_address_space(with_cores(SERVER_BYTES), "A server")
    path = require_library(library, settings)
    dialect = options["dialect"] or settings.dialect
    served = load_settings(**options | {"dialect": dialect}, library=path)
    log.info("Opening %s. The server is ready when a line says so.", path)
    from scholarbase.api.extension_routes import dialect_named
    from scholarbase.api.server import serve as run

    if dialect is not None:
        dialect_named(dialect)
    run(path, served)


# -- other commands --------------------------------------------------------------------------------------


@main.command(short_help="Check the installation, this machine and a library.")
@library_option
@json_option
@click.pass_obj
def doctor(settings: Settings, library: Path | None, as_json: bool) -> None:
    """Check the installation, this machine and a library, and print what to do.

    The exit status is 1 if a check failed.
    """
    from scholarbase.cli.doctor import examine

    findings: list[Finding] = []
    for finding in examine(settings, local_library(library, settings)):
        findings.append(finding)
        if not as_json:
            click.echo(printable(f"{finding.state:<8} {finding.name:<12} {finding.detail}"))
    if as_json:
        print_json([finding._asdict() for finding in findings])
    failed = sum(finding.state == "failed" for finding in findings)
    if failed:
        raise ScholarBaseError(f"Checks failed: {failed}.")


for _command in (
    *request_commands(),
    *(check, demo, encoder_group, info, key, mcp, session),
    *(snapshots, update, verify),
):
    main.add_command(_command)
