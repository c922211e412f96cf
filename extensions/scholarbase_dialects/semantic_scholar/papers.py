"""Papers, their authors and citations as Semantic Scholar writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from scholarbase.bibliographies.writing import bibtex_entry
from scholarbase.errors import InvalidRequest
from scholarbase.models.authors import AuthorProfile
from scholarbase.models.limits import MAX_LIMIT, MAX_PAPERS
from scholarbase.models.papers import Author, Paper
from scholarbase.models.responses import Citation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.describing import FIELD_OF_ARCHIVE, author_id_of, fields_of_study, pdf_of
from scholarbase_dialects.semantic_scholar.fields import EDGE, Fields

PAGE: Final = "https://www.semanticscholar.org"
TLDR_MODEL: Final = "tldr@v2.0.0"
"""The model of the summaries in Semantic Scholar's releases."""
_EXTERNAL: Final = {
    "arXiv": "ArXiv",
    "MAG": "MAG",
    "ACL": "ACL",
    "PMID": "PubMed",
    "PMCID": "PubMedCentral",
    "DBLP": "DBLP",
    "DOI": "DOI",
}
"""Our schemes of ids to the original's."""


def paper_id_of(paper: Paper) -> str:
    """Semantic Scholar's own id where the library has it, else ours. The look-up accepts both."""
    return paper.external_ids.get("sha") or paper.id


def archives_of(fields: Collection[str]) -> tuple[str, ...]:
    """The arXiv categories that stand for fields of study in lower case."""
    return tuple(archive for archive, field in FIELD_OF_ARCHIVE.items() if field.casefold() in fields)


def _external_ids(paper: Paper) -> dict[str, Any]:
    ids: dict[str, Any] = {
        name: paper.external_ids[scheme] for scheme, name in _EXTERNAL.items() if scheme in paper.external_ids
    }
    if paper.corpus_id is not None:
        ids["CorpusId"] = paper.corpus_id
    return ids


def _url(paper: Paper) -> str | None:
    sha = paper.external_ids.get("sha")
    return f"{PAGE}/paper/{sha}" if sha else paper.url


def _venue(paper: Paper) -> dict[str, Any] | None:
    if not paper.venue:
        return None
    return {"id": None, "name": paper.venue, "type": None, "alternate_names": [], "url": None}


def _journal(paper: Paper) -> dict[str, str] | None:
    if paper.journal is None:
        return None
    journal = {"name": paper.journal.name, "volume": paper.journal.volume, "pages": paper.journal.pages}
    return {name: value for name, value in journal.items() if value is not None}


def _pdf(paper: Paper) -> dict[str, Any] | None:
    url = pdf_of(paper)
    return None if url is None else {"url": url, "status": "GREEN", "license": None, "disclaimer": None}


def _nothing(paper: Paper) -> None:
    """The value of a field that no library stores."""


VALUES: Final[Mapping[str, Callable[[Paper], Any]]] = {
    "corpusId": lambda paper: paper.corpus_id,
    "externalIds": _external_ids,
    "url": _url,
    "title": lambda paper: paper.title,
    "abstract": lambda paper: paper.abstract,
    "venue": lambda paper: paper.venue or "",
    "publicationVenue": _venue,
    "year": lambda paper: paper.year,
    "referenceCount": lambda paper: paper.reference_count,
    "citationCount": lambda paper: paper.citation_count,
    "influentialCitationCount": _nothing,
    "isOpenAccess": lambda paper: paper.is_open_access,
    "openAccessPdf": _pdf,
    "fieldsOfStudy": lambda paper: fields_of_study(paper) or None,
    "s2FieldsOfStudy": lambda paper: [
        {"category": field, "source": None} for field in fields_of_study(paper)
    ],
    "publicationTypes": lambda paper: list(paper.publication_types) or None,
    "publicationDate": lambda paper: paper.publication_date,
    "journal": _journal,
    "citationStyles": lambda paper: {"bibtex": bibtex_entry(paper)},
    "embedding": _nothing,
    "tldr": lambda paper: None if paper.tldr is None else {"model": TLDR_MODEL, "text": paper.tldr},
    "textAvailability": lambda paper: "abstract" if paper.abstract else "none",
    "isRetracted": lambda paper: paper.status == "retracted",
    "citationVelocity": _nothing,
}
"""The value of each field but ``paperId``, ``authors``, ``matchScore`` and the nested papers."""


_OF_PAPERS: Final = frozenset(("authorId", "name", "url"))
"""What a paper says about its authors."""


class Writer:
    """Writes the papers of one answer. The native calls that nested papers need are not recorded.

    Raises InvalidRequest where the nested papers are too many, in all methods.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls.unrecorded()
        self._nested = 0
        self._authors: dict[str, AuthorProfile | None] = {}

    def papers(self, papers: Sequence[Paper], fields: Fields) -> list[dict[str, Any]]:
        return [self.paper(paper, fields) for paper in papers]

    def paper(self, paper: Paper, fields: Fields) -> dict[str, Any]:
        content: dict[str, Any] = {"paperId": paper_id_of(paper)}
        content.update((name, value(paper)) for name, value in VALUES.items() if name in fields.names)
        if fields.authors:
            content["authors"] = self.authors(paper.authors, fields.authors)
        for name, nested in fields.nested.items():
            content[name] = self._edges(paper, name, nested)
        return content

    def authors(self, authors: Sequence[Author], names: set[str]) -> list[dict[str, Any]]:
        """The authors of a paper; what only the catalogue of authors knows is looked up if it is requested."""
        ids = [author_id_of(author) for author in authors]
        if names <= _OF_PAPERS:
            profiles = [
                AuthorProfile(author_id, author.name) for author_id, author in zip(ids, authors, strict=True)
            ]
            return [self.profile(profile, names) for profile in profiles]
        unknown = [author_id for author_id in dict.fromkeys(ids) if author_id not in self._authors]
        self.count(len(unknown), "/paper/{paper_id}/authors")
        self._authors.update(zip(unknown, self._calls.authors(unknown), strict=True))
        return [
            self.profile(
                self._authors[author_id] or AuthorProfile(author_id, author.name), names, name=author.name
            )
            for author_id, author in zip(ids, authors, strict=True)
        ]

    def profile(self, author: AuthorProfile, names: set[str], *, name: str = "") -> dict[str, Any]:
        """An author; ``name`` as a paper has it. Counts are worldwide if known, else of the library."""
        papers, citations = author.source_paper_count, author.source_citation_count
        values: dict[str, Any] = {
            "externalIds": {},
            "url": author_url(author.id),
            "name": name or author.name,
            "aliases": list(author.aliases),
            "affiliations": list(author.affiliations),
            "normalizedAffiliations": [],
            "homepage": author.homepage,
            "paperCount": (author.paper_count or None) if papers is None else papers,
            "citationCount": author.citation_count if citations is None else citations,
            "hIndex": author.h_index,
        }
        return {"authorId": author.id, **{key: value for key, value in values.items() if key in names}}

    def count(self, more: int, route: str) -> None:
        """Count nested papers and authors."""
        self._nested += more
        if self._nested > MAX_PAPERS:
            raise InvalidRequest(
                f"Response would exceed maximum size: the nested papers and authors are more than {MAX_PAPERS:,}. "
                f"Request fewer at once, or use {route}."
            )

    def citation(self, citation: Citation, name: str, fields: Fields) -> dict[str, Any]:
        """A citation, with its paper under ``name``."""
        contexts, intents = list(citation.contexts), list(citation.intents)
        values = {
            "contexts": contexts,
            "intents": intents,
            "contextsWithIntent": [{"context": text, "intents": []} for text in contexts],
            "isInfluential": citation.is_influential,
        }
        content: dict[str, Any] = {key: values[key] for key in EDGE if key in fields.edge}
        return {**content, name: self.paper(citation.paper, fields)}

    def _edges(self, paper: Paper, name: str, fields: Fields) -> list[dict[str, Any]]:
        read = self._calls.citations if name == "citations" else self._calls.references
        edges = read(paper.id, limit=MAX_LIMIT, fields=fields.native()).results
        self.count(len(edges), f"/paper/{{paper_id}}/{name}")
        return self.papers([edge.paper for edge in edges], fields)


def author_url(author_id: str) -> str | None:
    """The page of an author at Semantic Scholar, None for an author without an id there."""
    return f"{PAGE}/author/{author_id}" if author_id.isdecimal() else None
