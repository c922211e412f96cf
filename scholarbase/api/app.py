"""The application: routes and middleware around a library."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from scholarbase import __version__
from scholarbase.api import explorer, openapi, problems
from scholarbase.api.access import guard
from scholarbase.api.access.keys import state_of_keys
from scholarbase.api.admission import Admission
from scholarbase.api.extension_routes import ExtensionRoutes
from scholarbase.api.gauges import ServerGauges
from scholarbase.api.holding import Holding, Libraries
from scholarbase.api.middleware import Requests
from scholarbase.api.paths import TOOLS_PATH, AppRoute
from scholarbase.api.responding import COMPRESSION
from scholarbase.api.response_cache import ResponseCache
from scholarbase.api.routes import about, authors, documents, papers, search
from scholarbase.api.routes import sessions as session_routes
from scholarbase.api.routes import tools as tool_routes
from scholarbase.api.tracing import Tracer
from scholarbase.errors import MissingExtra
from scholarbase.extensions import check_choice
from scholarbase.extras import is_installed, missing
from scholarbase.search.library import Library
from scholarbase.sessions.session import Quotas
from scholarbase.sessions.store import SessionStore
from scholarbase.settings import Settings, load_settings

DESCRIPTION = """
A local, reproducible scholarly search server. Every response names its `snapshot`: the same request on the same
snapshot returns the same bytes. Paper ids may have any form: `arXiv:2309.06180`, `DOI:...`, `CorpusId:...`, a link.
Errors are problem documents (RFC 9457); an empty list means that nothing matched.
"""

_PACKET: Final = 1_460
"""Bytes that one packet has room for; a smaller response is not compressed."""


def create_app(
    served: Library | Libraries,
    *,
    on_start: Callable[[], None] = lambda: None,
    on_close: Callable[[], None] = lambda: None,
    settings: Settings | None = None,
    reload: Callable[[], Mapping[str, Any]] | None = None,
) -> FastAPI:
    """The application that serves a library, or those that a process has open.

    Args:
        on_start: called before the first request.
        on_close: called on shutdown.
        settings: access, limits and the sessions folder; by default from the environment.
        reload: serves the newest library, and returns what it did.

    Raises:
        InvalidRequest: SCHOLARBASE_EXTENSIONS names an extension that is not installed, or the settings name others.
    """
    settings = settings or load_settings()
    check_choice(settings)
    tracer = Tracer() if settings.tracing else None
    libraries = served if isinstance(served, Libraries) else Libraries(served)
    location = settings.sessions_location
    sessions = (
        None
        if location is None
        else SessionStore(location, keep_days=settings.session_days or None, quotas=Quotas.of(settings))
    )

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(mcp_running)
            app.state.admission.start()
            await app.state.responses.start()
            on_start()
            yield
        for part in (app.state.admission, app.state.responses, app.state.readiness):
            part.close()
        on_close()
        if sessions is not None:
            sessions.close()
        if tracer is not None:
            tracer.close()

    # The interactive pages include their scripts, because servers often have no internet access.
    app: FastAPI = FastAPIOffline(
        title="ScholarBase",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        redirect_slashes=False,
        telemetry={
            "tracing": False,
            "metrics": False,
            "logs": False,
        },  # :mod:`.tracing` and :mod:`.middleware` have ours
        openapi_tags=[
            {"name": name}
            for name in ("search", "titles", "papers", "full texts", "tools", "sessions", "about", "admin")
        ],
    )
    registry = CollectorRegistry()
    app.state.reload = reload
    app.state.settings = settings
    app.state.has_keys = settings.keys is not None
    # Of responses with an entity tag: a cache may store them, and asks the server before each use.
    app.state.cache_control = "private, no-cache" if settings.keys is not None else "no-cache"
    app.state.sessions, app.state.libraries = sessions, libraries
    app.state.admission, app.state.responses = Admission(settings), ResponseCache(settings, registry)
    app.state.readiness = about.ReadinessChecks(partial(_ready, libraries, settings))
    # Threads that are not shared with requests.
    app.state.parsing, app.state.reporting = CapacityLimiter(1), CapacityLimiter(1)
    app.state.compressing = CapacityLimiter(2)
    app.state.reloading = CapacityLimiter(4)
    # Alone, a dialect has the routes of its original, and the server only those about itself.
    alone = settings.dialect
    mcp_running: AbstractAsyncContextManager[None] = nullcontext()
    if not alone:
        mcp, mcp_running = _mcp(app)
        of_sets = TOOLS_PATH + "/{set}"
        for path in (TOOLS_PATH, TOOLS_PATH + "/", of_sets, of_sets + "/"):
            app.router.routes.append(AppRoute(path, mcp, include_in_schema=False))
        app.router.routes += explorer.routes()
    app.state.gauges = ServerGauges(libraries, app.state.admission, sessions, registry)
    app.state.metrics = _metrics(registry, app.state.gauges)
    openapi_json = AppRoute("/openapi.json", _openapi, include_in_schema=False)
    app.router.routes[:0] = [*_routes(alone=bool(alone)), openapi_json]
    app.state.extension_routes = ExtensionRoutes(app.router.routes, alone)
    problems.install(app)
    app.openapi = lambda: openapi.document(app)  # type: ignore[method-assign]
    # A request passes these from the last to the first: limits, access, compression, the library that serves it.
    app.add_middleware(Holding, libraries=libraries)
    app.add_middleware(GZipMiddleware, minimum_size=_PACKET, compresslevel=COMPRESSION)
    guard.install(app, settings)
    app.add_middleware(Requests, libraries=libraries, registry=registry, settings=settings, tracer=tracer)
    return app


def _ready(libraries: Libraries, settings: Settings) -> Mapping[str, str]:
    """The state of each part that requests need."""
    if settings.keys is None:
        return libraries.ready()
    return {**libraries.ready(), "keys": state_of_keys(settings.keys)}


def _routes(*, alone: bool) -> list[BaseRoute]:
    """The routes of the native API; with a dialect ``alone``, those about the server."""
    # They are matched in order: the fastest first, the documentation last. include_router would match each path twice,
    # which took an eighth of a look-up.
    native = (documents, papers, search, authors, tool_routes, session_routes)
    routers = [] if alone else [*(module.router for module in native), about.admin]
    return [route for router in (*routers, about.router) for route in router.routes]


async def _openapi(request: Request) -> JSONResponse:
    """The OpenAPI document, made in a thread: it imports the routes of extensions, which takes tenths of a second."""
    return JSONResponse(await to_thread.run_sync(request.app.openapi, limiter=request.app.state.reporting))


def _mcp(app: FastAPI) -> tuple[ASGIApp, AbstractAsyncContextManager[None]]:
    """The application of ``/mcp`` and the paths below it, and the context in which it runs."""
    if not is_installed("mcp"):
        error = missing("mcp", "mcp", "The Model Context Protocol")
        return problems.tools_error(MissingExtra(f"{error} Then restart the server.")), nullcontext()
    from scholarbase.api.mcp import McpApp

    tools = McpApp(app.state)
    return tools, tools.run()


def _metrics(registry: CollectorRegistry, gauges: ServerGauges) -> CollectorRegistry:
    """The registry of this process, or the registry of all workers."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    registry.register(gauges)
    return registry
