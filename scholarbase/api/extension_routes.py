"""Routes of extensions, loaded with the first request that no route of the core matches."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from anyio import to_thread
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from scholarbase.api.paths import NATIVE, is_below
from scholarbase.errors import InvalidRequest, ScholarBaseError
from scholarbase.extensions import FAILURES, added_list, added_names

log = logging.getLogger("scholarbase.api")


class ServedDialect(NamedTuple):
    """The interface of another service, as an extension adds it.

    Args:
        prefix: the path below which it is served beside the native API.
        alone: the path below which it is served alone; empty for the root.
        route: the one route of all its paths, below a prefix.
        rejection: the response to a request that does not reach the route, in the original's form.
    """

    prefix: str
    alone: str
    route: Callable[[str], BaseRoute]
    rejection: Callable[[ScholarBaseError], Response]


def dialect_named(name: str) -> ServedDialect:
    """The dialect of an installed extension. Raises InvalidRequest: there is none with this name."""
    dialects = added_names("dialects")
    if name not in dialects:
        valid = ", ".join(dialects) or "none"
        raise InvalidRequest(f"{name!r} is not a valid dialect: the installed dialects are {valid}.")
    dialect: ServedDialect = dialects[name]
    return dialect


class ExtensionRoutes(BaseRoute):
    """The last route of an application. The first request that reaches it adds the routes of extensions after it, in a
    thread, since importing them takes tenths of a second, and the router tries again. It matches nothing afterwards.

    Args:
        routes: the list of the application's router.
        alone: the dialect that is served alone, without other routes of extensions.

    Raises:
        InvalidRequest: there is no such dialect.
    """

    def __init__(self, routes: list[BaseRoute], alone: str | None = None) -> None:
        self._routes = routes
        self._dialects: dict[str, ServedDialect] = {}
        self._is_loaded = alone is not None
        self._lock = threading.Lock()
        if alone is None:
            routes.append(self)
        else:
            dialect = dialect_named(alone)
            self._add_dialect(dialect.alone, dialect)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.NONE if self._is_loaded else Match.FULL), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await to_thread.run_sync(self.load)
        await scope["app"].router(scope, receive, send)

    def load(self) -> None:
        """Add the routes of extensions, once. Those that cannot be added are named in the log. Thread-safe."""
        with self._lock:
            if self._is_loaded:
                return
            self._routes.extend(added_list("routes"))
            for name, dialect in added_names("dialects").items():
                try:
                    self._add_dialect(dialect.prefix, dialect)
                except FAILURES:
                    log.exception("The dialect %s of an extension cannot be served.", name)
            self._is_loaded = True

    def _add_dialect(self, prefix: str, dialect: ServedDialect) -> None:
        self._routes.append(dialect.route(prefix))
        self._dialects[prefix] = dialect

    async def dialect_at(self, path: str) -> ServedDialect | None:
        """The dialect that a path belongs to."""
        if not self._is_loaded and not path.startswith(NATIVE):
            await to_thread.run_sync(self.load)
        return next((dialect for prefix, dialect in self._dialects.items() if is_below(path, prefix)), None)
