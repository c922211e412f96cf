"""A bibliography as BibTeX with what a check of it found."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from typing import Final

from scholarbase.bibliographies.bibtex import is_value, written_fields
from scholarbase.bibliographies.latex import with_protected_capitals
from scholarbase.bibliographies.reading import read_bibliography, with_line_feeds
from scholarbase.bibliographies.writing import bibtex_entry, bibtex_values, citation_keys
from scholarbase.models.responses import CheckedReference, CheckResponse, Difference, Unfinished
from scholarbase.responses.text import LABELS, plain

_FIELDS: Final = {"title": "title", "authors": "author", "year": "year"}
"""What is corrected, and the names in BibTeX."""


def corrected(text: str, response: CheckResponse, chosen: Mapping[int, Collection[str]] | None = None) -> str:
    """The bibliography ``text`` with the titles, authors and years of the library, and a comment before each reference
    that is not held.

    Entries of BibTeX keep everything else. One whose fields cannot be told apart for certain stays as it is, with a
    comment. Of other formats, each reference is the entry of its paper.

    Args:
        response: the check of ``text``, with the papers' fields that the entries are to have.
        chosen: the fields to correct by the position of a reference, such as ``{1: ["title"]}``. By default all, but
            a year only if it is before the library's: journals print papers later than their preprints appear.
    """
    bibliography = read_bibliography(text, response.input_format, most=None)
    if bibliography.format != "bibtex":
        papers = [result.paper for result in response.results if isinstance(result, CheckedReference)]
        keys = iter(citation_keys([paper for paper in papers if paper is not None]))
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
    original_of = _positions(text)
    text_read, end, copied, parts = with_line_feeds(text), 0, 0, []
    pairs = zip(bibliography.references, response.results, strict=True)
    for number, (reference, result) in enumerate(pairs, 1):
        begin = text_read.index(reference.raw, end)
        fields = None if chosen is None else chosen.get(number, ())
        edits, uncorrected = _edits(reference.raw, result, fields)
        remark = _remark(result)
        if uncorrected:
            remark += f"% not corrected: {', '.join(uncorrected)} of the next entry\n"
        if not text_read[end:begin].endswith(remark):  # else the bibliography was corrected before
            follows = text_read[:begin].rpartition("\n")[2].strip()
            edits.insert(0, (0, 0, f"\n{remark}" if follows else remark))
        for first, last, value in edits:
            parts += [text[copied : original_of(begin + first)], value.replace("\n", line_end)]
            copied = original_of(begin + last)
        end = begin + len(reference.raw)
    return "".join((*parts, text[copied:]))


def _positions(text: str) -> Callable[[int], int]:
    """The function from a position in the text that references are read from to the one in ``text``."""
    mark = len(text) - len(text.removeprefix("\ufeff"))
    pairs = [match.start() - mark - number for number, match in enumerate(re.finditer("\r\n", text))]
    return lambda position: mark + position + bisect_left(pairs, position)


def _remark(result: CheckedReference | Unfinished) -> str:
    if isinstance(result, Unfinished):
        return f"% not checked: {_outside(result.error)}\n"
    return "" if result.status == "held" else f"% {LABELS[result.status]}: {_outside(result.reason)}\n"


def _outside(text: str) -> str:
    """A text between entries, where an @ would begin one."""
    return plain(text).replace("@", "")


Edit = tuple[int, int, str]
"""Where a text starts and ends that another one replaces."""


def _edits(
    entry: str, result: CheckedReference | Unfinished, chosen: Collection[str] | None
) -> tuple[list[Edit], list[str]]:
    """What to replace in an entry, in order, and the names of the fields that cannot be replaced for certain."""
    edits: list[Edit] = []
    uncorrected: list[str] = []
    if isinstance(result, Unfinished) or result.paper is None:
        return edits, uncorrected
    values, spans = bibtex_values(result.paper), _spans(entry)
    for difference in result.differences:
        name = _FIELDS.get(difference.field, "")
        is_chosen = not _is_later(difference) if chosen is None else difference.field in chosen
        if name not in values or not is_chosen:
            continue
        if spans is None or (name == "year" and name not in spans and "date" in spans):
            uncorrected.append(name)
        elif name in spans:
            first, last = spans[name]
            written = entry[first:last]
            value = with_protected_capitals(values[name], written) if name == "title" else values[name]
            edits.append((first, last, f"{{{value}}}"))
        else:
            after_key = entry.index(",") + 1
            value = with_protected_capitals(values[name]) if name == "title" else values[name]
            edits.append((after_key, after_key, f"\n  {name} = {{{value}}},"))
    return sorted(edits), uncorrected


def _spans(entry: str) -> dict[str, tuple[int, int]] | None:
    """Where the value of each field starts and ends; None if they cannot be told apart for certain."""
    fields = written_fields(entry)
    spans: dict[str, tuple[int, int]] = {}
    position = entry.index(",") if fields else 0
    for name, value in fields:
        field = re.compile(rf"[\s,]*{re.escape(name)}\s*=\s*(?={re.escape(value)})", re.I).match(
            entry, position
        )
        if field is None or name in spans or not is_value(value):
            return None
        position = field.end() + len(value)
        spans[name] = field.end(), position
    return spans or None


def _is_later(difference: Difference) -> bool:
    years = (difference.reference, difference.library)
    return difference.field == "year" and all(map(str.isdecimal, years)) and int(years[0]) > int(years[1])
