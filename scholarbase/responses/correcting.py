"""A bibliography as BibTeX with what a check of it found."""

from __future__ import annotations

import re
from typing import Final

from bibtexparser.model import Entry
from bibtexparser.splitter import Splitter

from scholarbase.bibliographies.names import outside_braces
from scholarbase.bibliographies.reading import read_bibliography, with_line_feeds
from scholarbase.bibliographies.writing import bibtex_entry, bibtex_values, citation_keys
from scholarbase.models.responses import CheckedReference, CheckResponse, Difference, Unfinished
from scholarbase.responses.text import LABELS, plain

_FIELDS: Final = {"title": "title", "authors": "author", "year": "year"}
"""What is corrected, and the names in BibTeX."""
_BRACES: Final = re.compile(r'\\.|[{}",]', re.DOTALL)


def corrected(text: str, response: CheckResponse) -> str:
    """The bibliography ``text`` with the titles, authors and years of the library, and a comment before each reference
    that is not held.

    Entries of BibTeX keep everything else. One whose fields cannot be told apart for certain stays as it is, with a
    comment. Of other formats, each reference is the entry of its paper. A year after the library's stays: journals
    print papers later than their preprints appear.

    Args:
        response: the check of ``text``, with the papers' fields that the entries are to have.
    """
    bibliography = read_bibliography(text, response.input_format, most=None)
    if bibliography.format != "bibtex":
        checked = [result for result in response.results if isinstance(result, CheckedReference)]
        papers = [result.paper for result in checked if result.paper]
        keys = iter(citation_keys(papers))
        return "\n".join(
            _remark(result)
            + (
                bibtex_entry(paper, next(keys), whole=True)
                if paper is not None
                else f"% {_outside(reference.raw)}\n"
            )
            for reference, result in zip(bibliography.references, response.results, strict=True)
            for paper in [getattr(result, "paper", None)]
        )
    line_end = "\r\n" if "\r\n" in text else "\n"
    text, end, parts = with_line_feeds(text), 0, []
    for reference, result in zip(bibliography.references, response.results, strict=True):
        begin = text.index(reference.raw, end)
        entry, uncorrected = _corrected_entry(reference.raw, result)
        remark = _remark(result)
        if uncorrected:
            remark += f"% not corrected: {', '.join(uncorrected)} of the next entry\n"
        if text[end:begin].endswith(remark):  # a bibliography that was corrected before
            remark = ""
        if remark and text[:begin].rpartition("\n")[2].strip():
            remark = f"\n{remark}"
        parts += [text[end:begin], remark, entry]
        end = begin + len(reference.raw)
    return "".join((*parts, text[end:])).replace("\n", line_end)


def _remark(result: CheckedReference | Unfinished) -> str:
    if isinstance(result, Unfinished):
        return f"% not checked: {_outside(result.error)}\n"
    return "" if result.status == "held" else f"% {LABELS[result.status]}: {_outside(result.reason)}\n"


def _outside(text: str) -> str:
    """A text between entries, where an @ would begin one."""
    return plain(text).replace("@", "")


def _corrected_entry(entry: str, result: CheckedReference | Unfinished) -> tuple[str, list[str]]:
    """The entry with the library's values, and the names of the fields that cannot be replaced for certain."""
    uncorrected: list[str] = []
    if isinstance(result, Unfinished) or result.paper is None:
        return entry, uncorrected
    values, fields = bibtex_values(result.paper), _fields_of(entry)
    for difference in result.differences:
        name = _FIELDS.get(difference.field, "")
        if name not in values or _is_later(difference):
            continue
        value = f"{{{values[name]}}}"
        changed = _with_value(entry, name, value)
        if (
            fields is None
            or (name == "year" and name not in fields and "date" in fields)
            or _fields_of(changed) != fields | {name: value}
        ):
            uncorrected.append(name)
        else:
            entry, fields = changed, fields | {name: value}
    return entry, uncorrected


def _fields_of(entry: str) -> dict[str, str] | None:
    """The fields of an entry as they are written; None if it is not one whole entry with each field once, or a value
    goes on after its end."""
    blocks = Splitter(entry).split().blocks
    if len(blocks) != 1 or not isinstance(blocks[0], Entry):
        return None
    fields = {field.key.lower(): str(field.value) for field in blocks[0].fields}
    return (
        fields if len(fields) == len(blocks[0].fields) and all(map(_is_one_value, fields.values())) else None
    )


def _is_one_value(written: str) -> bool:
    """Whether a value is not followed by a comment, or by another field without a comma before it."""
    outside = outside_braces(written).strip()
    is_quoted = outside.count('"') == 2 and outside[0] == outside[-1] == '"'
    return is_quoted or not {"=", "%"} & {*outside}


def _is_later(difference: Difference) -> bool:
    years = (difference.reference, difference.library)
    return difference.field == "year" and all(map(str.isdecimal, years)) and int(years[0]) > int(years[1])


def _with_value(entry: str, name: str, value: str) -> str:
    """The entry with another value of a field, which is added after the key if it lacks the field."""
    starts = [mark.end() for mark in _commas(entry)]
    ends = [*(start - 1 for start in starts[1:]), len(entry.rstrip()) - 1]
    for start, end in zip(starts, ends, strict=False):
        if (field := re.compile(rf"\s*{name}\s*=\s*", re.IGNORECASE).match(entry, start, end)) is not None:
            return entry[: field.end()] + value + entry[len(entry[:end].rstrip()) :]
    return f"{entry[: starts[0]]}\n  {name} = {value},{entry[starts[0] :]}" if starts else entry


def _commas(entry: str) -> list[re.Match[str]]:
    """The commas that fields of an entry follow, the one after the key first."""
    commas: list[re.Match[str]] = []
    depth, is_quoted = 0, False
    for mark in _BRACES.finditer(entry):
        if mark[0] == "{":
            depth += 1
        elif mark[0] == "}":
            depth -= 1
        elif mark[0] == '"' and depth == 1:
            is_quoted = not is_quoted
        elif mark[0] == "," and depth == 1 and not is_quoted:
            commas.append(mark)
    return commas
