"""Texts of records as plain text: one stage for every source of a snapshot (:mod:`scholarbase.markup`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from scholarbase.ingest.records import (
    AbstractRecord,
    AuthorRecord,
    PaperRecord,
    Record,
    Reject,
    TldrRecord,
    VenueRecord,
)
from scholarbase.markup import plain, read_abstract, read_text


def cleaning(parse: Callable[[bytes], Record | Reject]) -> Callable[[bytes], Record | Reject]:
    """Make a parser whose records have plain texts."""

    @wraps(parse)
    def parse_line(line: bytes) -> Record | Reject:
        record = parse(line)
        _clean(record)
        return record

    return parse_line


def _clean(record: Record | Reject) -> None:
    match record:
        case PaperRecord():
            clean_paper(record)
        case AbstractRecord():
            record.abstract, record.written = _abstract(record.abstract)
        case TldrRecord():
            record.text = plain(record.text)
        case AuthorRecord():
            record.name = plain(record.name) or record.name
        case VenueRecord():
            record.name = plain(record.name) or record.name
            record.alternate_names = [plain(name) for name in record.alternate_names]


def clean_paper(paper: PaperRecord) -> None:
    """Make the texts of a paper plain, and keep those with formulas as they were written. A title that is nothing but
    markup stays."""
    title, paper.written_title = read_text(paper.title)
    paper.title = title or paper.title
    if paper.abstract is not None:
        paper.abstract, paper.written_abstract = _abstract(paper.abstract)
    if paper.tldr is not None:
        paper.tldr = plain(paper.tldr)
    paper.authors = [(plain(name) or name, author_id) for name, author_id in paper.authors]
    if paper.venue is not None:
        paper.venue = plain(paper.venue) or None
    journal = paper.details.get("journal")
    if journal and journal[0]:
        journal[0] = plain(journal[0]) or None
    if (comment := paper.details.get("comment")) is not None:
        paper.details["comment"] = plain(comment)


def _abstract(text: str) -> tuple[str, str | None]:
    abstract, written = read_abstract(text)
    return abstract or text, written
