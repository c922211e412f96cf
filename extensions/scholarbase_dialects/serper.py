"""Serper's Google search (https://serper.dev), answered with the pages of papers."""

from __future__ import annotations

from datetime import date
from typing import Any, Final

import orjson

from scholarbase.bibliographies.facts import day_of, link_of
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import as_of_day, shown
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import Paper
from scholarbase_dialects.base import Answer, Body, Dialect, DialectRequest, Operation, value_of, whole
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import ArxivIds, every
from scholarbase_dialects.serper_query import Query, limit_by, read

MAX_NUM: Final = 100
"""Results on a page, as Google has."""
SNIPPET: Final = 300
"""Characters of the abstract in a result."""
KNOWN: Final = ("q", "num", "page", "gl", "hl", "location", "autocorrect", "type", "tbs")
ARXIV: Final = frozenset(("arxiv.org", "www.arxiv.org", "export.arxiv.org"))
"""Hosts with papers of the library."""
FIELDS: Final = ("title", "abstract", "external_ids", "publication_date", "year", "url")


def _error(status: int, message: str) -> Body:
    return Body(orjson.dumps({"message": message, "statusCode": status}), status=status)


def _search(request: DialectRequest, calls: Calls) -> Answer:
    body = request.body if isinstance(request.body, dict) else {}
    q = body.get("q")
    if not isinstance(q, str):
        raise InvalidRequest(f"q is {shown(q)}: it must be a text.")
    request.ignore(*(name for name in body if name not in KNOWN))
    num = whole(value_of(body, "num", 10), "num", 1, MAX_NUM, clamp=True)
    page = whole(value_of(body, "page", 1), "page", 1, MAX_LIMIT)
    tbs = value_of(body, "tbs", "")
    if not isinstance(tbs, str):
        raise InvalidRequest(f"tbs is {shown(tbs)}: it must be a text, such as qdr:y.")
    query = read(q)
    request.ignore(*(f"tbs={part}" for part in limit_by(query, tbs, _today(calls))))
    organic: list[dict[str, Any]] = []
    first = (page - 1) * num
    if first + num <= MAX_LIMIT and (not query.sites or query.sites & ARXIV):
        papers = _papers(query, calls, first, num)
        organic = [_result(paper, first + position) for position, paper in enumerate(papers, 1)]
    parameters = {"q": q, "type": "search", "engine": "google", "num": num, "page": page}
    return {"searchParameters": parameters, "organic": organic, "credits": 1}


def _papers(query: Query, calls: Calls, first: int, num: int) -> list[Paper]:
    """A page of the papers that a query finds, with ``site:`` those at arXiv of the whole ranking."""
    if not query.sites:
        response = calls.search(query.words, limit=num, offset=first, fields=FIELDS, **query.dates)
        return [hit.paper for hit in response.results]
    recorded = {"site": sorted(query.sites), **{name.rstrip("_"): day for name, day in query.dates.items()}}
    _, hits = calls.search_meeting(
        query.words,
        every([ArxivIds(), query.days]),
        recorded,
        limit=first + num,
        fields=FIELDS,
        **query.dates,
    )
    papers = [hit.paper for hit in hits[first:]]
    calls.show([paper.id for paper in papers], limit=num, offset=first)
    return papers


def _today(calls: Calls) -> int | None:
    """The date of the request, else of the newest paper, so that answers do not depend on today."""
    day = lists.newest_day(calls.library) if calls.as_of is None else as_of_day(calls.as_of)
    return None if day is None else date(day // 10_000, day // 100 % 100, day % 100).toordinal()


def _result(paper: Paper, position: int) -> dict[str, Any]:
    abstract = paper.abstract or ""
    snippet = abstract if len(abstract) <= SNIPPET else abstract[:SNIPPET].rsplit(" ", 1)[0] + " ..."
    result: dict[str, Any] = {"title": paper.title, "link": link_of(paper), "snippet": snippet}
    if (day := day_of(paper)) is not None:
        result["date"] = f"{day:%b} {day.day}, {day.year}"
    elif paper.year is not None:
        result["date"] = str(paper.year)
    return {**result, "position": position}


DIALECT: Final = Dialect(
    "serper",
    "/serper",
    "Serper's Google search",
    (Operation("POST", "/search", _search),),
    _error,
    {401: 403},
)
