"""The search for snippets: the abstract of each paper, or its title where it has none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from scholarbase.errors import InvalidRequest
from scholarbase.models.checks import date_bounds
from scholarbase.models.limits import MAX_LIMIT
from scholarbase.models.papers import Paper
from scholarbase.models.responses import Hit
from scholarbase_dialects.base import Answer, DialectRequest
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.describing import names_of, pdf_of
from scholarbase_dialects.listing import lists
from scholarbase_dialects.listing.conditions import Among, Authors, Either, every, name_words
from scholarbase_dialects.semantic_scholar import parameters
from scholarbase_dialects.semantic_scholar.fields import requested
from scholarbase_dialects.semantic_scholar.filters import filters_of
from scholarbase_dialects.semantic_scholar.papers import paper_id_of
from scholarbase_dialects.semantic_scholar.parameters import listed, number, unacceptable

MAX_IDS: Final = 100
"""Papers to which a search can be limited."""
MAX_AUTHORS: Final = 10
PARAMETERS: Final = frozenset((
    "query", "fields", "limit", "paperIds", "authors", "minCitationCount", "insertedBefore", "publicationDateOrYear",
    "year", "venue", "fieldsOfStudy",
))  # fmt: skip
_PARTS: Final = ("text", "snippetKind", "section", "snippetOffset", "annotations")
_FIELDS: Final = tuple(f"snippet.{name}" for name in _PARTS)
_READ: Final = ("title", "abstract", "authors", "corpus_id", "external_ids")


def search(request: DialectRequest, calls: Calls) -> Answer:
    """The best papers with their abstracts, as the original's best passages."""
    names = _names(request)
    filters = filters_of(request)
    text, limit = parameters.query_of(request), number(request, "limit", 10, 1, MAX_LIMIT)
    authors = listed(request, "authors", MAX_AUTHORS)
    native = filters.native
    for before in filter(None, request.query.get("insertedBefore", ())):
        native["to"] = _earlier(native.get("to"), before)
    for name in ("openAccessPdf", "publicationTypes"):  # which the original does not have
        filters.others.pop(name, None)
    for name in authors:
        by = name_words(name)
        filters.values[f"authors={name}"] = True
        filters.others[f"authors={name}"] = Authors((by,)) if by else Either(())
    if ids := listed(request, "paperIds", MAX_IDS):
        papers = calls.unrecorded().papers(ids, fields=())
        numbers = lists.held(calls.library, [paper.id for paper in papers if paper is not None])
        filters.values["paperIds"] = ids
        filters.others["paperIds"] = Among("id", numbers)
    kept: Sequence[Hit]
    if filters.others:
        condition = every(filters.conditions)
        _, kept = calls.search_meeting(text, condition, filters.recorded, limit=limit, fields=_READ, **native)
    else:
        kept = calls.search(text, limit=limit, fields=_READ, **native).results
    data = [
        {"score": hit.score, "paper": _paper(hit.paper), "snippet": _snippet(hit.paper, names)}
        for hit in kept
    ]
    return {"data": data, "retrievalVersion": calls.library.snapshot_id}


def _names(request: DialectRequest) -> set[str]:
    """The requested parts of a snippet. Raises InvalidRequest for an unknown one."""
    names = requested(request)
    unknown = [name for name in names if name != "snippet" and not name.startswith(_FIELDS)]
    if unknown:
        raise InvalidRequest(
            f"Unrecognized or unsupported fields: [{', '.join(name[:64] for name in unknown[:20])}]"
        )
    if not names or "snippet" in names:
        return set(_FIELDS)
    return {field for field in _FIELDS for name in names if name == field or name.startswith(f"{field}.")}


def _earlier(to: str | None, before: str) -> str:
    """The earlier of two last dates. Raises InvalidRequest for an invalid one."""
    try:
        dates = [date for date in (to, before) if date is not None]
        return min(dates, key=lambda date: date_bounds(date)[1])
    except InvalidRequest:
        raise unacceptable("insertedBefore", before) from None


def _snippet(paper: Paper, names: set[str]) -> dict[str, Any]:
    text = paper.abstract or paper.title or ""
    values = {
        "text": text,
        "snippetKind": "abstract" if paper.abstract else "title",
        "section": None,
        "snippetOffset": {"start": 0, "end": len(text)},
        "annotations": {"sentences": None, "refMentions": None},
    }
    return {name: value for name, value in values.items() if f"snippet.{name}" in names}


def _paper(paper: Paper) -> dict[str, Any]:
    access = {"license": None, "status": None if pdf_of(paper) is None else "GREEN", "disclaimer": None}
    return {
        "corpusId": None if paper.corpus_id is None else str(paper.corpus_id),
        "paperId": paper_id_of(paper),
        "title": paper.title,
        "authors": names_of(paper.authors),
        "openAccessInfo": access,
    }
