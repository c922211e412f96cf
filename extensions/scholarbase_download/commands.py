"""``scholarbase download``: snapshots of Semantic Scholar, arXiv and OpenAlex, and packed libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scholarbase.cli.groups import Commands
from scholarbase.settings import Settings

if TYPE_CHECKING:
    from scholarbase.progress import Reporter

F = TypeVar("F", bound=Callable[..., Any])


def _out_option(command: F) -> F:
    return click.option(
        "--out",
        required=True,
        type=click.Path(path_type=Path, file_okay=False),
        help="The folder to download into.",
    )(command)


def _reporter(settings: Settings) -> Reporter:
    from scholarbase.progress import reporter

    return reporter(settings.progress_seconds)


@click.group("download", cls=Commands)
def download_group() -> None:
    """Download snapshots and packed libraries.

    The disk space and the time are logged before a download starts, and a file has its final name when it is whole
    and checked. Run the same command again to resume after an interruption.
    """


@download_group.command(short_help="Download a release of Semantic Scholar.")
@_out_option
@click.option("--release", help="The release, such as 2026-07-14. [default: the latest]")
@click.option(
    "--datasets",
    default="papers,abstracts,citations",
    show_default=True,
    help="Datasets, separated by commas.",
)
@click.option("--since", help="Download only the differences from this older release.")
@click.pass_obj
def s2(settings: Settings, out: Path, release: str | None, datasets: str, since: str | None) -> None:
    """Download a release of the Semantic Scholar Academic Graph, or the differences from an older one.

    The key of the API is SCHOLARBASE_S2_API_KEY. It is sent to the API only.
    """
    from scholarbase_download.s2 import download_s2

    key = settings.s2_api_key
    folders = download_s2(
        out,
        release=release,
        datasets=[name.strip() for name in datasets.split(",") if name.strip()],
        since=since,
        api_key=None if key is None else key.get_secret_value(),
        base_url=settings.s2_url,
        reporter=_reporter(settings),
    )
    for folder in folders:
        click.echo(folder)


@download_group.command(short_help="Download arXiv's metadata.")
@_out_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["arXivRaw", "arXiv"]),
    default="arXivRaw",
    show_default=True,
    help="The metadata format; arXivRaw has all versions.",
)
@click.option(
    "--set", "set_", help="A set, such as cs, physics:hep-th or cs:cs:CL. [default: the whole of arXiv]"
)
@click.option("--from", "first", help="The first day of changes, YYYY-MM-DD. [default: all]")
@click.pass_obj
def arxiv(settings: Settings, out: Path, form: str, set_: str | None, first: str | None) -> None:
    """Download arXiv's metadata over OAI-PMH, with versions and withdrawals, one request every three seconds.

    The same command downloads what has changed since, once a harvest is complete.
    """
    from scholarbase_download.arxiv import download_arxiv

    folder = download_arxiv(
        out,
        form=form,
        set_=set_,
        first=first,
        base_url=settings.arxiv_url,
        reporter=_reporter(settings),
    )
    if folder is None:
        click.echo(f"{out} is up to date: it has all changes until yesterday.", err=True)
    else:
        click.echo(folder)


@download_group.command(short_help="Download the snapshot of OpenAlex.")
@_out_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "parquet"]),
    default="jsonl",
    show_default=True,
    help="The format.",
)
@click.option(
    "--filter",
    "filters",
    multiple=True,
    help="entity=NAME, or updated_date with =, >= or <= and a date; may be repeated. [default: entity=works]",
)
@click.pass_obj
def openalex(settings: Settings, out: Path, form: str, filters: Sequence[str]) -> None:
    """Download files of the public snapshot of OpenAlex.

    The same command brings a folder up to date when a newer snapshot is published.
    """
    from scholarbase_download.openalex import download_openalex

    folders = download_openalex(
        out,
        filters=filters,
        form=form,  # type: ignore[arg-type]
        base_url=settings.openalex_url,
        reporter=_reporter(settings),
    )
    for folder in folders:
        click.echo(folder)


@download_group.command("library", short_help="Download a packed library.")
@click.argument("url")
@_out_option
@click.option("--sha256", "expected", help="The SHA-256 of the file. [default: the one in URL.sha256]")
@click.pass_obj
def library(settings: Settings, url: str, out: Path, expected: str | None) -> None:
    """Download the packed library at URL, a .tar.zst file, and compare it with its published SHA-256."""
    from scholarbase_download.library import download_library

    path = download_library(url, out, expected=expected, reporter=_reporter(settings))
    click.echo(path)
    click.echo(
        f'Its SHA-256 is the expected one. Unpack it with "scholarbase unpack {path} --library DIR".',
        err=True,
    )
