"""Cursors: opaque texts for places in a list. A snapshot's lists do not change."""

from __future__ import annotations

import base64
import binascii

import orjson


def cursor_at(offset: int, snapshot: str) -> str:
    """The cursor of the results after the first ``offset``, in characters that a URL may have."""
    return base64.urlsafe_b64encode(orjson.dumps([offset, snapshot])).decode()


def offset_of(cursor: str, snapshot: str) -> int | None:
    """The offset of a cursor, 0 for ``*``; None for a cursor of another snapshot, and for another text."""
    if cursor == "*":
        return 0
    try:
        content = orjson.loads(base64.b64decode(cursor.encode(), b"-_", validate=True))
    except (UnicodeEncodeError, binascii.Error, orjson.JSONDecodeError):
        return None
    if not isinstance(content, list) or len(content) != 2 or content[1] != snapshot:
        return None
    return content[0] if type(content[0]) is int and content[0] >= 0 else None
