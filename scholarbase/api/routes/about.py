"""The library and the server's state: ``/v1/snapshot``, ``/healthz``, ``/readyz``, ``/metrics``, ``/v1/admin``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Final, Literal

from anyio import to_thread
from fastapi import Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, Field
from starlette.responses import Response

from scholarbase.api.holding import Libraries
from scholarbase.api.openapi import SNAPSHOT
from scholarbase.api.problems import problem, problem_content
from scholarbase.api.routes import OpenLibrary, cacheable, json_response, problems, resource
from scholarbase.errors import Forbidden, InvalidRequest, SwapFailed
from scholarbase.models.limits import Engine, Fusion, Profile

router = resource("", "about")
admin = resource("/v1/admin", "admin")
NOT_READY: Any = {503: {"content": problem_content(), "description": "A part of the library does not work."}}
FRESH_SECONDS: Final = 1.0
"""How long a result is used without another check."""
VALID_SECONDS: Final = 10.0
"""How long the last result holds while the next check runs. A part that takes longer does not work."""
WAIT_SECONDS: Final = 0.5
"""How long a response waits for a check."""


class ReadinessChecks:
    """Checks the parts of a library in a thread of its own, one check at a time. For one event loop.

    Args:
        check: returns the state of each part, ``ok``, ``absent`` or an error message.
    """

    def __init__(self, check: Callable[[], Mapping[str, str]]) -> None:
        self._check = check
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._running: asyncio.Future[Mapping[str, str]] | None = None
        self._last: Mapping[str, str] = {}
        self._checked = -VALID_SECONDS
        self._started = 0.0

    def close(self) -> None:
        """Shut down the thread, which finishes a check that runs."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def state(self) -> Mapping[str, str]:
        """The state of each part, at most ten seconds old."""
        if monotonic() - self._checked < FRESH_SECONDS:
            return self._last
        if self._running is None:
            self._started = monotonic()
            self._running = asyncio.get_running_loop().run_in_executor(self._thread, self._check)
            self._running.add_done_callback(self._finished)
        check = self._running
        await asyncio.wait((check,), timeout=WAIT_SECONDS)
        if check.done():
            return check.result()
        if monotonic() - self._checked < VALID_SECONDS:
            return self._last
        return {"library": f"its check has taken {monotonic() - self._started:.0f} s and is not finished"}

    def _finished(self, check: asyncio.Future[Mapping[str, str]]) -> None:
        self._running = None
        if not check.cancelled() and check.exception() is None:
            self._last, self._checked = check.result(), monotonic()


class RankingSettings(BaseModel):
    profile: Profile = Field(description="The profile whose settings these are.")
    engine: Engine | None = Field(description="The sparse engine of searches that name none; null by mode.")
    exact: bool = Field(description="Whether all dense searches are without approximation.")
    similarity_floor: bool = Field(
        description="Whether dense results need a cosine above that of random pairs."
    )
    fusion: Fusion = Field(
        description="How hybrid searches fuse their legs: by scores, or by reciprocal rank (rrf)."
    )
    known_items: bool = Field(description="Whether a paper comes first whose id, link or title is the query.")
    rrf_k: int = Field(description="The k of reciprocal rank fusion.")
    fusion_depth: int = Field(description="The number of results of each leg that a hybrid search fuses.")
    fusion_weights: dict[str, float] = Field(description="The configured weight of each leg in the fusion.")
    fts5_title_weight: float = Field(
        description="The FTS5 weight of a word in the title, relative to one in the abstract."
    )


class RerankerModel(BaseModel):
    name: str = Field(description="The model's name, or the address of its service.")
    fingerprint: str | None = Field(description="A hash of the model's files; null for a service.")


class SnapshotResponse(BaseModel):
    snapshot: str = SNAPSHOT
    ranking: RankingSettings = Field(description="The settings that decide rankings, besides the snapshot.")
    rerankers: dict[str, RerankerModel] = Field(description="The rerankers that searches may use, by name.")
    manifest: dict[str, Any] = Field(description="The library's contents and sources.")


class HeldSnapshot(BaseModel):
    snapshot: str = Field(description="The id for the header `X-ScholarBase-Snapshot`.")
    name: str = Field(description="The name of the library's folder.")
    papers: int
    abstracts: int
    citations: int


class SnapshotsResponse(BaseModel):
    results: list[HeldSnapshot] = Field(description="The open libraries, the current one first.")


class Health(BaseModel):
    status: Literal["ok"]


class Readiness(BaseModel):
    status: Literal["ready"]
    snapshot: str = SNAPSHOT
    catalog: str = Field(description="`ok`.")
    vectors: str = Field(description="`ok`.")
    encoder: str = Field(description="`ok`, or `absent` where the library needs none.")


@router.get("/v1/snapshot", response_model=SnapshotResponse, summary="The library")
@cacheable
async def snapshot(library: OpenLibrary) -> Response:
    """The snapshot id, the settings that decide rankings, the rerankers, and the manifest: sources, rules, counts,
    encoder and index parameters."""
    return json_response(library.snapshot())


@router.get("/v1/snapshots", response_model=SnapshotsResponse, summary="The snapshots that requests may name")
async def snapshots(request: Request) -> Response:
    """The libraries that the server has open, the one that answers other requests first. `--keep` says how many."""
    libraries: Libraries = request.app.state.libraries
    return json_response({"results": libraries.described()})


@router.get("/healthz", response_model=Health, summary="Liveness")
async def health() -> Response:
    """200 while the process is running."""
    return json_response({"status": "ok"})


@router.get("/readyz", response_model=Readiness, responses=NOT_READY, summary="Readiness")
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
    state.gauges.set_queue()
    content = await to_thread.run_sync(generate_latest, state.metrics, limiter=state.reporting)
    return Response(content, media_type=CONTENT_TYPE_LATEST)


# -- what an operator does with a running server; scholarbase.api.access.guard checks the key ------------------


class ReloadResponse(BaseModel):
    snapshot: str = Field(description="The snapshot that is served now.")
    previous: str = Field(description="The snapshot that was served before.")
    changed: bool = Field(description="Whether they differ.")
    held: list[str] = Field(description="The snapshots that requests may name, the newest first.")


@admin.post(
    "/reload",
    response_model=ReloadResponse,
    responses=problems(SwapFailed, Forbidden),
    summary="Serve the newest library",
)
async def reload(request: Request) -> Response:
    """Serve the library that the server's `--library` names now: the target of a link, or the newest in a folder. The
    response is sent when every worker serves it. If it cannot be served, the old one is, and the error names the
    reason. A server without keys refuses this: send it SIGHUP, or start it with `--watch`."""
    if await request.body():
        raise InvalidRequest("A reload has no body: the server takes the library that its --library names.")
    state = request.app.state
    if not state.has_keys:
        raise Forbidden(
            "A server without keys has no admin keys: send it SIGHUP, start it with --watch, or create an admin key."
        )
    if state.reload is None:
        raise SwapFailed("This server was not started from a path, so it has no other library to serve.")
    # The swap goes on if the client disconnects.
    return json_response(
        await to_thread.run_sync(state.reload, limiter=state.reloading, abandon_on_cancel=True)
    )
