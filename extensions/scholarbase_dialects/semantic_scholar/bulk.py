"""The bulk search: all papers that match, a thousand on a page, not ranked."""

from __future__ import annotations

from typing import Any, Final

from scholarbase.models.limits import MAX_LIMIT
from scholarbase_dialects.base import Answer, DialectRequest
from scholarbase_dialects.calls import Calls, plain_query
from scholarbase_dialects.listing.conditions import ListOrder, Text, Without, every
from scholarbase_dialects.listing.lists import cursor_at, offset_of
from scholarbase_dialects.semantic_scholar import query
from scholarbase_dialects.semantic_scholar.fields import paper_fields, requested
from scholarbase_dialects.semantic_scholar.filters import PARAMETERS as FILTERS
from scholarbase_dialects.semantic_scholar.filters import filters_of
from scholarbase_dialects.semantic_scholar.papers import Writer
from scholarbase_dialects.semantic_scholar.parameters import unacceptable

PARAMETERS: Final = FILTERS | {"query", "fields", "token", "sort"}
"""The original ignores the limit and the offset that the client on PyPI sends."""
_SORTS: Final[dict[str, tuple[ListOrder, ListOrder]]] = {
    "paperId": ("place", "-place"),
    "publicationDate": ("date", "-date"),
    "citationCount": ("citation_count", "-citation_count"),
}
"""The ascending and the descending order of each field."""


def search(request: DialectRequest, calls: Calls) -> Answer:
    """A page of matches."""
    fields, filters = paper_fields(requested(request)), filters_of(request)
    order, offset = _order(request, calls), _offset(request, calls)
    text = plain_query(request.text("query"))
    read = query.read(text)
    if read.fuzzy:
        request.ignore("query~")
    if read.cut:
        request.ignore("query: words after the first 256")
    if text and read.expression is None:  # without a word: nothing matches it
        calls.begun.append(({"q": text}, [], []))
        return {"total": 0, "data": []}
    conditions = filters.conditions
    if read.expression is not None:
        words = Text(read.expression)
        conditions.append(Without(words) if read.excludes else words)
    recorded = {"q": text, **filters.recorded}
    total, papers = calls.listed(
        every(conditions), recorded, order=order, limit=MAX_LIMIT, offset=offset, fields=fields.native()
    )
    answer: dict[str, Any] = {"total": total}
    if offset + len(papers) < total and papers:
        answer["token"] = cursor_at(offset + len(papers), calls.library.snapshot_id)
    return {**answer, "data": Writer(calls).papers(papers, fields)}


def _order(request: DialectRequest, calls: Calls) -> ListOrder:
    """The order; that of the library by default, and by counts of a past date, which nobody knows.

    Raises:
        InvalidRequest: an unknown one.
    """
    text = request.text("sort")
    name, _, direction = text.partition(":")
    if (text and name not in _SORTS) or direction not in ("", "asc", "desc"):
        raise unacceptable("sort", text)
    if name == "citationCount" and calls.as_of is not None:
        request.ignore("sort")
        name, direction = "", ""
    return _SORTS[name or "paperId"][direction == "desc"]


def _offset(request: DialectRequest, calls: Calls) -> int:
    """Where the page starts. Raises InvalidRequest for a text that is no token of this snapshot."""
    token = request.text("token")
    offset = offset_of(token, calls.library.snapshot_id) if token else 0
    if offset is None or token == "*":
        raise unacceptable("token", token)
    return offset
