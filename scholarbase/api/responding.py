"""Responses to native calls and tool calls: run the request, record it, and write the response."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastapi import Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from scholarbase.api.answers import answered
from scholarbase.api.recording import RECORDING, record, wait_for
from scholarbase.errors import StorageError
from scholarbase.models import MIN_TITLE_SCORE, Direction
from scholarbase.models.schemas import (
    EdgeBody,
    PaperBatchBody,
    PaperParameters,
    SearchParameters,
    TitleParameters,
)
from scholarbase.search.library import Library
from scholarbase.sessions.progress import BudgetState
from scholarbase.sessions.recording import WRITE_SECONDS, Recording
from scholarbase.tools.answering import Answer, make_answer

BRIEF_IDS: Final = 20
BRIEF_MATCHES: Final = 10


async def make(
    library: Library,
    tool: str,
    request: Any,
    run: Callable[[Any], dict[str, Any]],
    recording: Recording | None,
    *,
    compact: bool,
) -> Answer:
    """The answer to a call, made here and now where that is brief, else in a thread.

    Raises:
        BudgetExhausted: its session has nothing left. Whatever the library raises.
    """
    seen = _asks_for_seen(request)
    if recording is not None:
        recording.set_request([vars(request)], request)
    if recording is not None and recording.needs_budget(seen):
        recording.budget = await _reserve(recording, seen)
    answer_it = run
    if isinstance(request, SearchParameters) and not seen:
        # Checked once, for whether it is brief and for the answer, unless its session changes it.
        asked = request.to_request()
        brief = library.is_brief(asked)

        def once(one: Any) -> dict[str, Any]:
            return library.run(asked).to_dict() if one is request else run(one)

        answer_it = once
    else:
        brief = not seen and is_brief(library, tool, request)
    if request.max_tokens is None and brief:
        return make_answer(library, request, answer_it, recording, compact=compact)
    return await run_in_threadpool(
        lambda: make_answer(library, request, answer_it, recording, compact=compact)
    )


async def _reserve(recording: Recording, seen: bool) -> BudgetState | None:
    if seen or recording.session.limits:
        return await wait_for(recording.reserve(seen))
    try:
        return await wait_for(recording.reserve(seen), WRITE_SECONDS)
    except StorageError:  # whether the parent can be one is nothing to wait for longer
        return None


def _asks_for_seen(request: Any) -> bool:
    searches = getattr(request, "searches", None)
    if searches is not None:
        return any(search.exclude_seen for search in searches)
    return bool(getattr(request, "exclude_seen", False))


def is_brief(library: Library, tool: str, request: Any) -> bool:
    """Whether the answer takes so little that it is made on the event loop; :func:`answered` says why."""
    if isinstance(request, SearchParameters):
        return library.is_brief(request.to_request())
    if isinstance(request, EdgeBody):
        return has_few_edges(library, tool, vars(request))
    if isinstance(request, PaperBatchBody):
        return len(request.ids) <= BRIEF_IDS
    if isinstance(request, TitleParameters):
        # In a thread it would give the interpreter away at each of hundreds of rows, and wait for it as often: half a
        # second beside ten busy clients, for 4 ms of work. Many matches, or poor ones, are more work than that, and so
        # is counting words among the papers of a time.
        few = request.limit <= BRIEF_MATCHES and request.min_score >= MIN_TITLE_SCORE
        return few and request.as_of is None
    return isinstance(request, PaperParameters)


def has_few_edges(library: Library, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a page of citations or references is made on the event loop."""
    direction: Direction = "citations" if tool == "get_citations" else "references"
    return library.has_few_edges(arguments["paper_id"], direction, as_of=arguments["as_of"])


async def respond(
    request: Request,
    library: Library,
    tool: str,
    parameters: Any,
    run: Callable[[Any], dict[str, Any]],
    *,
    calls: Callable[[], Sequence[Mapping[str, Any]]],
    compact: bool = False,
) -> Response:
    """The response to a native call, or a tool's.

    Args:
        parameters: what it asks for, with ``max_tokens`` and ``format``.
        run: gives the JSON of the answer.
        calls: gives the tool's arguments by which the call, or each of a batch, is kept.
    """
    if not compact and is_plain(request, parameters):
        brief = is_brief(library, tool, parameters)
        return await answered(lambda: run(parameters), brief=brief)
    recording: Recording | None = request.scope.get(RECORDING)
    if recording is not None:
        kept = calls()
        recording.set_request(kept, parameters)
    answer = await make(library, tool, parameters, run, recording, compact=compact)
    headers = await record(recording, kept, answer) if recording is not None else None
    media_type = "text/plain; charset=utf-8" if answer.is_text else "application/json"
    return Response(answer.body, media_type=media_type, headers=headers)


def is_plain(request: Request, parameters: BaseModel) -> bool:
    """Whether a call has neither a session nor a size nor another format: it then takes the shortest way."""
    options: Any = parameters
    return RECORDING not in request.scope and options.max_tokens is None and options.format == "json"
