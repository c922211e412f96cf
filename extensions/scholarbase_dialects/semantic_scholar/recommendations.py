"""Semantic Scholar's recommendations: papers similar to some, and not to others.

The original: https://api.semanticscholar.org/api-docs/recommendations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from scholarbase.errors import InvalidRequest, PaperNotFound
from scholarbase.models.checks import shown
from scholarbase_dialects.base import Answer, Dialect, DialectRequest, Operation
from scholarbase_dialects.calls import Calls
from scholarbase_dialects.semantic_scholar import parameters
from scholarbase_dialects.semantic_scholar.fields import Fields, paper_fields, requested
from scholarbase_dialects.semantic_scholar.filters import DATES, dates_of
from scholarbase_dialects.semantic_scholar.graph import read_papers
from scholarbase_dialects.semantic_scholar.papers import Writer
from scholarbase_dialects.semantic_scholar.parameters import number, paper_of

MAX_RECOMMENDED: Final = 500
DEFAULT_RECOMMENDED: Final = 100
MAX_EXAMPLES: Final = 100
"""Positive and negative papers together. Each is a search of its own."""
_EXAMPLES: Final = ("positivePaperIds", "negativePaperIds")
POOLS: Final = ("recent", "all-cs")
_RANK: Final = 60
"""The constant of reciprocal rank fusion (Cormack et al. 2009, https://doi.org/10.1145/1571941.1572114)."""


def _for_paper(request: DialectRequest, calls: Calls) -> Answer:
    fields = paper_fields(requested(request))
    limit = number(request, "limit", DEFAULT_RECOMMENDED, 1, MAX_RECOMMENDED)
    pool = request.text("from")
    if pool and pool not in POOLS:
        raise InvalidRequest(
            f"Unrecognized value '{pool[:200]}' for `from`. Restrict to: `{list(POOLS)}`".replace('"', "'")
        )
    if pool:
        request.ignore("from")
    paper = paper_of(request, calls.unrecorded(), ())
    response = calls.similar(paper.id, limit=limit, fields=("id",), **dates_of(request))
    return _answer(calls, [hit.paper.id for hit in response.results], fields)


def _from_lists(request: DialectRequest, calls: Calls) -> Answer:
    fields = paper_fields(requested(request))
    limit = number(request, "limit", DEFAULT_RECOMMENDED, 1, MAX_RECOMMENDED)
    request.ignore(*(name for name in _body(request) if name not in _EXAMPLES))
    liked, disliked = (_examples(request, name) for name in _EXAMPLES)
    if not liked:
        raise InvalidRequest("positivePaperIds is empty: send at least one paper.")
    if len(liked) + len(disliked) > MAX_EXAMPLES:
        raise InvalidRequest(
            f"positivePaperIds and negativePaperIds have {len(liked) + len(disliked):,} papers: the maximum is "
            f"{MAX_EXAMPLES}."
        )
    papers = calls.unrecorded().papers([*liked, *disliked], fields=())
    examples = [paper.id for paper in papers if paper is not None]
    if len(examples) < len(papers):
        raise PaperNotFound("Input papers not found")
    dates = dates_of(request)
    scores: dict[str, float] = {}
    for example in dict.fromkeys(examples):  # the positive ones first
        similar = calls.unrecorded().similar(example, limit=MAX_RECOMMENDED, fields=("id",), **dates).results
        is_liked = example in examples[: len(liked)]
        for rank, hit in enumerate(similar, 1):
            share = 1 / (_RANK + rank)
            # A paper that is only similar to negative ones is not recommended.
            if is_liked:
                scores[hit.paper.id] = scores.get(hit.paper.id, 0.0) + share
            elif hit.paper.id in scores:
                scores[hit.paper.id] -= share
    kept = [paper_id for paper_id in scores if paper_id not in set(examples)]
    kept.sort(key=lambda paper_id: (-scores[paper_id], paper_id))
    calls.begun.append(
        ({"paper_id": examples[0]}, kept[:limit], [scores[paper_id] for paper_id in kept[:limit]])
    )
    return _answer(calls, kept[:limit], fields)


def _answer(calls: Calls, ids: Sequence[str], fields: Fields) -> dict[str, Any]:
    return {"recommendedPapers": Writer(calls).papers(read_papers(calls, ids, fields.native()), fields)}


def _body(request: DialectRequest) -> dict[str, Any]:
    return request.body if isinstance(request.body, dict) else {}


def _examples(request: DialectRequest, name: str) -> list[str]:
    """The ids of a list in the body, which may be missing. Raises InvalidRequest for anything else."""
    ids = _body(request).get(name)
    if ids is None:
        return []
    if not isinstance(ids, list) or not all(isinstance(paper_id, str) for paper_id in ids):
        raise InvalidRequest(f"{name} is {shown(ids)}: it must be a list of strings.")
    return ids


_PARAMETERS: Final = DATES | {"fields", "limit"}
"""The original has no limits of dates here. One that is sent is obeyed."""

DIALECT: Final = Dialect(
    "s2-recommendations",
    "/recommendations/v1",
    "Semantic Scholar's recommendations",
    (
        Operation("GET", "/papers/forpaper/{paper_id:path}", _for_paper, "similar_papers", _PARAMETERS | {"from"},
                  papers=MAX_RECOMMENDED),
        Operation("POST", "/papers", _from_lists, "similar_papers", _PARAMETERS, papers=MAX_RECOMMENDED),
    ),
    parameters.error,
    parameters.STATUSES,
    alone="/recommendations/v1",
)  # fmt: skip
