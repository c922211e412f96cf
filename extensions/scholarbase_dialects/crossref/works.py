"""A paper as a work: https://github.com/CrossRef/rest-api-doc/blob/master/api_format.md"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from xml.sax.saxutils import escape

from scholarbase.bibliographies.facts import arxiv_id_of, doi_of, is_preprint, journal_of, link_of
from scholarbase.models.papers import Author, Paper

FIELDS: Final = (
    "external_ids", "title", "abstract", "authors", "year", "publication_date", "venue", "citation_count",
    "reference_count", "url", "journal", "publication_types",
)  # fmt: skip
SELECTABLE: Final = (
    "DOI", "ISBN", "ISSN", "URL", "abstract", "accepted", "alternative-id", "approved", "archive", "article-number",
    "assertion", "author", "chair", "clinical-trial-number", "container-title", "content-created", "content-domain",
    "contributor", "created", "degree", "deposited", "editor", "event", "funder", "group-title", "indexed",
    "institution", "is-referenced-by-count", "issn-type", "issue", "issued", "language", "license", "link", "member",
    "original-title", "page", "posted", "prefix", "published", "published-online", "published-print", "publisher",
    "publisher-location", "reference", "reference-count", "references-count", "relation", "resource", "score",
    "short-container-title", "short-title", "source", "standards-body", "subject", "subtitle", "subtype", "title",
    "translator", "type", "update-policy", "update-to", "updated-by", "volume",
)  # fmt: skip
"""The fields that the original knows. A work has those whose value is known."""
_PARTICLES: Final = frozenset((
    "af", "al", "bin", "da", "de", "del", "della", "den", "der", "di", "dos", "du", "el", "la", "ter", "van", "von",
    "zu",
))  # fmt: skip


def work(paper: Paper, score: float, references: Sequence[Paper] | None = None) -> dict[str, Any]:
    """A work.

    Args:
        references: the papers that it cites, in a single look-up.
    """
    doi, preprint, journal = doi_of(paper), is_preprint(paper), paper.journal
    dates = {"date-parts": [_date_parts(paper)]}
    link = f"https://doi.org/{doi}" if doi else link_of(paper)
    values: dict[str, Any] = {
        "DOI": doi,
        "prefix": doi.partition("/")[0] if doi else None,
        "URL": link or None,
        "resource": {"primary": {"URL": link_of(paper)}} if link_of(paper) else None,
        "type": "posted-content" if preprint else "journal-article",
        "subtype": "preprint" if preprint else None,
        "title": [paper.title] if paper.title else [],
        "subtitle": [],
        "short-title": [],
        "author": [_author(author, position) for position, author in enumerate(paper.authors)],
        "container-title": [journal_of(paper)] if journal_of(paper) and not preprint else [],
        "volume": journal.volume if journal is not None else None,
        "page": journal.pages if journal is not None else None,
        "short-container-title": [],
        "publisher": "arXiv" if preprint else None,
        "issued": dates,
        "published": dates if paper.year is not None else None,
        "posted": dates if preprint and paper.year is not None else None,
        "abstract": f"<jats:p>{escape(paper.abstract)}</jats:p>" if paper.abstract else None,
        "link": _links(paper),
        "alternative-id": [arxiv_id_of(paper)] if arxiv_id_of(paper) else None,
        "score": score,
    }
    if references is not None:
        values["reference"] = [_reference(cited, number) for number, cited in enumerate(references, 1)]
    content = {name: value for name, value in values.items() if value is not None}
    count = paper.reference_count
    # The original has these of every work.
    content |= {"reference-count": count, "references-count": count}
    content["is-referenced-by-count"] = paper.citation_count
    return content


def _date_parts(paper: Paper) -> list[int | None]:
    if paper.publication_date is not None:
        return [int(part) for part in paper.publication_date.split("-")]
    return [paper.year]


def _author(author: Author, position: int) -> dict[str, Any]:
    """The given and the family name. A lower-case particle, such as *van*, belongs to the latter."""
    words = author.name.split()
    start = len(words) - 1
    while start > 1 and words[start - 1] in _PARTICLES:
        start -= 1
    name = {"family": " ".join(words[start:])} if start <= 0 else _names(words, start)
    return {**name, "sequence": "additional" if position else "first", "affiliation": []}


def _names(words: Sequence[str], start: int) -> dict[str, str]:
    return {"given": " ".join(words[:start]), "family": " ".join(words[start:])}


def _links(paper: Paper) -> list[dict[str, str]] | None:
    if (arxiv_id := arxiv_id_of(paper)) is None:
        return None
    return [
        {
            "URL": f"https://arxiv.org/pdf/{arxiv_id}",
            "content-type": "application/pdf",
            "content-version": "am",
            "intended-application": "text-mining",
        }
    ]


def _reference(paper: Paper, number: int) -> dict[str, Any]:
    values = {
        "key": f"ref{number}",
        "DOI": doi_of(paper),
        "doi-asserted-by": "crossref" if doi_of(paper) else None,
        "article-title": paper.title,
        "author": paper.authors[0].name.split()[-1]
        if paper.authors and paper.authors[0].name.split()
        else None,
        "year": str(paper.year) if paper.year is not None else None,
        "journal-title": paper.venue,
    }
    return {name: value for name, value in values.items() if value is not None}


def csl(paper: Paper) -> dict[str, Any]:
    """The paper as CSL-JSON (https://citeproc-js.readthedocs.io/en/latest/csl-json/markup.html), whose titles are
    texts."""
    item = work(paper, 1.0)
    for name in ("title", "container-title"):
        item[name] = item[name][0] if item[name] else ""
    for name in ("subtitle", "short-title", "short-container-title"):
        del item[name]
    return item
