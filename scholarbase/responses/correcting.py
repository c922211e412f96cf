"""A bibliography as BibTeX with what a check of it found."""

from __future__ import annotations

import re
from typing import Final

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

    Entries of BibTeX keep everything else. Of other formats, each reference is the entry of its paper. A year stays if
    it is after the library's, as that of a journal is after that of a preprint.

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
    text, end, parts = with_line_feeds(text), 0, []
    for reference, result in zip(bibliography.references, response.results, strict=True):
        begin = text.index(reference.raw, end)
        remark = _remark(result)
        if remark and text[:begin].rpartition("\n")[2].strip():
            remark = f"\n{remark}"
        parts += [text[end:begin], remark, _corrected_entry(reference.raw, result)]
        end = begin + len(reference.raw)
    return "".join((*parts, text[end:]))


def _remark(result: CheckedReference | Unfinished) -> str:
    if isinstance(result, Unfinished):
        return f"% not checked: {_outside(result.error)}\n"
    return "" if result.status == "held" else f"% {LABELS[result.status]}: {_outside(result.reason)}\n"


def _outside(text: str) -> str:
    """A text between entries, where an @ would begin one."""
    return plain(text).replace("@", "")


def _corrected_entry(entry: str, result: CheckedReference | Unfinished) -> str:
    if isinstance(result, Unfinished) or result.paper is None:
        return entry
    values = bibtex_values(result.paper)
    for difference in result.differences:
        name = _FIELDS.get(difference.field, "")
        if name in values and not _is_later(difference):
            entry = _with_value(entry, name, f"{{{values[name]}}}")
    return entry


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
