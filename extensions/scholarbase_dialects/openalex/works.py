"""A paper as a work, with every field of https://developers.openalex.org/api-reference/works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scholarbase.bibliographies.facts import arxiv_id_of, doi_of, is_preprint, journal_of, link_of
from scholarbase.models.papers import Author, Paper
from scholarbase_dialects.describing import is_open, pdf_of
from scholarbase_dialects.openalex.ids import work_id, work_link
from scholarbase_dialects.openalex.topics import topics

MAX_AUTHORS: Final = 100
"""Authors of a work in a list, as in the original; a single work has all."""


@dataclass(frozen=True, slots=True)
class Context:
    """What the fields of a work are made of, besides the paper.

    Args:
        base: the URL of the dialect.
        references: the ids of the papers that a paper cites, by its id.
        scores: the score of each paper by its id; None without a search.
        is_list: whether the work is in a list.
    """

    base: str
    references: Mapping[str, Sequence[str]]
    scores: Mapping[str, float] | None = None
    is_list: bool = False


def work(paper: Paper, context: Context, select: Sequence[str] | None) -> dict[str, Any]:
    """The selected fields of a work; all if None. ``relevance_score`` is there only with a search."""
    names = FIELDS if select is None else select
    return {
        name: FIELDS[name](paper, context)
        for name in names
        if name != "relevance_score" or context.scores is not None
    }


def inverted(abstract: str | None) -> dict[str, list[int]] | None:
    """The positions of each word, which white space separates."""
    if not abstract:
        return None
    index: dict[str, list[int]] = {}
    for position, word in enumerate(abstract.split()):
        index.setdefault(word, []).append(position)
    return index


def _doi_link(paper: Paper) -> str | None:
    doi = doi_of(paper)
    return None if doi is None else f"https://doi.org/{doi}"


def _published(paper: Paper) -> str | None:
    """The first day that the paper may be of, as the original writes a date of which only the year is known."""
    if paper.publication_date is not None:
        return paper.publication_date
    return None if paper.year is None else f"{paper.year:04}-01-01"


def _ids(paper: Paper) -> dict[str, str]:
    known = paper.external_ids
    forms = {
        "openalex": work_link(paper.id),
        "doi": _doi_link(paper),
        "mag": known.get("MAG"),
        "pmid": f"https://pubmed.ncbi.nlm.nih.gov/{known['PMID']}" if "PMID" in known else None,
        "pmcid": f"https://www.ncbi.nlm.nih.gov/pmc/articles/{known['PMCID']}" if "PMCID" in known else None,
    }
    return {name: value for name, value in forms.items() if value is not None}


def _authorships(paper: Paper, context: Context) -> list[dict[str, Any]]:
    authors = paper.authors[:MAX_AUTHORS] if context.is_list else paper.authors
    last = len(paper.authors) - 1
    return [_authorship(author, position, last) for position, author in enumerate(authors)]


def _authorship(author: Author, position: int, last: int) -> dict[str, Any]:
    return {
        "author_position": "first" if position == 0 else "last" if position == last else "middle",
        "author": {"id": None, "display_name": author.name, "orcid": None},
        "institutions": [],
        "countries": [],
        "is_corresponding": False,
        "raw_author_name": author.name,
        "raw_affiliation_strings": [],
        "affiliations": [],
    }


def _location(paper: Paper, link: str | None, source: str | None, *, at_arxiv: bool) -> dict[str, Any]:
    return {
        "is_oa": True if at_arxiv else paper.is_open_access,
        "landing_page_url": link,
        "pdf_url": pdf_of(paper) if at_arxiv else None,
        "source": None if source is None else _source(source, at_arxiv=at_arxiv),
        "license": None,
        "license_id": None,
        "version": "submittedVersion" if at_arxiv else "publishedVersion",
        "is_accepted": not at_arxiv,
        "is_published": not at_arxiv,
    }


def _source(name: str, *, at_arxiv: bool) -> dict[str, Any]:
    unknown = ("id", "issn_l", "issn", "is_oa", "is_in_doaj", "is_core", "host_organization")
    return {
        **dict.fromkeys(unknown),
        "display_name": name,
        "host_organization_name": None,
        "host_organization_lineage": [],
        "type": "repository" if at_arxiv else None,
    }


def _at_arxiv(paper: Paper) -> dict[str, Any] | None:
    if (arxiv_id := arxiv_id_of(paper)) is None:
        return None
    return _location(paper, f"https://arxiv.org/abs/{arxiv_id}", "arXiv", at_arxiv=True)


def _locations(paper: Paper) -> list[dict[str, Any]]:
    """The publisher's page, and arXiv's."""
    at_arxiv = _at_arxiv(paper)
    if at_arxiv is not None and is_preprint(paper):
        return [at_arxiv]
    link, name = _doi_link(paper) or link_of(paper) or None, journal_of(paper)
    published = [_location(paper, link, name, at_arxiv=False)] if link or name else []
    return published + ([at_arxiv] if at_arxiv is not None else [])


def _primary(paper: Paper) -> dict[str, Any] | None:
    """The first location; with the PDF at arXiv, since clients look for it here."""
    locations = _locations(paper)
    return {**locations[0], "pdf_url": pdf_of(paper)} if locations else None


def _open_access(paper: Paper) -> dict[str, Any]:
    at_arxiv = arxiv_id_of(paper) is not None
    is_oa = is_open(paper)
    return {
        "is_oa": is_oa,
        "oa_status": "green" if at_arxiv else "closed" if is_oa is False else None,
        "oa_url": pdf_of(paper),
        "any_repository_has_fulltext": True if at_arxiv else None,
    }


def _biblio(paper: Paper) -> dict[str, str | None]:
    journal = paper.journal
    first, _, last = (journal.pages or "").partition("-") if journal is not None else ("", "", "")
    return {
        "volume": journal.volume if journal is not None else None,
        "issue": None,
        "first_page": first.strip() or None,
        "last_page": last.strip("- ") or None,
    }


_Field = Callable[[Paper, Context], Any]


def _always(value: Any) -> _Field:
    return lambda paper, context: value


FIELDS: Final[Mapping[str, _Field]] = {
    "id": lambda paper, context: work_link(paper.id),
    "doi": lambda paper, context: _doi_link(paper),
    "title": lambda paper, context: paper.title,
    "display_name": lambda paper, context: paper.title,
    "relevance_score": lambda paper, context: (context.scores or {}).get(paper.id),
    "publication_year": lambda paper, context: paper.year,
    "publication_date": lambda paper, context: _published(paper),
    "ids": lambda paper, context: _ids(paper),
    "language": _always(None),
    "primary_location": lambda paper, context: _primary(paper),
    "type": lambda paper, context: "preprint" if is_preprint(paper) else "article",
    "type_crossref": lambda paper, context: "posted-content" if is_preprint(paper) else "journal-article",
    "indexed_in": lambda paper, context: [] if arxiv_id_of(paper) is None else ["arxiv"],
    "open_access": lambda paper, context: _open_access(paper),
    "authorships": _authorships,
    "institution_assertions": _always([]),
    "institutions": _always([]),
    "countries_distinct_count": _always(0),
    "institutions_distinct_count": _always(0),
    "corresponding_author_ids": _always([]),
    "corresponding_institution_ids": _always([]),
    "apc_list": _always(None),
    "apc_paid": _always(None),
    "fwci": _always(None),
    "is_authors_truncated": lambda paper, context: context.is_list and len(paper.authors) > MAX_AUTHORS,
    "has_fulltext": _always(False),
    "has_content": _always(None),
    "content_urls": _always(None),
    "fulltext_origin": _always(None),
    "cited_by_count": lambda paper, context: paper.citation_count,
    "citation_normalized_percentile": _always(None),
    "cited_by_percentile_year": _always(None),
    "biblio": lambda paper, context: _biblio(paper),
    "is_retracted": lambda paper, context: paper.status == "retracted",
    "is_paratext": _always(False),
    "is_xpac": _always(False),
    "primary_topic": lambda paper, context: next(iter(topics(paper)), None),
    "topics": lambda paper, context: topics(paper),
    "keywords": _always([]),
    "concepts": _always([]),
    "mesh": _always([]),
    "locations_count": lambda paper, context: len(_locations(paper)),
    "locations": lambda paper, context: _locations(paper),
    "best_oa_location": lambda paper, context: _at_arxiv(paper),
    "sustainable_development_goals": _always([]),
    "grants": _always([]),
    "awards": _always([]),
    "funders": _always([]),
    "datasets": _always([]),
    "versions": _always([]),
    "referenced_works_count": lambda paper, context: len(context.references.get(paper.id, ())),
    "referenced_works": lambda paper, context: list(map(work_link, context.references.get(paper.id, ()))),
    "related_works": _always([]),
    "abstract_inverted_index": lambda paper, context: inverted(paper.abstract),
    "cited_by_api_url": lambda paper, context: f"{context.base}/works?filter=cites:{work_id(paper.id)}",
    "counts_by_year": _always([]),
    "updated_date": _always(None),
    "created_date": _always(None),
}
"""The fields of a work in the original's order. What a library does not store is null, an empty list, 0 or false."""
NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "abstract_inverted_index": ("abstract",),
    "authorships": ("authors",),
    "is_authors_truncated": ("authors",),
    "primary_topic": ("fields_of_study",),
    "topics": ("fields_of_study",),
}
"""Fields of papers that few fields of works need."""
REFERENCES: Final = frozenset(("referenced_works", "referenced_works_count"))
_BASIC: Final = (
    "external_ids", "title", "year", "publication_date", "venue", "status", "journal", "is_open_access", "categories",
    "citation_count", "url",
)  # fmt: skip


def paper_fields(select: Sequence[str] | None) -> tuple[str, ...]:
    """The fields of papers that works with these fields need."""
    names = FIELDS if select is None else select
    return tuple(dict.fromkeys([*_BASIC, *(field for name in names for field in NEEDED.get(name, ()))]))
