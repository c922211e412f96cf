"""Settings of a run, and the request of every query: for papers, or for passages of full texts."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final, NamedTuple

from scholarbase.errors import DocumentNotFound, InvalidRequest, PaperNotFound, QueryFileError
from scholarbase.models.checks import check_whole, date_bounds
from scholarbase.models.document_requests import (
    MAX_PASSAGE_DEPTH,
    MAX_PASSAGES,
    Chunking,
    InPaperEngine,
    PaperPassagesBody,
    PassageSearch,
)
from scholarbase.models.limits import (
    DEFAULT_RERANK_DEPTH,
    MAX_LIMIT,
    MODES,
    Engine,
    Fusion,
    Mode,
    Negation,
    Prefer,
    Syntax,
)
from scholarbase.models.requests import SearchRequest
from scholarbase.models.source import Source
from scholarbase.search.plan import check_reranker
from scholarbase_research.evaluation.evidence import span_of
from scholarbase_research.evaluation.queries import Query, QuerySet
from scholarbase_research.evaluation.run_data import JudgedQuery, Kind

MAX_DEPTH: Final = 10_000
"""Results of a query: the limit of paging."""
QUERY_DATE: Final = "query"
"""Value of ``to``: each query's own date."""
CHECKED: Final = "search"
"""The query of the search that finds out the mode and the engine of a run."""
_ENGINES: Final[dict[Mode, InPaperEngine]] = {"sparse": "bm25", "dense": "dense", "hybrid": "hybrid"}


class QueryRequest(NamedTuple):
    """A query's request; None where nothing can be searched, such as an empty candidate pool."""

    query_id: str
    request: SearchRequest | PassageSearch | PaperPassagesBody | None


class Used(NamedTuple):
    """What the searches of a run use: the defaults of the library or server where the settings have None.

    Args:
        engine: the sparse leg of free text; None in dense searches and in searches of passages.
    """

    mode: Mode
    engine: Engine | None = None


@contextmanager
def naming(query_id: str) -> Iterator[None]:
    """Name the query in the error of its request."""
    try:
        yield
    except (InvalidRequest, PaperNotFound, DocumentNotFound) as error:
        raise type(error)(f"Query {query_id!r} cannot be searched for: {error}") from error


@dataclass(frozen=True, slots=True)
class _Settings(ABC):
    """What all searches of a run have in common."""

    kind: ClassVar[Kind]
    mode: Mode | None = None
    limit: int = 1000
    exact: bool = False
    to: str | None = None
    syntax: Syntax = "plain"

    def _check(self, deepest: int) -> None:
        check_whole(self.limit, "limit", 1, deepest)
        if self.to not in (None, QUERY_DATE):
            date_bounds(self.to, "to")

    def requests(self, judged: Sequence[JudgedQuery], mode: Mode) -> list[QueryRequest]:
        """The requests of all queries, in order.

        Raises:
            QueryFileError: a query lacks the date or the pool that the settings require, or with ``in_paper`` its
                evidence is not in one paper.
            InvalidRequest: the request of a query is invalid; the message names the query.
        """
        requests = []
        for query in judged:
            with naming(query.id):
                requests.append(QueryRequest(query.id, self._request_of(query, mode)))
        return requests

    @abstractmethod
    def _request_of(
        self, query: JudgedQuery, mode: Mode
    ) -> SearchRequest | PassageSearch | PaperPassagesBody | None: ...

    def _last_date(self, query: JudgedQuery) -> str | None:
        return last_date(query) if self.to == QUERY_DATE else self.to


@dataclass(frozen=True, slots=True)
class SearchSettings(_Settings):
    """Settings of all searches of a run.

    Args:
        mode: None is the best mode of the library.
        limit: results of each query, 1 to 10,000. A hybrid search ends at the server's ``fusion_depth``.
        exact: search dense vectors without approximation.
        to: latest date of papers (``YYYY``, ``YYYY-MM``, ``YYYY-MM-DD``), or ``"query"`` for each query's own date.
        syntax: how the queries are read, as words (``plain``) by default: quotation marks and parentheses in questions
            are seldom meant as operators.
        engine: the sparse leg; None sends query syntax to FTS5 and free text to BM25.
        fusion: how hybrid searches fuse their legs; None is the setting of the library or server.
        graph_weight: the weight of the citation graph in hybrid searches; None is the setting.
        prefer: whether recent or cited papers come higher. With ``cited`` and ``to``, searches are as of that date
            (``as_of``), so that no later citations count.
        pool: search only in each query's candidate pool.
        negation: whether exclusions in queries are read.
        rerank: the name of a reranker that sorts the first results.
        rerank_depth: the number of first results that it sorts.
        rerank_weight: the part of its scores in the order; None is 1, or for an encoder 0.4.
        rerank_ms: its time for a query in milliseconds; None is the setting of the library or server.
        exclude_self: leave out documents that have the id of the query, as BEIR's evaluation does
            (``ignore_identical_ids`` of https://github.com/beir-cellar/beir).
        query_vectors: the SHA-256 of the queries' vectors, where they were computed elsewhere.

    Raises:
        InvalidRequest: a value is invalid.
    """

    kind: ClassVar[Kind] = "search"
    engine: Engine | None = None
    fusion: Fusion | None = None
    graph_weight: float | None = None
    prefer: Prefer = "none"
    pool: bool = False
    negation: Negation = "auto"
    rerank: str | None = None
    rerank_depth: int = DEFAULT_RERANK_DEPTH
    rerank_weight: float | None = None
    rerank_ms: int | None = None
    exclude_self: bool = False
    query_vectors: str | None = None

    def __post_init__(self) -> None:
        self._request("a query", self.mode)
        self._check(MAX_DEPTH)

    def used(self, source: Source) -> Used:
        """Search once. Returns the mode and the engine that the search used.

        Raises:
            UnsupportedMode: the library lacks the mode. Other errors of a search are raised too.
        """
        response = source.search(
            CHECKED,
            mode=self.mode,
            engine=self.engine,
            fusion=self.fusion,
            graph_weight=self.graph_weight,
            limit=1,
            fields=["id"],
        )
        return Used(response.mode, response.engine)

    def facts(self, used: Used, about: Mapping[str, Any]) -> dict[str, Any]:
        """The settings as in the run's manifest, with the ranking settings and the reranker of ``about``, a snapshot.

        Raises:
            InvalidRequest: the reranker is unknown, or the library lacks the citations that ``prefer`` requires.
        """
        facts = self.to_dict() | used._asdict()
        if self.prefer == "cited" and self.to is not None and not about["manifest"]["counts"]["edges"]:
            raise InvalidRequest(
                "--prefer cited cannot be combined with --to, because this library has no citations from which to "
                "count those of a date: leave one out."
            )
        if self.rerank is not None:
            check_reranker(self.rerank, about.get("rerankers", {}))
            facts["reranker"] = about["rerankers"][self.rerank]
        return facts | ({"ranking": about["ranking"]} if "ranking" in about else {})

    def to_dict(self) -> dict[str, Any]:
        """The settings, those of the reranker and the graph only if there are some, ``negation`` only if it is off, and
        the last two only if they are used."""
        omitted = [] if self.rerank else ["rerank", "rerank_depth"]
        omitted += [name for name in ("rerank_weight", "rerank_ms") if getattr(self, name) is None]
        omitted += ["negation"] if self.negation == "auto" else []
        omitted += ["graph_weight"] if self.graph_weight is None else []
        omitted += ["prefer"] if self.prefer == "none" else []
        omitted += [name for name in ("exclude_self", "query_vectors") if not getattr(self, name)]
        return {name: value for name, value in asdict(self).items() if name not in omitted}

    def _request_of(self, query: JudgedQuery, mode: Mode) -> SearchRequest | None:
        if self.pool and query.pool is None:
            raise QueryFileError(
                f"Query {query.id!r} has no candidate pool, and the searches are limited to pools: add the pools, or "
                "search without them."
            )
        within = query.pool if self.pool else None
        to, limit = self._last_date(query), min(self.limit, MAX_LIMIT)
        until = {"to": to}
        if to is not None and self.prefer == "cited":
            until = {"as_of": to if "-" in to else f"{to}-12"}  # as_of needs a month
        return None if within == () else self._request(query.text, mode, limit=limit, within=within, **until)

    def _request(self, text: str, mode: Mode | None, **options: Any) -> SearchRequest:
        return SearchRequest(
            q=text,
            syntax=self.syntax,
            mode=mode,
            engine=self.engine,
            fusion=self.fusion,
            graph_weight=self.graph_weight,
            exact=self.exact,
            negation=self.negation,
            prefer=self.prefer,
            rerank=self.rerank,
            rerank_depth=self.rerank_depth,
            rerank_weight=self.rerank_weight,
            rerank_ms=self.rerank_ms,
            fields=("id",),
            **options,
        )


@dataclass(frozen=True, slots=True)
class PassageSettings(_Settings):
    """Settings of all searches of a run that ranks passages.

    Args:
        mode: None is the best mode of the library. In a paper, ``sparse`` is the engine ``bm25``.
        limit: passages of each query, 1 to 1,000.
        exact, to, syntax: as in :class:`SearchSettings`, over all papers only.
        in_paper: search only the paper that has the query's evidence.
        chunker: how that paper is cut; None is as in the library's index.

    Raises:
        InvalidRequest: a value is invalid.
    """

    kind: ClassVar[Kind] = "passages"
    in_paper: bool = False
    chunker: Chunking | None = None

    def __post_init__(self) -> None:
        PassageSearch(q="a query", syntax=self.syntax, mode=self.mode, exact=self.exact)
        self._check(MAX_PASSAGE_DEPTH)
        if self.in_paper:
            PaperPassagesBody(paper_id="arXiv:1706.03762", q="a query", chunker=self.chunker)
            if self.exact or self.to is not None or self.syntax != "plain":
                raise InvalidRequest(
                    "exact, to and syntax apply to searches over all papers: leave them out, or in_paper."
                )
        elif self.chunker is not None:
            raise InvalidRequest(
                f"chunker {self.chunker!r} needs in_paper: over all papers the passages are those of the index."
            )

    def used(self, source: Source) -> Used:
        """Search the passages once. Returns the mode that the search used. Raises as a search of passages."""
        used = source.search_passages(CHECKED, mode=self.mode, limit=1, fields=["id"]).mode
        return Used(next(known for known in MODES if known == used))

    def facts(self, used: Used, about: Mapping[str, Any]) -> dict[str, Any]:
        """The settings as in the run's manifest."""
        chunker = self.chunker or about["manifest"]["documents"]["chunker"]
        return asdict(self) | {"mode": used.mode, "chunker": chunker}

    def _request_of(self, query: JudgedQuery, mode: Mode) -> PassageSearch | PaperPassagesBody | None:
        limit = min(self.limit, MAX_PASSAGES)
        if not self.in_paper:
            return PassageSearch.of(
                q=query.text,
                syntax=self.syntax,
                mode=mode,
                limit=limit,
                exact=self.exact,
                to=self._last_date(query),
                fields=("id",),
            )
        paper = _paper_of_evidence(query)
        if paper is None:
            return None
        return PaperPassagesBody.of(
            paper_id=paper,
            q=query.text,
            limit=limit,
            engine=_ENGINES[mode],
            chunker=self.chunker,
            version=query.version,
            fields=("id",),
        )


def default_name(queries: QuerySet, mode: Mode | None, *options: str | None) -> str:
    """A run's default name, safe as a file name: query set, mode, and the other options that are not None."""
    parts = [queries.name, mode or "best", *filter(None, options)]
    return re.sub(r"[^A-Za-z0-9._]+", "-", "-".join(parts)).strip("-.") or "run"


def last_date(query: JudgedQuery | Query) -> str:
    """The query's own date. Raises QueryFileError: it has none."""
    if query.date is None:
        raise QueryFileError(
            f"Query {query.id!r} has no date, and the searches are limited to each query's own date: add the date, "
            "give one date for all queries, or search without a date."
        )
    return query.date


def _paper_of_evidence(query: JudgedQuery) -> str | None:
    """The paper that has a query's evidence, None if the library holds none of it."""
    spans = [span_of(answer.paper_id) for answer in query.relevant if answer.held]
    if None in spans:
        raise QueryFileError(
            f"The evidence of query {query.id!r} is a whole paper, so that any passage of it is right: search over all "
            "papers."
        )
    papers = list(dict.fromkeys(span.paper for span in spans if span is not None))
    if len(papers) > 1:
        raise QueryFileError(
            f"The evidence of query {query.id!r} is in {len(papers)} papers ({papers[0]}, {papers[1]}), and a search "
            "in a paper has one: search over all papers."
        )
    return papers[0] if papers else None
