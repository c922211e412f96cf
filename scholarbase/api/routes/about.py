"""What is served, and whether it works: ``/v1/snapshot``, ``/healthz``, ``/readyz``, ``/metrics``."""

from __future__ import annotations

from fastapi import Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from scholarbase.api.openapi import Problem, SnapshotResponse
from scholarbase.api.problems import problem
from scholarbase.api.responding import json_response
from scholarbase.api.routes import OpenLibrary, resource

router = resource("", "about")


@router.get(
    "/v1/snapshot",
    response_model=None,
    responses={200: {"model": SnapshotResponse}},
    summary="What is served",
)
async def snapshot(library: OpenLibrary) -> Response:
    """The snapshot id, the settings that decide rankings, and the library's manifest: sources, rules, counts,
    encoder, index parameters."""
    return json_response(library.snapshot())


@router.get("/healthz", response_model=None, summary="Is the process alive?")
async def health() -> Response:
    """200 as long as the process answers."""
    return json_response({"status": "ok"})


@router.get("/readyz", response_model=None, responses={503: {"model": Problem}}, summary="Can it search?")
def ready(library: OpenLibrary) -> Response:
    """200 when the library is open, the encoder loaded and the vectors reachable; 503 says what is not."""
    state = library.ready()
    broken = [f"{name}: {what}" for name, what in state.items() if what not in ("ok", "absent")]
    if broken:
        return problem(503, "not-ready", "Not ready", "; ".join(broken))
    return json_response({"status": "ready", "snapshot": library.snapshot_id, **state})


@router.get("/metrics", response_model=None, summary="Prometheus metrics")
def metrics(request: Request) -> Response:
    """Requests and their times, by route, of all serving processes."""
    return Response(generate_latest(request.app.state.scraped), media_type=CONTENT_TYPE_LATEST)
