"""Recorded sessions as conversations for training, in the ShareGPT form with tools that LLaMA-Factory documents
(https://llamafactory.readthedocs.io/en/latest/getting_started/data_preparation.html): ``human`` asks, ``function_call``
calls a tool, ``observation`` is what it gave, ``gpt`` answers.

One sample a call: the question, up to ``window`` turns before it, and the call itself, which is the target. A call that
failed is never a target, and stays in the history of those after it with what it was told, as AirQA's EXTRACTOR
(arXiv:2509.16952) has it. ``weight`` is 1 for the target and 0 for what the agent said before.

What the tools gave is not kept in a session: the calls are run again, and give the same on the same snapshot.
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
from scholarbase.tools.definitions import schemas
from scholarbase.tools.replay import Replayed, differences, replay

WINDOW: Final = 5


def conversations(
    library: Library, session: Session, lines: Iterable[bytes], *, window: int = WINDOW
) -> Iterator[dict[str, Any]]:
    """The samples of a session, in the order of its calls.

    Raises:
        InvalidRequest: the session was not told its question, or ``window`` is no whole number of 1 or more.
        ReplayDiffers: a call gives something else on this library than was recorded.
    """
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise InvalidRequest(f"window is {window!r}: it must be a whole number of turns, 1 or more.")
    if session.query is None:
        raise InvalidRequest(
            f"The session {session.id!r} was not told its question, which a conversation begins with: open "
            "sessions with a query."
        )
    tools = orjson.dumps(schemas("openai")).decode()
    asked = {"from": "human", "value": session.query}
    history: deque[list[dict[str, Any]]] = deque(maxlen=window)
    for one in replay(library, session, lines):
        _check(session, one)
        said = _said(session, one)
        if one.recorded.get("error") is None:
            earlier = [
                {**message, "weight": 0} if "weight" in message else message
                for turn in history
                for message in turn
            ]
            yield {
                "id": f"{session.id}:{one.recorded['call']}",
                "conversations": [asked, *earlier, said],
                "tools": tools,
            }
        if one.recorded["kind"] != "answer":
            history.append([said, {"from": "observation", "value": _observed(one)}])


def _check(session: Session, one: Replayed) -> None:
    found = differences([one])
    if found:
        raise ReplayDiffers(
            f"The session {session.id!r} gives something else on this library: {found[0]}. Name the library that it "
            f"was recorded on (snapshot {one.recorded.get('snapshot')})."
        )


def _said(session: Session, one: Replayed) -> dict[str, Any]:
    row = one.recorded
    if row["kind"] == "answer":
        return {"from": "gpt", "value": "\n".join(row["ids"]), "weight": 1}
    arguments = dict(row.get("arguments", {}))
    if arguments.get("as_of") == session.as_of:
        # The session's own day is said of every call, and no agent says it.
        arguments.pop("as_of", None)
    call = {"name": row["tool"], "arguments": arguments}
    return {"from": "function_call", "value": orjson.dumps(call).decode(), "weight": 1}


def _observed(one: Replayed) -> str:
    if one.content is None:
        return str(one.recorded.get("error") or one.now.get("error"))
    offset = one.recorded.get("arguments", {}).get("offset") or 0
    return as_text(dict(one.content), offset=offset)
