"""The library and the server's state: ``/v1/snapshot``, ``/healthz``, ``/readyz``, ``/metrics``."""

from __future__ import annotations

from typing import Any

from anyio import to_thread
from fastapi import Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from scholarbase.api.holding import Libraries
from scholarbase.api.openapi import Health, Problem, Readiness, SnapshotResponse, SnapshotsResponse
from scholarbase.api.problems import problem
from scholarbase.api.responding import json_response
from scholarbase.api.routes import OpenLibrary, resource

router = resource("", "about")
NOT_READY: Any = {503: {"model": Problem, "description": "A part of the library does not work."}}


@router.get(
    "/v1/snapshot",
    response_model=None,
    responses={200: {"model": SnapshotResponse}},
    summary="The library",
)
async def snapshot(library: OpenLibrary) -> Response:
    """The snapshot id, the settings that decide rankings, the rerankers, and the manifest: sources, rules, counts,
    encoder and index parameters."""
    return json_response(library.snapshot())


@router.get(
    "/v1/snapshots",
    response_model=None,
    responses={200: {"model": SnapshotsResponse}},
    summary="The snapshots that requests may name",
)
async def snapshots(request: Request) -> Response:
    """The libraries that the server has open, the one that answers other requests first. `--keep` says how many."""
    libraries: Libraries = request.app.state.libraries
    return json_response({"results": libraries.described()})


@router.get("/healthz", response_model=None, responses={200: {"model": Health}}, summary="Liveness")
async def health() -> Response:
    """200 while the process is running."""
    return json_response({"status": "ok"})


@router.get(
    "/readyz", response_model=None, responses={**NOT_READY, 200: {"model": Readiness}}, summary="Readiness"
)
async def ready(request: Request, library: OpenLibrary) -> Response:
    """200 if the catalogue, the vectors and the encoder work; 503 names the parts that fail. While a check takes long,
    the result of the last one holds for ten seconds."""
    state = await request.app.state.readiness.state()
    failed = [f"{name}: {what}" for name, what in state.items() if what not in ("ok", "absent")]
    if failed:
        return problem(503, "not-ready", "Not ready", "; ".join(failed))
    return json_response({"status": "ready", "snapshot": library.snapshot_id, **state})


@router.get(
    "/metrics",
    response_model=None,
    responses={200: {"content": {CONTENT_TYPE_LATEST.partition(";")[0]: {"schema": {"type": "string"}}}}},
    response_class=Response,
    summary="Prometheus metrics",
)
async def metrics(request: Request) -> Response:
    """The number and duration of requests by route, over all workers."""
    # In a thread of its own, so that it does not wait for requests.
    state = request.app.state
    content = await to_thread.run_sync(generate_latest, state.metrics, limiter=state.reporting)
    return Response(content, media_type=CONTENT_TYPE_LATEST)
