"""Responses to tool calls: change the request by its session, run it, limit the size, and encode the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
import orjson

from scholarbase.bibliographies.writing import MEDIA_TYPES, write_papers
from scholarbase.errors import InvalidRequest, SessionError
from scholarbase.models.limits import MAX_IDS, MIN_TOKENS, ExportFormat
from scholarbase.models.papers import ALL_FIELDS, PAPER_FIELDS
from scholarbase.models.requests import Request
from scholarbase.responses.sizing import check_max_tokens, estimate_tokens, fit_response
from scholarbase.responses.text import as_text, is_unfinished, papers_in, with_author_lines
from scholarbase.search.library import Library
from scholarbase.sessions.recording import ReturnedPapers, SessionCall, returned_papers

BUDGET_TOKENS: Final = 75
"""Tokens reserved for the ``budget`` of a response of limited size."""
BATCH_TOKENS: Final = 30
SEARCH_TOKENS: Final = 8
"""Tokens of a batch besides its responses, and of each response besides its own content."""


class CallResponse(msgspec.Struct, frozen=True):
    """The response to a call.

    ``content`` is its JSON, empty where only the bytes were made; ``body`` is its bytes in the ``form`` of the request;
    ``returned`` has the papers of the call, or of each search of a batch; ``remaining`` is what the session's budgets
    have left. ``cut_to`` is the default size that a tool's response was cut to.
    """

    content: dict[str, Any]
    body: bytes
    form: str
    returned: Sequence[ReturnedPapers]
    remaining: Mapping[str, int] = {}
    cut_to: int | None = None

    def arguments(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments that return the same papers whatever the default size."""
        return arguments if self.cut_to is None else {**arguments, "max_tokens": self.cut_to}


def apply_session(library: Library, request: Request, call: SessionCall | None) -> Request:
    """The request with its session's ``as_of``, and without the papers that the session has returned; or what runs in
    place of one that the agent's answer has ended.

    Raises:
        InvalidRequest: the session does not allow the request.
    """
    searches = getattr(request, "searches", None)
    if call is None:
        if any(getattr(search, "exclude_seen", False) for search in searches or [request]):
            raise InvalidRequest(
                "exclude_seen requires a session, because it leaves out papers that the session has returned: name one "
                "in the header X-ScholarBase-Session."
            )
        return request
    if searches is not None:
        return request.model_copy(
            update={"searches": tuple(apply_session(library, search, call) for search in searches)}
        )
    arguments = vars(request)
    session, as_of = call.session, arguments.get("as_of")
    if request.ends_with_answer and call.budget is not None and call.budget.answered is not None:
        reason = f"The session {session.id!r} ended with the answer of call {call.budget.answered}: open another one."
        return request.refused(SessionError(reason))
    changes: dict[str, Any] = {}
    if (date := session.date_of_call(as_of)) != as_of:
        changes["as_of"] = date
    if arguments.get("exclude_seen"):
        assert call.budget is not None
        excluded, seen = arguments.get("exclude_ids") or (), sorted(call.budget.seen)
        if len(excluded) + len(seen) > MAX_IDS:
            raise InvalidRequest(
                f"The session {session.id!r} has seen {len(seen)} papers, and exclude_seen excludes at most {MAX_IDS}: "
                "open another session, or page by offset."
            )
        if seen and date is not None and date != session.as_of:
            # Papers that do not exist as of this call's date cannot be excluded.
            existing = library.papers(seen, fields=("id",), as_of=date)
            seen = [paper_id for paper_id, paper in zip(seen, existing, strict=True) if paper is not None]
        changes |= {"exclude_ids": (*excluded, *seen), "exclude_seen": False}
    return request.model_copy(update=changes) if changes else request


def make_response(
    library: Library,
    request: Request,
    run: Callable[[Any], dict[str, Any]],
    call: SessionCall | None = None,
    *,
    compact: bool = False,
    tool_tokens: int | None = None,
) -> CallResponse:
    """Run a request and encode its response.

    Args:
        run: returns the JSON of the response to a request.
        call: the call in its session, with its budget.
        compact: join each paper's authors into one string, whatever the size; not in a bibliography.
        tool_tokens: cut a larger response to this size if the request has no ``max_tokens``, but not a bibliography or
            an image.

    Raises:
        InvalidRequest: ``max_tokens`` is too small. Whatever ``run`` raises.
    """
    max_tokens: int | None = getattr(request, "max_tokens", None)
    form: str = getattr(request, "format", "json")
    if form in MEDIA_TYPES and getattr(request, "fields", None) == PAPER_FIELDS:
        request = request.model_copy(update={"fields": ALL_FIELDS})
    if max_tokens is not None:
        check_max_tokens(max_tokens)
    limited = call is not None and bool(call.session.limits)
    compact = compact and form not in MEDIA_TYPES
    searches: Sequence[Any] = getattr(request, "searches", ())
    requests: Sequence[Any] = searches or (request,)
    offsets: list[int] = [getattr(search, "offset", 0) or 0 for search in requests]
    room = max_tokens and _room(max_tokens, len(searches), limited=limited)
    most = None
    if tool_tokens is not None and max_tokens is None and form not in MEDIA_TYPES:
        most = tool_tokens - (BUDGET_TOKENS if limited else 0)
    sized: list[dict[str, Any]] = []
    content: dict[str, Any] = {}
    for step in _steps(request, call):
        content = run(apply_session(library, step, call))
        results = content["results"] if searches else [content]
        begin, end = len(sized), len(sized) + len(results)
        try:
            done = [
                _sized(
                    result, offset, room, form, compact, bool(getattr(search, "exclude_seen", False)), most
                )
                for result, offset, search in zip(
                    results, offsets[begin:end], requests[begin:end], strict=True
                )
            ]
        except InvalidRequest as error:
            if room == max_tokens:
                raise
            which = "each response" if len(searches) > 1 else "the response"
            raise InvalidRequest(f"Of max_tokens {max_tokens} {which} has {room}: {error}") from error
        if call is not None:
            call.add_seen(i for result in done for i in returned_papers(result, 0).ids)
        sized += done
    content = {**content, "results": sized} if searches else sized[0]
    offset = offsets if searches else offsets[0]
    body = _encoded(content, form, offset)
    if len(sized) == 1:
        counted = body
        if content.get("image") is not None:  # no model reads it as text
            counted = _encoded({**content, "image": ""}, form, offset)
        returned = [returned_papers(sized[0], estimate_tokens(counted))]
    else:
        returned = [
            returned_papers(result, estimate_tokens(_encoded(result, form, offset)))
            for result, offset in zip(sized, offsets, strict=True)
        ]
    remaining: dict[str, int] = {}
    if call is not None and limited:
        remaining = call.remaining(returned)
        content = {**content, "budget": remaining}
        body = _encoded(content, form, offset)
    cut_to = tool_tokens if most is not None and "tokens" in sized[0] else None
    return CallResponse(content, body, form, returned, remaining, cut_to)


def unchanged_response(body: bytes) -> CallResponse:
    """The response of the JSON of one call, which no size, form or budget changes."""
    return CallResponse({}, body, "json", [returned_papers(body, estimate_tokens(body))])


def share_of(max_tokens: int, searches: int) -> int:
    """The ``max_tokens`` of each search of a batch."""
    return (max_tokens - BATCH_TOKENS) // searches - SEARCH_TOKENS


def _room(max_tokens: int, searches: int, *, limited: bool) -> int:
    """The tokens for the response, or for each of a batch, without those for the budget.

    Raises:
        InvalidRequest: fewer than a response needs.
    """
    budget = BUDGET_TOKENS if limited else 0
    room = (share_of(max_tokens, searches) if searches else max_tokens) - budget
    if room < MIN_TOKENS:
        least = MIN_TOKENS + budget
        if searches:
            least = (least + SEARCH_TOKENS) * searches + BATCH_TOKENS
        raise InvalidRequest(
            f"max_tokens is {max_tokens}: this call needs {least} or more, "
            + (
                f"{MIN_TOKENS} for each search and the rest for the batch."
                if searches
                else f"{budget} of them for the session's budget."
            )
        )
    return room


def _steps(request: Request, call: SessionCall | None) -> list[Request]:
    """The request, or its searches one by one if a search excludes what those before it return."""
    searches = getattr(request, "searches", None)
    if call is None or not searches or not any(search.exclude_seen for search in searches):
        return [request]
    return [request.model_copy(update={"searches": (search,)}) for search in searches]


_UNCUT: Final = frozenset(("image", "answer"))
"""Keys of responses that are never cut: an image, and what a tool of another service answers."""


def _sized(
    content: dict[str, Any],
    offset: int,
    room: int | None,
    form: str,
    compact: bool,
    excludes_seen: bool,
    most: int | None,
) -> dict[str, Any]:
    """A response in ``room`` tokens, or if it has more than ``most``, in these."""
    if is_unfinished(content):
        return content
    if excludes_seen and content.get("next_offset") is not None:
        # The next call excludes the papers of this one, so its first results are at the same offset.
        content = {**content, "next_offset": offset}
    if room is None:
        whole = with_author_lines(content) if compact else content
        if (
            most is None
            or not _UNCUT.isdisjoint(content)
            or estimate_tokens(_encoded(whole, form, offset)) <= most
        ):
            return whole
        room = most
    return fit_response(content, room, offset=offset, text=form == "text", same_offset=excludes_seen)


def _encoded(content: dict[str, Any], form: str, offset: int | Sequence[int]) -> bytes:
    if form in MEDIA_TYPES:
        return write_papers(papers_in(content), cast(ExportFormat, form)).encode()
    return as_text(content, offset=offset).encode() if form == "text" else orjson.dumps(content)
