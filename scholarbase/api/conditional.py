"""Conditional requests: entity tags of native GET responses (RFC 9110, sections 8.8.3 and 13.1.2).

A response is a function of the URL, the snapshot, the server's settings for rankings and the release. The tag is a
hash of these, so it is known without running the request. Tags are weak: the body may be compressed. They contain the
URL, so that a tag is valid only for a URL that was answered with 200.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import orjson
from starlette.responses import Response
from starlette.types import Scope

from scholarbase import __version__
from scholarbase.search.library import Library

NO_STORE: Final = b"no-store"
"""``Cache-Control`` of responses that must not be stored: of sessions, of errors, and about the server's state."""
SHARED: Final = "no-cache"
"""``Cache-Control`` of responses with a tag: any cache may store them, and asks the server before each use."""
PRIVATE: Final = "private, no-cache"
"""The same on a server with keys."""
_SEED_BYTES: Final = 16


def seed_of(library: Library) -> bytes:
    """A hash of what all responses of a library depend on: its snapshot, the settings and the release."""
    about = library.snapshot()
    facts = [about["snapshot"], about["ranking"], about["rerankers"], library.modes, __version__]
    return blake2b(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS), digest_size=_SEED_BYTES).digest()


def is_current(tag: bytes, scope: Scope) -> bool:
    """Whether the client has the response with this tag. ``*`` is not compared: it would match errors too."""
    for name, value in scope["headers"]:
        if name == b"if-none-match" and tag[2:] in value:
            return any(one.strip().removeprefix(b"W/") == tag[2:] for one in value.split(b","))
    return False


def not_modified(tag: bytes, cache: str) -> Response:
    """The response to a client that has the current one."""
    return Response(status_code=304, headers={"ETag": tag.decode(), "Cache-Control": cache})
