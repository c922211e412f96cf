"""The commands to build, serve, search and check libraries.

Every option is an argument of the Python function behind it. Results go to standard output, everything else to
standard error. The exit status is 0, or the status of the error (:mod:`scholarbase.errors`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from scholarbase import __version__, logs
from scholarbase.cli.agents import mcp, session
from scholarbase.cli.downloads import download_group
from scholarbase.cli.encoders import encoder_group, encoder_location, open_encoders
from scholarbase.cli.evaluation import evaluation
from scholarbase.cli.groups import Commands
from scholarbase.cli.keys import key
from scholarbase.cli.libraries import pack, unpack, upgrade
from scholarbase.cli.options import (
    as_of_option,
    author_option,
    encoder_option,
    export_option,
    filter_options,
    library_option,
    local_library,
    named_sources,
    open_source,
    page_options,
    require_library,
    require_target,
    rerank_options,
    source_options,
    target_option,
)
from scholarbase.cli.references import check
from scholarbase.cli.snapshots import diff, snapshots
from scholarbase.cli.update import update
from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.extensions import chosen
from scholarbase.memory import INGEST_BYTES, SERVER_BYTES, check_address_space, memory_errors, with_cores
from scholarbase.models.document_requests import CHUNKINGS
from scholarbase.models.encoders import PACKAGED
from scholarbase.models.limits import (
    DEFAULT_EDGES,
    DEFAULT_FACET_VALUES,
    DEFAULT_MATCHES,
    DEFAULT_RESULTS,
    ENGINES,
    MODES,
    SYNTAXES,
    ExportFormat,
)
from scholarbase.settings import Settings, load_settings

INTERRUPTED = 130
MERGED = ("arxiv_joined", "arxiv_ids_repeated", "openalex_joined", "own_joined")
"""Counts of records that an ingest merged into papers of others."""


class _Main(Commands):
    """Prints errors as messages and exits with their status."""

    def main(self, *args: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            with memory_errors(
                "stop other programs, or raise the limit (ulimit -v), and run the same command again"
            ):
                super().main(*args, **extra)
        except ScholarBaseError as error:
            click.echo(f"scholarbase: {error}", err=True)
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
        sys.exit(0)


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
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="NAME=SOURCE",
    help="A source whose papers are the set NAME, which searches name as --within set:NAME; may be repeated.",
)
@click.option(
    "--columns",
    metavar="FIELD=COLUMN,...",
    help="The columns of CSV files and JSON lines, such as title=Paper,doi=DOI, if their names say nothing.",
)
@click.option(
    "--documents",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Full texts: a file or folder of unarXive or S2ORC JSON lines, JATS XML, Markdown, text or PDF; may be "
    "repeated.",
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
    "--keep",
    type=click.Choice(["arxiv", "abstract", "title"]),
    help="Which papers to keep. [env: SCHOLARBASE_KEEP; default: arxiv]",
)
@click.option("--no-records", is_flag=True, help="Do not keep the source records, which an update needs.")
@click.option(
    "--profile",
    type=click.Choice(["default", "scholarquest"]),
    help="The settings of searches that the library is built for. [env: SCHOLARBASE_PROFILE; default: default]",
)
@click.option("--device", help="Where the encoder runs, such as cpu or cuda:0. [env: SCHOLARBASE_DEVICE]")
@click.option(
    "--partitions",
    type=int,
    default=1,
    show_default=True,
    help="Processes that encode and index parts of the papers; the library is the same.",
)
@click.option("--restart", is_flag=True, help="Start over, or replace a library built from other sources.")
@click.pass_obj
def ingest(
    settings: Settings,
    sources: Sequence[Path],
    library: Path | None,
    sets: Sequence[str],
    columns: str | None,
    documents: Sequence[Path],
    chunker: str,
    encoder: str,
    query_encoder: str | None,
    vectors: Path | None,
    keep: str | None,
    no_records: bool,
    profile: str | None,
    device: str | None,
    partitions: int,
    restart: bool,
) -> None:
    """Build a library from SOURCES: folders or files of a Semantic Scholar release, an arXiv snapshot, a BEIR
    collection, or of your own (BibTeX, RIS, CSL-JSON, CSV, JSON lines).

    Run the same command again to resume after an interruption.
    """
    # Before the imports, which need much of it.
    check_address_space(with_cores(INGEST_BYTES), "An ingest")
    from scholarbase.ingest.job import ingest as run
    from scholarbase.ingest.plans import IngestRules
    from scholarbase.ingest.sources import parse_columns
    from scholarbase.progress import reporter

    named = named_sources(sets)
    if not sources and not named and not documents:
        raise InvalidRequest(
            "No sources: give the files or folders to ingest, --set NAME=SOURCE, or --documents."
        )
    target = require_target(library, settings)
    rules = IngestRules(
        keep=keep or settings.keep,  # type: ignore[arg-type]
        records=not no_records,
        profile=profile or settings.profile or "default",  # type: ignore[arg-type]
        max_reject_share=settings.max_reject_share,
        chunker=chunker,
    )
    with open_encoders(settings, device, None if encoder == "none" else encoder, query_encoder) as (
        model,
        queries,
    ):
        manifest = run(
            sources,
            target,
            encoder=model,
            encoder_location=encoder_location(encoder),
            query_encoder=queries,
            query_encoder_location=query_encoder and encoder_location(query_encoder),
            vectors=vectors,
            sets=named,
            columns={} if columns is None else parse_columns(columns),
            documents=documents,
            rules=rules,
            partitions=partitions,
            restart=restart,
            reporter=reporter(settings.progress_seconds),
        )
    counts = manifest.counts
    merged = sum(counts.get(name, 0) for name in MERGED)
    click.echo(
        f"Snapshot {manifest.snapshot}: {counts['papers']:,} papers, {counts['edges']:,} edges; {merged:,} records "
        f"merged, {counts.get('arxiv_ids_repaired', 0):,} arXiv ids repaired, {sum(manifest.rejects.values()):,} "
        "records rejected."
    )
    if manifest.documents is not None:
        click.echo(f"{counts['documents']:,} full texts, {counts['passages']:,} passages.")


@main.command()
@library_option
@click.option("--host", help="The address to listen on. [env: SCHOLARBASE_HOST; default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port; 0 chooses a free one. [env: SCHOLARBASE_PORT; default: 8000]",
)
@click.option(
    "--dialect",
    metavar="NAME",
    help="Serve this dialect alone, with its routes at the root. [env: SCHOLARBASE_DIALECT]",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), help="Server processes. [env: SCHOLARBASE_WORKERS; default: 1]"
)
@encoder_option
@click.option(
    "--full-check",
    is_flag=True,
    help="Compare every file with its hashes first, instead of a sample. [env: SCHOLARBASE_FULL_CHECK]",
)
@click.option(
    "--sessions",
    help="The folder of recorded sessions, the URL of a PostgreSQL database, or none. [env: SCHOLARBASE_SESSIONS]",
)
@click.option(
    "--watch",
    is_flag=True,
    help="Serve a new library when the link or folder names another one. [env: SCHOLARBASE_WATCH]",
)
@click.option(
    "--keep",
    type=click.IntRange(1, 16),
    help="Libraries to keep open for requests that name their snapshot. [env: SCHOLARBASE_KEEP_LIBRARIES; "
    "default: 1]",
)
@click.option(
    "--public",
    is_flag=True,
    help="Accept requests without keys on an address that other machines can reach. [env: SCHOLARBASE_PUBLIC]",
)
@click.pass_obj
def serve(
    settings: Settings,
    library: Path | None,
    host: str | None,
    port: int | None,
    dialect: str | None,
    workers: int | None,
    encoder: str | None,
    full_check: bool,
    sessions: str | None,
    watch: bool,
    keep: int | None,
    public: bool,
) -> None:
    """Serve a library over HTTP.

    --library may be a link to a library, or a folder of libraries. On SIGHUP the server takes the one named then.
    """
    check_address_space(with_cores(SERVER_BYTES), "A server")
    from scholarbase.extras import check_installed

    check_installed("server", "The server")
    from scholarbase.api.extension_routes import dialect_named
    from scholarbase.api.server import serve as run

    dialect = settings.dialect if dialect is None else dialect
    if dialect is not None:
        dialect_named(dialect)
    path = require_library(library, settings)
    options = {
        "host": host,
        "port": port,
        "dialect": dialect,
        "workers": workers,
        "encoder": encoder,
        "sessions": sessions,
        "keep_libraries": keep,
    }
    flags = {"public": public or None, "full_check": full_check or None, "watch": watch or None}
    run(path, load_settings(**options, **flags, library=path))


# -- search ---------------------------------------------------------------------------------------------


def _run(
    method: str,
    argument: str | None,
    show: str,
    settings: Settings,
    *,
    as_json: bool,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    default_encoder: str | None = "none",
    form: ExportFormat | None = None,
    **options: Any,
) -> None:
    """Call a method of the library or the client, and print its response with a function of ``display``."""
    if form is not None and as_json:
        raise InvalidRequest(f"Give --json or --format {form}, not both.")
    for name in ("explain", "partial"):
        if form is not None and options.get(name):
            raise InvalidRequest(
                f"Give --{name} or --format {form}, not both: a bibliography has only papers."
            )
    rerank = options.get("rerank")
    with open_source(
        settings, library, url, encoder, default_encoder=default_encoder, rerank=rerank
    ) as source:
        response = getattr(source, method)(argument, **options)
        if form is not None:
            from scholarbase.bibliographies.writing import write_papers
            from scholarbase.responses.text import papers_in

            click.echo(write_papers(papers_in(response.to_dict()), form), nl=False)
        elif as_json:
            click.echo(orjson.dumps(response.to_dict(), option=orjson.OPT_INDENT_2).decode())
        else:
            from scholarbase.cli import display

            getattr(display, show)(response)


@main.command()
@click.argument("q")
@click.option(
    "--mode", type=click.Choice(MODES), help="How to search. [default: the best mode of the library]"
)
@click.option("--engine", type=click.Choice(ENGINES), help="The sparse engine.")
@click.option(
    "--syntax",
    type=click.Choice(SYNTAXES),
    default="auto",
    show_default=True,
    help="How Q is read: as words (plain), as query syntax (query), or as query syntax if it contains some.",
)
@click.option("--limit", default=DEFAULT_RESULTS, show_default=True, help="Number of results.")
@click.option("--offset", default=0, help="Number of results to skip.")
@click.option("--field", "fields", multiple=True, help="A field to return; may be repeated. [default: all]")
@filter_options
@click.option("--exact", is_flag=True, help="Search without approximation, and count exact totals.")
@click.option(
    "--min-similarity",
    type=float,
    help="The least cosine of a dense result. [default: the library's own limit]",
)
@click.option("--explain", is_flag=True, help="Show the rank, score and terms of each result in each leg.")
@rerank_options
@click.option("--partial", is_flag=True, help="Return the results of the other legs when one fails.")
@export_option
@source_options
@click.pass_obj
def search(settings: Settings, /, q: str, **options: Any) -> None:
    """Search for papers that match Q."""
    needs_encoder = options["mode"] != "sparse" or (options["engine"] or settings.engine) == "learned"
    default = None if needs_encoder else "none"
    _run("search", q, "show_search", settings, default_encoder=default, **_lists(options))


def _lists(options: dict[str, Any]) -> dict[str, Any]:
    """The options of ``filter_options`` and ``--field`` as the arguments of a request."""
    return options | {
        **({"fields": ",".join(options["fields"]) or None} if "fields" in options else {}),
        "category": ",".join(options["category"]) or (),
        "within": options["within"] or None,
    }


@main.command(short_help="Count papers by year, category and venue.")
@click.argument("q", required=False)
@click.option(
    "--mode", type=click.Choice(MODES), help="How to search. [default: the best mode of the library]"
)
@click.option("--engine", type=click.Choice(ENGINES), help="The sparse engine.")
@click.option(
    "--syntax", type=click.Choice(SYNTAXES), default="auto", show_default=True, help="How Q is read."
)
@click.option(
    "--limit", default=DEFAULT_FACET_VALUES, show_default=True, help="Number of categories and of venues."
)
@filter_options
@click.option("--exact", is_flag=True, help="Count all papers that match Q in the full-text index.")
@click.option("--min-similarity", type=float, help="The least cosine of a dense result.")
@source_options
@click.pass_obj
def facets(settings: Settings, /, q: str | None, **options: Any) -> None:
    """Count the papers that match the filters by year, category and venue; with Q the first 1,000 results of the
    search."""
    counts_words = q is None or options["exact"] or options["mode"] == "sparse"
    needs_encoder = not counts_words or (options["engine"] or settings.engine) == "learned"
    default = None if needs_encoder else "none"
    _run("facets", q, "show_facets", settings, default_encoder=default, **_lists(options))


@main.command()
@click.argument("title")
@click.option("--limit", default=DEFAULT_MATCHES, show_default=True, help="Number of matches.")
@as_of_option
@source_options
@click.pass_obj
def title(settings: Settings, /, title: str, **options: Any) -> None:
    """Find papers with TITLE or a similar title."""
    _run("match_title", title, "show_titles", settings, **options)


main.add_command(check)
main.add_command(update)


@main.command(short_help="Show a paper by an id of any form.")
@click.argument("paper_id")
@as_of_option
@export_option
@source_options
@click.pass_obj
def paper(settings: Settings, /, paper_id: str, **options: Any) -> None:
    """Show the paper PAPER_ID: an arXiv id, DOI, CorpusId, link, ..."""
    _run("paper", paper_id, "show_paper", settings, **options)


@main.command(short_help="List the authors with a name.")
@click.argument("name")
@click.option("--limit", default=DEFAULT_RESULTS, show_default=True, help="Number of authors.")
@click.option("--offset", default=0, help="Number of authors to skip.")
@as_of_option
@source_options
@click.pass_obj
def authors(settings: Settings, /, name: str, **options: Any) -> None:
    """List the authors with NAME, in any order of its words and with or without initials."""
    _run("search_authors", name, "show_authors", settings, **options)


@main.command(short_help="List the papers of an author.")
@click.argument("author_id")
@click.option("--limit", default=DEFAULT_EDGES, show_default=True, help="Number of papers.")
@click.option("--offset", default=0, help="Number of papers to skip.")
@page_options
@export_option
@source_options
@click.pass_obj
def author(settings: Settings, /, author_id: str, **options: Any) -> None:
    """List the papers of the author AUTHOR_ID, an id that "scholarbase authors" lists."""
    _run("author_papers", author_id, "show_author_papers", settings, **options)


@main.command(short_help="List the papers similar to a paper.")
@click.argument("paper_id")
@click.option("--limit", default=DEFAULT_RESULTS, show_default=True, help="Number of results.")
@click.option("--offset", default=0, help="Number of results to skip.")
@click.option("--field", "fields", multiple=True, help="A field to return; may be repeated. [default: all]")
@filter_options
@click.option("--exact", is_flag=True, help="Compare with every vector, without approximation.")
@click.option("--explain", is_flag=True, help="Show the rank and score of each result in each leg.")
@export_option
@source_options
@click.pass_obj
def similar(settings: Settings, /, paper_id: str, **options: Any) -> None:
    """List the papers similar to the paper PAPER_ID, by their vectors and by the papers that cite both."""
    _run("similar", paper_id, "show_similar", settings, **_lists(options))


def _edges(direction: str) -> None:
    @main.command(direction, help=f"List the {direction} of the paper PAPER_ID.")
    @click.argument("paper_id")
    @click.option("--limit", default=DEFAULT_EDGES, show_default=True, help="Number of papers.")
    @click.option("--offset", default=0, help="Number of papers to skip.")
    @author_option
    @page_options
    @export_option
    @source_options
    @click.pass_obj
    def command(settings: Settings, /, paper_id: str, **options: Any) -> None:
        _run(direction, paper_id, "show_citations", settings, **options)


_edges("citations")
_edges("references")


# -- libraries ------------------------------------------------------------------------------------------


@main.command()
@library_option
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
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


@main.command(short_help="Check a library against its manifest.")
@library_option
@click.pass_obj
def verify(settings: Settings, library: Path | None) -> None:
    """Check a library: counts, edges, full text, vectors against rows, and the manifest's hash."""
    from scholarbase.search.verification import verify as run

    path = require_library(library, settings)
    for line in run(path):
        click.echo(line)
    click.echo(f"The library at {path} matches its manifest.")


@main.command(short_help="Check the installation, this machine and a library.")
@library_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def doctor(settings: Settings, library: Path | None, as_json: bool) -> None:
    """Check the installation, this machine and a library, and print what to do.

    The exit status is 1 if a check failed.
    """
    from scholarbase.cli.doctor import examine, show

    findings = examine(settings, local_library(library, settings))
    if as_json:
        found = list(findings)
        click.echo(orjson.dumps([one._asdict() for one in found], option=orjson.OPT_INDENT_2).decode())
        failed = sum(one.state == "failed" for one in found)
    else:
        failed = show(findings, click.echo)
    if failed:
        raise ScholarBaseError(f"Checks failed: {failed}.")


main.add_command(pack)
main.add_command(unpack)
main.add_command(upgrade)
main.add_command(download_group)
main.add_command(encoder_group)
main.add_command(evaluation)
main.add_command(mcp)
main.add_command(session)
main.add_command(snapshots)
main.add_command(diff)
main.add_command(key)
