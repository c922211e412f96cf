"""The requests of a run that ranks passages, over all papers or inside the paper of each query."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from scholarbase.errors import DocumentNotFound, InvalidRequest, PaperNotFound, QueryFileError
from scholarbase.evaluation.checkpoints import QueryResult
from scholarbase.evaluation.evidence import Span, span_of
from scholarbase.evaluation.papers import noted_papers, paper_notes
from scholarbase.evaluation.requests import QUERY_DATE, QueryRequest, last_date
from scholarbase.evaluation.runs import run_manifest
from scholarbase.models.checks import check_type, check_whole, date_bounds
from scholarbase.models.document_requests import (
    MAX_PASSAGE_DEPTH,
    MAX_PASSAGES,
    Chunking,
    InPaperEngine,
    PaperPassagesBody,
    PassageSearch,
)
from scholarbase.models.document_responses import PassagesResponse
from scholarbase.models.limits import MODES, Mode, Syntax
from scholarbase.models.queries import QuerySet
from scholarbase.models.runs import JudgedQuery, PaperNote, RankedId, RunManifest
from scholarbase.models.source import Source

_ENGINES: Final[dict[Mode, InPaperEngine]] = {"sparse": "bm25", "dense": "dense", "hybrid": "hybrid"}


@dataclass(frozen=True, slots=True)
class PassageSettings:
    """Settings of all searches of a run that ranks passages.

    Args:
        mode: None is the best mode of the library. In a paper, ``sparse`` is the engine ``bm25``.
        limit: passages of each query, 1 to 1,000.
        exact, to, syntax: as in :class:`.requests.SearchSettings`, over all papers only.
        in_paper: search only the paper that has the query's evidence.
        chunker: how that paper is cut; None is as in the library's index.

    Raises:
        InvalidRequest: a value is invalid.
    """

    mode: Mode | None = None
    limit: int = 1000
    exact: bool = False
    to: str | None = None
    syntax: Syntax = "plain"
    in_paper: bool = False
    chunker: Chunking | None = None

    def __post_init__(self) -> None:
        PassageSearch(q="a query", syntax=self.syntax, mode=self.mode, exact=self.exact)
        check_whole(self.limit, "limit", 1, MAX_PASSAGE_DEPTH)
        check_type(self.in_paper, bool, "in_paper", "true or false")
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
        if self.to is not None and self.to != QUERY_DATE:
            date_bounds(self.to, "to")


def check_passage_mode(source: Source, mode: Mode | None) -> Mode:
    """Search the passages once. Returns the mode used. Raises as a search of passages."""
    used = source.search_passages("search", mode=mode, limit=1, fields=["id"]).mode
    return next(known for known in MODES if known == used)


def passage_manifest(
    source: Source,
    queries: QuerySet,
    counts: Mapping[str, int],
    settings: PassageSettings,
    name: str,
    command: str,
) -> RunManifest:
    """The manifest of a run before its searches. Raises as a search of passages."""
    mode = check_passage_mode(source, settings.mode)
    about = source.snapshot()
    chunker = settings.chunker or about["manifest"]["documents"]["chunker"]
    search: dict[str, Any] = asdict(settings) | {"mode": mode, "chunker": chunker}
    return run_manifest(about, queries, counts, "passages", name, command, search)


def passage_requests(
    judged: Sequence[JudgedQuery], manifest: RunManifest, settings: PassageSettings
) -> list[QueryRequest]:
    """The requests of all queries, in order; None where the library holds none of a query's evidence.

    Raises:
        QueryFileError: a query lacks the date that the settings require, or its evidence is not in one paper.
        InvalidRequest: the request of a query is invalid; the message names the query.
    """
    assert manifest.search is not None
    mode: Mode = manifest.search["mode"]
    limit = min(settings.limit, MAX_PASSAGES)
    requests = []
    for query in judged:
        try:
            if settings.in_paper:
                paper = _paper(query)
                request = None
                if paper is not None:
                    request = PaperPassagesBody.of(
                        paper_id=paper,
                        q=query.text,
                        limit=limit,
                        engine=_ENGINES[mode],
                        chunker=settings.chunker,
                        fields=("id",),
                    )
                requests.append(QueryRequest(query.id, request))
                continue
            to = last_date(query) if settings.to == QUERY_DATE else settings.to
            search = PassageSearch.of(
                q=query.text,
                syntax=settings.syntax,
                mode=mode,
                limit=limit,
                exact=settings.exact,
                to=to,
                fields=("id",),
            )
        except InvalidRequest as error:
            raise InvalidRequest(f"Query {query.id!r} cannot be searched for: {error}") from error
        requests.append(QueryRequest(query.id, search))
    return requests


def _paper(query: JudgedQuery) -> str | None:
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


def passage_searcher(
    source: Source, manifest: RunManifest, intern: Callable[[str], str], check: Callable[[str], None]
) -> Callable[[Sequence[QueryRequest]], list[QueryResult]]:
    """A function that searches for queries one by one. ``check`` checks the snapshot of each response."""
    assert manifest.search is not None
    limit: int = manifest.search["limit"]

    def search(batch: Sequence[QueryRequest]) -> list[QueryResult]:
        results = []
        for query_id, request in batch:
            began = time.perf_counter()
            try:
                scores = {} if request is None else _ranking(source, request, limit, check)
            except (InvalidRequest, PaperNotFound, DocumentNotFound) as error:
                raise type(error)(f"Query {query_id!r} cannot be searched for: {error}") from error
            ranking = tuple(RankedId(intern(name), score) for name, score in scores.items())
            results.append(QueryResult(query_id, ranking, time.perf_counter() - began))
        return results

    return search


def _ranking(source: Source, request: Any, limit: int, check: Callable[[str], None]) -> dict[str, float]:
    """The ids and scores of the passages of all pages up to the limit, best first."""
    run: Callable[[Any], PassagesResponse] = source.run_passage_search
    if isinstance(request, PaperPassagesBody):
        run = source.run_paper_passages
    scores: dict[str, float] = {}
    while True:
        response = run(request)
        check(str(response.snapshot))
        for hit in response.results:
            scores.setdefault(Span(hit.paper.id, hit.passage.start, hit.passage.end).id, hit.score)
        if len(scores) >= limit or response.next_offset is None:
            return scores
        size = min(MAX_PASSAGES, limit - len(scores))
        request = request.model_copy(update={"offset": response.next_offset, "limit": size})


def passage_notes(
    source: Source, judged: Sequence[JudgedQuery], rankings: Mapping[str, tuple[RankedId, ...]]
) -> dict[str, PaperNote]:
    """Title and year of the papers of the first results and of the evidence, by the ids of the passages."""
    papers = {}
    for name in noted_papers(judged, rankings):
        span = span_of(name)
        papers[name] = name if span is None else span.paper
    notes = paper_notes(source, set(papers.values()))
    return {name: notes[paper] for name, paper in papers.items() if paper in notes}
