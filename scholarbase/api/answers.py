"""Answers as bytes: plain data to JSON by orjson, once."""

from __future__ import annotations

from typing import Any

import orjson
from starlette.responses import Response

from scholarbase.api.schemas import ProblemAnswer


def answer(content: Any) -> Response:
    """A JSON answer. The same content gives the same bytes."""
    return Response(orjson.dumps(content), media_type="application/json")


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": ProblemAnswer, "description": "The request cannot be right."},
    404: {"model": ProblemAnswer, "description": "The library does not hold a paper that the request names."},
    503: {"model": ProblemAnswer, "description": "An index or the encoder failed."},
}
"""The failures of most calls, for the OpenAPI document."""
