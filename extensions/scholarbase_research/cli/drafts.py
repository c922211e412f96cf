"""``scholarbase check-draft``: the sentences of a draft against the papers that they cite."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from scholarbase.cli.options import as_of_option, open_source, print_json, source_options
from scholarbase.cli.references import read_text
from scholarbase.errors import InvalidRequest
from scholarbase.settings import Settings
from scholarbase.terminal import printable
from scholarbase_research.claims.drafts import DraftFormat

FAILED: Final = 1
"""The exit status if a citation has a status or a label of ``--fail-on``."""
_MAX_BYTES: Final = 8_000_000
_FORMATS: Final[Mapping[str, DraftFormat]] = {".tex": "latex", ".md": "markdown"}
_FAILING: Final = (
    "retracted", "withdrawn", "near", "other_version", "not_in_snapshot", "no_entry", "unreadable", "contradicts",
    "not_found",
)  # fmt: skip
_SUSPECT: Final = frozenset({
    "retracted", "withdrawn", "near", "not_in_snapshot", "no_entry", "unreadable", "contradicts",
})  # fmt: skip
"""Statuses and labels that are listed at the end. Most claims that are not found are right."""
_NAMED: Final = re.compile(
    r"\\(?:bibliography|addbibresource)\s*(?:\[[^\]]*\])?\{([^{}]+)\}|^bibliography:[ \t]*[\"']?([^\s\"'\[]+)",
    re.M,
)


@click.command("check-draft", short_help="Check what a draft cites for what.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--bibliography",
    "bibliographies",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A file of entries; may be repeated. By default those that the draft names, in its own folder.",
)
@click.option("--date", help="The day of the draft, to which retractions are compared.")
@click.option("--judge", help="Who gives the label: model (SCHOLARBASE_MODEL), or the name of a reranker.")
@click.option(
    "--fail-on",
    default="",
    help=f"Exit with status 1 if a citation has one of these: {', '.join(_FAILING)}.",
)
@as_of_option
@source_options
@click.pass_obj
def check_draft(
    settings: Settings,
    /,
    file: Path,
    bibliographies: Sequence[Path],
    fail_on: str,
    as_json: bool,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    **options: Any,
) -> None:
    """Compare each sentence of FILE (- for standard input) that cites with the papers that it cites: LaTeX or Markdown.

    A sentence is supported, contradicted or not found in its paper, which does not mean that it is false. A reference
    is held, retracted, another version, near other papers, not in this snapshot, or without an entry.
    """
    from scholarbase.client import Client
    from scholarbase_research.claims import check_draft as check

    failing = [name.strip() for name in fail_on.split(",") if name.strip()]
    for name in failing:
        if name not in _FAILING:
            raise InvalidRequest(f"--fail-on has {name!r}: use some of {', '.join(_FAILING)}.")
    text = _without_mark(file)
    entries = "\n\n".join(map(_without_mark, bibliographies or _named(text, file)))
    form = _FORMATS.get(file.suffix.lower(), "auto")
    options |= {"bibliography": entries or None, "draft_format": form}
    judge = options["judge"] if options["judge"] != "model" else None
    with open_source(settings, library, url, encoder, default_encoder="none", rerank=judge) as source:
        if isinstance(source, Client):
            content = source.check_draft(text, **options)
        else:
            content = check(source, text, **options).to_dict()
    if as_json:
        print_json(content)
    else:
        texts = map("\n".join, (*map(_lines, content["citations"]), _totals(content), _suspects(content)))
        click.echo(printable("\n\n".join(text for text in texts if text)))
    counts = {**content["references"], **content["claims"]}
    if any(counts.get(name) for name in failing):
        sys.exit(FAILED)


def _without_mark(file: Path) -> str:
    """The text of a file without a byte order mark."""
    return read_text(file, _MAX_BYTES).removeprefix("\ufeff")


def _named(text: str, file: Path) -> list[Path]:
    """The bibliographies that a draft names, if they are below its folder."""
    names = [name.strip() for match in _NAMED.findall(text) for name in (match[0] or match[1]).split(",")]
    folder = file.resolve().parent
    paths = ((folder / (name if Path(name).suffix else f"{name}.bib")).resolve() for name in names if name)
    return [path for path in paths if path.is_relative_to(folder) and path.is_file()]


def _lines(citation: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a citation, from its JSON."""
    yield f"line {citation['line']}, {citation['key']}: {_words(citation['label'])}, {_words(citation['reference'])}"
    yield f"   {citation['claim']}"
    yield f"   {citation['reason']}"
    for sentence in citation.get("sentences", ()):
        yield f"   Nearest sentence ({sentence['score']:.2f}): {sentence['text']}"
    if citation["paper"] is not None:
        title, name = (citation["paper"][key] for key in ("title", "id"))
        yield f"   Paper: {title} ({name}), nearness {citation['nearness']:.2f}"
    if citation["reference"] != "held":
        yield f"   {citation['reference_reason']}"
    for difference in citation.get("differences", ()):
        yield f"   {difference['field']}: {difference['reference']} (library: {difference['library']})"
    if (other := citation.get("said_by")) is not None:
        yield f"   These words are in {other['id']}, {other['title']}: {other['sentence']}"


def _totals(content: Mapping[str, Any]) -> Iterator[str]:
    for name in ("references", "claims"):
        counts = (f"{count:,} {_words(value)}" for value, count in content[name].items())
        yield f"{name.capitalize()}: {', '.join(counts)}."


def _suspects(content: Mapping[str, Any]) -> Iterator[str]:
    """A heading and a line for each citation that is probably wrong; none without one."""
    lines = []
    for citation in content["citations"]:
        found = [_words(citation[name]) for name in ("reference", "label") if citation[name] in _SUSPECT]
        if (other := citation.get("said_by")) is not None:
            found.append(f"its words are in {other['id']}")
        if found:
            lines.append(f"   line {citation['line']}, {citation['key']}: {', '.join(found)}")
    if lines:
        yield "Check these first:"
        yield from lines


def _words(name: str) -> str:
    return name.replace("_", " ")
