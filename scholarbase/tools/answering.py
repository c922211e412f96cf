"""A call's answer: the request as its session changes it, the library's answer, cut to a size and written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic import BaseModel

from scholarbase.errors import InvalidRequest
from scholarbase.models.requests import check_session
from scholarbase.responses.sizing import MIN_TOKENS, check_max_tokens, estimate_tokens, fit_response
from scholarbase.responses.text import as_text, compact_authors
from scholarbase.search.library import Library
from scholarbase.sessions.recording import Recording, ReturnedPapers, returned_papers

BUDGET_TOKENS: Final = 75
"""What the ``budget`` of an answer takes at most, kept free where an answer is cut to a size."""
BATCH_TOKENS: Final = 30
SEARCH_TOKENS: Final = 8
"""What is around the answers of a batch, and what each of them has besides its own."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``content`` is the answer's JSON and ``body`` what is sent, JSON or text; ``given`` has the papers of each call
    that it answers (one, or those of a batch); ``left`` what the session's budgets leave."""

    content: dict[str, Any]
    body: bytes
    is_text: bool
    given: Sequence[ReturnedPapers]
    left: Mapping[str, int] = field(default_factory=dict)


def apply_session(library: Library, request: BaseModel, recording: Recording | None) -> BaseModel:
    """The request with what its session says of it.

    Raises:
        InvalidRequest: it asks for what its session does not allow.
    """
    searches = getattr(request, "searches", None)
    if recording is None:
        for one in searches or [request]:
            check_session(getattr(one, "exclude_seen", False))
        return request
    if searches is not None:
        return request.model_copy(
            update={"searches": tuple(apply_session(library, one, recording) for one in searches)}
        )
    arguments = vars(request)
    changes = recording.changes(arguments)
    if changes.get("exclude_ids"):
        # What the session was given at a later date than this call's is not there to be left out.
        as_of = changes.get("as_of", arguments.get("as_of"))
        own = list(arguments.get("exclude_ids") or ())
        seen = changes["exclude_ids"][len(own) :]
        if as_of is not None and as_of != recording.session.as_of:
            there = library.papers(seen, fields=("id",), as_of=as_of)
            seen = [paper_id for paper_id, paper in zip(seen, there, strict=True) if paper is not None]
        changes["exclude_ids"] = (*own, *seen)
    return request.model_copy(update=changes) if changes else request


def make_answer(
    library: Library,
    request: BaseModel,
    run: Callable[[Any], dict[str, Any]],
    recording: Recording | None = None,
    *,
    compact: bool = False,
) -> Answer:
    """Run a request and write its answer.

    Args:
        run: gives the JSON of a request's answer.
        recording: the call as its session knows it, with its budget.
        compact: give authors in one line also where no size is asked for.

    Raises:
        InvalidRequest: the size cannot be, or holds no answer at all. Whatever ``run`` raises.
    """
    size: int | None = getattr(request, "max_tokens", None)
    is_text = getattr(request, "format", "json") == "text"
    if size is not None:
        check_max_tokens(size)
    limited = recording is not None and bool(recording.session.limits)
    searches: Sequence[Any] = getattr(request, "searches", ())
    offsets: list[int] = [one.offset for one in searches] or [getattr(request, "offset", 0)]
    room = size and _room(size, len(searches), limited=limited)
    cut: list[dict[str, Any]] = []
    content: dict[str, Any] = {}
    for step in _steps(request, recording):
        content = run(apply_session(library, step, recording))
        parts = content["results"] if _is_batch(content) else [content]
        places = offsets[len(cut) : len(cut) + len(parts)]
        try:
            asked = (searches or [request])[len(cut) : len(cut) + len(parts)]
            done = [
                _cut(part, place, room, is_text, compact, again=bool(getattr(one, "exclude_seen", False)))
                for part, place, one in zip(parts, places, asked, strict=True)
            ]
        except InvalidRequest as error:
            if room == size:
                raise
            which = "each answer" if len(searches) > 1 else "the answer"
            raise InvalidRequest(f"Of max_tokens {size} {which} has {room}: {error}") from error
        if recording is not None and recording.budget is not None:
            recording.add_seen(i for part in done for i in returned_papers(part, 0).ids)
        cut += done
    content = {**content, "results": cut} if searches else cut[0]
    offset = offsets if searches else offsets[0]
    body = _written(content, is_text, offset)
    if len(cut) == 1:
        papers = [returned_papers(cut[0], estimate_tokens(body))]
    else:
        pairs = zip(cut, offsets, strict=True)
        papers = [
            returned_papers(part, estimate_tokens(_written(part, is_text, place))) for part, place in pairs
        ]
    left: dict[str, int] = {}
    if recording is not None and limited:
        left = recording.remaining(papers)
        content = {**content, "budget": left}
        body = _written(content, is_text, offset)
    return Answer(content, body, is_text, papers, left)


def share_of(size: int, searches: int) -> int:
    """The ``max_tokens`` of each search of a batch of this size: an even share of what is not around them."""
    return (size - BATCH_TOKENS) // searches - SEARCH_TOKENS


def _room(size: int, searches: int, *, limited: bool) -> int:
    """What an answer may take, or each of those to a batch, so that the budgets find room in it too.

    Raises:
        InvalidRequest: that is less than an answer takes.
    """
    free = BUDGET_TOKENS if limited else 0
    room = (share_of(size, searches) if searches else size) - free
    if room < MIN_TOKENS:
        least = MIN_TOKENS + free
        if searches:
            least = (least + SEARCH_TOKENS) * searches + BATCH_TOKENS
        raise InvalidRequest(
            f"max_tokens is {size}: this call needs {least} or more, "
            + (
                f"{MIN_TOKENS} for each search and the rest for what is around them."
                if searches
                else f"{free} of them to say what budgets leave."
            )
        )
    return room


def _steps(request: BaseModel, recording: Recording | None) -> list[BaseModel]:
    """The request, or its searches one by one where each must know what those before it gave."""
    searches = getattr(request, "searches", None)
    if recording is None or not searches or not any(search.exclude_seen for search in searches):
        return [request]
    return [request.model_copy(update={"searches": (search,)}) for search in searches]


def _cut(
    content: dict[str, Any], offset: int, size: int | None, is_text: bool, compact: bool, *, again: bool
) -> dict[str, Any]:
    if again and content.get("next_offset") is not None:
        # What is given here is left out of the next answer, whose first results stand where these did.
        content = {**content, "next_offset": offset}
    if size is not None:
        return fit_response(content, size, offset=offset, text=is_text, same_offset=again)
    return _compact(content) if compact else content


def _is_batch(content: Mapping[str, Any]) -> bool:
    """Whether this is the answer to several searches, each of them a call."""
    results = content.get("results") or [None]
    return isinstance(results[0], dict) and "results" in results[0]


def _written(content: dict[str, Any], is_text: bool, offset: int | Sequence[int]) -> bytes:
    return as_text(content, offset=offset).encode() if is_text else orjson.dumps(content)


def _compact(content: Any) -> Any:
    """The same answer with each paper's authors in one line."""
    if isinstance(content, list):
        return [_compact(item) for item in content]
    if not isinstance(content, dict):
        return content
    made = dict(content)
    if "authors" in made:
        made["authors"] = compact_authors(made["authors"])
    for key in ("results", "paper"):
        if key in made:
            made[key] = _compact(made[key])
    return made
