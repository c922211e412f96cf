"""Search-R1's retrieval server, which verl and other trainers of search agents call too.

The interface: https://github.com/PeterGriffinJin/Search-R1/blob/main/search_r1/search/retrieval_server.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import orjson
from pydantic import BaseModel, FailFast, Field, ValidationError

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase.models.limits import MAX_PAPERS
from scholarbase_dialects.base import Answer, Body, Dialect, DialectRequest, Operation, Parts, invalid
from scholarbase_dialects.calls import Calls

DEFAULT_TOPK: Final = 3
MAX_TOPK: Final = 1000
FIELDS: Final = ("title", "abstract")


class _Query(BaseModel):
    """The original's body, with the same names, types and defaults. ``topk`` 0 is the default too."""

    queries: Annotated[list[str], FailFast()]
    topk: Annotated[int, Field(ge=0, le=MAX_TOPK)] | None = None
    return_scores: bool = False


def _error(status: int, message: str) -> Body:
    """An error as FastAPI writes it, which has a list for 422."""
    detail: Any = message
    if status == 422:
        detail = [{"type": "value_error", "loc": ["body"], "msg": message, "input": None}]
    return Body(orjson.dumps({"detail": detail}), status=status)


def _read(request: DialectRequest) -> tuple[_Query, int]:
    """The body, and the documents of each query.

    Raises:
        InvalidRequest: the body is malformed, with FastAPI's list of errors; or there are too many papers.
    """
    if request.body is None:
        raise _malformed([{"type": "missing", "loc": ("body",), "msg": "Field required", "input": None}])
    query, errors = _validated(request.body)
    if query is None:
        raise _malformed(errors)
    topk = query.topk or DEFAULT_TOPK
    if topk * len(query.queries) > MAX_PAPERS:
        raise InvalidRequest(
            f"topk {topk} for {len(query.queries):,} queries is more than {MAX_PAPERS:,} papers: send fewer."
        )
    return query, topk


def _validated(body: Any) -> tuple[_Query | None, Sequence[Any]]:
    try:
        return _Query.model_validate(body, from_attributes=True), ()
    except ValidationError as error:
        return None, error.errors(include_url=False, include_context=False)


def _malformed(errors: Sequence[Any]) -> InvalidRequest:
    detail = [
        {
            "type": error["type"],
            "loc": [*(["body"] if error["loc"][:1] != ("body",) else []), *error["loc"]],
            "msg": error["msg"],
            "input": shown(error["input"]) if isinstance(error["input"], list | dict | str) else None,
        }
        for error in errors
    ]
    return invalid("The body is malformed.", Body(orjson.dumps({"detail": detail}), status=422))


def _split(request: DialectRequest) -> list[DialectRequest]:
    query, topk = _read(request)
    request.ignore(*(name for name in request.body if name not in _Query.model_fields))
    body = {"topk": topk, "return_scores": query.return_scores}
    return [replace(request, body={"queries": [text], **body}) for text in query.queries]


def _join(answers: Sequence[bytes]) -> bytes:
    return b'{"result":[' + b",".join(answers) + b"]}"


def _retrieve(request: DialectRequest, calls: Calls) -> Answer:
    """The documents of one query."""
    query, topk = _read(request)
    hits = calls.search(query.queries[0], limit=topk, fields=FIELDS).results
    documents = [
        {"id": hit.paper.id, "contents": f"{hit.paper.title}\n{hit.paper.abstract or ''}"} for hit in hits
    ]
    scored = [
        {"document": document, "score": hit.score} for document, hit in zip(documents, hits, strict=True)
    ]
    return scored if query.return_scores else documents


def _count(request: DialectRequest) -> int:
    return max(len(_read(request)[0].queries), 1)


def _papers(request: DialectRequest) -> int:
    query, topk = _read(request)
    return topk * len(query.queries)


DIALECT: Final = Dialect(
    "search-r1",
    "/retrieve",
    "Search-R1's retrieval server",
    (
        Operation(
            "POST",
            "",
            _retrieve,
            calls=_count,
            papers=_papers,
            is_search=True,
            parts=Parts(_split, _join),
        ),
    ),
    _error,
    {400: 422},
    alone="/retrieve",
)
