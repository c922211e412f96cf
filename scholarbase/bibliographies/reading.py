"""Reading a bibliography of any format, which its content shows, and checking one of any length in several requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scholarbase.bibliographies import bibtex, ris
from scholarbase.bibliographies.bibtex import read_bibtex
from scholarbase.bibliographies.csl import read_csl
from scholarbase.bibliographies.lines import read_lines
from scholarbase.bibliographies.references import Reference
from scholarbase.bibliographies.ris import read_ris
from scholarbase.errors import InvalidRequest
from scholarbase.models.check_requests import CheckBody
from scholarbase.models.limits import MAX_REFERENCE_BYTES, MAX_REFERENCES, ReferenceFormat
from scholarbase.models.responses import CheckedReference, CheckResponse, count_statuses

_MAX_BYTES: Final = 100_000_000
"""Bytes of a text that is read to be split into several requests."""
_LINE_END: Final = re.compile(r"\r\n?|[\u2028\u2029\x0b\x0c]")
_SEND: Final = "send BibTeX, RIS, CSL-JSON, or one reference, DOI or id per line"
_OTHER_FORMATS: Final = (
    (re.compile(r"<(?:\?xml|!doctype|html|xml|records|\w*articleset)\b", re.I), "XML or HTML"),
    (re.compile(r"\{\\rtf"), "RTF"),
    (re.compile(r"%PDF-"), "a PDF"),
)
"""The starts of files that are no bibliography, and what they are."""
_CELLS: Final = re.compile(r"[,;\t]")
_COLUMNS: Final = frozenset({"author", "authors", "doi", "year", "publication year"})
"""Columns of which tables of papers have one besides their titles."""


@dataclass(frozen=True, slots=True)
class Bibliography:
    """References in their order, and the format that they were read as.

    ``strings`` are the blocks of a BibTeX file that entries share: ``@string`` and ``@xdata``.
    """

    format: ReferenceFormat
    references: tuple[Reference, ...]
    strings: str = ""

    def text_of(self, references: Sequence[Reference]) -> str:
        """A text in this format with some of the references."""
        raws = [reference.whole for reference in references]
        if self.format == "csl-json":
            return f"[{','.join(raws)}]"
        if self.format == "text":
            return "\n\n".join(" ".join(raw.split()) for raw in raws)
        return "\n\n".join(filter(None, (self.strings, *raws)))

    def parts(self) -> Iterator[Sequence[Reference]]:
        """The references in parts that one request takes."""
        part: list[Reference] = []
        room = size = MAX_REFERENCE_BYTES - len(self.strings.encode()) - 1000
        for reference in self.references:
            length = len(reference.whole.encode()) + 2
            if part and (len(part) == MAX_REFERENCES or length > room):
                yield part
                part, room = [], size
            part.append(reference)
            room -= length
        if part:
            yield part


def read_bibliography(
    text: str, input_format: ReferenceFormat = "auto", *, most: int | None = MAX_REFERENCES
) -> Bibliography:
    """The references of a text. One that cannot be read is among them, with its ``problem``.

    Args:
        most: the maximum number of references, None for any number.

    Raises:
        InvalidRequest: the text is empty, is too long or has more references, or is of a file of another kind.
    """
    limit = _MAX_BYTES if most is None else MAX_REFERENCE_BYTES
    if len(text) > limit or (not text.isascii() and len(text.encode("utf-8", "surrogatepass")) > limit):
        raise InvalidRequest(
            f"references is longer than {limit:,} bytes: split it between two entries and send several requests, as "
            "the command line and the clients do."
        )
    text = with_line_feeds(text)
    found_format = detect(text) if input_format == "auto" else input_format
    starts = {"bibtex": bibtex.ENTRY, "ris": ris.START}.get(found_format)
    if most is not None and starts is not None:  # before they are read
        _check_count(sum(1 for _ in starts.finditer(text)), most)
    strings = ""
    if found_format == "bibtex":
        references, strings = read_bibtex(text)
    else:
        references = {"ris": read_ris, "csl-json": read_csl, "text": read_lines}[found_format](text)
    if not references:
        raise InvalidRequest(f"references has no reference in the format {found_format}: {_SEND}.")
    if most is not None:
        _check_count(len(references), most)
    return Bibliography(found_format, tuple(references), strings)


def with_line_feeds(text: str) -> str:
    """The text that references are read from, with one kind of line end."""
    return _LINE_END.sub("\n", text.removeprefix("\ufeff"))


def detect(text: str) -> ReferenceFormat:
    """The format of a text by its content; ``text`` for everything but the others.

    Raises:
        InvalidRequest: it is a file of another kind, whose lines would all be taken for references.
    """
    start = text.lstrip()
    if start[:1] in ("{", "[") and re.match(r"[\[{]\s*[\[{\"\]}]", start[:1000]):
        return "csl-json"
    if ris.START.search(text):
        return "ris"
    if bibtex.START.search(text):
        return "bibtex"
    for other, name in _OTHER_FORMATS:
        if other.match(start):
            raise InvalidRequest(f"references is {name}: {_SEND}.")
    header = {cell.strip(' "').lower() for cell in _CELLS.split(start[:1000].partition("\n")[0])}
    if header & {"title", "article title"} and header & _COLUMNS:
        raise InvalidRequest(f"references is a table (CSV): export it in another format, or {_SEND}.")
    return "text"


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise InvalidRequest(
            f"references has {count:,} references: the maximum in one request is {most:,}. Split them between two "
            "entries and send several requests, as the command line and the clients do."
        )


# -- requests -----------------------------------------------------------------------------------------

Placed = tuple[int, Reference]
"""A reference and its position, from 1."""


@dataclass(frozen=True, slots=True)
class CheckRequests:
    """A bibliography in parts that one request each takes."""

    body: CheckBody
    bibliography: Bibliography

    @property
    def parts(self) -> list[list[Placed]]:
        placed = iter(enumerate(self.bibliography.references, 1))
        return [[next(placed) for _ in part] for part in self.bibliography.parts()]

    def body_of(self, part: Sequence[Placed]) -> CheckBody:
        """The request for some of the references."""
        if len(part) == len(self.bibliography.references):
            return self.body
        text = self.bibliography.text_of([reference for _, reference in part])
        return self.body.model_copy(update={"references": text, "input_format": self.bibliography.format})

    def response(self, snapshot: str, results: Sequence[CheckedReference]) -> CheckResponse:
        """The response with the results of all references, in order."""
        return CheckResponse(
            snapshot, self.bibliography.format, count_statuses(results), tuple(results), self.body.fields
        )


def check_requests(**arguments: Any) -> CheckRequests:
    """The requests for the arguments of ``check_references``.

    Raises:
        InvalidRequest: an argument is invalid.
    """
    body = CheckBody.of(**arguments)
    return CheckRequests(body, read_bibliography(body.references, body.input_format, most=None))


def placed(result: CheckedReference, at: Placed) -> CheckedReference:
    """The result of a part with its place in the whole bibliography."""
    return msgspec.structs.replace(result, position=at[0], line=at[1].line)
