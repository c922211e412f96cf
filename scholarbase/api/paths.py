"""Paths with rules of their own, and the route of an ASGI application."""

from __future__ import annotations

from typing import Final

from starlette.routing import Match, Route
from starlette.types import Scope

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
DOCUMENTATION: Final = frozenset({"/docs", "/redoc", "/openapi.json"})
"""The interactive pages. Their forms send the key that the user enters there."""
EXPLORER: Final = "/"
"""The page for people, which asks for the key that its requests send."""
EXPLORER_FILES: Final = "/explorer/"
STATIC: Final = ("/static-offline-docs/", EXPLORER_FILES)
"""The prefixes of the scripts of these pages."""
OPEN_PATHS: Final = HEALTH_PATHS | DOCUMENTATION | {EXPLORER}
"""Paths that need no key and have no limit."""
ADMIN_PATHS: Final = ("/metrics", "/v1/admin/")
"""Prefixes of the paths that need an admin key. A route also matches its path with a line break appended."""
NATIVE: Final = ("/v1/", "/healthz", "/readyz", "/metrics")
"""Prefixes of paths whose responses are not stored unless their route says so."""


TOOLS_PATH: Final = "/mcp"


class AppRoute(Route):
    """A route that metrics and traces name by its path, as those of FastAPI, which sets ``route`` for its own alone."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child_scope = super().matches(scope)
        return match, {**child_scope, "route": self}


def is_about_library(path: str) -> bool:
    """Whether a path is about a library, not about the server."""
    return path not in OPEN_PATHS and not path.startswith((*ADMIN_PATHS, *STATIC))


def is_below(path: str, prefix: str) -> bool:
    """Whether a path is a prefix, without a slash at its end, or below it."""
    return path == prefix or path.startswith(prefix + "/")
