"""The public ScholarBase, Lewen-API: https://github.com/ustc-ai4science/Lewen-API/blob/main/docs/api-en.md

Papers have the field names of Semantic Scholar's Graph API.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from scholarbase.bibliographies.facts import link_of
from scholarbase.errors import InvalidRequest, PaperNotFound
from scholarbase.identifiers import parse
from scholarbase.indexes import query_syntax
from scholarbase.models.checks import MAX_INTEGER, shown
from scholarbase.models.limits import MAX_LIMIT, MAX_TITLE_LENGTH, MAX_TITLE_MATCHES, Mode
from scholarbase.models.papers import Paper
from scholarbase_dialects.base import Answer, Dialect, DialectRequest, Operation, years_of
from scholarbase_dialects.calls import Calls, plain_query
from scholarbase_dialects.describing import pdf_of
from scholarbase_dialects.listing.conditions import Text, every
from scholarbase_dialects.semantic_scholar.fields import PAPER
from scholarbase_dialects.semantic_scholar.filters import Filters, with_labels
from scholarbase_dialects.semantic_scholar.papers import VALUES, paper_id_of

DEFAULT_LIMIT: Final = 10
RETRIEVALS: Final[tuple[Mode, ...]] = ("sparse", "dense", "hybrid")
_SCHEMES: Final = {"arXiv": "ArXiv", "PMID": "PubMed", "PMCID": "PubMedCentral"}
"""Schemes of ids that Semantic Scholar names otherwise."""


def _external_ids(paper: Paper) -> dict[str, str]:
    return {_SCHEMES.get(scheme, scheme): value for scheme, value in paper.external_ids.items()}


def _pdf(paper: Paper) -> dict[str, str] | None:
    link = pdf_of(paper)
    return None if link is None else {"url": link, "status": "GREEN"}


_OWN: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Paper], Any]]]] = {
    "paperId": (("external_ids",), paper_id_of),
    "authors": (
        ("authors",),
        lambda paper: [{"authorId": author.author_id, "name": author.name} for author in paper.authors],
    ),
    "venue": (("venue",), lambda paper: paper.venue),
    "openAccessPdf": (("external_ids",), _pdf),
    "externalIds": (("external_ids",), _external_ids),
    "url": (("external_ids", "url"), lambda paper: link_of(paper) or None),
}
"""The fields whose values are not those of Semantic Scholar's dialect."""
_NAMES: Final = (
    "paperId", "title", "abstract", "year", "authors", "venue", "citationCount", "referenceCount", "fieldsOfStudy",
    "publicationTypes", "publicationDate", "openAccessPdf", "externalIds", "journal", "url",
)  # fmt: skip
FIELDS: Final = {name: _OWN[name] if name in _OWN else (PAPER[name], VALUES[name]) for name in _NAMES}
"""Of each field, the native fields that it needs, and its value."""
ALWAYS: Final = ("paperId", "title")


def _fields(request: DialectRequest) -> list[str]:
    """The requested fields. Unknown ones are ignored."""
    names = [name.strip() for name in request.text("fields").split(",")]
    if "*" in names or "all" in names:
        return list(FIELDS)
    request.ignore(*(f"fields={name}" for name in names if name and name not in FIELDS))
    return [name for name in FIELDS if name in ALWAYS or name in names]


def _native(fields: Collection[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(native for name in fields for native in FIELDS[name][0]))


def _shown(paper: Paper, fields: Sequence[str]) -> dict[str, Any]:
    return {name: FIELDS[name][1](paper) for name in fields}


def _listed(total: int, offset: int, following: int | None, data: Sequence[Any]) -> dict[str, Any]:
    return {"total": total, "offset": offset, "next": following, "data": data}


def _limit(request: DialectRequest) -> int:
    return request.whole("limit", DEFAULT_LIMIT, 1, MAX_LIMIT)


def _offset(request: DialectRequest) -> int:
    return request.whole("offset", 0, 0, MAX_INTEGER)


def _query_of(request: DialectRequest) -> str:
    if "query" not in request.query:
        raise InvalidRequest("The parameter query is missing.")
    return request.text("query")


def _filters(request: DialectRequest) -> Filters:
    """The filters in the URL. Raises InvalidRequest for a malformed one."""
    filters: dict[str, Any] = {}
    for text in filter(None, map(str.strip, request.query.get("year", ()))):  # the strictest of all values
        if (years := years_of(text)) is None:
            raise InvalidRequest(f"year is {shown(text)}: use 2019, 2016-2020, 2010- or -2015.")
        for name, year, strictest in zip(("from_", "to"), years, (max, min), strict=True):
            if year:
                filters[name] = strictest(filters.get(name, year), year)
    if venues := [venue.strip() for venue in request.text("venue").split(",") if venue.strip()]:
        filters["venue"] = venues
    if request.text("minCitationCount").strip():
        filters["min_citations"] = request.whole("minCitationCount", 0, 0, MAX_INTEGER)
    return with_labels(request, filters)


def _search(request: DialectRequest, calls: Calls) -> Answer:
    retrieval = request.text("retrieval") or "hybrid"
    if retrieval not in RETRIEVALS:
        raise InvalidRequest(f"retrieval is {shown(retrieval)}: it must be one of {', '.join(RETRIEVALS)}.")
    # Hybrid is the original's default, also of clients that never name it.
    mode = calls.library.best_mode if retrieval == "hybrid" else retrieval
    if mode != retrieval and "retrieval" in request.query:
        request.ignore("retrieval")
    return _searched(request, calls, _query_of(request), _filters(request), mode=mode)


def _searched(
    request: DialectRequest, calls: Calls, q: str, filters: Filters, **arguments: Any
) -> dict[str, Any]:
    fields, limit, offset = _fields(request), _limit(request), _offset(request)
    if filters.others:
        # One more than the page has shows whether there is a next one.
        total, hits = calls.search_meeting(
            q,
            every(filters.conditions),
            {**filters.recorded, **arguments},
            limit=min(offset + limit + 1, MAX_LIMIT),
            fields=_native(fields),
            **filters.native,
            **arguments,
        )
        page = hits[offset : offset + limit]
        calls.show([hit.paper.id for hit in page], limit=limit, offset=offset)
        following = offset + limit if offset + limit < len(hits) else None
        return _listed(total, offset, following, [_shown(hit.paper, fields) for hit in page])
    response = calls.search(
        q, limit=limit, offset=offset, fields=_native(fields), **filters.native, **arguments
    )
    data = [_shown(hit.paper, fields) for hit in response.results]
    return _listed(response.total, offset, response.next_offset, data)


def _titles(request: DialectRequest, calls: Calls) -> Answer:
    """The papers whose title has all words; if there are none, those with a similar title.

    A session records one look-up of the title, with the papers of the answer.
    """
    title, filters = plain_query(_query_of(request))[:MAX_TITLE_LENGTH], _filters(request)
    words = list(dict.fromkeys(word.casefold() for word in query_syntax.words(title)))[
        : query_syntax.MAX_WORDS
    ]
    expression = "title:({})".format(" AND ".join(f'"{word}"' for word in words)) if words else ""
    fields, limit, offset = _fields(request), _limit(request), _offset(request)
    condition = every([Text(query_syntax.compile(expression)), *filters.conditions]) if words else None
    total, papers = calls.listed(
        condition, {}, limit=limit, offset=offset, fields=_native(fields), first=calls.meant(title)
    )
    following = offset + limit if offset + limit < total else None
    answer = _listed(total, offset, following, [_shown(paper, fields) for paper in papers])
    ids, scores = calls.begun.pop()[1], []
    if not (answer["total"] or filters.conditions or not words or offset):
        [matches] = calls.match([title], limit=MAX_TITLE_MATCHES, fields=_native(fields))
        calls.begun.pop()
        page = matches[:limit]
        ids, scores = [match.paper.id for match in page], [match.score for match in page]
        following = len(page) if len(page) < len(matches) else None
        answer = _listed(len(matches), offset, following, [_shown(match.paper, fields) for match in page])
    recorded = {**filters.recorded, "limit": limit, "offset": offset, "as_of": calls.as_of}
    named = {name: value for name, value in recorded.items() if value}
    calls.begun.append(({"titles": [title], **named}, ids, scores))
    return answer


def _id(request: DialectRequest) -> str:
    """The id in the path, of which bare digits are a corpus id. Raises PaperNotFound for an id of another form."""
    text = request.path["paper_id"].strip()
    paper_id = f"CorpusId:{text}" if text.isascii() and text.isdigit() else text
    try:
        parse(paper_id)
    except InvalidRequest:
        raise PaperNotFound(f"Paper not found: {shown(text)}") from None
    return paper_id


def _paper(request: DialectRequest, calls: Calls) -> Answer:
    fields = _fields(request)
    return _shown(calls.paper(_id(request), fields=_native(fields)), fields)


def _edges(direction: str, key: str, request: DialectRequest, calls: Calls) -> Answer:
    fields, offset = _fields(request), _offset(request)
    read = calls.citations if direction == "citations" else calls.references
    response = read(_id(request), limit=_limit(request), offset=offset, fields=_native(fields))
    data = [{key: _shown(citation.paper, fields)} for citation in response.results]
    return _listed(response.total, offset, response.next_offset, data)


FILTERS: Final = ("year", "venue", "minCitationCount", "fieldsOfStudy", "publicationTypes", "openAccessPdf")
PAGE: Final = ("fields", "offset", "limit")

DIALECT: Final = Dialect(
    "scholarbase",
    "/scholarbase",
    "the public ScholarBase",
    (
        Operation("GET", "/paper/search", _search, parameters=frozenset(("query", "retrieval", *FILTERS, *PAGE)),
                  papers=_limit),
        Operation("GET", "/paper/search/title", _titles, "match_titles", frozenset(("query", *FILTERS, *PAGE)),
                  papers=_limit),
        Operation("GET", "/paper/{paper_id:path}/citations", partial(_edges, "citations", "citingPaper"),
                  "get_citations", frozenset(PAGE), papers=_limit),
        Operation("GET", "/paper/{paper_id:path}/references", partial(_edges, "references", "citedPaper"),
                  "get_references", frozenset(PAGE), papers=_limit),
        Operation("GET", "/paper/{paper_id:path}", _paper, "get_papers", frozenset(("fields",)), papers=1, short=True),
    ),
    statuses={400: 422},
)  # fmt: skip
