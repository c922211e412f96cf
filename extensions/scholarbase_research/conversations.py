"""Recorded sessions as training conversations, in the ShareGPT format with tools.

LLaMA-Factory documents the format
(https://llamafactory.readthedocs.io/en/latest/getting_started/data_preparation.html): ``human`` is the question,
``function_call`` a tool call, ``observation`` its response and ``gpt`` the final answer.

Each call makes one sample: the question, up to ``window`` turns before the call, and the call itself as the target. A
failed call is never a target, but stays with its error in the history of later calls, as in AirQA's EXTRACTOR
(arXiv:2509.16952). ``weight`` is 1 for the target and 0 for earlier messages of the agent.

Sessions do not store responses: the calls are replayed, and the same snapshot returns the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson

from scholarbase.errors import InvalidRequest, ReplayDiffers
from scholarbase.responses.text import as_text
from scholarbase.search.library import Library
from scholarbase.sessions.session import Session
from scholarbase.tools.definitions import schemas, sets_of, tools_in
from scholarbase_research.replay.calls import Replayed, differences, replay

WINDOW: Final = 5


def conversations(
    library: Library, session: Session, lines: Iterable[bytes], *, window: int = WINDOW
) -> Iterator[dict[str, Any]]:
    """Yield the samples of a session, in the order of its calls.

    Raises:
        InvalidRequest: the session has no query, or ``window`` is not a whole number of 1 or more.
        ReplayDiffers: a call returns other papers on this library than were recorded.
    """
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise InvalidRequest(f"window is {window!r}: it must be a whole number of turns, 1 or more.")
    if session.query is None:
        raise InvalidRequest(
            f"The session {session.id!r} has no query, which a conversation begins with: open sessions with a query."
        )
    lines = list(lines)
    called = [orjson.loads(line)["tool"] for line in lines]
    listed = [tool for name in sets_of(called) for tool in tools_in(name)]
    tools = orjson.dumps(
        schemas("openai", graph=library.has_graph, full_texts=library.has_full_texts, tools=listed)
    ).decode()
    question = {"from": "human", "value": session.query}
    history: deque[list[dict[str, Any]]] = deque(maxlen=window)
    for replayed in replay(library, session, lines):
        _check(session, replayed)
        message = _agent_message(session, replayed)
        if replayed.recorded.get("error") is None:
            earlier = [
                {**past, "weight": 0} if "weight" in past else past for turn in history for past in turn
            ]
            yield {
                "id": f"{session.id}:{replayed.recorded['call']}",
                "conversations": [question, *earlier, message],
                "tools": tools,
            }
        if replayed.recorded["kind"] != "answer":
            history.append([message, {"from": "observation", "value": _observation(replayed)}])


def _check(session: Session, replayed: Replayed) -> None:
    differing = differences([replayed])
    if differing:
        raise ReplayDiffers(
            f"The session {session.id!r} differs on this library: {differing[0]}. Use the library that it was recorded "
            f"on (snapshot {replayed.recorded.get('snapshot')})."
        )


def _agent_message(session: Session, replayed: Replayed) -> dict[str, Any]:
    recorded = replayed.recorded
    if recorded["kind"] == "answer":
        answer = recorded.get("arguments", {}).get("answer", "\n".join(recorded["ids"]))
        value = answer if isinstance(answer, str) else orjson.dumps(answer).decode()
        return {"from": "gpt", "value": value, "weight": 1}
    arguments = dict(recorded.get("arguments", {}))
    if arguments.get("as_of") == session.as_of:
        # The session adds its own date to every call; the agent did not send it.
        arguments.pop("as_of", None)
    call = {"name": recorded["tool"], "arguments": arguments}
    return {"from": "function_call", "value": orjson.dumps(call).decode(), "weight": 1}


def _observation(replayed: Replayed) -> str:
    if replayed.content is None:
        return str(replayed.recorded.get("error") or replayed.now.get("error"))
    offset = replayed.recorded.get("arguments", {}).get("offset") or 0
    return as_text(dict(replayed.content), offset=offset)
