"""Facts of papers as entries have them: ids, links, the kind of publication, names."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from scholarbase.bibliographies.names import NameParts, name_parts
from scholarbase.models.papers import Paper

ARXIV_LINK: Final = "https://arxiv.org/abs/"
_KINDS: Final = {
    "JournalArticle": "article",
    "Conference": "inproceedings",
    "Book": "book",
    "BookSection": "incollection",
}
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]+")


def arxiv_id_of(paper: Paper) -> str | None:
    """The arXiv id without a version, such as ``2309.06180`` or ``hep-th/9901001``."""
    return paper.external_ids.get("arXiv")


def link_of(paper: Paper) -> str:
    """The paper's page at arXiv, at its DOI, or as its source names it; empty if none is known."""
    if (arxiv_id := arxiv_id_of(paper)) is not None:
        return ARXIV_LINK + arxiv_id
    doi = paper.external_ids.get("DOI")
    return f"https://doi.org/{doi}" if doi else paper.url or ""


def doi_of(paper: Paper) -> str | None:
    """The DOI of the publisher, else the one that arXiv gives every paper (https://info.arxiv.org/help/doi.html)."""
    doi = paper.external_ids.get("DOI")
    if doi is not None:
        return doi
    arxiv_id = arxiv_id_of(paper)
    return None if arxiv_id is None else f"10.48550/arxiv.{arxiv_id}"


def is_preprint(paper: Paper) -> bool:
    """Whether the paper is on arXiv and no publisher's DOI is known."""
    return arxiv_id_of(paper) is not None and "DOI" not in paper.external_ids


def journal_of(paper: Paper) -> str | None:
    """The name of the journal or venue."""
    return (paper.journal.name if paper.journal is not None else None) or paper.venue


def container_of(paper: Paper) -> str | None:
    """The journal or book; None for arXiv, which sources name as the venue also of published papers."""
    name = journal_of(paper)
    return None if name is None or name.casefold() in ("arxiv.org", "arxiv") else name


def day_of(paper: Paper) -> date | None:
    """The publication date, if its day is known."""
    try:
        return date.fromisoformat(paper.publication_date or "")
    except ValueError:
        return None


def kind_of(paper: Paper) -> str:
    """BibTeX's type of the entry: ``misc`` for a preprint, and if the kind of publication is unknown."""
    if is_preprint(paper):
        return "misc"
    known = (_KINDS[kind] for kind in paper.publication_types if kind in _KINDS)
    return next(known, "article" if container_of(paper) else "misc")


def note_of(paper: Paper) -> str:
    """The status of a paper that should not be cited unseen, with the day of a retraction, and the id of one without an
    arXiv id and a DOI, unless it was made from an entry with a citation key."""
    paper_id = (
        "" if doi_of(paper) or (paper.id.startswith("Doc:") and "Key" in paper.external_ids) else paper.id
    )
    day = paper.retraction_date
    status = f"{(paper.status or '').capitalize()}{f' on {day}' if day else ''}"
    return ". ".join(filter(None, (paper_id, status)))


def authors_of(paper: Paper) -> list[NameParts]:
    """The names in parts; that of an organisation is one part. An empty name has an empty one."""
    return [
        NameParts(one_line(author.name)) if author.is_group is True else name_parts(one_line(author.name))
        for author in paper.authors
    ]


def one_line(text: str | None) -> str:
    """A text in one line, without control characters."""
    return " ".join(_CONTROL.sub(" ", text or "").split())
