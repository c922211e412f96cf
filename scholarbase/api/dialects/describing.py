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


def doi_of(paper: Paper) -> str | None:
    """The DOI of the publisher, else the one that arXiv gives every paper (https://info.arxiv.org/help/doi.html)."""
    doi = paper.external_ids.get("DOI")
    if doi is not None:
        return doi
    found = arxiv_id_of(paper)
    return None if found is None else f"10.48550/arxiv.{found}"


def is_preprint(paper: Paper) -> bool:
    """Whether the paper is on arXiv and no publisher's DOI is known."""
    return arxiv_id_of(paper) is not None and "DOI" not in paper.external_ids


def is_open(paper: Paper) -> bool | None:
    """Whether the paper can be read freely; None if it is unknown. Papers on arXiv can."""
    return True if arxiv_id_of(paper) is not None else paper.is_open_access


def journal_of(paper: Paper) -> str | None:
    """The name of the journal or venue."""
    return (paper.journal.name if paper.journal is not None else None) or paper.venue
