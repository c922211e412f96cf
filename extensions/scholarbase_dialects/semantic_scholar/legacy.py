"""Semantic Scholar's interface before the Academic Graph: a paper with all its citations and references.

The original was at https://api.semanticscholar.org/v1/paper/. Agents such as SPAR follow references with it.
"""

from __future__ import annotations

from typing import Any, Final

from scholarbase.bibliographies.facts import arxiv_id_of
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import Paper
from scholarbase.models.responses import Citation
from scholarbase_dialects.base import Answer, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.describing import author_id_of, fields_of_study
from scholarbase_dialects.semantic_scholar import parameters
from scholarbase_dialects.semantic_scholar.papers import PAGE, author_url, paper_id_of
from scholarbase_dialects.semantic_scholar.parameters import paper_of

_LISTED: Final = ("title", "authors", "year", "venue", "external_ids", "url")
_READ: Final = (
    *_LISTED,
    *("abstract", "corpus_id", "citation_count", "reference_count", "fields_of_study", "categories"),
    "is_open_access",
)


def _paper(request: DialectRequest, calls: Calls) -> Answer:
    paper = paper_of(request, calls.unrecorded(), _READ)
    references = calls.references(paper.id, limit=MAX_LIMIT, fields=_LISTED)
    citations = calls.unrecorded().citations(paper.id, limit=MAX_LIMIT, fields=_LISTED)
    return {
        **_described(paper),
        "abstract": paper.abstract,
        "corpusId": paper.corpus_id,
        "fieldsOfStudy": fields_of_study(paper),
        "is_open_access": paper.is_open_access,
        "numCitedBy": citations.total if paper.citation_count is None else paper.citation_count,
        "numCiting": references.total if paper.reference_count is None else paper.reference_count,
        "citationVelocity": None,
        "influentialCitationCount": None,
        "topics": [],
        "references": [_edge(reference) for reference in references.results],
        "citations": [_edge(citation) for citation in citations.results],
    }


def _described(paper: Paper) -> dict[str, Any]:
    sha = paper.external_ids.get("sha")
    authors = [(author_id_of(author), author.name) for author in paper.authors]
    return {
        "paperId": paper_id_of(paper),
        "arxivId": arxiv_id_of(paper),
        "doi": paper.external_ids.get("DOI"),
        "title": paper.title,
        "authors": [
            {"authorId": author_id, "name": name, "url": author_url(author_id)} for author_id, name in authors
        ],
        "year": paper.year,
        "venue": paper.venue or "",
        "url": f"{PAGE}/paper/{sha}" if sha else paper.url,
    }


def _edge(edge: Citation) -> dict[str, Any]:
    return {**_described(edge.paper), "intent": list(edge.intents), "isInfluential": edge.is_influential}


DIALECT: Final = Dialect(
    "s2-legacy",
    "/s2-legacy",
    "Semantic Scholar's interface before the Academic Graph",
    (
        Operation("GET", "/v1/paper/{paper_id:path}", _paper, "get_references",
                  frozenset(("include_unknown_references",)), papers=2 * MAX_LIMIT),
    ),
    parameters.error,
    parameters.STATUSES,
)  # fmt: skip
