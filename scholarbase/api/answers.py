"""Answers as bytes: plain data to JSON by orjson, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from scholarbase.models.schemas import ProblemAnswer


def answer(content: Any) -> Response:
    """A JSON answer. The same content gives the same bytes."""
    return Response(orjson.dumps(content), media_type="application/json")


async def answered(content: Callable[[], Any], *, brief: bool) -> Response:
    """A JSON answer of what ``content`` gives: made here and now where that is ``brief``, else in a thread.

    A thread costs a tenth of a millisecond, and more under load: whoever works in Python gives the interpreter away
    only every few milliseconds, so that a thread and the event loop wait for each other at every statement of SQLite.
    Ten clients get more look-ups and searches from the loop alone. What takes long would keep all of them waiting, and
    stays in threads.
    """
    if brief:
        return answer(content())
    return await run_in_threadpool(lambda: answer(content()))


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": ProblemAnswer, "description": "The request cannot be right."},
    404: {"model": ProblemAnswer, "description": "The library does not hold a paper that the request names."},
    503: {"model": ProblemAnswer, "description": "An index or the encoder failed."},
}
"""The failures of most calls, for the OpenAPI document."""
