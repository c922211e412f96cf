"""The process of the query encoder that several workers share."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from scholarbase import logs
from scholarbase.api.runtime import Runtime
from scholarbase.encoders.service import serve_encoder
from scholarbase.errors import EncoderError
from scholarbase.manifest import Manifest
from scholarbase.models.encoders import STATIC
from scholarbase.search.opening import encoder_location
from scholarbase.settings import Settings
from scholarbase.workers import Send, Worker, WorkerEnded, work

log = logging.getLogger("scholarbase.api")

START_SECONDS: Final = 600
"""Loading a large model from a slow disk takes minutes."""


@contextmanager
def shared_encoder(
    path: Path, manifest: Manifest, settings: Settings, runtime: Runtime
) -> Iterator[str | None]:
    """Run one process with the model if several workers need it, and restart it if it dies.

    A static encoder has no process: each worker opens it, since a request to another process takes ten times as long as
    it takes to encode a query.

    Yields:
        where the workers find the encoder: its location, or a socket in the folder of ``runtime``; None without an
        encoder.
    """
    at = runtime.path / "encoder.sock"
    name = encoder_location(path, manifest, settings)
    is_static = manifest.encoder is not None and manifest.encoder.for_queries.kind == STATIC
    is_service = name is not None and name.startswith(("http://", "https://", "unix:"))
    if name is None or is_static or is_service or settings.workers == 1:
        yield name
        return
    key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
    job = {
        "level": settings.log_level,
        "name": name,
        "uds": str(at),
        "device": settings.device,
        "api_key": key,
    }
    start = partial(Worker, __name__, job)
    worker = start()
    stop = threading.Event()
    keeper = threading.Thread(target=_keep, args=(worker, start, stop, runtime), daemon=True)
    try:
        try:
            worker.receive(START_SECONDS)
        except (TimeoutError, WorkerEnded) as error:
            raise EncoderError(
                f"The process of the encoder {name} did not start: see its messages above."
            ) from error
        keeper.start()
        yield f"unix:{at}"
    finally:
        stop.set()
        if keeper.is_alive():
            keeper.join()
        else:
            worker.close()


def _keep(worker: Worker, start: partial[Worker], stop: threading.Event, runtime: Runtime) -> None:
    while not stop.wait(1.0):
        if worker.status is not None and not runtime.is_stopping:
            log.error("The encoder process exited with status %s: restarting it.", worker.status)
            worker.close()
            worker = start()
    worker.close()


def _serve(job: dict[str, Any], send: Send) -> None:
    logs.configure(job.pop("level"))
    serve_encoder(**job, ready=partial(send, "ready"))


if __name__ == "__main__":
    work(_serve)
