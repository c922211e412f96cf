"""Routes of extensions, which are loaded with the first request that no route of the core matches."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

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
    """The last route of an application. It never matches, but adds the routes of extensions behind itself, so that the
    router tries them for the same request.

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
        if alone is None:
            routes.append(self)
        else:
            dialect = dialect_named(alone)
            self._add_dialect(dialect.alone, dialect)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        self.load()
        return Match.NONE, {}

    def load(self) -> None:
        """Add the routes of extensions, once. Those that cannot be added are named in the log."""
        if self._is_loaded:
            return
        self._is_loaded = True
        self._routes.extend(added_list("routes"))
        for name, dialect in added_names("dialects").items():
            try:
                self._add_dialect(dialect.prefix, dialect)
            except FAILURES:
                log.exception("The dialect %s of an extension cannot be served.", name)

    def _add_dialect(self, prefix: str, dialect: ServedDialect) -> None:
        self._routes.append(dialect.route(prefix))
        self._dialects[prefix] = dialect

    def dialect_at(self, path: str) -> ServedDialect | None:
        """The dialect that a path belongs to."""
        if not path.startswith(NATIVE):
            self.load()
        for prefix, dialect in self._dialects.items():
            if is_below(path, prefix):
                return dialect
        return None
