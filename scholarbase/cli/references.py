"""``scholarbase check``: the references of a file against a library or a server."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from scholarbase.cli.options import as_of_option, open_source, print_json, source_options
from scholarbase.errors import InvalidRequest
from scholarbase.files import ZIP, atomic_write, storage_errors, wide_encoding
from scholarbase.models.limits import MAX_REFERENCE_BYTES, REFERENCE_FORMATS, REFERENCE_STATUSES
from scholarbase.models.papers import ALL_FIELDS
from scholarbase.settings import Settings
from scholarbase.terminal import printable

if TYPE_CHECKING:
    from scholarbase.models.responses import CheckResponse

FAILED: Final = 1
"""The exit status if a reference has a status of ``--fail-on``."""
_FAIL_ON: Final = (*REFERENCE_STATUSES[1:], "different")
"""The names of ``--fail-on``: statuses, and ``different`` for references that differ from their papers."""
_FIELDS: Final = "id,title,authors,year,venue,url"


@click.command(short_help="Check the references of a file.")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--format",
    "input_format",
    type=click.Choice(REFERENCE_FORMATS),
    default="auto",
    show_default=True,
    help="The format of FILE; auto looks at its content.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Write a report in Markdown: a .md file.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write FILE with the library's titles and authors, and its years where those of FILE are earlier: a "
    ".bib file. Ids and venues stay.",
)
@click.option(
    "--fail-on",
    default="",
    help=f"Exit with status 1 if a reference is one of these: {', '.join(_FAIL_ON)} (from its paper).",
)
@as_of_option
@source_options
@click.pass_obj
def check(
    settings: Settings,
    /,
    file: Path,
    report: Path | None,
    output: Path | None,
    fail_on: str,
    as_json: bool,
    library: Path | None,
    url: str | None,
    encoder: str | None,
    **options: Any,
) -> None:
    """Check the references of FILE (- for standard input): BibTeX, RIS, CSL-JSON, or one reference, DOI or id per line.

    A reference is held, near other papers, withdrawn, retracted, not in this snapshot, or unreadable.
    """
    from scholarbase.responses.correcting import corrected
    from scholarbase.responses.report import as_markdown

    failing = _fail_on(fail_on)
    for name, path, ending in (("report", report, ".md"), ("output", output, ".bib")):
        if path is not None and path.suffix.lower() != ending:
            raise InvalidRequest(f"--{name} {path} is not a {ending} file: use this ending.")
    text = read_text(file, MAX_REFERENCE_BYTES)
    with open_source(settings, library, url, encoder, default_encoder="none") as source:
        response = source.check_references(
            text, fields=ALL_FIELDS if output else _FIELDS.split(","), **options
        )
    if report is not None:
        with storage_errors(report), atomic_write(report) as out:
            out.write(as_markdown(response, file.name).encode())
    if output is not None:
        with storage_errors(output), atomic_write(output) as out:
            written = corrected(text, response)
            out.write(written.encode())
        click.echo(
            f"Wrote {output}: {_changed(text, written, response)} of its references changed.", err=True
        )
    keys = Counter(getattr(result, "key", None) for result in response.results)
    if repeated := [key for key, count in keys.items() if key is not None and count > 1]:
        click.echo(printable(f"Keys of several references: {', '.join(repeated)}."), err=True)
    if as_json:
        print_json(response.to_dict())
    else:
        from scholarbase.cli.display import show_checked

        show_checked(response)
    is_different = any(getattr(result, "differences", None) for result in response.results)
    if ("different" in failing and is_different) or any(response.counts.get(name) for name in failing):
        sys.exit(FAILED)


def _changed(text: str, written: str, response: CheckResponse) -> int:
    """The number of references of ``text`` that the corrected bibliography has in other words."""
    from scholarbase.bibliographies import read_bibliography

    before = read_bibliography(text, response.input_format, most=None).references
    if response.input_format != "bibtex":
        return sum(getattr(result, "paper", None) is not None for result in response.results)
    after = read_bibliography(written, "bibtex", most=None).references
    return sum(old.raw != new.raw for old, new in zip(before, after, strict=False))


def _fail_on(text: str) -> Sequence[str]:
    """The names of ``--fail-on``, separated by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in _FAIL_ON:
            raise InvalidRequest(f"--fail-on has {name!r}: use some of {', '.join(_FAIL_ON)}.")
    return names


def read_text(file: Path, most: int) -> str:
    """The text of a file or of standard input, of at most ``most`` bytes.

    Raises:
        InvalidRequest: it cannot be read, is too long, or is not UTF-8.
    """
    try:
        with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as source:
            content = source.read(most + 1)  # a device may have no end
        if len(content) > most:
            raise InvalidRequest(f"{file} has more than {most:,} bytes: check it in several parts.")
        if content.startswith(ZIP):
            raise InvalidRequest(
                f"{file} is a ZIP archive, as documents of Word are: save the document as plain text, or unpack it."
            )
        if (encoding := wide_encoding(content.partition(b"\n")[0])) is not None:
            raise InvalidRequest(f"{file} is in {encoding}: save it as UTF-8.")
        return content.decode()
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read ({error.strerror}): give another file.") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"{file} is not UTF-8 (byte {error.start + 1:,}): save a document as plain text, or convert the file, "
            "such as by iconv -f latin1 -t utf-8."
        ) from error
