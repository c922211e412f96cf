"""Papers as a CSV table (RFC 4180) with columns that an ingest recognises."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scholarbase.bibliographies.writers.facts import arxiv_id_of, doi_of, journal_of, link_of, one_line
from scholarbase.models.papers import Paper

_COLUMNS: Final[Mapping[str, Callable[[Paper], str | int | None]]] = {
    "id": lambda paper: paper.id,
    "title": lambda paper: paper.title,
    "authors": lambda paper: "; ".join(one_line(one.name).replace(";", ",") for one in paper.authors),
    "year": lambda paper: paper.year,
    "date": lambda paper: paper.publication_date,
    "venue": journal_of,
    "volume": lambda paper: paper.journal.volume if paper.journal is not None else None,
    "pages": lambda paper: paper.journal.pages if paper.journal is not None else None,
    "doi": doi_of,
    "arxiv_id": arxiv_id_of,
    "url": link_of,
    "status": lambda paper: paper.status,
    "citation_count": lambda paper: paper.citation_count,
    "categories": lambda paper: " ".join(paper.categories),
    "abstract": lambda paper: paper.abstract,
}
COLUMNS: Final = tuple(_COLUMNS)
_FORMULA: Final = ("=", "+", "-", "@")
"""How a cell begins that spreadsheets compute. The texts are of strangers."""


def csv_table(papers: Sequence[Paper]) -> str:
    """A header, and a row for each paper. A text that begins as a formula gets an apostrophe before it."""
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(COLUMNS)
    writer.writerows([_cell(value(paper)) for value in _COLUMNS.values()] for paper in papers)
    return table.getvalue()


def _cell(value: str | int | None) -> str:
    text = one_line(str(value)) if value is not None else ""
    return f"'{text}" if text.startswith(_FORMULA) else text
