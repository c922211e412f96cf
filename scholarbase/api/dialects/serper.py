"""Serper's Google search (https://serper.dev), answered with the pages of papers."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any, Final

import orjson

from scholarbase.api.dialects.base import Answer, Body, Dialect, DialectRequest, Operation, value_of, whole
from scholarbase.api.dialects.calls import Calls
from scholarbase.api.dialects.describing import arxiv_id_of, day_of, link_of
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import date_bounds, shown
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import Paper

MAX_NUM: Final = 100
"""Results on a page, as Google has."""
SNIPPET: Final = 300
"""Characters of the abstract in a result."""
KNOWN: Final = ("q", "num", "page", "gl", "hl", "location", "autocorrect", "type")
_OPERATOR: Final = re.compile(r"(?<!\S)(before|after|site):(\S{1,100})")
"""Google's operators with an effect here: https://support.google.com/websearch/answer/2466433"""
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
    text, limits, sites = _read(q)
    organic: list[dict[str, Any]] = []
    first = (page - 1) * num
    if first + num <= MAX_LIMIT and (not sites or sites & {"arxiv.org", "www.arxiv.org", "export.arxiv.org"}):
        papers = calls.search_where(
            text, _is_at_arxiv if sites else None, limit=num, offset=first, fields=FIELDS, **limits
        )
        organic = [_result(paper, first + place) for place, paper in enumerate(papers, 1)]
    parameters = {"q": q, "type": "search", "engine": "google", "num": num, "page": page}
    return {"searchParameters": parameters, "organic": organic, "credits": 1}


def _read(q: str) -> tuple[str, dict[str, str], set[str]]:
    """The words of a query, its limits of dates, and its sites. An operator with an invalid value is read as words."""
    limits: dict[str, str] = {}
    sites: set[str] = set()

    def read(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name == "site":
            sites.add(value.lower().removeprefix("https://").removeprefix("http://").partition("/")[0])
            return " "
        try:
            first, last = date_bounds(value)
        except InvalidRequest:
            return match[0]
        if name == "before":  # the day itself is excluded
            limits["to"] = (_date(first) - timedelta(days=1)).isoformat()
        else:
            limits["from_"] = _date(last).isoformat()
        return " "

    return " ".join(_OPERATOR.sub(read, q).split()), limits, sites


def _date(day: int) -> date:
    return date(day // 10_000, day // 100 % 100, day % 100)


def _is_at_arxiv(paper: Paper) -> bool:
    return arxiv_id_of(paper) is not None


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
