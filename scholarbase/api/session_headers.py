"""The headers of session calls: reading them, and describing them in the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from starlette.datastructures import Headers
from starlette.types import Scope

from scholarbase.errors import InvalidRequest
from scholarbase.sessions.store import SessionStore

SESSION: Final = "X-ScholarBase-Session"
PARENT: Final = "X-ScholarBase-Parent"
ROUND: Final = "X-ScholarBase-Round"
CALL: Final = "X-ScholarBase-Call"
BUDGET: Final = "X-ScholarBase-Budget"
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
"""https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/"""
MAX_KEY: Final = 256
SESSION_HEADERS: Final = frozenset(name.lower().encode() for name in (SESSION, PARENT, ROUND))


def header_parameter(name: str, what: str, kind: str = "string") -> dict[str, Any]:
    """An optional request header in the OpenAPI document."""
    return {"name": name, "in": "header", "required": False, "description": what, "schema": {"type": kind}}


PARAMETERS: Final = (
    header_parameter(
        SESSION, "Records the call in the session of this name, which opens where there is none."
    ),
    header_parameter(PARENT, "The number of the session's call that this one follows from.", "integer"),
    header_parameter(ROUND, "The agent's turn, which calls made side by side share.", "integer"),
    header_parameter(
        IDEMPOTENCY_KEY, "Identifies a call of a session that may be sent again: it is recorded once."
    ),
)
"""The request headers of a call in the OpenAPI document."""
RESPONSE_HEADERS: Final = {
    CALL: {
        "description": "In a session, the number of the recorded call, or of several.",
        "schema": {"type": "string"},
    },
    BUDGET: {
        "description": "In a session with limits, what they have left, such as `calls=57, tokens=92000`.",
        "schema": {"type": "string"},
    },
}
"""The response headers of a call in the OpenAPI document."""


def store_of(state: Any) -> SessionStore:
    """The server's sessions.

    Raises:
        InvalidRequest: it records none.
    """
    store: SessionStore | None = state.sessions
    if store is None:
        raise InvalidRequest(
            "This server records no sessions: leave the session out, or start it with SCHOLARBASE_SESSIONS set to a "
            "folder or a database."
        )
    return store


def owner_of(scope: Scope) -> str:
    """The id of a request's API key; empty on a server without keys."""
    key = scope.get("scholarbase.key")
    return key.id if key is not None else ""


def check_key(key: Any) -> str | None:
    """Raises InvalidRequest: not a text of 1 to ``MAX_KEY`` characters."""
    if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY):
        raise InvalidRequest(f"{IDEMPOTENCY_KEY} must be a text of 1 to {MAX_KEY} characters.")
    return key


def session_headers(headers: Headers) -> dict[str, str | None]:
    """A request's session, parent, round and idempotency key.

    Raises:
        InvalidRequest: a header is repeated.
    """
    by_name: dict[str, str | None] = {}
    names = (("session", SESSION), ("parent", PARENT), ("round", ROUND), ("key", IDEMPOTENCY_KEY))
    for name, header in names:
        values = headers.getlist(header)
        if len(values) > 1:
            raise InvalidRequest(f"The header {header} occurs {len(values)} times: send it once.")
        by_name[name] = values[0] if values else None
    return by_name
