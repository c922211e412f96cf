"""The original's errors."""

from __future__ import annotations

import orjson

from scholarbase.errors import InvalidRequest
from scholarbase_dialects.base import Body, invalid

NOT_FOUND = b"Resource not found."


def failure(kind: str, value: object, message: str) -> InvalidRequest:
    """The error of a parameter: its kind, the value and a sentence."""
    shown = value[:200] if isinstance(value, str) else value
    return invalid(message, _validation(kind, shown, message))


def _validation(kind: str, value: object, message: str) -> Body:
    content = {
        "status": "failed",
        "message-type": "validation-failure",
        "message": [{"type": kind, "value": value, "message": message}],
    }
    return Body(orjson.dumps(content), status=400)


def error(status: int, message: str) -> Body:
    """Any other error: text, as the original's; of an invalid request, JSON."""
    if status == 400:
        return _validation("request-not-valid", None, message)
    if status == 404:
        return Body(NOT_FOUND, "text/plain", 404)
    return Body(message.encode(), "text/plain", status)
