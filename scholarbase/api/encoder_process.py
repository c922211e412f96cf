"""The process of the query encoder that several workers share."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from scholarbase import logs
from scholarbase.api.runtime import Runtime
from scholarbase.encoders.service import serve_encoder
from scholarbase.errors import EncoderError, ScholarBaseError
from scholarbase.manifest import Manifest
from scholarbase.models.encoders import STATIC
from scholarbase.search.opening import encoder_location
from scholarbase.settings import Settings
from scholarbase.workers import end_with

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
    stop = threading.Event()
    first = _start(name, settings, at)
    keeper = threading.Thread(target=_keep, args=(first, name, settings, at, stop, runtime), daemon=True)
    try:
        _wait_for(at, first, name)
        keeper.start()
        yield f"unix:{at}"
    finally:
        stop.set()
        if keeper.is_alive():
            keeper.join()
        else:
            _stop(first)


def _start(name: str, settings: Settings, at: Path) -> BaseProcess:
    key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
    process = multiprocessing.get_context("spawn").Process(
        target=_run,
        args=(os.getpid(), settings.log_level, name),
        kwargs={"uds": str(at), "device": settings.device, "api_key": key, "queries_only": True},
        daemon=True,
    )
    process.start()
    return process


def _run(parent: int, level: str, name: str, **options: Any) -> None:
    for number in (signal.SIGHUP, signal.SIGINT):  # which a terminal sends to all processes
        signal.signal(number, signal.SIG_IGN)
    logs.configure(level)
    end_with(parent)
    try:
        serve_encoder(name, **options)
    except ScholarBaseError as error:
        log.error("%s", error)
        sys.exit(error.exit_code)


def _wait_for(at: Path, process: BaseProcess, name: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.is_alive():
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(at))
            return
        time.sleep(0.1)
    raise EncoderError(f"The process of the encoder {name} did not start: see its messages above.")


def _keep(
    process: BaseProcess, name: str, settings: Settings, at: Path, stop: threading.Event, runtime: Runtime
) -> None:
    while not stop.wait(1.0):
        if not process.is_alive() and not runtime.is_stopping:
            log.error("The encoder process exited with status %s: restarting it.", process.exitcode)
            process = _start(name, settings, at)
    _stop(process)


def _stop(process: BaseProcess) -> None:
    process.terminate()
    process.join(1)
    if process.is_alive():  # in a model's call, which ends no earlier
        process.kill()
        process.join()
