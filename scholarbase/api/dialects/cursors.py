"""Cursors: opaque texts for places in a list, which does not change."""

from __future__ import annotations

import base64
import binascii

import orjson


def cursor_at(offset: int) -> str:
    """The cursor of the results after the first ``offset``, in characters that a URL may have."""
    return base64.urlsafe_b64encode(orjson.dumps([offset])).decode()


def offset_of(cursor: str) -> int | None:
    """The offset of a cursor, 0 for ``*``; None for another text."""
    if cursor == "*":
        return 0
    try:
        content = orjson.loads(base64.b64decode(cursor.encode(), b"-_", validate=True))
    except (UnicodeEncodeError, binascii.Error, orjson.JSONDecodeError):
        return None
    is_ours = isinstance(content, list) and len(content) == 1 and type(content[0]) is int and content[0] >= 0
    return content[0] if is_ours else None
