"""CSL-JSON items of papers: https://citeproc-js.readthedocs.io/en/latest/csl-json/markup.html."""

from __future__ import annotations

from typing import Any, Final

from scholarbase.bibliographies.names import NameParts
from scholarbase.bibliographies.writers.facts import (
    arxiv_id_of,
    authors_of,
    container_of,
    day_of,
    doi_of,
    kind_of,
    link_of,
    note_of,
    one_line,
)
from scholarbase.models.papers import Paper

_TYPES: Final = {
    "article": "article-journal",
    "inproceedings": "paper-conference",
    "book": "book",
    "incollection": "chapter",
}


def csl_item(paper: Paper, key: str) -> dict[str, Any]:
    """The paper's item, without empty keys."""
    kind, arxiv_id, day = kind_of(paper), arxiv_id_of(paper), day_of(paper)
    parts = [day.year, day.month, day.day] if day is not None else [paper.year] if paper.year else []
    journal = paper.journal
    item = {
        "id": key,
        "type": _TYPES.get(kind, "article"),
        "title": one_line(paper.title),
        "author": [_name(author) for author in authors_of(paper)],
        "issued": {"date-parts": [parts]} if parts else None,
        "container-title": one_line(container_of(paper)) if kind != "misc" else "",
        "volume": one_line(journal.volume) if journal is not None else "",
        "page": one_line(journal.pages) if journal is not None else "",
        "number": f"arXiv:{arxiv_id}" if arxiv_id else "",
        "DOI": doi_of(paper),
        "URL": link_of(paper),
        "keyword": "; ".join((*paper.categories, *paper.fields_of_study)),
        "note": note_of(paper),
        "abstract": one_line(paper.abstract),
    }
    return {name: value for name, value in item.items() if value}


def _name(author: NameParts) -> dict[str, str]:
    if not author.given:
        return {"literal": author.family}
    parts = {"family": author.family, "given": author.given, "suffix": author.suffix}
    return {name: value for name, value in parts.items() if value}
