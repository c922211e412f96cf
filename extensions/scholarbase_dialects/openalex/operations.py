"""The routes of OpenAlex's works: lists, groups and single works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final

import orjson

from scholarbase.errors import InvalidRequest, PaperNotFound
from scholarbase.models.papers import Paper
from scholarbase.models.responses import Hit
from scholarbase_dialects.base import Answer, Body, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import ListOrder
from scholarbase_dialects.listing.lists import cursor_at, offset_of
from scholarbase_dialects.openalex import filters, works
from scholarbase_dialects.openalex.filters import Filters
from scholarbase_dialects.openalex.ids import paper_id
from scholarbase_dialects.openalex.works import FIELDS, REFERENCES, Context, paper_fields

MAX_RESULTS: Final = 10_000
"""The last result that ``page`` reaches; cursors reach all."""
MAX_PER_PAGE: Final = 200
DEFAULT_PER_PAGE: Final = 25
MAX_GROUPS: Final = 200
NO_EFFECT: Final = (
    "api_key", "api-key", "data_version", "data-version", "include_xpac", "include-xpac", "mailto",
)  # fmt: skip
PARAMETERS: Final = (
    "cursor", "filter", "format", "group_by", "group-by", "page", "per_page", "per-page", "search", "select", "sort",
    *NO_EFFECT,
)  # fmt: skip
_PAGINATION: Final = (
    "per-page ", "Page ", "Cursor ", "Maximum results", "Cannot use page", "Unable to paginate",
)  # fmt: skip
"""How messages about pages begin. Their error has another name."""


def _error(status: int, message: str) -> Body:
    names = {
        400: "Invalid query parameters error.",
        401: "API key required",
        404: "Not Found",
        405: "Method Not Allowed",
        429: "Too Many Requests",
    }
    name = names.get(status, "Bad Request" if status < 500 else "Internal Server Error")
    if status == 400 and message.startswith(_PAGINATION):
        name = "Pagination error."
    return Body(orjson.dumps({"error": name, "message": message}), status=status)


def _list(request: DialectRequest, calls: Calls) -> Answer:
    start = perf_counter()
    _check(request)
    search = request.text("search") if "search" in request.query else None
    wanted = filters.read(
        search, request.text("filter"), partial(lists.held, calls.library, as_of=calls.as_of)
    )
    if group := request.text("group_by") or request.text("group-by"):
        return _groups(group, request, wanted, calls, start)
    page, per_page, cursor = _page(request), _per_page(request), request.text("cursor")
    offset = _offset(cursor, calls) if cursor else (page - 1) * per_page
    select = _select(request)
    order = filters.orders(request.text("sort"), has_search=wanted.has_search) or _default(wanted, calls)
    recorded = _recorded(request, per_page, offset)
    first = calls.meant(wanted.title) if order[0] == "-relevance" else []
    page_of = {"order": order, "limit": per_page, "offset": offset, "first": first}
    total, hits = _hits(wanted, calls, recorded, **page_of, fields=paper_fields(select))
    meta: dict[str, Any] = {
        "count": total,
        "db_response_time_ms": _milliseconds(start),
        "page": None if cursor else page,
        "per_page": per_page,
        "groups_count": None,
    }
    if cursor:
        end = offset + len(hits)
        meta["next_cursor"] = cursor_at(end, calls.library.snapshot_id) if hits and end < total else None
    papers = [hit.paper for hit in hits]
    scores = None
    if wanted.has_search:
        scores = {hit.paper.id: hit.score for hit in hits}
    context = Context(request.base, _references(papers, select, calls), scores, is_list=True)
    results = [works.work(paper, context, select) for paper in papers]
    return {"meta": meta, "results": results, "group_by": []}


def _check(request: DialectRequest) -> None:
    """Raises InvalidRequest: a parameter is unknown or repeated, or the format is not JSON."""
    for name, values in request.query.items():
        if name not in PARAMETERS:
            raise InvalidRequest(
                f"{name[:200]} is not a valid parameter. Valid parameters of this library are: {', '.join(PARAMETERS)}."
            )
        if len(values) > 1:
            raise InvalidRequest(f"Only one {name} parameter is allowed.")
    if request.text("format", "json") != "json":
        raise InvalidRequest("The format of this library is json.")


def _page(request: DialectRequest) -> int:
    """Raises InvalidRequest: not a number, beyond the last page, or together with a cursor."""
    page, per_page = _number(request, "page", 1), _per_page(request)
    if page < 1:
        raise InvalidRequest("Page parameter must be greater than 0.")
    if request.text("cursor") and page != 1:
        raise InvalidRequest("Cannot use page parameter with cursor.")
    if page * per_page > MAX_RESULTS:
        raise InvalidRequest(
            f"Maximum results size of {MAX_RESULTS:,} records is exceeded. Cursor pagination is required for records "
            f"beyond {MAX_RESULTS:,}: send cursor=*."
        )
    return page


def _per_page(request: DialectRequest) -> int:
    """Raises InvalidRequest: not a number from 1 to 200."""
    per_page = _number(request, "per-page", DEFAULT_PER_PAGE)
    if not 1 <= per_page <= MAX_PER_PAGE:
        raise InvalidRequest(f"per-page parameter must be between 1 and {MAX_PER_PAGE}")
    return per_page


def _number(request: DialectRequest, name: str, default: int) -> int:
    """A number, whose name has a hyphen or an underscore."""
    text = request.text(name) or request.text(name.replace("-", "_"))
    if not text:
        return default
    if not text.removeprefix("-").isdecimal() or len(text) > 20:
        raise InvalidRequest(f"Param {name} must be a number.")
    return int(text)


def _offset(cursor: str, calls: Calls) -> int:
    """Raises InvalidRequest: not a cursor of an earlier response from this snapshot."""
    offset = offset_of(cursor, calls.library.snapshot_id)
    if offset is None:
        raise InvalidRequest(
            "Cursor value is invalid: send * or the next_cursor of the last response. After an update of the library, "
            "begin again."
        )
    return offset


def _select(request: DialectRequest) -> list[str] | None:
    """Raises InvalidRequest: a field is unknown."""
    names = request.names("select")
    for name in names or ():
        if name not in FIELDS:
            raise InvalidRequest(
                f"{name[:200]} is not a valid select field. Valid fields for select are: {', '.join(FIELDS)}."
            )
    return names


def _default(wanted: Filters, calls: Calls) -> tuple[ListOrder, ...]:
    """The order without ``sort``. Citation counts of a past date are unknown."""
    if wanted.has_search:
        return ("-relevance",)
    return ("-citation_count",) if calls.as_of is None else ("-date",)


def _recorded(request: DialectRequest, limit: int, offset: int) -> dict[str, Any]:
    """What a session records of a request."""
    texts = {"q": request.text("search"), "filter": request.text("filter"), "sort": request.text("sort")}
    return {**texts, "limit": limit, "offset": offset}


def _hits(wanted: Filters, calls: Calls, recorded: Mapping[str, Any], **page: Any) -> tuple[int, list[Hit]]:
    """A page of the papers with all words of the search; if none has them, with any."""
    total, hits = calls.hits(wanted.condition, recorded, **page)
    if total or wanted.fallback is None:
        return total, hits
    calls.begun.pop()
    return calls.hits(wanted.fallback, recorded, **page)


def _references(papers: Sequence[Paper], select: Sequence[str] | None, calls: Calls) -> dict[str, list[str]]:
    if select is not None and REFERENCES.isdisjoint(select):
        return {}
    return lists.reference_ids(calls.library, [paper.id for paper in papers], as_of=calls.as_of)


def _groups(name: str, request: DialectRequest, wanted: Filters, calls: Calls, start: float) -> Answer:
    """The numbers of papers of each year.

    Raises:
        InvalidRequest: another field, or a page or fields.
    """
    field, _, known = name.partition(":")
    if field.replace("-", "_") != "publication_year" or known not in ("", "known"):
        raise InvalidRequest(f"Cannot group by {name[:200]}: this library groups by publication_year.")
    if "select" in request.query:
        raise InvalidRequest("select does not work with group_by.")
    if _number(request, "page", 1) != 1 or request.text("cursor"):
        raise InvalidRequest(
            "Unable to paginate beyond page 1: group-by has one page with up to 200 results."
        )
    counts = lists.count_years(calls.library, wanted.condition, as_of=calls.as_of)
    if not counts and wanted.fallback is not None:
        counts = lists.count_years(calls.library, wanted.fallback, as_of=calls.as_of)
    groups = [
        {"key": str(year), "key_display_name": str(year), "count": count}
        for year, count in counts[:MAX_GROUPS]
    ]
    meta = {
        "count": sum(count for _, count in counts),
        "db_response_time_ms": _milliseconds(start),
        "page": 1,
        "per_page": MAX_GROUPS,
        "groups_count": len(groups),
    }
    return {"meta": meta, "results": [], "group_by": groups}


def _work(request: DialectRequest, calls: Calls) -> Answer:
    """Raises PaperNotFound: the library does not have the paper."""
    for name in request.query:
        if name not in ("select", *NO_EFFECT):
            raise InvalidRequest(f"{name[:200]} is not a valid parameter. Valid parameters are: select.")
    select = _select(request)
    known = paper_id(request.path["work_id"])
    if known is None:
        raise PaperNotFound(f"No work {request.path['work_id'][:200]!r} in this library.")
    paper = calls.paper(known, fields=paper_fields(select))
    context = Context(request.base, _references([paper], select, calls))
    return works.work(paper, context, select)


def _milliseconds(start: float) -> int:
    return round((perf_counter() - start) * 1000)


DIALECT: Final = Dialect(
    "openalex",
    "/openalex",
    "OpenAlex's works",
    (
        Operation("GET", "/works", _list, parameters=frozenset(PARAMETERS) - frozenset(NO_EFFECT), papers=_per_page),
        Operation("GET", "/works/{work_id:path}", _work, "get_papers", frozenset(("select",)), papers=1, short=True),
    ),
    _error,
)  # fmt: skip
