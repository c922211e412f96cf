"""One worker process of a server: its application, and what it does besides answering."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from fastapi import FastAPI

from scholarbase import logs
from scholarbase.api.app import create_app
from scholarbase.api.gauges import ServerGauges
from scholarbase.api.holding import Libraries
from scholarbase.api.runtime import POLL_SECONDS, STARTING, Runtime, State
from scholarbase.api.swapping import OPEN_SECONDS, Follower, Models, Swaps, open_target
from scholarbase.errors import LibraryCorrupt, LibraryError, ScholarBaseError
from scholarbase.memory import SERVER_COLLECTIONS, limit_arenas
from scholarbase.search.library import Library
from scholarbase.settings import Settings
from scholarbase.workers import end_with

log = logging.getLogger("scholarbase.api")

SWITCH_SECONDS: Final = 0.0005
"""The interpreter's switch interval. Python's default of 5 ms is as long as a search, and a call in a thread can wait
that long for each row from SQLite."""
WATCH_SECONDS: Final = 1.0
"""Between two checks, each of which takes a few microseconds per file."""


def worker_app(
    path: Path, encoder: str | None, settings: Settings, runtime_path: Path, parent: int
) -> FastAPI:
    """The application of this process, with the libraries that the server serves.

    Args:
        path: what the operator named: a library, a link to one, or a folder of libraries.
        encoder: the name, path or URL of the query encoder, if it has one.
        runtime_path: the folder of the server's :class:`Runtime`.
        parent: the id of the server's first process.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that closes sends it to all processes
    logs.configure(settings.log_level)
    exit_on_bus_errors()
    end_with(parent)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*SERVER_COLLECTIONS)
    limit_arenas()
    runtime = Runtime(runtime_path)
    runtime.report(State(STARTING))
    try:
        return _open(path, encoder, settings, runtime)
    except Exception as error:
        if not isinstance(error, ScholarBaseError):
            log.exception("A worker cannot start.")
            error = LibraryError(f"A worker cannot start ({error!r}): see the server's log.")
        _stop_server(runtime, error)
        sys.exit(1)


def _open(path: Path, encoder: str | None, settings: Settings, runtime: Runtime) -> FastAPI:
    models = Models.open(encoder, settings)
    libraries = Libraries(_open_served(models, settings, runtime))
    follower = Follower(libraries, models, settings, runtime)
    follower.follow()
    swaps = Swaps(path, runtime, settings, has_encoder=models.encoder is not None)

    app = create_app(
        libraries,
        on_start=runtime.ready,
        on_close=libraries.close,
        settings=settings,
        reload=lambda: swaps.reload()._asdict(),
    )
    if runtime.response_socket.exists():
        app.state.responses.share(runtime.response_socket)
    app.state.gauges.workers, app.state.gauges.restarts = runtime.workers, lambda: runtime.restarts

    changed = LibraryError("The library was changed, so the server stopped: see the message above.")
    _in_thread("follow", partial(_follow, follower, runtime, app.state.gauges, app.state.admission.stop))
    ended = threading.Event()  # never: the thread ends with the process
    _in_thread(
        "watch-library", partial(watch, libraries.check_files, partial(_stop_server, runtime, changed), ended)
    )
    gc.freeze()  # what lives as long as the process is never searched for cycles
    return app


def _open_served(models: Models, settings: Settings, runtime: Runtime) -> Library:
    """The library that the server serves. If it is one to which the server is changing and cannot be opened, the one to
    which the server goes back.

    Raises:
        ScholarBaseError: it cannot be opened.
    """
    while True:
        served = runtime.served()
        try:
            return open_target(served.current, models, settings)
        except ScholarBaseError as error:
            if served.number == 0:
                raise
            runtime.report(State(served.number, error))
            deadline = time.monotonic() + OPEN_SECONDS
            while runtime.served().number == served.number:
                if runtime.is_stopping or time.monotonic() > deadline:
                    raise
                time.sleep(POLL_SECONDS)


def _follow(follower: Follower, runtime: Runtime, gauges: ServerGauges, stop: Callable[[], None]) -> None:
    """Follow what is served until the server stops."""
    while not runtime.is_stopping:
        try:
            follower.follow()
            gauges.set_queue()
        except OSError as error:  # the folder is gone, or its disk is full
            log.error("A worker cannot follow its server: %s", error)
        time.sleep(POLL_SECONDS)
    stop()


def _stop_server(runtime: Runtime, error: ScholarBaseError) -> None:
    """Stop all processes, with an error."""
    runtime.fail(error)
    os.kill(os.getppid(), signal.SIGTERM)


def _in_thread(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()


# -- a library that is written while it is open ----------------------------------------------------------------


def exit_on_bus_errors() -> None:
    """Let SIGBUS write the stack to standard error and exit with status 7, instead of killing the process."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal(signal.SIGBUS, ctypes.cast(libc._exit, ctypes.c_void_p))
    # It writes the stack and then calls the handler that was there before: _exit with the number of the signal.
    with suppress(OSError, ValueError, RuntimeError):  # standard error is closed or not a file
        faulthandler.enable()


def watch(check: Callable[[], None], stop: Callable[[], None], ended: threading.Event) -> None:
    """Call ``stop`` once when ``check`` finds that a file was written. Returns after that, or when ``ended`` is set."""
    while not ended.wait(WATCH_SECONDS):
        try:
            check()
        except LibraryCorrupt as error:
            log.error("The server stops, because its library was changed: %s", error)
            stop()
            return
