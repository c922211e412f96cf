"""What an ingest or an update did with its sources, in a short table."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import orjson

from scholarbase.errors import FilesRejected
from scholarbase.ingest.folder import REJECTS
from scholarbase.manifest import Manifest
from scholarbase.responses.text import counted
from scholarbase.terminal import printable

Row = tuple[str, str]
_FILE_SOURCES: Final = ("jats", "latexml", "markdown", "text", "pdf")
_MERGED: Final = ("arxiv_joined", "arxiv_ids_repeated", "openalex_joined", "own_joined")
"""Counts of records that an ingest merged into papers of others."""
_KEPT: Final = ("scan", "conflict")
"""Reasons in the rejects file of records that are not rejected: the library has them, without a text or an id."""


def print_summary(library: Path, manifest: Manifest) -> None:
    """Print the table.

    Raises:
        FilesRejected: files of full texts could not be read.
    """
    rows = list(summary(library, manifest))
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(printable(f"{name:<{width}}  {value}"))
    check_files(manifest)


def check_files(manifest: Manifest) -> None:
    """Raise FilesRejected if files of full texts could not be read."""
    read, rejected = (
        sum(manifest.counts.get(f"{kind}_{source}", 0) for source in _FILE_SOURCES)
        for kind in ("lines", "rejects")
    )
    if rejected:
        raise FilesRejected(
            f"The library is complete, without {rejected:,} of {read:,} files of full texts that could not be read: "
            f"{REJECTS} in its folder names them."
        )


def summary(library: Path, manifest: Manifest) -> Iterator[Row]:
    """The rows of the table: a name, and a sentence without its full stop. A row without a name continues the last."""
    counts = manifest.counts
    if manifest.updates:
        changes = ("updated", "unchanged", "deleted")
        read = [f"{counts.get(f'records_{kind}', 0):,} {kind}" for kind in changes]
    else:
        kinds = dict.fromkeys(source.dataset for source in manifest.sources)
        read = [f"{counts[f'lines_{kind}']:,} {kind}" for kind in kinds if f"lines_{kind}" in counts]
    if read:
        yield "read", ", ".join(read)
    if manifest.updates:
        yield "", "the counts below are of this update alone, except for what is kept"
    yield (
        "kept",
        f"{counted(counts['papers'], 'paper')}, {counts['abstracts']:,} with an abstract; "
        f"{counted(counts['edges'], 'citation')}",
    )
    if read:
        yield from _named("left out", _left_out(manifest))
    if read and not manifest.updates:
        merged = sum(counts.get(name, 0) for name in _MERGED)
        repeated = counts.get("papers_repeated", 0)
        yield (
            "merged",
            f"{counted(merged, 'record')} of papers that another record has; {counted(repeated, 'repeated record')}",
        )
        if repaired := counts.get("arxiv_ids_repaired", 0):
            yield "repaired", counted(repaired, "damaged arXiv id")
    conflicts = counts.get("conflicts", 0)
    where = f"; {REJECTS} names them" if conflicts else ""
    yield "conflicts", f"{counted(conflicts, 'id')} of different papers{where}"
    yield from _rejected(library, manifest)
    lost = {
        "from or to papers that are left out, or in none of the files read": counts.get(
            "citations_outside_the_library", 0
        ),
        "without the id of the citing or the cited paper": counts.get("citations_with_an_unknown_end", 0),
        "of a paper to itself": counts.get("self_citations", 0),
        "in bibliographies of full texts, of papers that the library lacks": counts.get(
            "bibliography_entries_without_paper", 0
        ),
    }
    yield from _named("lead nowhere", (f"{counted(n, 'reference')} {what}" for what, n in lost.items() if n))
    if manifest.documents is not None:
        yield from _named("full texts", _full_texts(manifest))


def _named(name: str, sentences: Iterator[str]) -> Iterator[Row]:
    for number, sentence in enumerate(sentences):
        yield "" if number else name, sentence


def _left_out(manifest: Manifest) -> Iterator[str]:
    counts, keep = manifest.counts, manifest.rules["keep"]
    without_id, without_text = (counts.get(f"papers_without_{what}", 0) for what in ("arxiv_id", "text"))
    if without_id:
        option = "--profile default" if manifest.profile == "scholarquest" else "--keep text"
        yield f"{counted(without_id, 'paper')} without an arXiv id; {option} keeps all with an abstract or a full text"
    if without_text:
        lacking = "an abstract" if keep == "arxiv" else "an abstract or a full text"
        yield f"{counted(without_text, 'paper')} without {lacking}; --keep title keeps all papers"
    if not without_id and not without_text:
        yield f"0 papers, by --keep {keep}"


def _rejected(library: Path, manifest: Manifest) -> Iterator[Row]:
    reasons = {name: count for name, count in manifest.rejects.items() if name not in _KEPT}
    listed = ", ".join(
        f"{count:,} {name}" for name, count in sorted(reasons.items(), key=lambda item: -item[1])
    )
    yield "rejected", f"{sum(reasons.values()):,}" + (f" ({listed})" if listed else "")
    if reasons and (first := _first(library / REJECTS)) is not None:
        yield "", f"the first: line {first['line']} of {first['file']}: {first['detail']}"


def _first(path: Path) -> Mapping[str, Any] | None:
    """The first rejected line of a file, None without one."""
    if not path.exists():
        return None
    with gzip.open(path) as lines:
        rejects = (orjson.loads(line) for line in lines)
        return next((reject for reject in rejects if reject["reason"] not in _KEPT), None)


def _full_texts(manifest: Manifest) -> Iterator[str]:
    assert manifest.documents is not None
    counts = manifest.counts
    scans = counts.get("documents_without_text", 0)
    chunker = manifest.documents["chunker"]
    yield f"{counts['documents'] - scans:,}, in {counted(counts['passages'], 'passage')} ({chunker})"
    if scans:
        yield f"and {counted(scans, 'document')} without text, such as scans, which are shown and not searched"
