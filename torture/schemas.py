"""Hooks of schemathesis: headers that are valid together.

A parent and a round need a session. Without this, most requests are refused for that reason, and nothing else of them
is tested.
"""

from __future__ import annotations

from typing import Any

import schemathesis

_OF_SESSIONS = ("x-scholarbase-parent", "x-scholarbase-round")


@schemathesis.hook
def map_headers(context: schemathesis.HookContext, headers: Any) -> Any:
    if headers and "X-ScholarBase-Session" not in headers:
        return {name: value for name, value in headers.items() if name.lower() not in _OF_SESSIONS}
    return headers
