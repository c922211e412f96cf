"""The parameter ``fields``: names with dots, such as ``title,authors.name,citations.title``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scholarbase.errors import InvalidRequest
from scholarbase_dialects.base import DialectRequest

MAX_FIELDS: Final = 1000
"""Names in one request. The client on PyPI sends 80."""
PAPER: Final[Mapping[str, tuple[str, ...]]] = {
    "paperId": (),
    "corpusId": ("corpus_id",),
    "externalIds": ("corpus_id",),
    "url": ("url",),
    "title": ("title",),
    "abstract": ("abstract",),
    "venue": ("venue",),
    "publicationVenue": ("venue",),
    "year": ("year",),
    "referenceCount": ("reference_count",),
    "citationCount": ("citation_count",),
    "influentialCitationCount": (),
    "isOpenAccess": ("is_open_access",),
    "openAccessPdf": (),
    "fieldsOfStudy": ("fields_of_study", "categories"),
    "s2FieldsOfStudy": ("fields_of_study", "categories"),
    "publicationTypes": ("publication_types",),
    "publicationDate": ("publication_date",),
    "journal": ("journal",),
    "citationStyles": ("title", "authors", "year", "venue", "journal", "publication_types", "url"),
    "authors": ("authors",),
    "embedding": (),
    "tldr": ("tldr",),
    "textAvailability": ("abstract",),
    "isRetracted": ("status",),
    "citationVelocity": (),
    "matchScore": (),
}
"""The fields of a paper, and the native fields that each needs; all need ``external_ids``."""
NESTED: Final = ("citations", "references")
AUTHOR: Final = frozenset((
    "authorId", "externalIds", "url", "name", "aliases", "affiliations", "normalizedAffiliations", "homepage",
    "paperCount", "citationCount", "hIndex",
))  # fmt: skip
EDGE: Final = ("contexts", "intents", "contextsWithIntent", "isInfluential")
_PARTS: Final[Mapping[str, frozenset[str]]] = {
    "publicationVenue": frozenset(("id", "name", "type", "alternate_names", "url", "alternate_urls", "issn")),
    "openAccessPdf": frozenset(("url", "status", "license", "disclaimer")),
    "s2FieldsOfStudy": frozenset(("category", "source")),
    "journal": frozenset(("name", "volume", "pages")),
    "citationStyles": frozenset(("bibtex",)),
    "embedding": frozenset(("specter_v1", "specter_v2", "model", "vector")),
    "tldr": frozenset(("model", "text")),
    "externalIds": frozenset(
        ("ArXiv", "MAG", "ACL", "PubMed", "Medline", "PubMedCentral", "DBLP", "DOI", "CorpusId")
    ),
}
"""Parts of fields. A request for a part returns the whole field."""


@dataclass(slots=True)
class Fields:
    """The requested fields of a paper.

    Args:
        names: its own.
        authors: those of its authors; empty if they are not requested.
        nested: those of its citations and references.
        edge: those of the citation that leads to it.
    """

    names: set[str] = field(default_factory=set)
    authors: set[str] = field(default_factory=set)
    nested: dict[str, Fields] = field(default_factory=dict)
    edge: set[str] = field(default_factory=set)

    def native(self, *more: str) -> tuple[str, ...]:
        """The native fields that these need."""
        needed = {native_name for name in self.names for native_name in PAPER[name]}
        if self.authors:
            needed.add("authors")
        return ("id", "external_ids", *sorted(needed | set(more)))


@dataclass(slots=True)
class AuthorFields:
    """The requested fields of an author, and those of their papers, None if they are not requested."""

    names: set[str] = field(default_factory=set)
    papers: Fields | None = None


def requested(request: DialectRequest) -> list[str]:
    """The names in the parameter.

    Raises:
        InvalidRequest: too many.
    """
    names = [name.strip() for value in request.query.get("fields", ()) for name in value.split(",")]
    if len(names) > MAX_FIELDS:
        raise InvalidRequest(f"fields has {len(names):,} names: send {MAX_FIELDS:,} at most.")
    return list(dict.fromkeys(name for name in names if name))


def paper_fields(names: Iterable[str], *, edge: str = "") -> Fields:
    """The fields of a paper by these names; ``title`` without any.

    Args:
        edge: for citations, the name of the paper in each, which may be the prefix of a name.

    Raises:
        InvalidRequest: a name is unknown.
    """
    fields, unknown = Fields(), []
    for name in names:
        bare_name = name.removeprefix(f"{edge}.") if edge else name
        if edge and (bare_name == edge or bare_name in EDGE):
            fields.edge.update(() if bare_name == edge else (bare_name,))
        elif not _add(fields, bare_name):
            unknown.append(name)
    _check(unknown)
    if not (fields.names or fields.authors or fields.nested or fields.edge):
        fields.names.add("title")
    for nested in fields.nested.values():
        if not (nested.names or nested.authors):
            nested.names.add("title")
    return fields


def author_fields(names: Iterable[str]) -> AuthorFields:
    """The fields of an author by these names; ``name`` without any. Raises as :func:`paper_fields`."""
    fields, papers, unknown = AuthorFields(), [], []
    for name in names:
        head, _, rest = name.partition(".")
        if head == "papers":
            papers.append(rest)
            fields.papers = Fields()
        elif head not in AUTHOR:
            unknown.append(name)
        else:
            fields.names.add(head)
    if fields.papers is not None:
        for rest in filter(None, papers):
            if rest.split(".")[0] in NESTED or not _add(fields.papers, rest):
                unknown.append(f"papers.{rest}")
        if not (fields.papers.names or fields.papers.authors):
            fields.papers.names.add("title")
    _check(unknown)
    if not fields.names and fields.papers is None:
        fields.names.add("name")
    return fields


def _add(fields: Fields, name: str, *, may_nest: bool = True) -> bool:
    """Add one field of a paper. Returns whether the original knows it."""
    head, _, rest = name.partition(".")
    if head in NESTED and may_nest:
        nested = fields.nested.setdefault(head, Fields())
        return not rest or _add(nested, rest, may_nest=False)
    if head in ("authors", "author"):
        fields.authors.update(("authorId", "name"))
        if rest and rest.split(".")[0] not in AUTHOR:
            return False
        fields.authors.update((rest.split(".")[0],) if rest else ())
        return True
    if head not in PAPER or (rest and rest not in _PARTS.get(head, ())):
        return False
    fields.names.add(head)
    return True


def _check(unknown: list[str]) -> None:
    if unknown:
        shown = [name[:64] for name in unknown[:20]]
        raise InvalidRequest(f"Unrecognized or unsupported fields: [{', '.join(shown)}]")
