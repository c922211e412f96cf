"""The demo: build a library from the sample, serve it, send some requests, and keep serving until Ctrl-C.

`make demo` runs it. Without a terminal it ends after the requests.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path

from rich.console import Console
from rich.rule import Rule

from scholarbase.cli import display
from scholarbase.client import Client

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "demo-library"
PORT = 8000
QUESTION = "Which models learn word vectors from large text corpora?"
TITLE = "Two dimensional QCD is a string theroy"
PAPER = "https://arxiv.org/abs/hep-th/9301068"

SERVE = ".venv/bin/scholarbase serve --library demo-library"
SCHOLARBASE = (sys.executable, "-m", "scholarbase.cli")


def ingest() -> None:
    """Ingest files of Semantic Scholar and arXiv, with vectors of the encoder in the package."""
    sources = (ROOT / "sample" / "s2ag", ROOT / "sample" / "arxiv")
    subprocess.run([*SCHOLARBASE, "ingest", *sources, "--library", LIBRARY], check=True)


def serve(port: int) -> tuple[subprocess.Popen[str], str] | None:
    """Start a server. Returns its process and address, None if it does not start, for example if the port is used."""
    process = subprocess.Popen(
        [*SCHOLARBASE, "serve", "--library", LIBRARY, "--port", str(port)], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if address := re.search(r" at (http://\S+) with", line):
            threading.Thread(target=_forward_log, args=(process,), daemon=True).start()
            return process, address[1]
        print(line, end="", file=sys.stderr)
    process.wait()
    return None


requests_shown = threading.Event()


def _forward_log(process: subprocess.Popen[str]) -> None:
    """Print the server's log once the demo's own output is complete."""
    assert process.stderr is not None
    for line in process.stderr:
        if requests_shown.is_set():
            print(line, end="", file=sys.stderr)


def show(console: Console, url: str) -> None:
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


def main() -> int:
    console = Console(width=None if sys.stdout.isatty() else 110)
    ingest()
    served = serve(PORT) or serve(0)
    if served is None:
        return 1
    process, url = served
    try:
        show(console, url)
        if not sys.stdout.isatty():
            console.print(
                "\nThe demo is over, and its server stops. To serve the library until you press Ctrl-C:",
                highlight=False,
            )
            console.print(f"{SERVE}\n", highlight=False)
            return 0
        console.print(
            f"\nOpen [bold]{url}/[/] in a browser. Every call can be tried on its interactive page: [bold]{url}/docs[/]"
        )
        console.print(
            f'or: curl "{url}/v1/search?q=word+embeddings&fields=title,year&limit=3"', highlight=False
        )
        console.print("Serving until you press Ctrl-C.")
        requests_shown.set()
        return process.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
