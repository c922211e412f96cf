"""Where a request runs: on the event loop, or in a thread, behind quick requests or behind long ones.

A short request takes a few milliseconds of Python, so it needs no thread. A quick one takes some tens of them, in a
thread, and need not wait behind long ones. Both are decided from the request; citations use cached counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from scholarbase.indexes import query_syntax
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.models.author_requests import AuthorBatchBody, AuthorBody
from scholarbase.models.document_requests import PassageSearchBody
from scholarbase.models.limits import MAX_LIMIT, MIN_TITLE_SCORE
from scholarbase.models.requests import (
    EdgeBody,
    PaperBatchBody,
    PaperBody,
    SearchBody,
    TitleParameters,
)
from scholarbase.models.sets import is_set
from scholarbase.search.library import Library

SHORT_BATCH: Final = 20
"""Papers or authors that a short request looks up."""
SHORT_MATCHES: Final = 10
"""Title matches in a short request."""
SHORT_LIST: Final = 100
"""Ids in the filters of a short or quick request."""
_WORD: Final = re.compile(r"[^\W_]+")


def is_short(library: Library, request: Any, tool: str | None = None) -> bool:
    """Whether a request takes a few milliseconds; ``tool`` is the tool that it is a call of.

    Raises what the request raises, such as PaperNotFound.
    """
    if type(request) is EdgeBody:
        direction: Any = "citations" if tool == "get_citations" else "references"
        number = None if request.author else library.lookup.id(request.paper_id, request.as_of)
        return number is not None and library.graph.few_edges(number, direction) is not None
    decide = _SHORT.get(type(request))
    return decide is not None and decide(library, request)


def is_quick(library: Library, request: Any) -> bool:
    """Whether a request only searches vectors, and needs no encoder or a static one."""
    if type(request) is PassageSearchBody:
        listed = len(request.within or ())
        return library.encodes_at_once and not request.exact and not request.author and listed <= SHORT_LIST
    if type(request) is not SearchBody:
        return False
    is_sparse = (request.mode or library.best_mode) == "sparse"
    return (
        (is_sparse or (library.encodes_at_once and not library.settings.exact))
        and _engine(library, request) in ("bm25", "feedback")
        and _reads_vectors(library, request)
    )


def _is_short_search(library: Library, request: SearchBody) -> bool:
    """Whether a search is one plain query of BM25 vectors."""
    return (
        (request.mode or library.best_mode) == "sparse"
        and _engine(library, request) == "bm25"
        and _reads_vectors(library, request)
    )


def _engine(library: Library, request: SearchBody) -> str:
    return request.engine or library.settings.engine or "bm25"


def _reads_vectors(library: Library, request: SearchBody) -> bool:
    """Whether a search runs in the index of vectors alone: no FTS5, long lists, exact count or reranker."""
    q = request.q
    return (
        library.has_own_vectors
        and request.syntax != "query"
        and not request.exact
        and request.rerank is None
        and not request.exclude
        and not request.author
        and len(request.exclude_ids) + len(request.within or ()) <= SHORT_LIST
        and not any(map(is_set, request.within or ()))
        and request.offset + request.limit <= MAX_LIMIT
        # Query syntax uses FTS5, and so does a query of only stop words.
        and (
            request.engine == "bm25"
            or request.syntax == "plain"
            or not query_syntax.MARKS.search(q)
            or not query_syntax.is_syntax(q)
        )
        and (
            not STOP_WORDS.issuperset(_WORD.findall(query_syntax.without_shortened(q).lower()))
            if q.isascii()
            else library.has_bm25_terms(q)
        )
    )


def _is_short_title(library: Library, request: TitleParameters) -> bool:
    """In a thread a title match would wait for Python's lock at each of hundreds of rows: with ten busy clients, 4 ms
    of work took half a second."""
    few = request.limit <= SHORT_MATCHES and request.min_score >= MIN_TITLE_SCORE
    return few and request.as_of is None


_SHORT: Final[Mapping[type, Callable[[Library, Any], bool]]] = {
    SearchBody: _is_short_search,
    TitleParameters: _is_short_title,
    PaperBody: lambda library, request: True,
    PaperBatchBody: lambda library, request: len(request.ids) <= SHORT_BATCH,
    AuthorBody: lambda library, request: request.as_of is None,
    AuthorBatchBody: lambda library, request: len(request.ids) <= SHORT_BATCH and request.as_of is None,
}
