"""``scholarbase serve`` with additional routes of constant responses, from the files of ``BENCHMARK_CONSTANTS``.

The file ``citations`` in that folder is the response of ``/constant/citations``. Application, middleware, processes and
settings are those of the real server: the cost of a call beyond its constant is that of the library.

    BENCHMARK_CONSTANTS=folder python -m benchmarks.constant serve --library papers
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from starlette.responses import Response

from scholarbase.api import worker
from scholarbase.api.app import create_app as _create_app
from scholarbase.cli import main

FOLDER: Final = "BENCHMARK_CONSTANTS"
PREFIX: Final = "/constant/"


def create_app(*arguments: Any, **options: Any) -> FastAPI:
    """The application, with a route for each constant before all others."""
    app = _create_app(*arguments, **options)
    others = list(app.router.routes)
    for file in sorted(Path(os.environ[FOLDER]).iterdir()):
        app.add_api_route(f"{PREFIX}{file.name}", _constant(file.read_bytes()), response_model=None)
    app.router.routes[:] = [*app.router.routes[len(others) :], *others]
    return app


def _constant(body: bytes) -> Callable[[], object]:
    # On the event loop, which is fastest.
    async def constant() -> Response:
        return Response(body, media_type="application/json")

    return constant


worker.create_app = create_app  # type: ignore[attr-defined]  # imported there, and not exported

if __name__ == "__main__":
    main()
