"""``scholarbase demo``: build a library from the sample in the package, serve it, and show some requests."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from pathlib import Path
from typing import Final

import click

import scholarbase
from scholarbase.cli.encoders import open_encoders
from scholarbase.cli.options import setting_options
from scholarbase.errors import AddressError, LibraryCorrupt, LibraryExists
from scholarbase.models.encoders import PACKAGED
from scholarbase.settings import Settings, load_settings

NAME: Final = "demo"
QUESTION: Final = "Which models learn word vectors from large text corpora?"
TITLE: Final = "Two dimensional QCD is a string theroy"
PAPER: Final = "https://arxiv.org/abs/hep-th/9301068"


@click.command(short_help="Build a library from a sample, serve it and open its page.")
@setting_options("port")
@click.option("--no-browser", is_flag=True, help="Do not open the page in a browser.")
@click.option("--once", is_flag=True, help="Stop the server after the examples.")
@click.pass_obj
def demo(settings: Settings, /, port: int | None, no_browser: bool, once: bool) -> None:
    """Build a library from the sample in the package (2,440 papers), serve it, show some requests and open its page.

    The library is in the cache folder, and other commands find it as --library demo. The server runs until Ctrl-C, on
    another port if this one is in use.
    """
    from scholarbase.api.server import serve

    library = build(settings)

    def ready(url: str) -> None:
        show(url)
        if once:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        click.echo(
            f"\nOpen {url}/ in a browser. Each request can be tried at {url}/docs.\n"
            "The library has a name: scholarbase search, serve, mcp and check take it as --library demo.\n"
            "Serving until you press Ctrl-C."
        )
        if not no_browser and has_display():
            webbrowser.open(url)

    quiet = "warning"  # of workers: their lines for each request would be among the answers
    try:
        serve(library, load_settings(library=library, port=port, log_level=quiet), on_ready=ready)
    except AddressError:
        serve(library, load_settings(library=library, port=0, log_level=quiet), on_ready=ready)


def sample() -> list[Path]:
    """The folders of the sample: in the package that is installed, or in the checkout."""
    package = Path(scholarbase.__file__).parent
    folder = package / "sample" if (package / "sample").is_dir() else package.parent / "sample"
    return [folder / "s2ag", folder / "arxiv"]


def build(settings: Settings) -> Path:
    """Ingest the sample with the encoder in the package, unless its library is there. Returns the folder."""
    from scholarbase.ingest.job import ingest
    from scholarbase.progress import reporter

    library = settings.libraries_folder / NAME
    with open_encoders(settings, None, PACKAGED, None) as (encoder, _):
        for restart in (False, True):
            try:
                ingest(
                    sample(),
                    library,
                    encoder=encoder,
                    encoder_location=PACKAGED,
                    restart=restart,
                    reporter=reporter(settings.progress_seconds),
                )
                break
            except (LibraryExists, LibraryCorrupt):  # of the sample of another release
                if restart:
                    raise
    return library


def show(url: str) -> None:
    """Send some requests to a server of the sample, and print the calls and their responses."""
    from rich.console import Console
    from rich.rule import Rule

    from scholarbase.cli import display
    from scholarbase.client import Client

    console = Console(width=None if sys.stdout.isatty() else 110)

    def heading(title: str, call: str) -> None:
        console.print()
        console.print(Rule(f"[bold]{title}", align="left"))
        console.print(f"[green]{call}\n", highlight=False)

    with Client(url) as client:
        heading(f"“{QUESTION}”", f'client.search("{QUESTION}")')
        display.show(client.search(QUESTION, limit=5, explain=True))
        heading("A title, with a typo", f'client.match_title("{TITLE}")')
        display.show(client.match_title(TITLE, limit=1))
        heading("A paper, by a link to it", f'client.paper("{PAPER}")')
        display.show(client.paper(PAPER))
        heading("Who cites it", f'client.citations("{PAPER}", limit=5)')
        display.show(client.citations(PAPER, limit=5))
        heading("What a paper cites", 'client.references("hep-th/9401139", limit=5)')
        display.show(client.references("hep-th/9401139", limit=5))


def has_display() -> bool:
    """Whether a browser opens in a window of its own: a text browser would take the terminal."""
    has_window = sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ))
    return has_window and sys.stdout.isatty()
