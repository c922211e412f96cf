"""Facts of papers in the forms that several dialects use."""

from __future__ import annotations

from datetime import date
from typing import Final

from scholarbase.indexes.author_names import name_id
from scholarbase.models.papers import Author, Paper

ARXIV_LINK: Final = "https://arxiv.org/abs/"


def arxiv_id_of(paper: Paper) -> str | None:
    """The arXiv id without a version, such as ``2309.06180`` or ``hep-th/9901001``."""
    return paper.external_ids.get("arXiv")


def link_of(paper: Paper) -> str:
    """The paper's page at arXiv, at its DOI, or as its source names it; empty if none is known."""
    if (found := arxiv_id_of(paper)) is not None:
        return ARXIV_LINK + found
    doi = paper.external_ids.get("DOI")
    return f"https://doi.org/{doi}" if doi else paper.url or ""


def pdf_of(paper: Paper) -> str | None:
    """The PDF at arXiv."""
    found = arxiv_id_of(paper)
    return None if found is None else f"https://arxiv.org/pdf/{found}"


def names_of(authors: tuple[Author, ...]) -> list[str]:
    return [author.name for author in authors]


def day_of(paper: Paper) -> date | None:
    """The publication date, if its day is known."""
    try:
        return date.fromisoformat(paper.publication_date or "")
    except ValueError:
        return None


def author_id_of(author: Author) -> str:
    """The source's id of an author, else ``name:`` and the normalized name."""
    return author.author_id or name_id(author.name)
