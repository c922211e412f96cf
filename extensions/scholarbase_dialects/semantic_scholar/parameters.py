"""The parameters of Semantic Scholar's interfaces, and the errors that malformed ones raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from scholarbase.errors import InvalidRequest, PaperNotFound
from scholarbase.identifiers import MAX_LENGTH
from scholarbase.models.checks import shown
from scholarbase.models.papers import Paper
from scholarbase_dialects.base import Body, DialectRequest, whole
from scholarbase_dialects.calls import Calls

STATUSES: Final = {401: 403, 405: 404, 408: 400, 409: 400, 413: 400, 414: 400, 421: 400, 422: 400, 431: 400}
"""Native statuses that clients of the original do not expect. The client on PyPI raises an error for 400, 403, 404, 429
and 500, and returns an empty paper for any other."""


def error(status: int, message: str) -> Body:
    """An error as the parts of the original write it: the Graph, its gateway, and what clients read besides."""
    content = {"error": message, "message": message, "detail": message, "code": str(status)}
    return Body(orjson.dumps(content), status=status)


def unacceptable(name: str, value: str) -> InvalidRequest:
    """The error for a value that a parameter cannot have."""
    return InvalidRequest(f"Unacceptable query params: [{name}={value[:200]}]")


def query_of(request: DialectRequest) -> str:
    """The query.

    Raises:
        InvalidRequest: there is none.
    """
    if "query" not in request.query:
        raise InvalidRequest("Missing required parameter: query")
    return request.text("query")


def number(request: DialectRequest, name: str, default: int, low: int, high: int) -> int:
    """A whole number of the URL.

    Raises:
        InvalidRequest: not a whole number, or out of range, in the original's words.
    """
    text = request.text(name)
    try:
        value = whole(text or default, name, low, 2**63 - 1)
    except InvalidRequest:
        raise unacceptable(name, text) from None
    if value > high:
        raise InvalidRequest(f"'{name}' must be <= {high}")
    return value


def listed(request: DialectRequest, name: str, most: int) -> list[str]:
    """The distinct values of a list, separated by commas.

    Raises:
        InvalidRequest: they are too many, or one is too long.
    """
    values = [part.strip() for value in request.query.get(name, ()) for part in value.split(",")]
    values = list(dict.fromkeys(value for value in values if value))
    if len(values) > most:
        raise InvalidRequest(f"{name} has {len(values):,} values: the maximum is {most}.")
    if any(len(value) > MAX_LENGTH for value in values):
        raise unacceptable(name, ",".join(values))
    return values


def paper_of(request: DialectRequest, calls: Calls, fields: Sequence[str]) -> Paper:
    """The paper in the path.

    Raises:
        PaperNotFound: the library does not have it, or the id is malformed, in the original's words.
    """
    paper_id = request.path["paper_id"]
    try:
        return calls.paper(paper_id, fields=fields)
    except PaperNotFound:
        raise not_found(paper_id) from None


def not_found(paper_id: str) -> PaperNotFound:
    return PaperNotFound(f"Paper with id {paper_id[:2000]} not found")


def ids_of(request: DialectRequest, most: int) -> list[str]:
    """The ids in the body. Other keys of it are ignored.

    Raises:
        InvalidRequest: not a list of texts, or too many.
    """
    body = request.body if isinstance(request.body, dict) else {}
    ids = body.get("ids")
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise InvalidRequest(f"ids is {shown(ids)}: it must be a list of strings.")
    if len(ids) > most:
        raise InvalidRequest(f"Too many ids: {len(ids):,}, and the maximum is {most}.")
    request.ignore(*(name for name in body if name != "ids"))
    return ids
