"""Search settings of a run, and the search request of every query."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.evaluation.runs import run_manifest
from scholarbase.indexes import query_syntax
from scholarbase.models.checks import check_type, check_whole, date_bounds
from scholarbase.models.document_requests import PaperPassagesBody, PassageSearch
from scholarbase.models.limits import DEFAULT_RERANK_DEPTH, MAX_LIMIT, Engine, Mode, Syntax
from scholarbase.models.queries import Query, QuerySet
from scholarbase.models.requests import SearchRequest, search_request
from scholarbase.models.runs import JudgedQuery, RunManifest
from scholarbase.models.source import Source
from scholarbase.search.plan import check_reranker

log = logging.getLogger("scholarbase.evaluation")

MAX_DEPTH: Final = 10_000
"""Results of a query: the limit of paging."""
QUERY_DATE: Final = "query"
"""Value of ``to``: each query's own date."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of all searches of a run.

    Args:
        mode: None is the best mode of the library.
        engine: the sparse leg; None sends query syntax to FTS5 and free text to BM25.
        limit: results of each query, 1 to 10,000. A hybrid search ends at the server's ``fusion_depth``.
        exact: search dense vectors without approximation.
        to: latest date of papers (``YYYY``, ``YYYY-MM``, ``YYYY-MM-DD``), or ``"query"`` for each query's own date.
        pool: search only in each query's candidate pool.
        syntax: how the queries are read, as words (``plain``) by default: quotation marks and parentheses in questions
            are seldom meant as operators.
        rerank: the name of a reranker that sorts the first results.
        rerank_depth: the number of first results that it sorts.

    Raises:
        InvalidRequest: a value is invalid.
    """

    mode: Mode | None = None
    engine: Engine | None = None
    limit: int = 1000
    exact: bool = False
    to: str | None = None
    pool: bool = False
    syntax: Syntax = "plain"
    rerank: str | None = None
    rerank_depth: int = DEFAULT_RERANK_DEPTH

    def __post_init__(self) -> None:
        # The request checks these six.
        SearchRequest(
            q="a query",
            syntax=self.syntax,
            mode=self.mode,
            engine=self.engine,
            exact=self.exact,
            rerank=self.rerank,
            rerank_depth=self.rerank_depth,
        )
        check_whole(self.limit, "limit", 1, MAX_DEPTH)
        if self.to is not None and not (isinstance(self.to, str) and self.to == QUERY_DATE):
            date_bounds(self.to, "to")
        check_type(self.pool, bool, "pool", "true or false")

    def to_dict(self) -> dict[str, Any]:
        """The settings as in the run's manifest, those of the reranker only if there is one."""
        reranking = ("rerank", "rerank_depth") if self.rerank is None else ()
        return {name: value for name, value in asdict(self).items() if name not in reranking}


class QueryRequest(NamedTuple):
    """A query's search request; None where nothing can be searched, such as an empty candidate pool."""

    query_id: str
    request: SearchRequest | PassageSearch | PaperPassagesBody | None


def default_name(
    queries: QuerySet, mode: Mode | None, engine: str | None = None, rerank: str | None = None
) -> str:
    """A run's default name, safe as a file name: query set, mode, and engine and reranker if specified."""
    parts = [queries.name, mode or "best", *([engine] if engine else []), *([rerank] if rerank else [])]
    return re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(parts)).strip("-.") or "run"


def check_modes(source: Source, modes: Sequence[Mode | None], engine: Engine | None = None) -> list[Mode]:
    """Search once in each mode. Returns the modes used, None resolved to the best mode of the library.

    Raises:
        UnsupportedMode: the library lacks a mode. Other errors of a search are raised too.
    """
    return [source.search("search", mode=mode, engine=engine, limit=1, fields=["id"]).mode for mode in modes]


def search_manifest(
    source: Source,
    queries: QuerySet,
    judged: Sequence[JudgedQuery],
    counts: Mapping[str, int],
    settings: SearchSettings,
    name: str,
    command: str,
) -> RunManifest:
    """The manifest of a run before its searches, with the mode and the reranker's model that they will use.

    Raises:
        InvalidRequest: the syntax of a query is malformed, or the reranker is unknown.
        UnsupportedMode: the library lacks the mode.
    """
    [mode] = check_modes(source, [settings.mode], settings.engine)
    about = source.snapshot()
    if settings.rerank is not None:
        check_reranker(settings.rerank, about.get("rerankers", {}))
    syntax = (
        [] if mode == "dense" or settings.engine not in (None, "fts5") else _syntax_queries(judged, settings)
    )
    if syntax:
        log.warning(
            "%d of %d queries are read as query syntax, such as %r (syntax plain reads every query as words).",
            len(syntax),
            len(judged),
            syntax[0],
        )
    search = settings.to_dict() | {"mode": mode, "syntax_queries": len(syntax)}
    if "ranking" in about:
        search["ranking"] = about["ranking"]
    if settings.rerank is not None:
        search["reranker"] = about["rerankers"][settings.rerank]
    return run_manifest(about, queries, counts, "search", name, command, search)


def _syntax_queries(judged: Sequence[JudgedQuery], settings: SearchSettings) -> list[str]:
    """The ids of queries in query syntax that is well-formed: with ``syntax`` query all.

    Raises:
        InvalidRequest: the syntax of a query is malformed, and ``syntax`` is query.
    """
    if settings.syntax == "plain":
        return []
    found = []
    for query in judged:
        if settings.syntax == "auto" and not query_syntax.is_syntax(query.text):
            continue
        try:
            query_syntax.compile(query.text)
            found.append(query.id)
        except InvalidRequest as error:
            if settings.syntax == "query":
                raise InvalidRequest(
                    f"Query {query.id!r} is read as query syntax, which is malformed: {error} "
                    "Syntax plain reads every query as words."
                ) from error
    return found


def search_requests(
    judged: Sequence[JudgedQuery], manifest: RunManifest, settings: SearchSettings
) -> list[QueryRequest]:
    """The search requests of all queries, in order.

    Raises:
        QueryFileError: a query lacks the date or the pool that the settings require.
        InvalidRequest: the request of a query is invalid; the message names the query.
    """
    assert manifest.search is not None
    if settings.pool:
        _check_pools(judged)
    requests = []
    for query in judged:
        within = query.pool if settings.pool else None
        to = last_date(query) if settings.to == QUERY_DATE else settings.to
        try:
            request = search_request(
                query.text,
                syntax=settings.syntax,
                mode=manifest.search["mode"],
                engine=settings.engine,
                limit=min(settings.limit, MAX_LIMIT),
                fields=("id",),
                exact=settings.exact,
                rerank=settings.rerank,
                rerank_depth=settings.rerank_depth,
                to=to,
                within=within,
            )
        except InvalidRequest as error:
            raise InvalidRequest(f"Query {query.id!r} cannot be searched for: {error}") from error
        requests.append(QueryRequest(query.id, None if within == () else request))
    return requests


def last_date(query: JudgedQuery | Query) -> str:
    """The query's own date. Raises QueryFileError: it has none."""
    if query.date is None:
        raise QueryFileError(
            f"Query {query.id!r} has no date, and the searches are limited to each query's own date: add the date, "
            "give one date for all queries, or search without a date."
        )
    return query.date


def _check_pools(judged: Sequence[JudgedQuery]) -> None:
    without = [query.id for query in judged if query.pool is None]
    if without:
        which = "No query has" if len(without) == len(judged) else f"Query {without[0]!r} does not have"
        raise QueryFileError(
            f"{which} a candidate pool, and the searches are limited to pools: add the pools, or search without them."
        )
