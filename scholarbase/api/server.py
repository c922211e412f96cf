"""The server: one process, or several workers that share a socket, the page cache and, unless it is static, one query
encoder."""

from __future__ import annotations

import gc
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
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors.multiprocess import Multiprocess, Process

from scholarbase import logs
from scholarbase.api.accepting import EventLoop
from scholarbase.api.access.guard import check_access
from scholarbase.api.access.rates import FILE_NAME, make_file
from scholarbase.api.admission import THREADS
from scholarbase.api.app import create_app
from scholarbase.api.connections import Connections
from scholarbase.api.control import SOCKET, Supervision, ask_reload, connect, follow
from scholarbase.api.holding import Libraries
from scholarbase.api.protocol import HttpProtocol
from scholarbase.api.stopping import kill_if_late
from scholarbase.api.swapping import LocalMember, Models, Swaps, Target
from scholarbase.api.watching import exit_on_bus_errors, watch, watched
from scholarbase.encoders.service import serve_encoder
from scholarbase.errors import EncoderError, LibraryError, ScholarBaseError
from scholarbase.files import storage_errors
from scholarbase.http import listen
from scholarbase.manifest import Manifest, read_manifest
from scholarbase.models.encoders import STATIC
from scholarbase.search.library import Library
from scholarbase.search.opening import encoder_location
from scholarbase.search.snapshots import locate
from scholarbase.settings import Settings

log = logging.getLogger("scholarbase.api")

SWITCH_SECONDS = 0.0005
"""The interpreter's switch interval. Python's default of 5 ms is as long as a search, and a call in a thread can wait
that long for each row from SQLite."""
COLLECTION: Final = (20_000, 20, 20)
"""The thresholds of Python's garbage collector. A hybrid search makes some thousands of tuples; by default, all objects
of the process were searched for cycles every few seconds, which took 80 ms."""
START_SECONDS = 600
"""Loading a large model or library from a slow disk takes minutes."""

GRACEFUL_SECONDS = 6
"""How long requests may finish after SIGTERM; then they are cancelled."""
STOP_SECONDS = 9
"""When a process is killed that has not ended since SIGTERM, such as in a call of an index that cannot be stopped."""


def serve(path: Path, settings: Settings) -> None:
    """Serve the library at ``path`` until SIGTERM or SIGINT. On SIGHUP, serve the library that ``path`` names then.

    ``path`` is a library, a link to one, or a folder of libraries (:func:`scholarbase.search.snapshots.locate`).
    Several workers share one query encoder, which runs in its own process, unless it is static.

    Raises:
        LibraryError, EncoderError, VectorIndexError: the library cannot be served.
        InvalidRequest: the settings are unsafe or allow no requests (:func:`check_access`).
        AddressError: the port is in use, or the address does not belong to this machine.
        StorageError: the folder for the workers' files is missing or not writable.
    """
    exit_on_bus_errors()
    check_access(settings)
    folder = locate(path)
    manifest, _ = read_manifest(folder)
    listener = listen(settings.host, settings.port)
    # uvicorn raises the signal again after its shutdown; the default handler would skip the cleanup below.
    before = signal.signal(signal.SIGTERM, _stop)
    is_terminated = False
    at_end = ExitStack()
    # A terminal that closes does not stop a server.
    on_hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        if settings.workers == 1:
            _serve_alone(path, folder, manifest, settings, listener, at_end)
        else:
            _serve_together(path, folder, manifest, settings, listener)
    except KeyboardInterrupt:
        log.info("Stopped.")
    except _Stopped:
        is_terminated = True  # so the process of _Server stays: closing the library may take long
        log.info("Stopped.")
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGHUP, on_hangup)
        listener.close()
        if not is_terminated and not any(one.name.startswith(THREADS) for one in threading.enumerate()):
            at_end.close()


class _Stopped(BaseException):
    """The process received SIGTERM."""


def _stop(signum: int, frame: FrameType | None) -> None:
    raise _Stopped


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _announce(
    path: Path, library: Library, listener: socket.socket, workers: int, settings: Settings
) -> None:
    url = _url(listener)
    log.info(
        "Serving %s (snapshot %s, %s papers, %s) at %s with %d process%s. %s API at %s/docs.",
        path,
        library.snapshot_id,
        f"{library.manifest.counts['papers']:,}",
        library.best_mode,
        url,
        workers,
        "" if workers == 1 else "es",
        # A server with a dialect alone has no explorer.
        "Try the" if settings.dialect else f"Open {url}/ in a browser, or try the",
        url,
    )


def _config(app: FastAPI | Callable[[], FastAPI], settings: Settings, *, workers: int = 1) -> uvicorn.Config:
    connections = Connections(settings)
    return uvicorn.Config(
        app,
        factory=not isinstance(app, FastAPI),
        workers=workers,
        http=partial(HttpProtocol, connections=connections),  # type: ignore[arg-type]  # which needs no class
        loop=partial(EventLoop, connections),  # type: ignore[arg-type]  # likewise
        access_log=False,
        log_config=None,
        log_level="warning" if settings.log_level == "info" else settings.log_level,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
        timeout_worker_healthcheck=START_SECONDS,
    )


def _serve_alone(
    path: Path,
    folder: Path,
    manifest: Manifest,
    settings: Settings,
    listener: socket.socket,
    at_end: ExitStack,
) -> None:
    encoder = encoder_location(folder, manifest, settings)
    with closing(Models.open(encoder, settings)) as models:
        opened = Libraries(models.open_library(folder, settings, full=settings.full_check))
        with closing(opened) as libraries:
            _tune_python()
            member = LocalMember(libraries, models, settings)
            first = Target(folder, libraries.snapshot.decode())
            swaps = Swaps(path, first, settings, lambda: [member], has_encoder=encoder is not None)

            signal.signal(signal.SIGHUP, lambda signum, frame: swaps.request())
            with libraries.current() as library:
                _announce(path, library, listener, 1, settings)
            del library  # which would keep its caches after a swap

            def reload() -> dict[str, Any]:
                return swaps.reload().to_dict()

            app = create_app(libraries, on_close=libraries.close, settings=settings, reload=reload)
            server = _Server(_config(app, settings), at_end)
            stop = partial(setattr, server, "should_exit", True)
            with _swapping(swaps), watched(libraries.check_files, stop):
                server.run(sockets=[listener])


@contextmanager
def _swapping(swaps: Swaps) -> Iterator[None]:
    """Reload on requests and on changes of the path during the block."""
    threading.Thread(target=swaps.run, name="swap-library", daemon=True).start()
    try:
        yield
    finally:
        swaps.stop()


def _serve_together(
    path: Path, folder: Path, manifest: Manifest, settings: Settings, listener: socket.socket
) -> None:
    temporary = settings.runtime_dir or Path(tempfile.gettempdir())
    with storage_errors(temporary, "set SCHOLARBASE_RUNTIME_DIR to a folder that exists and is writable"):
        runtime = Path(tempfile.mkdtemp(prefix="scholarbase-", dir=temporary))
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(runtime)
    make_file(runtime / FILE_NAME)
    try:
        with _shared_encoder(folder, manifest, settings, runtime / "encoder.sock") as encoder:
            # Open the library here first, so that an error is logged once and not by every worker.
            full = settings.full_check
            library = Library.open(folder, encoder=encoder, settings=settings, full=full)
            library.close()
            # A function with the settings, not the environment: workers have exactly the caller's settings.
            of_workers = settings.model_copy(update={"encoder": encoder})
            config = _config(
                partial(worker_app, of_workers, runtime / SOCKET), settings, workers=settings.workers
            )
            with closing(Supervision(runtime / SOCKET)) as supervision:
                first = Target(folder, library.snapshot_id)
                has_encoder = encoder != "none"
                swaps = Swaps(path, first, settings, supervision.members, has_encoder=has_encoder)
                supervision.start(swaps)
                supervisor = _Supervisor(config, sockets=[listener], on_hangup=swaps.request)
                _announce(path, library, listener, settings.workers, settings)
                with _swapping(swaps):
                    supervisor.run()
            if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
                raise LibraryError(
                    "A worker could not start, or its library was changed, so the server stopped: see the message "
                    "above."
                )
    finally:
        shutil.rmtree(runtime, ignore_errors=True)


class _Server(uvicorn.Server):
    """A server in the only process, which another one kills if a signal does not end it in time.

    Args:
        at_end: ends the other process.
    """

    def __init__(self, config: uvicorn.Config, at_end: ExitStack) -> None:
        super().__init__(config)
        self._at_end = at_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        try:
            # In the running loop, which has redirected signals to itself. It needs none: uvicorn looks ten times a
            # second whether it should exit.
            self._at_end.callback(kill_if_late(STOP_SECONDS))
        except OSError as error:
            log.warning("The end after SIGTERM has no limit: no process can be started (%s).", error)


class _Supervisor(Multiprocess):
    """Replaces workers that ended, with a line in the log, and kills those that do not end in time.

    uvicorn also replaces workers that do not respond for some seconds. They may be opening a large library, or have
    Python's lock in a long call of an index; and waiting for them would delay SIGTERM.
    """

    def __init__(
        self, config: uvicorn.Config, sockets: list[socket.socket], on_hangup: Callable[[], None]
    ) -> None:
        super().__init__(config, sockets)
        self._on_hangup = on_hangup

    def handle_hup(self) -> None:
        """Swap the library. The workers stay: uvicorn would replace them, and handle no SIGTERM meanwhile."""
        self._on_hangup()

    def join_all(self) -> None:
        end = time.monotonic() + STOP_SECONDS
        for worker in self.processes:
            worker.process.join(max(0.0, end - time.monotonic()))
            if worker.process.is_alive():
                log.warning(
                    "Worker %s did not end within %s s after SIGTERM: it is killed.", worker.pid, STOP_SECONDS
                )
                worker.process.kill()
                worker.process.join()

    def keep_subprocess_alive(self) -> None:
        for place, worker in enumerate(self.processes):
            if worker.process.is_alive():
                continue
            worker.kill()  # closes its pipes
            if worker.exitcode == STARTUP_FAILURE:
                self.should_exit.set()
            if self.should_exit.is_set():
                return
            self.processes[place] = new = Process(self.config, self.sockets)
            new.start()
            log.warning(
                "Worker %s ended with status %s: %s replaces it.", worker.pid, worker.exitcode, new.pid
            )


def worker_app(settings: Settings, control: Path) -> FastAPI:
    """The application of one worker process. The socket ``control`` names the libraries that it serves."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a terminal that closes sends it to all processes
    logs.configure(settings.log_level)
    exit_on_bus_errors()
    _end_with_parent()
    _tune_python()
    try:
        connection, held = connect(control)
        models = Models.open(settings.encoder, settings)
        libraries = Libraries(_open_served(held[-1], models, settings))
        member = LocalMember(libraries, models, settings)
        for target in held[:-1]:
            _open_kept(target, member)
        reload = partial(ask_reload, control)
        is_changed = threading.Event()
        close = partial(_close_worker, libraries, is_changed)
        app = create_app(libraries, on_close=close, settings=settings, reload=reload)
    except Exception as error:
        log.error("A worker cannot start: %s", error, exc_info=not isinstance(error, ScholarBaseError))
        sys.exit(STARTUP_FAILURE)  # with which the supervisor stops too

    def stop() -> None:
        is_changed.set()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, args=(libraries.check_files, stop, threading.Event()), daemon=True).start()
    threading.Thread(target=follow, args=(connection, member), name="control", daemon=True).start()
    return app


def _tune_python() -> None:
    """Set Python for a process that only serves."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECTION)


def _close_worker(libraries: Libraries, is_changed: threading.Event) -> None:
    """Close the libraries at the end of a worker. If a file was changed, the server must stop: opening the library
    again compares a sample of its blocks, and may not find the change."""
    libraries.close()
    if is_changed.is_set():
        os._exit(STARTUP_FAILURE)


def _open_served(target: Target, models: Models, settings: Settings) -> Library:
    """The library that the other workers serve."""
    library = models.open_library(target.folder, settings)
    if library.snapshot_id != target.snapshot:
        library.close()
        raise LibraryError(
            f"The library at {target.folder} was replaced while it was served (snapshot {target.snapshot}, now "
            f"{library.snapshot_id}): start the server again."
        )
    return library


def _open_kept(target: Target, member: LocalMember) -> None:
    """Open an earlier library, for requests that name its snapshot."""
    try:
        member.prepare(target)
    except ScholarBaseError as error:
        log.warning("Snapshot %s cannot be opened again by this worker: %s", target.snapshot, error)


@contextmanager
def _shared_encoder(path: Path, manifest: Manifest, settings: Settings, at: Path) -> Iterator[str]:
    """Run one process with the model and restart it if it dies. Yields its address, or ``none`` without an encoder.

    A static encoder has no process: each worker opens it, since a request to another process takes ten times as long as
    it takes to encode a query. Then its location is yielded.
    """
    name = encoder_location(path, manifest, settings)
    is_static = manifest.encoder is not None and manifest.encoder.for_queries.kind == STATIC
    if name is None or is_static or name.startswith(("http://", "https://", "unix:")):
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
        else:
            _stop_encoder(first)


def _start_encoder(name: str, settings: Settings, at: Path) -> multiprocessing.process.BaseProcess:
    key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
    process = multiprocessing.get_context("spawn").Process(
        target=_encoder_process,
        args=(settings.log_level, name),
        kwargs={"uds": str(at), "device": settings.device, "api_key": key, "queries_only": True},
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
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    logs.configure(level)
    _end_with_parent()
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    try:
        serve_encoder(name, **options)
    except ScholarBaseError as error:
        log.error("%s", error)
        sys.exit(error.exit_code)


def _wait_for(at: Path, process: multiprocessing.process.BaseProcess, name: str) -> None:
    deadline = time.monotonic() + START_SECONDS
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
    _stop_encoder(process)


def _stop_encoder(process: multiprocessing.process.BaseProcess) -> None:
    process.terminate()
    process.join(1)
    if process.is_alive():  # in a model's call, which ends no earlier
        process.kill()
        process.join()
