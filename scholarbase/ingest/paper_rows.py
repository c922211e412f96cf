"""The columns of a paper's row, from a record of the paper."""

from __future__ import annotations

from typing import Any, Final

import orjson

from scholarbase.indexes.filters import venue_key
from scholarbase.indexes.titles import main_title_hash, title_hash
from scholarbase.ingest.records import PaperRecord
from scholarbase.models.checks import date_bounds
from scholarbase.models.status import PaperStatus, is_withdrawn

INSERT_WRITTEN: Final = """
INSERT INTO written
SELECT id, iif(title = :title, :written_title, NULL), iif(abstract = :abstract, :written_abstract, NULL)
FROM papers LEFT JOIN abstracts ON paper_id = id
WHERE id = :id AND (
    (title = :title AND :written_title IS NOT NULL) OR (abstract = :abstract AND :written_abstract IS NOT NULL)
)
ON CONFLICT (paper_id) DO UPDATE SET
    title = coalesce(min(title, excluded.title), title, excluded.title),
    abstract = coalesce(min(abstract, excluded.abstract), abstract, excluded.abstract)
"""
"""Texts with formulas, where the paper has the plain text of the same record. Of two ways to write one text the first
in the order of characters stays, in any order of the records."""

INSERT_PAPER: Final = """
INSERT INTO papers (
    id, corpus_id, arxiv_id, title, title_hash, main_title_hash, authors, year, publication_date, first_day, last_day,
    venue, venue_key, venue_id, categories, citation_count, reference_count, external_ids, url, details, status
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

FILL_PAPER: Final = """
UPDATE papers SET
    arxiv_id = coalesce(arxiv_id, :arxiv_id),
    year = iif(publication_date IS NULL AND :date IS NOT NULL, :year, coalesce(year, :year)),
    first_day = iif(publication_date IS NULL AND :date IS NOT NULL, :first_day, coalesce(first_day, :first_day)),
    last_day = iif(publication_date IS NULL AND :date IS NOT NULL, :last_day, coalesce(last_day, :last_day)),
    publication_date = coalesce(publication_date, :date),
    venue_key = iif(venue IS NULL, :venue_key, venue_key),
    venue = coalesce(venue, :venue),
    categories = coalesce(categories, :categories),
    authors = coalesce(authors, :authors),
    external_ids = json_patch(:external_ids, coalesce(external_ids, '{}')),
    url = coalesce(url, :url),
    details = json_patch(:details, coalesce(details, '{}')),
    citation_count = coalesce(citation_count, :citation_count),
    reference_count = coalesce(reference_count, :reference_count),
    status = coalesce(min(status, :status), status, :status)
WHERE id = :id
"""
"""The values of a paper's first record stay, and other records fill those that are missing. A paper with only a year
takes the date of another record with its year, so that the two agree. Of two statuses the paper is ``retracted``, the
first in the alphabet."""


def inserted(number: int, r: PaperRecord) -> tuple[Any, ...]:
    """The parameters of ``INSERT_PAPER``."""
    return (
        number,
        r.corpus_id,
        r.arxiv_id,
        r.title,
        title_hash(r.title),
        main_title_hash(r.title),
        _authors(r),
        r.year,
        r.publication_date,
        *_days(r),
        r.venue,
        venue_key(r.venue) if r.venue else None,
        r.venue_id,
        " ".join(r.categories) or None,
        r.citation_count,
        r.reference_count,
        orjson.dumps(r.external_ids).decode() if r.external_ids else None,
        r.url,
        orjson.dumps(r.details).decode() if r.details else None,
        _status(r),
    )


def with_formulas(
    number: int, title: tuple[str | None, str | None], abstract: tuple[str | None, str | None]
) -> dict[str, Any]:
    """The parameters of ``INSERT_WRITTEN``: the plain text and the written one of a title and of an abstract."""
    return {
        "id": number,
        "title": title[0],
        "written_title": title[1],
        "abstract": abstract[0],
        "written_abstract": abstract[1],
    }


def filling(number: int, r: PaperRecord) -> dict[str, Any]:
    """The parameters of ``FILL_PAPER``, for the paper with this number."""
    return {
        "id": number,
        "arxiv_id": r.arxiv_id,
        "date": r.publication_date,
        "year": r.year,
        **dict(zip(("first_day", "last_day"), _days(r), strict=True)),
        "venue": r.venue,
        "venue_key": venue_key(r.venue) if r.venue else None,
        "categories": " ".join(r.categories) or None,
        "authors": _authors(r),
        # The id made for an entry is only an alias of a paper that has others.
        "external_ids": orjson.dumps({k: v for k, v in r.external_ids.items() if k != "Doc"}).decode(),
        "url": r.url,
        "details": orjson.dumps(r.details).decode(),
        "citation_count": r.citation_count,
        "reference_count": r.reference_count,
        "status": _status(r),
    }


def _authors(record: PaperRecord) -> str | None:
    listed = [(*author, True) if author[0] in record.groups else author for author in record.authors]
    return orjson.dumps(listed).decode() if listed else None


def _status(record: PaperRecord) -> PaperStatus | None:
    if record.status is not None:
        return record.status
    return (
        "withdrawn" if is_withdrawn(record.abstract) or is_withdrawn(record.details.get("comment")) else None
    )


def _days(record: PaperRecord) -> tuple[int | None, int | None]:
    """First and last possible day of publication: one day, a year, or unknown."""
    if record.publication_date is not None:
        return date_bounds(record.publication_date)
    if record.year is not None and 1 <= record.year <= 9999:
        return date_bounds(f"{record.year:04d}")
    return None, None
