"""SearXNG's JSON: https://docs.searxng.org/dev/search_api.html, with searx/webapp.py for what it leaves open."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import orjson

from scholarbase.bibliographies.facts import day_of, link_of
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import as_of_day
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import Paper
from scholarbase.models.responses import Hit
from scholarbase_dialects.base import Answer, Body, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.describing import names_of, pdf_of
from scholarbase_dialects.listing import lists

ENGINE: Final = "scholarbase"
"""The one engine, of the category ``science``."""
PAGE: Final = 10
"""Results on a page, as most engines have."""
RANGES: Final = {"day": 1, "week": 7, "month": 30, "year": 365}
"""Days of each ``time_range``."""
KNOWN: Final = frozenset(
    ("q", "format", "pageno", "time_range", "language", "categories", "engines", "safesearch")
)
FIELDS: Final = (
    "title", "abstract", "external_ids", "authors", "publication_date", "year", "venue", "categories", "url",
)  # fmt: skip
_LANGUAGE: Final = re.compile(r"auto|[a-z]{2,3}(?:-[a-zA-Z]{2,4})?")
_FORBIDDEN: Final = (
    b"<!doctype html>\n<html lang=en>\n<title>403 Forbidden</title>\n<h1>Forbidden</h1>\n"
    b"<p>This server has only format=json.</p>\n"
)


def _error(status: int, message: str) -> Body:
    return Body(orjson.dumps({"error": message}), status=status)


def _invalid(name: str, value: str) -> InvalidRequest:
    """The original's sentence about a parameter."""
    return InvalidRequest(f'Invalid value "{value[:200]}" for parameter {name}')


def _index(request: DialectRequest, calls: Calls) -> Answer:
    """The start page, which sends a query on to the search."""
    if not request.text("q"):
        return Body(_FORBIDDEN, "text/html", 403)
    query = urlencode([(name, value) for name, values in request.query.items() for value in values])
    return Body(b"", "text/html", 308, {"Location": f"{request.base}/search?{query}"})


def _search(request: DialectRequest, calls: Calls) -> Answer:
    if request.text("format") != "json":
        return Body(_FORBIDDEN, "text/html", 403)
    if not (q := request.text("q")):
        raise InvalidRequest("No query")
    page = _page(request)
    if _LANGUAGE.fullmatch(language := request.text("language", "all")) is None:
        raise _invalid("language", language)
    since = _since(request, calls)
    first = (page - 1) * PAGE
    total, results = 0, []
    if first + PAGE <= MAX_LIMIT:
        response = calls.search(q, limit=PAGE, offset=first, fields=FIELDS, from_=since)
        total = response.total
        results = [_result(hit, first + rank) for rank, hit in enumerate(response.results, 1)]
    empty = ("answers", "corrections", "infoboxes", "suggestions", "unresponsive_engines")
    return {"query": q, "number_of_results": total, "results": results, **{name: [] for name in empty}}


def _page(request: DialectRequest) -> int:
    """Raises InvalidRequest: the page is not a number from 1."""
    text = request.text("pageno", "1")
    if not text.isdecimal() or not 0 < len(text) <= 20 or int(text) < 1:
        raise _invalid("pageno", text)
    return int(text)


def _since(request: DialectRequest, calls: Calls) -> str | None:
    """The first day of the time range, counted back from the date of the request, else from the newest paper.

    Raises:
        InvalidRequest: the range is unknown.
    """
    name = request.text("time_range")
    if name in ("", "None"):
        return None
    if name not in RANGES:
        raise _invalid("time_range", name)
    day = lists.newest_day(calls.library) if calls.as_of is None else as_of_day(calls.as_of)
    if day is None:
        return None
    return (date(day // 10_000, day // 100 % 100, day % 100) - timedelta(days=RANGES[name])).isoformat()


def _result(hit: Hit, position: int) -> dict[str, Any]:
    """A result as those of the original's engines for papers."""
    paper = hit.paper
    link = link_of(paper)
    return {
        "url": link,
        "title": paper.title or "",
        "content": paper.abstract or "",
        "publishedDate": _published(paper),
        "authors": names_of(paper.authors),
        "doi": paper.external_ids.get("DOI"),
        "journal": paper.venue,
        "tags": list(paper.categories),
        "pdf_url": pdf_of(paper),
        "html_url": None,
        "comments": None,
        "engine": ENGINE,
        "engines": [ENGINE],
        "positions": [position],
        "score": hit.score,
        "category": "science",
        "template": "paper.html",
        "parsed_url": _parsed_url(link),
        "thumbnail": "",
        "img_src": "",
        "priority": "",
    }


def _parsed_url(link: str) -> list[str]:
    """The six parts of a link, as ``urllib.parse.urlparse`` returns them."""
    try:
        parts = urlsplit(link)
    except ValueError:  # the source's own link may be malformed
        return ["", "", link, "", "", ""]
    return [parts.scheme, parts.netloc, parts.path, "", parts.query, parts.fragment]


def _published(paper: Paper) -> str | None:
    if (day := day_of(paper)) is not None:
        return f"{day.isoformat()}T00:00:00"
    return None if paper.year is None else f"{paper.year:04}-01-01T00:00:00"


DIALECT: Final = Dialect(
    "searxng",
    "/searxng",
    "SearXNG's JSON search",
    (
        Operation("GET", "/search", _search, parameters=KNOWN),
        Operation("POST", "/search", _search, parameters=KNOWN, form=True),
        Operation("GET", "", _index, None, KNOWN),
        Operation("POST", "", _index, None, KNOWN, form=True),
    ),
    _error,
)
