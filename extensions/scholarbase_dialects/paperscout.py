"""The server of papers that PaperScout's training calls (https://github.com/AgentR1/PaperScout): its ``ArXivClient``.

A record is ``{"arxiv_id", "title", "abstract", "categories", "authors", "update_date", "score"}``, all texts but the
score, and none null. Lists of records have no envelope.
"""

from __future__ import annotations

from typing import Any, Final

from scholarbase.bibliographies.facts import arxiv_id_of
from scholarbase.errors import InvalidRequest, PaperNotFound
from scholarbase.models.checks import is_id
from scholarbase.models.limits import MAX_LIMIT, MAX_TITLE_MATCHES
from scholarbase.models.papers import Paper
from scholarbase_dialects.base import Answer, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.describing import names_of
from scholarbase_dialects.milvus_filter import read_filter

DEFAULT_TOP_K: Final = 10
FIELDS: Final = (
    "title", "abstract", "categories", "authors", "publication_date", "update_date", "external_ids",
)  # fmt: skip
FIELDS_AS_OF: Final = tuple(name for name in FIELDS if name != "update_date")
"""Those that were known at a point in time: the last change may be later."""
CITED_FIELDS: Final = ("title", "authors", "year", "venue", "external_ids")


def _top_k(request: DialectRequest) -> int:
    return request.whole("top_k", DEFAULT_TOP_K, 1, MAX_LIMIT)


def _required(request: DialectRequest, name: str) -> str:
    if name not in request.query:
        raise InvalidRequest(f"The parameter {name} is missing.")
    return request.text(name)


def _fields(calls: Calls) -> tuple[str, ...]:
    return FIELDS if calls.as_of is None else FIELDS_AS_OF


def _record(paper: Paper, score: float = 0.0) -> dict[str, Any]:
    return {
        "arxiv_id": arxiv_id_of(paper) or paper.id,
        "title": paper.title or "",
        "abstract": paper.abstract or "",
        "categories": " ".join(paper.categories),
        "authors": ", ".join(names_of(paper.authors)),
        "update_date": paper.update_date or paper.publication_date or "",
        "score": score,
    }


def _search(request: DialectRequest, calls: Calls) -> Answer:
    q, top_k, expression = _required(request, "q"), _top_k(request), request.text("filter")
    if not expression.strip():
        return [
            _record(hit.paper, hit.score)
            for hit in calls.search(q, limit=top_k, fields=_fields(calls)).results
        ]
    condition = read_filter(expression)
    _, hits = calls.search_meeting(q, condition, {"filter": expression}, limit=top_k, fields=_fields(calls))
    return [_record(hit.paper, hit.score) for hit in hits]


def _query(request: DialectRequest, calls: Calls) -> Answer:
    expression, top_k = _required(request, "filter"), _top_k(request)
    _, papers = calls.listed(
        read_filter(expression),
        {"filter": expression, "limit": top_k},
        order="id",
        limit=top_k,
        fields=_fields(calls),
    )
    return [_record(paper) for paper in papers]


def _lookup(request: DialectRequest, calls: Calls) -> Answer:
    title = _required(request, "title")
    [matches] = calls.match([title], limit=MAX_TITLE_MATCHES, min_score=1.0, fields=_fields(calls))
    return [_record(match.paper) for match in matches]


def _paper(request: DialectRequest, calls: Calls) -> Answer:
    return _record(calls.paper(request.path["arxiv_id"], fields=_fields(calls)))


def _full_text(request: DialectRequest, calls: Calls) -> Answer:
    """The references of a paper by key. A library has no other part of its full text."""
    arxiv_id = request.path["arxiv_id"]
    if not is_id(arxiv_id):
        raise PaperNotFound(f"Paper with id {arxiv_id[:2000]} not found.")
    references: dict[str, dict[str, str]] = {}
    offset: int | None = 0
    while offset is not None:
        page = calls.references(arxiv_id, limit=MAX_LIMIT, offset=offset, fields=CITED_FIELDS)
        for reference in page.results:
            references[f"bib.bib{len(references) + 1}"] = {
                "title": reference.paper.title or "",
                "meta_string": _described(reference.paper),
            }
        offset = page.next_offset
    return {"references": references}


def _described(paper: Paper) -> str:
    """A paper as a list of references has it: authors, title, venue, year and arXiv id."""
    arxiv_id = arxiv_id_of(paper)
    venue = None if paper.venue == "arXiv.org" else paper.venue
    parts = (
        *(", ".join(names_of(paper.authors)), paper.title, venue, str(paper.year or "")),
        f"arXiv:{arxiv_id}" if arxiv_id else "",
    )
    return " ".join(f"{part.rstrip('.')}." for part in parts if part)


def _health(request: DialectRequest, calls: Calls) -> Answer:
    return {"status": "ok"}


def _queue(request: DialectRequest, calls: Calls) -> Answer:
    load = calls.load
    return {
        "queue_size": load.waiting,
        "max_queue_size": load.queue,
        "batch_size": 1,
        "batch_timeout": 0.0,
        "running": True,
        "task_done": load.running == load.waiting == 0,
        "last_exception": None,
        "submitted_total": load.admitted + load.waiting,
        "dequeued_total": load.admitted,
        "processed_total": load.admitted - load.running,
        "batches_total": load.admitted,
        "last_batch_size": 1 if load.admitted else 0,
        "last_process_age_sec": None,
        "running_requests": load.running,
    }


DIALECT: Final = Dialect(
    "paperscout",
    "/paperscout",
    "PaperScout's server of papers",
    (
        Operation("GET", "/search", _search, parameters=frozenset(("q", "top_k", "filter")), papers=_top_k),
        Operation("GET", "/query", _query, parameters=frozenset(("filter", "top_k")), papers=_top_k),
        Operation("GET", "/lookup", _lookup, "match_titles", frozenset(("title",))),
        Operation("GET", "/paper/{arxiv_id:path}/fulltext", _full_text, "get_references", frozenset(("download",)),
                  papers=MAX_LIMIT),
        Operation("GET", "/paper/{arxiv_id:path}", _paper, "get_papers", papers=1, short=True),
        Operation("GET", "/health", _health, None, papers=1, short=True),
        Operation("GET", "/queue", _queue, None, papers=1, short=True),
    ),
    statuses={400: 422},
)  # fmt: skip
