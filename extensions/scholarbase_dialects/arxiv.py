"""The arXiv API: https://info.arxiv.org/help/api/user-manual.html"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlencode

from scholarbase import identifiers
from scholarbase.errors import InvalidRequest
from scholarbase.models.limits import MAX_IDS, MAX_QUERY_LENGTH
from scholarbase.models.papers import Paper
from scholarbase_dialects.arxiv_query import Read, read_query
from scholarbase_dialects.atom import FIELDS, FIELDS_AS_OF, MEDIA_TYPE, error_feed, feed
from scholarbase_dialects.base import Answer, Body, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls, plain_query
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import ArxivIds, Condition, ListOrder, every

MAX_PAGE: Final = 2000
"""Papers of a feed, as the original has."""
MAX_RESULTS: Final = 30_000
"""The largest ``max_results`` that is not an error."""
MAX_START: Final = 10**9
ORDERS: Final[dict[tuple[str, str], ListOrder]] = {
    ("relevance", "descending"): "-relevance",
    ("relevance", "ascending"): "relevance",
    ("submittedDate", "descending"): "-date",
    ("submittedDate", "ascending"): "date",
    ("lastUpdatedDate", "descending"): "-updated",
    ("lastUpdatedDate", "ascending"): "updated",
}
_BY_DATE: Final[dict[ListOrder, ListOrder]] = {"-updated": "-date", "updated": "date"}
_UNUSED_ID: Final = re.compile(r"(?:\d{4}\.\d{4}|\d\d(?:0[1-9]|1[0-2])\.\d{5})(?:v\d{1,4})?", re.ASCII)
"""Ids that no paper has, such as 0000.0000, and that the original accepts all the same."""
_TITLE: Final = re.compile(r'(?:(?:ti|all):)?[ "]*([^":()\[\]]+)"?', re.ASCII)
"""A query of one text, which may be a title."""
PARAMETERS: Final = ("search_query", "id_list", "start", "max_results", "sortBy", "sortOrder")


def _whole(request: DialectRequest, name: str, default: int, high: int) -> int:
    """Raises InvalidRequest, with the messages of the original."""
    text = request.text(name).strip() or str(default)
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        raise InvalidRequest(f"{name} must be an integer")
    if text.startswith("-") and digits.strip("0"):
        raise InvalidRequest(f"{name} must be non-negative")
    if len(digits) > 20 or int(digits) > high:
        raise InvalidRequest(f"{name} must be at most {high}")
    return int(digits)


def _order(request: DialectRequest) -> ListOrder:
    by, direction = request.text("sortBy") or "relevance", request.text("sortOrder") or "descending"
    if by not in (known := list(dict.fromkeys(name for name, _ in ORDERS))):
        raise InvalidRequest(f"sortBy must be in: {', '.join(sorted(known))}")
    if (by, direction) not in ORDERS:
        raise InvalidRequest("sortOrder must be in: ascending, descending")
    return ORDERS[by, direction]


def _ids(request: DialectRequest) -> list[str]:
    """The ids of a request, each once and without its version. Raises InvalidRequest for an id of another form."""
    listed = [text.strip() for text in request.text("id_list").split(",") if text.strip()]
    if len(listed) > MAX_IDS:
        raise InvalidRequest(f"id_list has {len(listed)} ids: send {MAX_IDS} at most")
    ids: dict[str, None] = {}
    for text in listed:
        read = identifiers.arxiv_id(text)
        if read is None and _UNUSED_ID.fullmatch(text):
            continue
        if read is None:
            raise InvalidRequest(f"incorrect id format for {text[:100]}")
        ids[read] = None
    return list(ids)


def _query(request: DialectRequest, calls: Calls) -> Answer:
    text, ids, order = request.text("search_query"), _ids(request), _order(request)
    start = _whole(request, "start", 0, MAX_START)
    count = min(_whole(request, "max_results", 10, MAX_RESULTS), MAX_PAGE)
    if len(text) > MAX_QUERY_LENGTH:
        raise InvalidRequest(f"search_query has {len(text)} characters: send {MAX_QUERY_LENGTH} at most")
    query = plain_query(text)
    read = read_query(query, updates=calls.as_of is None) if query else Read(None)
    fields: tuple[str, ...] = FIELDS
    if calls.as_of is not None:  # later changes are not known then
        fields, order = FIELDS_AS_OF, _BY_DATE.get(order, order)
    request.ignore(*read.ignored)
    has_ids = bool(request.text("id_list").strip(", "))
    if has_ids and not query and order == "-relevance":
        total, papers = _in_order(calls, ids, start, count, fields)
    elif read.condition is None and (query or not has_ids):
        total, papers = calls.listed(None, {"q": query})
    else:
        parts: list[Condition] = [ArxivIds(tuple(ids) if has_ids else None)]
        parts += [read.condition] if read.condition is not None else []
        recorded = {"q": query, "ids": ids, "order": order, "limit": count, "offset": start}
        one_text = _TITLE.fullmatch(query)
        first = calls.meant(one_text[1]) if one_text is not None and order == "-relevance" else []
        total, papers = calls.listed(
            every(parts), recorded, order=order, limit=count, offset=start, fields=fields, first=first
        )
    values = {name: request.text(name) for name in ("search_query", "id_list")}
    values |= {"start": str(start), "max_results": str(count)}
    title = "&".join(f"{name}={value}" for name, value in values.items())
    link = f"{request.base}?{urlencode(values, quote_via=quote, errors='replace')}"
    return Body(feed(title, link, papers, total=total, start=start, per_page=count), MEDIA_TYPE)


def _in_order(
    calls: Calls, ids: Sequence[str], start: int, count: int, fields: tuple[str, ...]
) -> tuple[int, list[Paper]]:
    """The papers of a list that the library has, in the order of the list."""
    stored = {
        hit.paper.external_ids["arXiv"]
        for hit in lists.listed(
            calls.library,
            ArxivIds(tuple(ids)),
            order="id",
            limit=len(ids),
            fields=("external_ids",),
            as_of=calls.as_of,
        )[1]
    }
    existing = [arxiv_id for arxiv_id in ids if arxiv_id in stored]
    page = existing[start : start + count]
    _, papers = calls.listed(ArxivIds(tuple(page)), {"ids": page}, order="id", limit=len(page), fields=fields)
    by_id = {paper.external_ids["arXiv"]: paper for paper in papers}
    calls.show([by_id[arxiv_id].id for arxiv_id in page])
    return len(existing), [by_id[arxiv_id] for arxiv_id in page]


def _operation(method: str) -> Operation:
    return Operation(
        method,
        "",
        _query,
        parameters=frozenset(PARAMETERS),
        papers=lambda request: min(_whole(request, "max_results", 10, MAX_RESULTS), MAX_PAGE),
        form=True,
    )


DIALECT: Final = Dialect(
    "arxiv",
    "/api/query",
    "the arXiv API",
    (_operation("GET"), _operation("POST")),
    error_feed,
    alone="/api/query",
)
