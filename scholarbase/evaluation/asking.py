"""What a run asks: its settings, and from them its manifest and the search of every query."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from scholarbase.errors import InvalidRequest, QueryFileError
from scholarbase.evaluation import making
from scholarbase.indexes import query_syntax
from scholarbase.models import MAX_LIMIT, Engine, Mode, SearchRequest, date_bounds, search_request
from scholarbase.models.queries import QuerySet
from scholarbase.models.runs import JudgedQuery, RunManifest
from scholarbase.models.source import Source

log = logging.getLogger("scholarbase.evaluation")

MAX_DEPTH: Final = 10_000
"""Results of a query: as deep as paging goes."""
QUERY_DATE: Final = "query"
"""The value of ``to`` that stands for each query's own date."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """What every search of a run is told.

    Args:
        mode: None is the best that the library has.
        engine: the sparse leg; None sends query syntax to FTS5 and free text to BM25.
        limit: results of each query, 1 to 10,000. Fewer come where paging ends before: a hybrid search ends at the
            server's ``fusion_depth``.
        exact: search dense vectors without approximation.
        to: no paper later than this date (``YYYY``, ``YYYY-MM``, ``YYYY-MM-DD``), or than each query's own
            (``"query"``).
        pool: search in each query's candidate pool alone.

    Raises:
        InvalidRequest: a value that cannot be right.
    """

    mode: Mode | None = None
    engine: Engine | None = None
    limit: int = 100
    exact: bool = False
    to: str | None = None
    pool: bool = False

    def __post_init__(self) -> None:
        # The request checks mode, engine and exact, and says what is wrong with them.
        SearchRequest(q="a query", mode=self.mode, engine=self.engine, exact=self.exact)
        if (
            isinstance(self.limit, bool)
            or not isinstance(self.limit, int)
            or not 1 <= self.limit <= MAX_DEPTH
        ):
            raise InvalidRequest(
                f"limit is {self.limit!r}: it must be a whole number from 1 to {MAX_DEPTH}, as deep as paging goes."
            )
        if self.to is not None and self.to != QUERY_DATE:
            date_bounds(self.to, "to")
        if not isinstance(self.pool, bool):
            raise InvalidRequest(f"pool is {self.pool!r}: it must be true or false.")

    def to_dict(self) -> dict[str, Any]:
        """The settings as the run's manifest has them."""
        return asdict(self)


class Asked(NamedTuple):
    """A query, and the search that is made for it; None where no paper can be found."""

    query_id: str
    request: SearchRequest | None


def default_name(queries: QuerySet, mode: Mode | None, engine: Engine | None = None) -> str:
    """A name for a run that is fit for a file: the query set's, the mode, and the engine where one is named."""
    parts = [queries.name, mode or "best", *([engine] if engine else [])]
    return re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(parts)).strip("-.") or "run"


def check_modes(source: Source, modes: Sequence[Mode | None], engine: Engine | None = None) -> list[Mode]:
    """Search once in every mode, and tell which mode each of them is: None is the best that the library has.

    Raises:
        UnsupportedMode: the library cannot be searched that way; also what else a search raises.
    """
    return [source.search("search", mode=mode, engine=engine, limit=1, fields=["id"]).mode for mode in modes]


def manifest_of(
    source: Source,
    queries: QuerySet,
    judged: Sequence[JudgedQuery],
    counts: Mapping[str, int],
    settings: SearchSettings,
    name: str,
    command: str,
) -> RunManifest:
    """The facts of a run that is not made yet: the mode is the one that its searches will really use.

    Raises:
        InvalidRequest: the syntax of a query is malformed; ``UnsupportedMode``: the library lacks the mode.
    """
    [mode] = check_modes(source, [settings.mode], settings.engine)
    about = source.snapshot()
    syntax = [] if mode == "dense" or settings.engine not in (None, "fts5") else _in_syntax(judged)
    if syntax:
        log.warning(
            "%d of %d queries are read as query syntax, such as %r (engine bm25 reads every query as free text).",
            len(syntax),
            len(judged),
            syntax[0],
        )
    search = settings.to_dict() | {"mode": mode, "syntax_queries": len(syntax)}
    if "ranking" in about:
        search["ranking"] = about["ranking"]
    return making.manifest_of(about, queries, counts, "search", name, command, search)


def _in_syntax(judged: Sequence[JudgedQuery]) -> list[str]:
    """The ids of the queries that a sparse search reads as query syntax.

    Raises:
        InvalidRequest: the syntax of one is malformed.
    """
    found = [query for query in judged if query_syntax.is_syntax(query.text)]
    for query in found:
        try:
            query_syntax.compile(query.text)
        except InvalidRequest as error:
            raise InvalidRequest(
                f"Query {query.id!r} is read as query syntax, and cannot be: {error} "
                "Engine bm25 reads every query as free text."
            ) from error
    return [query.id for query in found]


def searches(judged: Sequence[JudgedQuery], manifest: RunManifest, settings: SearchSettings) -> list[Asked]:
    """The search of every query, in their order.

    Raises:
        QueryFileError: a query lacks the date or the pool that the settings ask for.
        InvalidRequest: a query cannot be searched for; the sentence says which.
    """
    assert manifest.search is not None
    if settings.pool:
        _check_pools(judged)
    asked = []
    for query in judged:
        within = query.pool if settings.pool else None
        to = _last_date(query) if settings.to == QUERY_DATE else settings.to
        try:
            request = search_request(
                query.text,
                mode=manifest.search["mode"],
                engine=settings.engine,
                limit=min(settings.limit, MAX_LIMIT),
                fields=("id",),
                exact=settings.exact,
                to=to,
                within=within,
            )
        except InvalidRequest as error:
            raise InvalidRequest(f"Query {query.id!r} cannot be searched for: {error}") from error
        asked.append(Asked(query.id, None if within == () else request))
    return asked


def _last_date(query: JudgedQuery) -> str:
    if query.date is None:
        raise QueryFileError(
            f"Query {query.id!r} has no date, and the searches are limited to each query's own: give it one, "
            "name one date for all, or search without."
        )
    return query.date


def _check_pools(judged: Sequence[JudgedQuery]) -> None:
    without = [query.id for query in judged if query.pool is None]
    if without:
        which = "No query has" if len(without) == len(judged) else f"Query {without[0]!r} does not have"
        raise QueryFileError(
            f"{which} a candidate pool, and the searches are limited to pools: search without, or add the pools."
        )
