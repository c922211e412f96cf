"""The command line: building, serving, asking and checking libraries.

Every option is an argument of the Python call behind it. Answers go to standard output, everything else to
standard error. The exit status is that of the error (:mod:`scholarbase.errors`), 0 when all went well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from scholarbase import __version__, logs
from scholarbase.cli.agents import mcp, session
from scholarbase.cli.evaluation import evaluation
from scholarbase.cli.keys import key
from scholarbase.cli.options import as_of_option, library_option, need_library, open_source, where_options
from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.models import CITATION_SORTS, ENGINES, MODES
from scholarbase.settings import Settings, load_settings

INTERRUPTED = 130


class _Commands(click.Group):
    """Turns every error of ours into its sentence and exit status."""

    def main(self, *args: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            super().main(*args, **extra)
        except ScholarBaseError as error:
            click.echo(f"scholarbase: {error}", err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(InvalidRequest.exit_code)
        except (click.Abort, KeyboardInterrupt):
            click.echo(
                "scholarbase: interrupted; an ingest or an evaluation goes on when the same command is run again.",
                err=True,
            )
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            # The reader of our output has had enough; Python's own exit would complain once more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        sys.exit(0)


@click.group(
    cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="scholarbase")
@click.pass_context
def main(context: click.Context) -> None:
    """ScholarBase: a Semantic Scholar or arXiv snapshot as a local search server.

    Settings come from SCHOLARBASE_ variables; options go before them.
    """
    settings = load_settings()
    logs.configure(settings.log_level)
    context.obj = settings


# -- ingest ---------------------------------------------------------------------------------------------


@main.command()
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@library_option
@click.option(
    "--encoder",
    default="none",
    show_default=True,
    help="What makes dense vectors: BAAI/bge-m3, any sentence-transformers name or path, an embeddings URL, or none.",
)
@click.option(
    "--vectors",
    type=click.Path(path_type=Path),
    help="Vectors that the encoder computed elsewhere (.npy with ids.txt, or Parquet).",
)
@click.option(
    "--keep",
    type=click.Choice(["arxiv", "abstract", "title"]),
    help="Which papers are kept. [env: SCHOLARBASE_KEEP; default: arxiv]",
)
@click.option("--device", help="Where the encoder runs, such as cpu or cuda:0. [env: SCHOLARBASE_DEVICE]")
@click.option("--restart", is_flag=True, help="Begin again, or replace a library made from other sources.")
@click.pass_obj
def ingest(
    settings: Settings,
    sources: Sequence[Path],
    library: Path | None,
    encoder: str,
    vectors: Path | None,
    keep: str | None,
    device: str | None,
    restart: bool,
) -> None:
    """Build a library from SOURCES: folders or files of a Semantic Scholar release or an arXiv snapshot.

    Killed or interrupted, the same command goes on where it was.
    """
    from scholarbase.encoders import open_encoder
    from scholarbase.ingest.job import IngestRules
    from scholarbase.ingest.job import ingest as run
    from scholarbase.progress import reporter

    target = need_library(library, settings)
    rules = IngestRules(keep=keep or settings.keep, max_reject_share=settings.max_reject_share)  # type: ignore[arg-type]
    key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
    model = (
        None if encoder == "none" else open_encoder(encoder, device=device or settings.device, api_key=key)
    )
    location = str(Path(encoder).resolve()) if Path(encoder).exists() else encoder
    try:
        manifest = run(
            sources,
            target,
            encoder=model,
            encoder_location=location,
            vectors=vectors,
            rules=rules,
            restart=restart,
            reporter=reporter(settings.progress_seconds),
        )
    finally:
        if model is not None:
            model.close()
    click.echo(
        f"Snapshot {manifest.snapshot}: {manifest.counts['papers']:,} papers, {manifest.counts['edges']:,} edges."
    )


@main.command()
@library_option
@click.option("--host", help="The address to listen on. [env: SCHOLARBASE_HOST; default: 127.0.0.1]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The port; 0 takes a free one. [env: SCHOLARBASE_PORT; default: 8000]",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), help="Serving processes. [env: SCHOLARBASE_WORKERS; default: 1]"
)
@click.option(
    "--encoder",
    help="The query encoder, where it is not where the library was built. [env: SCHOLARBASE_ENCODER]",
)
@click.option(
    "--sessions", help="The folder where sessions are recorded, or none. [env: SCHOLARBASE_SESSIONS]"
)
@click.option(
    "--public",
    is_flag=True,
    help="Let everybody ask who reaches the address, where no keys are in force. [env: SCHOLARBASE_PUBLIC]",
)
@click.pass_obj
def serve(
    settings: Settings,
    library: Path | None,
    host: str | None,
    port: int | None,
    workers: int | None,
    encoder: str | None,
    sessions: str | None,
    public: bool,
) -> None:
    """Serve a library over HTTP."""
    from scholarbase.api.server import serve as run

    path = need_library(library, settings)
    options = {"host": host, "port": port, "workers": workers, "encoder": encoder, "sessions": sessions}
    run(path, load_settings(**options, public=public or None, library=path))


# -- ask ------------------------------------------------------------------------------------------------


def _print(answer: Any, as_json: bool, show: Callable[[Any], None]) -> None:
    if as_json:
        click.echo(orjson.dumps(answer.to_dict(), option=orjson.OPT_INDENT_2).decode())
    else:
        show(answer)


@main.command()
@click.argument("q")
@click.option(
    "--mode", type=click.Choice(MODES), help="How to search; the best the library has, when left out."
)
@click.option("--engine", type=click.Choice(ENGINES), help="The sparse leg.")
@click.option("--limit", default=10, show_default=True, help="How many results.")
@click.option("--offset", default=0, help="How many results to pass over.")
@click.option(
    "--field", "fields", multiple=True, help="A field of the papers; may be repeated. All when left out."
)
@click.option("--from", "from_", help="Earliest date: YYYY, YYYY-MM or YYYY-MM-DD.")
@click.option("--to", help="Latest date.")
@click.option(
    "--category", multiple=True, help="A category or archive, such as cs.CL or cs; may be repeated."
)
@click.option("--venue", multiple=True, help="A venue by any of its names; may be repeated.")
@click.option("--min-citations", type=int, help="The fewest citations.")
@click.option(
    "--exclude",
    multiple=True,
    help="A phrase that titles and abstracts are not to have; may be repeated.",
)
@click.option(
    "--exclude-id", "exclude_ids", multiple=True, help="The id of a paper to leave out; may be repeated."
)
@click.option("--within", multiple=True, help="The id of a paper to choose from; may be repeated.")
@as_of_option
@click.option("--exact", is_flag=True, help="No approximation, and exact totals.")
@click.option("--explain", is_flag=True, help="What each leg says of each result, and the words it has.")
@click.option("--partial", is_flag=True, help="Answer from the legs that work when one fails.")
@where_options
@click.pass_obj
def search(settings: Settings, /, q: str, **options: Any) -> None:
    """Search for papers that answer Q."""
    as_json = options.pop("as_json")
    place = {name: options.pop(name) for name in ("library", "url", "encoder")}
    options["fields"] = options["fields"] or None
    options["within"] = options["within"] or None
    with open_source(settings, **place) as source:
        _print(source.search(q, **options), as_json, _shown("show_search"))


@main.command()
@click.argument("title")
@click.option("--limit", default=5, show_default=True, help="How many matches.")
@as_of_option
@where_options
@click.pass_obj
def title(
    settings: Settings,
    title: str,
    limit: int,
    as_of: str | None,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Find the paper with TITLE, or with titles like it."""
    with open_source(settings, library, url, encoder, default_encoder="none") as source:
        _print(source.match_title(title, limit=limit, as_of=as_of), as_json, _shown("show_titles"))


@main.command()
@click.argument("paper_id")
@as_of_option
@where_options
@click.pass_obj
def paper(
    settings: Settings,
    paper_id: str,
    as_of: str | None,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    as_json: bool,
) -> None:
    """Show the paper that PAPER_ID names: an arXiv id, DOI, CorpusId, link, ..."""
    with open_source(settings, library, url, encoder, default_encoder="none") as source:
        _print(source.paper(paper_id, as_of=as_of), as_json, _shown("show_paper"))


def _edges(direction: str) -> None:
    @main.command(direction, help=f"List the {direction} of the paper that PAPER_ID names.")
    @click.argument("paper_id")
    @click.option("--limit", default=25, show_default=True, help="How many.")
    @click.option("--offset", default=0, help="How many to pass over.")
    @click.option(
        "--sort",
        type=click.Choice(CITATION_SORTS),
        help="In which order; -citation_count when left out, with --as-of -date.",
    )
    @click.option("--from", "from_", help="Earliest date: YYYY, YYYY-MM or YYYY-MM-DD.")
    @click.option("--to", help="Latest date.")
    @as_of_option
    @where_options
    @click.pass_obj
    def command(settings: Settings, /, paper_id: str, **options: Any) -> None:
        as_json = options.pop("as_json")
        place = {name: options.pop(name) for name in ("library", "url", "encoder")}
        with open_source(settings, **place, default_encoder="none") as source:
            _print(getattr(source, direction)(paper_id, **options), as_json, _shown("show_citations"))


_edges("citations")
_edges("references")


def _shown(name: str) -> Callable[[Any], None]:
    """A function of :mod:`scholarbase.cli.display`, loaded when something is shown."""
    from scholarbase.cli import display

    function: Callable[[Any], None] = getattr(display, name)
    return function


# -- about a library ------------------------------------------------------------------------------------


@main.command()
@library_option
@click.option("--json", "as_json", is_flag=True, help="Print the manifest.")
@click.pass_obj
def info(settings: Settings, library: Path | None, as_json: bool) -> None:
    """Tell what a library holds, and from what it was made."""
    from scholarbase.manifest import read_manifest

    path = need_library(library, settings)
    manifest, snapshot = read_manifest(path)
    if as_json:
        click.echo(manifest.to_bytes(), nl=False)
        return
    from scholarbase.cli.display import show_info

    show_info(path, manifest, snapshot)


@main.command()
@library_option
@click.pass_obj
def verify(settings: Settings, library: Path | None) -> None:
    """Check a library: counts, edges, full text, vectors against rows, and the manifest's hash."""
    from scholarbase.search.verification import verify as run

    path = need_library(library, settings)
    for line in run(path):
        click.echo(line)
    click.echo(f"The library at {path} is as its manifest says.")


@main.command()
@library_option
@click.option("--qdrant-url", help="The Qdrant server. [env: SCHOLARBASE_QDRANT_URL]")
@click.option("--keep-old", is_flag=True, help="Keep the collections of earlier snapshots.")
@click.pass_obj
def load(settings: Settings, library: Path | None, qdrant_url: str | None, keep_old: bool) -> None:
    """Load a library's vectors into a Qdrant server, then point the alias at them."""
    from contextlib import closing

    from scholarbase.indexes.vectors.edge import EdgeIndex
    from scholarbase.indexes.vectors.server import connect
    from scholarbase.indexes.vectors.transfer import load_into_server
    from scholarbase.manifest import read_manifest
    from scholarbase.progress import reporter

    path = need_library(library, settings)
    address = qdrant_url or settings.qdrant_url
    if address is None:
        raise InvalidRequest("Which Qdrant server? Give --qdrant-url, or set SCHOLARBASE_QDRANT_URL.")
    key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
    manifest, snapshot = read_manifest(path)
    total = manifest.counts["points"]
    with (
        closing(EdgeIndex.open(path / "vectors")) as edge,
        reporter(settings.progress_seconds).stage("load vectors", "points", total) as tracker,
    ):
        shown = 0

        def progress(done: int, _: int) -> None:
            nonlocal shown
            tracker.advance(done - shown)
            tracker.at(done)
            shown = done

        load_into_server(
            edge,
            connect(address, api_key=key),
            settings.qdrant_alias,
            snapshot,
            edge.config,
            progress,
            keep_old=keep_old,
        ).close()
    click.echo(f"{total:,} points are served by {address} as {settings.qdrant_alias!r}.")


main.add_command(evaluation)
main.add_command(mcp)
main.add_command(session)
main.add_command(key)
