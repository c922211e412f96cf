"""The library and the server's state: ``/v1/snapshot``, ``/healthz``, ``/readyz``, ``/metrics``."""

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
    summary="The library",
)
async def snapshot(library: OpenLibrary) -> Response:
    """The snapshot id, the settings that decide rankings, and the manifest: sources, rules, counts, encoder and index
    parameters."""
    return json_response(library.snapshot())


@router.get("/healthz", response_model=None, summary="Liveness")
async def health() -> Response:
    """200 while the process is running."""
    return json_response({"status": "ok"})


@router.get("/readyz", response_model=None, responses={503: {"model": Problem}}, summary="Readiness")
def ready(library: OpenLibrary) -> Response:
    """200 if the catalogue, the vectors and the encoder work; 503 names the parts that fail."""
    state = library.ready()
    failed = [f"{name}: {what}" for name, what in state.items() if what not in ("ok", "absent")]
    if failed:
        return problem(503, "not-ready", "Not ready", "; ".join(failed))
    return json_response({"status": "ready", "snapshot": library.snapshot_id, **state})


@router.get("/metrics", response_model=None, summary="Prometheus metrics")
def metrics(request: Request) -> Response:
    """The number and duration of requests by route, over all workers."""
    return Response(generate_latest(request.app.state.metrics), media_type=CONTENT_TYPE_LATEST)
