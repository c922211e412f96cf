"""A plain list of documents, as the retriever of GPT Researcher for one's own service expects it.

The interface: gpt_researcher/retrievers/custom/custom.py of https://github.com/assafelovic/gpt-researcher
"""

from __future__ import annotations

from typing import Final

from scholarbase.bibliographies.facts import link_of
from scholarbase.errors import InvalidRequest
from scholarbase_dialects.base import Answer, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls

DEFAULT_LIMIT: Final = 10
MAX_LIMIT: Final = 100
FIELDS: Final = ("title", "abstract", "external_ids", "url")


def _limit(request: DialectRequest) -> int:
    name = "limit" if request.text("limit") else "max_results"
    return request.whole(name, DEFAULT_LIMIT, 1, MAX_LIMIT)


def _retrieve(request: DialectRequest, calls: Calls) -> Answer:
    """Raises InvalidRequest: the query is missing, or the limit is out of range."""
    if "query" not in request.query:
        raise InvalidRequest("The parameter 'query' is missing: send the words to search for.")
    hits = calls.search(request.text("query"), limit=_limit(request), fields=FIELDS).results
    return [
        {
            "url": link_of(hit.paper),
            "raw_content": f"{hit.paper.title}\n\n{hit.paper.abstract or ''}".rstrip(),
        }
        for hit in hits
    ]


DIALECT: Final = Dialect(
    "custom",
    "/custom",
    "A list of documents, for GPT Researcher",
    (Operation("GET", "", _retrieve, parameters=frozenset(("query", "limit", "max_results"))),),
    alone="/custom",
)
