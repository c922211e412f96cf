"""The routes of Crossref's works: lists, single works and their citations in other formats."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import orjson

from scholarbase.bibliographies.writing import bibtex_entry
from scholarbase.errors import PaperNotFound
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import Paper
from scholarbase.models.responses import Hit
from scholarbase_dialects.base import Answer, Body, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.crossref import queries, works
from scholarbase_dialects.crossref.queries import error, failure, unavailable
from scholarbase_dialects.crossref.works import FIELDS, SELECTABLE
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import Condition
from scholarbase_dialects.listing.lists import cursor_at, offset_of

MAX_ROWS: Final = 1000
DEFAULT_ROWS: Final = 20
MAX_OFFSET: Final = 10_000
MAX_SAMPLE: Final = 100
PARAMETERS: Final = (
    *queries.QUERIES,
    *["filter", "rows", "offset", "cursor", "sample", "sort", "order", "select"],
)
BIBTEX: Final = "application/x-bibtex"
CSL: Final = ("application/vnd.citationstyles.csl+json", "application/citeproc+json", "application/json")


def _list(request: DialectRequest, calls: Calls) -> Answer:
    _check(request)
    rows, offset, sample = _rows(request), _whole(request, "offset", 0, MAX_OFFSET), _sample(request)
    cursor, select = request.text("cursor"), _select(request)
    if cursor and ("offset" in request.query or sample is not None):
        why = "Cursor cannot be combined with offset or sample"
        raise failure("cursor-with-offset-or-sample", "cursor", why)
    if cursor:
        start = offset_of(cursor, calls.library.snapshot_id)
        if start is None:
            why = "Cursor is not * or the next-cursor of a response of this snapshot."
            raise failure("cursor-not-valid", cursor, why)
        offset = start
    condition = queries.condition(request, partial(lists.held, calls.library, as_of=calls.as_of))
    texts = {name: request.text(name) for name in (*queries.QUERIES, "sort", "order")}
    filters = ",".join(request.query.get("filter", ()))
    recorded = {"q": texts.pop("query"), **texts, "filter": filters, "limit": rows, "offset": offset}
    page: dict[str, Any] = {"order": queries.orders(request), "fields": FIELDS}
    if page["order"][0] == "-relevance":
        page["first"] = calls.meant(queries.reference(request))
    if sample is not None:
        total, hits = _sampled(condition, sample, recorded, calls, page)
        rows = sample
    else:
        total, hits = calls.hits(condition, recorded, limit=rows, offset=offset, **page)
    items = [works.work(hit.paper, hit.score) for hit in hits]
    if select is not None:
        items = [{name: item[name] for name in select if name in item} for item in items]
    message: dict[str, Any] = {
        "facets": {},
        "total-results": total,
        "items": items,
        "items-per-page": rows,
        "query": {"start-index": offset, "search-terms": request.text("query") or None},
    }
    if cursor:
        message["next-cursor"] = cursor_at(offset + len(items), calls.library.snapshot_id)
    return _message("work-list", message)


def _message(kind: str, message: Any) -> dict[str, Any]:
    return {"status": "ok", "message-type": kind, "message-version": "1.0.0", "message": message}


def _check(request: DialectRequest) -> None:
    """Raises InvalidRequest: a parameter is unknown."""
    for name in request.query:
        if name.startswith("query.") and name not in queries.QUERIES:
            available = ", ".join(query.removeprefix("query.") for query in queries.QUERIES[1:])
            field = name.removeprefix("query.")
            raise failure(
                "field-query-not-available",
                field,
                f"Field query '{field[:200]}' specified but there is no such field query for this route. Valid field "
                f"queries for this route are: {available}",
            )
        if name not in (*PARAMETERS, "mailto"):
            why = "Parameter {} specified but there is no such parameter available on any route"
            raise failure("unknown-parameter", name, why)


def _whole(request: DialectRequest, name: str, default: int, high: int) -> int:
    """Raises InvalidRequest: not a number from 0 to the highest."""
    text = request.text(name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and int(text) <= high):
        hint = " Use the cursor parameter to page further into result sets." if name == "offset" else ""
        raise failure(
            "integer-not-valid",
            text,
            f"Integer specified as {text[:200]} but must be a positive integer less than or equal to {high}. {hint}",
        )
    return int(text)


def _rows(request: DialectRequest) -> int:
    return _whole(request, "rows", DEFAULT_ROWS, MAX_ROWS)


def _sample(request: DialectRequest) -> int | None:
    """Raises InvalidRequest: not a number, or together with rows or an offset."""
    if not request.text("sample"):
        return None
    if "rows" in request.query or "offset" in request.query:
        message = "Sample cannot be combined with rows or offset"
        raise failure("sample-with-rows-or-offset", "sample", message)
    return _whole(request, "sample", 0, MAX_SAMPLE)


def _select(request: DialectRequest) -> list[str] | None:
    """Raises InvalidRequest: a field is unknown."""
    names = request.names("select")
    for name in names or ():
        if name not in SELECTABLE:
            raise unavailable("select", name, SELECTABLE)
    return names


def _sampled(
    condition: Condition, size: int, recorded: Mapping[str, Any], calls: Calls, page: Mapping[str, Any]
) -> tuple[int, list[Hit]]:
    """Some papers of the list, the same ones for the same request."""
    total, _ = calls.hits(condition, recorded, limit=0, **page)
    calls.begun.pop()
    chosen = random.Random(repr(sorted(recorded.items()))).sample(range(total), min(size, total))
    listed_at = partial(lists.listed, calls.library, condition, limit=1, as_of=calls.as_of, **page)
    hits = [hit for position in chosen for hit in listed_at(offset=position)[1]]
    calls.begun.append((dict(recorded), [hit.paper.id for hit in hits], []))
    return total, hits


def _paper(request: DialectRequest, calls: Calls) -> Paper:
    """Raises PaperNotFound: the library does not have the paper. InvalidRequest: a parameter has no effect here."""
    for name in request.query:
        if name in PARAMETERS:
            raise failure("parameter-not-allowed", name, f"This route does not support {name}")
    _check(request)
    identifier = queries.paper_of(request.path["doi"])
    if identifier is None:
        raise PaperNotFound(f"No work {request.path['doi'][:200]!r} in this library.")
    return calls.paper(str(identifier), fields=FIELDS)


def _work(request: DialectRequest, calls: Calls) -> Answer:
    paper = _paper(request, calls)
    # The papers of the look-up are the work alone.
    edges = Calls(calls.library, calls.as_of).references(
        paper.id, limit=MAX_LIMIT, sort="date", fields=("external_ids", "title", "authors", "year", "venue")
    )
    return _message("work", works.work(paper, 1.0, [edge.paper for edge in edges.results]))


def _agency(request: DialectRequest, calls: Calls) -> Answer:
    doi = works.work(_paper(request, calls), 1.0).get("DOI")
    is_arxiv = doi is not None and doi.startswith("10.48550/")
    agency = {"id": "datacite", "label": "DataCite"} if is_arxiv else {"id": "crossref", "label": "Crossref"}
    return _message("work-agency", {"DOI": doi, "agency": agency})


def _transform(request: DialectRequest, calls: Calls) -> Answer:
    """A work in the format of the path, or of the header ``Accept``."""
    media = request.path.get("media") or request.accept.partition(",")[0].partition(";")[0].strip()
    paper = _paper(request, calls)
    if media == BIBTEX:
        return Body(bibtex_entry(paper).encode(), BIBTEX)
    if media in CSL:
        return Body(orjson.dumps(works.csl(paper)), media)
    return Body(f"This library has {BIBTEX} and {', '.join(CSL)}.".encode(), "text/plain", 406)


def _single(path: str, answer: Any) -> Operation:
    return Operation(
        "GET", f"/works/{{doi:path}}{path}", answer, "get_papers", frozenset(PARAMETERS), papers=1, short=True
    )


DIALECT: Final = Dialect(
    "crossref",
    "/crossref",
    "Crossref's works",
    (
        Operation("GET", "/works", _list, parameters=frozenset(PARAMETERS), papers=_rows),
        _single("/transform/{media:path}", _transform),
        _single("/transform", _transform),
        _single("/agency", _agency),
        _single("", _work),
    ),
    error,
)
