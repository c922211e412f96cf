"""Search-R1's retrieval server, which verl and other trainers of search agents call too.

The interface: https://github.com/PeterGriffinJin/Search-R1/blob/main/search_r1/search/retrieval_server.py
"""

from __future__ import annotations

from typing import Any, Final

from scholarbase.api.dialects.base import Answer, Dialect, DialectRequest, Operation, value_of, whole
from scholarbase.api.dialects.calls import Calls
from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import shown
from scholarbase.models.limits import MAX_BATCH, MAX_PAPERS

DEFAULT_TOPK: Final = 3
MAX_TOPK: Final = 1000
FIELDS: Final = ("title", "abstract")
KNOWN: Final = ("queries", "topk", "return_scores")


def _queries(request: DialectRequest) -> list[str]:
    """Raises InvalidRequest: there are no queries, or too many."""
    body = request.body if isinstance(request.body, dict) else {}
    queries = body.get("queries")
    if not isinstance(queries, list) or not all(isinstance(one, str) for one in queries):
        raise InvalidRequest(f"queries is {shown(queries)}: it must be a list of texts.")
    if len(queries) > MAX_BATCH:
        raise InvalidRequest(f"queries has {len(queries)} texts: send {MAX_BATCH} at most.")
    return queries


def _topk(request: DialectRequest) -> int:
    """Raises InvalidRequest: not a number, or too many papers."""
    topk = whole(value_of(request.body, "topk", DEFAULT_TOPK), "topk", 1, MAX_TOPK)
    if topk * len(_queries(request)) > MAX_PAPERS:
        raise InvalidRequest(
            f"topk {topk} for {len(_queries(request))} queries is more than {MAX_PAPERS:,} papers: send fewer."
        )
    return topk


def _retrieve(request: DialectRequest, calls: Calls) -> Answer:
    queries, topk = _queries(request), _topk(request)
    request.ignore(*(name for name in request.body if name not in KNOWN))
    with_scores = request.body.get("return_scores") is True
    result: list[list[Any]] = []
    for query in queries:
        hits = calls.search(query, limit=topk, fields=FIELDS).results
        documents = [
            {"id": hit.paper.id, "contents": f"{hit.paper.title}\n{hit.paper.abstract or ''}"} for hit in hits
        ]
        scored = [{"document": one, "score": hit.score} for one, hit in zip(documents, hits, strict=True)]
        result.append(scored if with_scores else documents)
    return {"result": result}


DIALECT: Final = Dialect(
    "search-r1",
    "/retrieve",
    "Search-R1's retrieval server",
    (
        Operation(
            "POST",
            "",
            _retrieve,
            calls=lambda request: len(_queries(request)),
            papers=lambda request: _topk(request) * len(_queries(request)),
        ),
    ),
    alone="/retrieve",
)
