"""The server of constants: ``scholarbase serve`` whose application also answers files of ``BENCHMARK_CONSTANTS``.

A file ``citations`` in that folder is the answer of ``/constant/citations``. The application, its middleware, its
processes and its settings are those of the real server: what a call costs beyond its constant is the library's part.

    BENCHMARK_CONSTANTS=folder python -m benchmarks.constant serve --library papers
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from scholarbase.api.answers import answer
from starlette.responses import Response

from scholarbase.api import server
from scholarbase.cli import main
from scholarbase.search.library import Library
from scholarbase.settings import Settings

FOLDER: Final = "BENCHMARK_CONSTANTS"
PREFIX: Final = "/constant/"
_create_app = server.create_app


def create_app(
    library: Library, *, on_close: Callable[[], None] | None = None, settings: Settings | None = None
) -> FastAPI:
    """The application, with a route for each constant before all others, so that it is found first."""
    app = _create_app(library, on_close=on_close, settings=settings)
    others = list(app.router.routes)
    for file in sorted(Path(os.environ[FOLDER]).iterdir()):
        app.add_api_route(f"{PREFIX}{file.name}", _constant(file.read_bytes()), response_model=None)
    app.router.routes[:] = [*app.router.routes[len(others) :], *others]
    return app


def _constant(body: bytes) -> Callable[[], object]:
    response = type(answer({}))

    # Answered on the event loop: nothing could be faster.
    async def constant() -> Response:
        return response(body, media_type="application/json")

    return constant


# Not under a condition: processes that serve are spawned, import this module by another name and serve it too.
server.create_app = create_app

if __name__ == "__main__":
    main()
