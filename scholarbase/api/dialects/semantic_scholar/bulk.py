"""The bulk search: all papers that match, a thousand on a page, not ranked."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import orjson

from scholarbase.api.dialects.base import Answer, DialectRequest
from scholarbase.api.dialects.calls import Calls, plain_query
from scholarbase.api.dialects.semantic_scholar import query
from scholarbase.api.dialects.semantic_scholar.fields import paper_fields, requested
from scholarbase.api.dialects.semantic_scholar.filters import PARAMETERS as FILTERS
from scholarbase.api.dialects.semantic_scholar.filters import Filters, filters_of
from scholarbase.api.dialects.semantic_scholar.papers import Writer, archives_of
from scholarbase.api.dialects.semantic_scholar.parameters import unacceptable
from scholarbase.indexes.matches import Matches, MatchSort, Position

PARAMETERS: Final = FILTERS | {"query", "fields", "token", "sort", "limit", "offset"}
"""The client on PyPI sends a limit and an offset, which the original ignores."""
_SORTS: Final[dict[str, MatchSort]] = {
    "paperId": "id",
    "publicationDate": "date",
    "citationCount": "citation_count",
}
_DESCENDING: Final[dict[MatchSort, MatchSort]] = {
    "id": "-id",
    "date": "-date",
    "citation_count": "-citation_count",
}


def search(request: DialectRequest, calls: Calls) -> Answer:
    """A page of matches."""
    fields, filters = paper_fields(requested(request)), filters_of(request)
    sort, after = _sort(request), _position(request)
    text = plain_query(request.text("query"))
    read = query.read(text)
    if read.fuzzy:
        request.ignore("query~")
    if text and read.expression is None:  # without a word: nothing matches it
        calls.begun.append(({"q": text}, [], []))
        return {"total": 0, "data": []}
    found = calls.matching(
        condition(filters, read), {"q": text}, filters.native, sort=sort, after=after, fields=fields.native()
    )
    answer: dict[str, Any] = {"total": found.total}
    if found.position is not None:
        answer["token"] = base64.urlsafe_b64encode(orjson.dumps(list(found.position))).decode().rstrip("=")
    return {**answer, "data": Writer(calls).papers(found.papers, fields)}


def condition(filters: Filters, read: query.Query) -> Matches:
    """The filters that native searches do not have, and the query."""
    return Matches(
        read.expression,
        read.excludes,
        tuple(sorted(filters.fields_of_study)),
        archives_of(filters.fields_of_study),
        tuple(sorted(filters.publication_types)),
        filters.with_pdf,
    )


def _sort(request: DialectRequest) -> MatchSort:
    """The order. Raises InvalidRequest for an unknown one."""
    text = request.text("sort")
    name, _, order = text.partition(":")
    if (text and name not in _SORTS) or order not in ("", "asc", "desc"):
        raise unacceptable("sort", text)
    sort = _SORTS.get(name, "id")
    return _DESCENDING[sort] if order == "desc" else sort


def _position(request: DialectRequest) -> Position | None:
    """The place where the page starts. Raises InvalidRequest for a text that is no token."""
    token = request.text("token")
    if not token:
        return None
    try:
        content = orjson.loads(base64.b64decode(token[:100] + "==", altchars=b"-_"))
        key, paper_id = content
        if not all(type(one) is int and abs(one) < 2**63 for one in content):
            raise ValueError
    except (binascii.Error, ValueError, TypeError):
        raise unacceptable("token", token) from None
    return Position(key, paper_id)
