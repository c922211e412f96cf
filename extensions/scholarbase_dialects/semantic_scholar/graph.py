"""Semantic Scholar's Academic Graph: papers, by search and by id.

The original: https://api.semanticscholar.org/api-docs/graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from scholarbase.errors import InvalidRequest, PaperNotFound
from scholarbase.models.checks import is_id
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import Paper
from scholarbase.models.responses import Hit
from scholarbase_dialects.base import Answer, Answerer, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.listing.conditions import every
from scholarbase_dialects.semantic_scholar import authors, bulk, parameters, snippets, titles
from scholarbase_dialects.semantic_scholar.fields import paper_fields, requested
from scholarbase_dialects.semantic_scholar.filters import DATES, PARAMETERS, Filters, dates_of, filters_of
from scholarbase_dialects.semantic_scholar.papers import Writer
from scholarbase_dialects.semantic_scholar.parameters import ids_of, not_found, number, paper_of, query_of

WINDOW: Final = 1000
"""The last result of a search that a page can have."""
MAX_SEARCH: Final = 100
"""Results on a page of a search."""
MAX_EDGES: Final = 1000
"""Citations on a page."""
LAST_EDGE: Final = 9999
"""The last citation that a page can have."""
MAX_IDS: Final = 500
"""Papers in a batch."""


def found_by(calls: Calls, q: str, filters: Filters, end: int) -> tuple[int, list[Hit]]:
    """The number of results of a search, and the first of them, to ``end`` at least if there are so many.

    Raises as :meth:`Calls.search`.
    """
    if filters.others:
        condition = every(filters.conditions)
        # One more than the page has shows whether there is a next one.
        limit = min(end + 1, WINDOW)
        return calls.search_meeting(
            q, condition, filters.recorded, limit=limit, fields=("id",), **filters.native
        )
    response = calls.search(q, limit=WINDOW, fields=("id",), **filters.native)
    hits = list(response.results)
    return (len(hits) if len(hits) < WINDOW else max(response.total, WINDOW)), hits


def read_papers(calls: Calls, ids: Sequence[str], fields: Sequence[str]) -> list[Paper]:
    """The papers with these canonical ids, as part of an answer whose papers are recorded already."""
    papers = calls.unrecorded().papers(ids, fields=fields) if ids else ()
    return [paper for paper in papers if paper is not None]


def search(request: DialectRequest, calls: Calls) -> Answer:
    fields, filters = paper_fields(requested(request)), filters_of(request)
    limit = number(request, "limit", MAX_SEARCH, 1, MAX_SEARCH)
    offset = number(request, "offset", 0, 0, 2**63 - 1)
    if offset + limit > WINDOW:
        raise InvalidRequest("Requested data for this limit and/or offset is not available")
    total, hits = found_by(calls, query_of(request), filters, offset + limit)
    page = [hit.paper.id for hit in hits[offset : offset + limit]]
    calls.show(page, limit=limit, offset=offset)
    answer: dict[str, Any] = {"total": total, "offset": offset}
    following = offset + limit
    if following < len(hits) and following + limit <= WINDOW:  # else clients request a page that is rejected
        answer["next"] = following
    papers = read_papers(calls, page, fields.native())
    return {**answer, "data": Writer(calls).papers(papers, fields)}


def paper(request: DialectRequest, calls: Calls) -> Answer:
    fields = paper_fields(requested(request))
    return Writer(calls).paper(paper_of(request, calls, fields.native()), fields)


def _edges(request: DialectRequest, calls: Calls, *, are_citations: bool) -> Answer:
    name = "citingPaper" if are_citations else "citedPaper"
    fields = paper_fields(requested(request), edge=name)
    limit = number(request, "limit", 100, 1, MAX_EDGES)
    offset = number(request, "offset", 0, 0, 2**63 - 1)
    if offset + limit > LAST_EDGE:
        raise InvalidRequest("offset + limit must be < 10000")
    dates = dates_of(request)
    paper_id = request.path["paper_id"]
    read = calls.citations if are_citations else calls.references
    if not is_id(paper_id):
        raise not_found(paper_id)
    try:
        response = read(paper_id, limit=limit, offset=offset, fields=fields.native(), **dates)
    except PaperNotFound:
        raise not_found(paper_id) from None
    writer = Writer(calls)
    answer: dict[str, Any] = {"offset": offset}
    if response.next_offset is not None and response.next_offset + limit <= LAST_EDGE:
        answer["next"] = response.next_offset
    return {**answer, "data": [writer.citation(citation, name, fields) for citation in response.results]}


citations: Final = partial(_edges, are_citations=True)


def batch(request: DialectRequest, calls: Calls) -> Answer:
    fields = paper_fields(requested(request))
    ids = ids_of(request, MAX_IDS)
    papers = calls.papers(ids, fields=fields.native()) if ids else ()
    if not any(papers):
        raise InvalidRequest("No valid paper ids given")
    writer = Writer(calls)
    return [None if paper is None else writer.paper(paper, fields) for paper in papers]


def _authors(method: str, path: str, answer: Answerer, parameters: frozenset[str]) -> Operation:
    """A route of authors, which sessions record where it shows their papers."""
    return Operation(
        method, path, answer, parameters=parameters, papers=MAX_LIMIT, recorded=authors.shows_papers
    )


_FIELDS: Final = frozenset(("fields",))
_PAGE: Final = frozenset(("fields", "limit", "offset"))
_EDGE_PAGE: Final = _PAGE | DATES

DIALECT: Final = Dialect(
    "semantic-scholar",
    "/graph/v1",
    "Semantic Scholar's Academic Graph",
    (
        Operation("GET", "/paper/search", search, parameters=_PAGE | PARAMETERS | {"query"}),
        Operation("GET", "/paper/search/bulk", bulk.search, parameters=bulk.PARAMETERS, papers=MAX_LIMIT),
        Operation("GET", "/paper/search/match", titles.match, "match_titles", PARAMETERS | {"query", "fields"}),
        Operation("GET", "/paper/autocomplete", titles.autocomplete, parameters=frozenset(("query",))),
        Operation("GET", "/snippet/search", snippets.search, parameters=snippets.PARAMETERS, papers=MAX_LIMIT),
        Operation("POST", "/paper/batch", batch, "get_papers", _FIELDS, papers=MAX_IDS),
        Operation("GET", "/paper/{paper_id:path}/citations", citations, "get_citations",
                  _EDGE_PAGE, papers=MAX_LIMIT),
        Operation("GET", "/paper/{paper_id:path}/references", partial(_edges, are_citations=False), "get_references",
                  _EDGE_PAGE, papers=MAX_LIMIT),
        Operation("GET", "/paper/{paper_id:path}/authors", authors.of_paper, "get_papers", _PAGE, papers=MAX_LIMIT),
        _authors("GET", "/author/search", authors.search, _PAGE | {"query"}),
        _authors("POST", "/author/batch", authors.batch, _FIELDS),
        Operation("GET", "/author/{author_id:path}/papers", authors.papers, parameters=_EDGE_PAGE, papers=MAX_LIMIT),
        _authors("GET", "/author/{author_id:path}", authors.author, _FIELDS),
        Operation("GET", "/paper/{paper_id:path}", paper, "get_papers", _FIELDS, papers=MAX_LIMIT),
    ),
    parameters.error,
    parameters.STATUSES,
    alone="/graph/v1",
)  # fmt: skip
