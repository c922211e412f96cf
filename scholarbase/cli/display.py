"""Responses formatted for the terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scholarbase.files import disk_size
from scholarbase.manifest import Manifest, SourceFact
from scholarbase.models.encoders import EncoderSpec
from scholarbase.models.papers import Paper
from scholarbase.models.responses import (
    AuthorsResponse,
    CheckedReference,
    CheckResponse,
    FacetsResponse,
    Response,
)
from scholarbase.responses.report import summary_line
from scholarbase.responses.text import as_text, plain, reference_lines
from scholarbase.terminal import escape

_UNLISTED: Final = ("abstract", "comment", "corpus_id", "external_ids", "tldr", "url")
"""Fields that a list of papers leaves out."""
_STATUS_STYLES: Final = {"held": "", "near": "yellow", "withdrawn": "yellow"} | dict.fromkeys(
    ("retracted", "not_in_snapshot", "unreadable"), "red"
)


def _console() -> Console:
    # Without a terminal, rich would wrap at 80 columns.
    return Console(width=None if sys.stdout.isatty() else 110, highlight=False, soft_wrap=False)


def show(response: Response | Paper) -> None:
    """Print a response as ``format=text`` of the API has it; papers in a list without their longest fields."""
    if isinstance(response, FacetsResponse):
        return _show_facets(response)
    if isinstance(response, AuthorsResponse):
        return _show_authors(response)
    content = response.to_dict()
    if "results" in content:
        content["results"] = [item if "paper" in item else {"paper": item} for item in content["results"]]
    for item in content.get("results", ()):
        for name in _UNLISTED:
            item["paper"].pop(name, None)
        if item.get("contexts"):
            item["contexts"] = [textwrap.shorten(item["contexts"][0], 200)]
    text = Text(as_text(content))
    text.highlight_regex(r"(?m)^\S.*$", "bold")
    return _console().print(text)


def _show_facets(response: FacetsResponse) -> None:
    console = _console()
    what = {"filters": "papers", "results": "results of the search", "matches": "matching papers"}
    more = ", and there may be more" if response.total_relation == "gte" else ""
    console.print(
        f"[dim]{response.total:,} {what.get(response.counted, 'papers')} counted{more}; snapshot "
        f"{response.snapshot}[/dim]"
    )
    for warning in response.warnings:
        console.print(f"[yellow]Warning: {escape(warning)}[/yellow]")
    for name in ("year", "category", "venue"):
        facet = getattr(response, name)
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column(justify="right")
        for entry in facet.values:
            table.add_row(f"{entry.papers:,}", escape(str(entry.value)))
        if facet.distinct > len(facet.values):
            table.add_row("", f"and {facet.distinct - len(facet.values):,} more")
        if facet.unknown:
            table.add_row(f"{facet.unknown:,}", "unknown")
        console.print(f"[bold]{name}[/bold]")
        console.print(table)


def show_checked(response: CheckResponse) -> None:
    console = _console()
    for position, reference in enumerate(response.results, 1):
        if isinstance(reference, CheckedReference):
            number = f"{position}. " if reference.key is None else f"{position}. [{plain(reference.key)}] "
            content = msgspec.to_builtins(reference)
            console.print(
                Text("\n".join(reference_lines(content, number)), style=_STATUS_STYLES[reference.status])
            )
    console.print(f"{summary_line(response)}; snapshot {response.snapshot}")


def _show_authors(response: AuthorsResponse) -> None:
    console = _console()
    console.print(f"[dim]{response.total:,} authors; snapshot {response.snapshot}[/dim]")
    for position, author in enumerate(response.results, 1):
        papers = "1 paper" if author.paper_count == 1 else f"{author.paper_count:,} papers"
        text = Text(f"{position:>3}.  ", style="dim")
        text.append(plain(author.name), style="bold")
        text.append(
            f"\n      {' · '.join(map(plain, (author.id, papers, *author.affiliations)))}", style="cyan"
        )
        console.print(text)


def show_info(path: Path, manifest: Manifest, snapshot: str) -> None:
    from scholarbase.cli.summary import summary

    console = _console()
    console.print(f"[bold]{escape(str(path))}[/bold]  snapshot {snapshot}")
    console.print(_table("", [*summary(path, manifest), *_facts(path, manifest).items()]))
    sources = Table("source", "dataset", "MB", "sha256", box=None, header_style="dim", pad_edge=False)
    files = [file for past in manifest.updates for step in past["steps"] for file in step["files"]]
    for source in (*manifest.sources, *(msgspec.convert(file, SourceFact) for file in files)):
        name, dataset, digest = map(escape, (source.name, source.dataset, source.sha256[:16]))
        sources.add_row(name, dataset, f"{source.bytes / 1e6:,.1f}", digest)
    console.print(sources)
    if manifest.sets:
        rows = [
            (f"set:{name}", f"{entry['papers']:,} papers of {', '.join(entry['sources'])}")
            for name, entry in manifest.sets.items()
        ]
        console.print(_table("named sets", rows))


def show_facts(facts: Mapping[str, object]) -> None:
    """Print a table of names and values."""
    _console().print(
        _table("", [(name, "none" if value is None else value) for name, value in facts.items()])
    )


def _facts(path: Path, manifest: Manifest) -> dict[str, str]:
    # Without hidden files, the temporary ones of servers.
    size = disk_size(file for file in path.rglob("*") if "/." not in f"/{file.relative_to(path)}")
    return {
        "keep rule": str(manifest.rules["keep"]),
        "encoder": _encoder(manifest.encoder) if manifest.encoder else "none",
        "dense vectors": f"{manifest.counts['dense_vectors']:,}",
        **({"shards of vectors": str(manifest.shards)} if manifest.shards > 1 else {}),
        "on disk": f"{size / 1e6:,.1f} MB",
    }


def _encoder(spec: EncoderSpec) -> str:
    vectors = f"{spec.dimensions} dimensions" if spec.dimensions else "learned term weights only"
    queries = f"; queries: {spec.query.name} ({spec.query.kind})" if spec.query else ""
    return f"{spec.name} ({spec.kind}, {vectors}){queries}"


def _table(title: str, rows: Iterable[tuple[str, object]]) -> Table:
    table = Table(title=title or None, box=None, show_header=False, title_justify="left", pad_edge=False)
    for name, value in rows:
        table.add_row(f"[dim]{escape(name.replace('_', ' '))}[/dim]", escape(str(value)))
    return table
