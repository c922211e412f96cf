"""The server: one process, or several workers that share a socket, the page cache and one query encoder."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from scholarbase import logs
from scholarbase.api.access.guard import check_access
from scholarbase.api.access.rates import FILE_NAME, make_file
from scholarbase.api.app import create_app
from scholarbase.api.protocol import HttpProtocol
from scholarbase.encoders.service import serve_encoder
from scholarbase.errors import AddressError, EncoderError, LibraryError, ScholarBaseError
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.search.library import Library
from scholarbase.search.opening import encoder_location
from scholarbase.settings import Settings

log = logging.getLogger("scholarbase.api")

SWITCH_SECONDS = 0.0005
"""The interpreter's switch interval. Python's default of 5 ms is as long as a search, and a call in a thread can wait
that long for each row from SQLite."""
ENCODER_START_SECONDS = 600
"""Loading a large model from a slow disk takes minutes."""


def serve(path: Path, settings: Settings) -> None:
    """Serve the library at ``path`` until SIGTERM or SIGINT.

    Several workers share one query encoder, which runs in its own process.

    Raises:
        LibraryError, EncoderError, VectorIndexError: the library cannot be served.
        InvalidRequest: the settings are unsafe or allow no requests (:func:`check_access`).
        AddressError: the port is in use, or the address does not belong to this machine.
    """
    check_access(settings)
    manifest, _ = read_manifest(path)
    listener = _listen(settings.host, settings.port)
    # uvicorn raises the signal again after its shutdown; the default handler would skip the cleanup below.
    before = signal.signal(signal.SIGTERM, _stop)
    # A terminal that closes does not stop a server. With several workers, SIGHUP restarts them.
    on_hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        if settings.workers == 1:
            _serve_alone(path, settings, listener)
        else:
            _serve_together(path, manifest, settings, listener)
    except (KeyboardInterrupt, _Stopped):
        log.info("Stopped.")
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, on_hangup)
        listener.close()


class _Stopped(BaseException):
    """The process received SIGTERM."""


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _Stopped


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise AddressError(
            f"{host!r} is not an address of this machine ({error.strerror}): use another --host."
        ) from error
    # With the protocol given as TCP, asyncio sets TCP_NODELAY. Otherwise every response waits some 40 ms for the
    # acknowledgement of its first segment.
    listener = socket.socket(found[0][0], socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(found[0][4])
        # Listen now, so that a second server fails at once.
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressError(
                f"Port {port} on {host} is in use: stop the other process, or use another --port (0 picks a free one)."
            ) from error
        raise AddressError(
            f"Cannot listen on {host} port {port}: {error.strerror}. Use another --host or --port."
        ) from error
    listener.set_inheritable(True)
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _announce(path: Path, library: Library, listener: socket.socket, workers: int) -> None:
    log.info(
        "Serving %s (snapshot %s, %s papers, %s) at %s with %d process%s. Try the API at %s/docs.",
        path,
        library.snapshot_id,
        f"{library.manifest.counts['papers']:,}",
        library.best_mode,
        _url(listener),
        workers,
        "" if workers == 1 else "es",
        _url(listener),
    )


def _config(app: FastAPI | Callable[[], FastAPI], settings: Settings, *, workers: int = 1) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        factory=not isinstance(app, FastAPI),
        workers=workers,
        http=HttpProtocol,
        access_log=False,
        log_config=None,
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        timeout_graceful_shutdown=10,
    )


def _serve_alone(path: Path, settings: Settings, listener: socket.socket) -> None:
    with Library.open(path, settings=settings) as library:
        _announce(path, library, listener, 1)
        sys.setswitchinterval(SWITCH_SECONDS)
        app = create_app(library, on_close=library.close, settings=settings)
        uvicorn.Server(_config(app, settings)).run(sockets=[listener])


def _serve_together(path: Path, manifest: Manifest, settings: Settings, listener: socket.socket) -> None:
    runtime = Path(tempfile.mkdtemp(prefix="scholarbase-", dir=settings.runtime_dir))
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(runtime)
    make_file(runtime / FILE_NAME)
    try:
        with _shared_encoder(path, manifest, settings, runtime / "encoder.sock") as encoder:
            # Open the library here first, so that an error is logged once and not by every worker.
            with Library.open(path, encoder=encoder, settings=settings) as library:
                _announce(path, library, listener, settings.workers)
            # A function with the settings, not the environment: workers have exactly the caller's settings.
            of_workers = settings.model_copy(update={"library": path, "encoder": encoder})
            config = _config(partial(worker_app, of_workers), settings, workers=settings.workers)
            supervisor = _Supervisor(config, sockets=[listener])
            supervisor.run()
            if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
                raise LibraryError("A worker could not start, so the server stopped: see the message above.")
    finally:
        shutil.rmtree(runtime, ignore_errors=True)


class _Supervisor(Multiprocess):
    """Logs the workers that ended and were replaced."""

    def keep_subprocess_alive(self) -> None:
        before = list(self.processes)
        super().keep_subprocess_alive()
        for old, new in zip(before, self.processes, strict=False):
            if new is not old:
                log.warning("Worker %s ended with status %s: %s replaces it.", old.pid, old.exitcode, new.pid)


def worker_app(settings: Settings) -> FastAPI:
    """The application of one worker process."""
    logs.configure(settings.log_level)
    _end_with_parent()
    sys.setswitchinterval(SWITCH_SECONDS)
    assert settings.library is not None
    try:
        library = Library.open(settings.library, settings=settings)
    except ScholarBaseError as error:
        log.error("A worker cannot start: %s", error)
        sys.exit(STARTUP_FAILURE)  # with which the supervisor stops too
    return create_app(library, on_close=library.close, settings=settings)


@contextmanager
def _shared_encoder(path: Path, manifest: Manifest, settings: Settings, at: Path) -> Iterator[str]:
    """Run one process with the model and restart it if it dies. Yields its address, or ``none`` without an encoder."""
    name = encoder_location(path, manifest, settings)
    if name is None or name.startswith(("http://", "https://", "unix:")):
        yield name or "none"
        return
    stop = threading.Event()
    first = _start_encoder(name, settings, at)
    keeper = threading.Thread(target=_keep_encoder, args=(first, name, settings, at, stop), daemon=True)
    try:
        _wait_for(at, first, name)
        keeper.start()
        yield f"unix:{at}"
    finally:
        stop.set()
        if keeper.is_alive():
            keeper.join()
        elif first.is_alive():
            first.terminate()
            first.join()


def _start_encoder(name: str, settings: Settings, at: Path) -> multiprocessing.process.BaseProcess:
    key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
    process = multiprocessing.get_context("spawn").Process(
        target=_encoder_process,
        args=(settings.log_level, name),
        kwargs={"uds": str(at), "device": settings.device, "api_key": key},
        daemon=True,
    )
    process.start()
    return process


def _end_with_parent() -> None:
    """Stop this process when its parent has died."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _encoder_process(level: str, name: str, **options: Any) -> None:
    logs.configure(level)
    _end_with_parent()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        serve_encoder(name, **options)
    except ScholarBaseError as error:
        log.error("%s", error)
        sys.exit(error.exit_code)


def _wait_for(at: Path, process: multiprocessing.process.BaseProcess, name: str) -> None:
    deadline = time.monotonic() + ENCODER_START_SECONDS
    while time.monotonic() < deadline and process.is_alive():
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(at))
            return
        time.sleep(0.1)
    raise EncoderError(f"The process of the encoder {name} did not start: see its messages above.")


def _keep_encoder(
    process: multiprocessing.process.BaseProcess,
    name: str,
    settings: Settings,
    at: Path,
    stop: threading.Event,
) -> None:
    while not stop.wait(1.0):
        if not process.is_alive():
            log.error("The encoder process exited with status %s: restarting it.", process.exitcode)
            process = _start_encoder(name, settings, at)
    process.terminate()
    process.join()
