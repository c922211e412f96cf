"""The server: one process that starts workers and replaces those that end.

Granian accepts connections and parses HTTP in the workers, which share the page cache and, unless it is static, one
query encoder. The first process opens no library.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from prometheus_client import multiprocess, values

from scholarbase.api.access.guard import check_access
from scholarbase.api.access.rates import FILE_NAME, make_file
from scholarbase.api.encoder_process import shared_encoder
from scholarbase.api.response_sharing import sharing_responses
from scholarbase.api.runtime import POLL_SECONDS, STARTING, Runtime, Target
from scholarbase.api.swapping import Swaps
from scholarbase.asgi import Workers, options
from scholarbase.errors import LibraryError, StorageError
from scholarbase.files import storage_errors
from scholarbase.http import listen_together
from scholarbase.manifest import read_manifest
from scholarbase.search.opening import check_files
from scholarbase.search.snapshots import locate
from scholarbase.sessions.sqlite import check_writable
from scholarbase.settings import Settings, state_folder

log = logging.getLogger("scholarbase.api")

METRICS_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
MAX_FAILED_STARTS: Final = 3
"""Workers in a row that may end while they open the library, before the server stops."""
STOP_SECONDS: Final = 9
"""When a worker is killed that has not ended since SIGTERM, such as in a call of an index that cannot be stopped."""


def serve(path: Path, settings: Settings, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Serve the library at ``path`` until SIGTERM or SIGINT. On SIGHUP, serve the library that ``path`` names then.

    ``path`` is a library, a link to one, or a folder of libraries (:func:`scholarbase.search.snapshots.locate`).
    ``on_ready`` is called in a thread with the server's URL when the first worker answers.

    Raises:
        LibraryError, EncoderError, VectorIndexError: the library cannot be served, or was changed.
        InvalidRequest: the settings are unsafe or allow no requests (:func:`check_access`).
        AddressError: the port is in use, or the address does not belong to this machine.
        StorageError: the folder for the workers' files, or that of the sessions that the settings name, is missing or
            not writable.
    """
    check_access(settings)
    folder = locate(path)
    manifest, snapshot = read_manifest(folder)
    if settings.full_check:
        check_files(folder, snapshot, settings, full=True)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    listeners = listen_together(settings.host, settings.port, settings.workers)
    try:
        of_workers = session_folder(settings, path)
        check_sessions(of_workers, is_named=settings.sessions is not None)
        # Until the workers start. A terminal that closes does not stop a server.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with (
            _runtime_folder(settings) as runtime,
            shared_encoder(folder, manifest, settings, runtime) as encoder,
            sharing_responses(settings, runtime),
        ):
            runtime.publish((Target(folder, snapshot),))
            swaps = Swaps(path, runtime, settings, has_encoder=encoder is not None)
            url = _url(listeners[0])
            papers = f"{manifest.counts['papers']:,} papers, {'sparse' if encoder is None else 'hybrid'}"
            announcement = _announcement(f"{path} (snapshot {snapshot}, {papers})", url, settings)

            def announce() -> None:
                log.info("%s", announcement)
                if on_ready is not None:
                    on_ready(url)

            server = _Server(listeners, runtime, swaps, announce, settings)
            load = partial(_load_app, path, encoder, of_workers, runtime.path, os.getpid())
            with suppress(SystemExit):  # a worker had ended when the server stopped
                server.serve(target_loader=load, wrap_loader=False)
            log.info("Stopped.")
            if (failure := runtime.failure()) is not None:
                raise failure
    except KeyboardInterrupt:
        log.info("Stopped.")
    finally:
        for listener in listeners:
            listener.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _load_app(
    path: Path, encoder: str | None, settings: Settings, runtime: Path, parent: int, *_: object
) -> FastAPI:
    """Make the application of a worker, in its process."""
    # The handlers of the first process do not end this one; its event loop will have its own.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    from scholarbase.api.worker import worker_app

    return worker_app(path, encoder, settings, runtime, parent)


class _Server(Workers):
    """The workers of a library, and a thread that swaps it."""

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        runtime: Runtime,
        swaps: Swaps,
        announce: Callable[[], None],
        settings: Settings,
    ) -> None:
        super().__init__(
            listeners,
            workers_kill_timeout=STOP_SECONDS,
            **options(settings.max_connections),
        )
        self._runtime = runtime
        self._swaps = swaps
        self._announce = announce
        self._failed_starts = 0
        self.on_startup(self._start)

    def _start(self) -> None:
        # Granian would replace all workers on SIGHUP.
        signal.signal(signal.SIGHUP, lambda number, frame: self._swaps.request())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        threading.Thread(target=self._announce_and_swap, name="swap-library", daemon=True).start()

    def _stop(self, *_: object) -> None:
        self._runtime.stop()
        self.stop_listening()
        self.signal_handler_interrupt()  # type: ignore[no-untyped-call]

    def _announce_and_swap(self) -> None:
        while not self._runtime.is_ready():
            if self._runtime.is_stopping:
                return
            time.sleep(POLL_SECONDS / 2)
        self._announce()
        self._swaps.run()

    def _respawn_workers(self, workers: list[int], *arguments: Any, **delays: Any) -> None:
        """Replace workers that ended. Some in a row that ended before they had opened the library stop the server."""
        for index in workers:
            process = self.wrks[index].inner
            log.warning(
                "Worker %s ended with status %s: another one replaces it.", process.pid, process.exitcode
            )
            state = self._runtime.forget(process.pid)
            if METRICS_FOLDER in os.environ:
                multiprocess.mark_process_dead(process.pid)  # type: ignore[no-untyped-call]
            has_opened = state is not None and state.number != STARTING
            self._failed_starts = 0 if has_opened else self._failed_starts + 1
        if self._failed_starts >= MAX_FAILED_STARTS:
            self._runtime.fail(
                LibraryError(
                    f"{self._failed_starts} workers in a row ended while they opened the library, so the server "
                    "stopped: see the messages above."
                )
            )
            self._stop()
        elif not self.interrupt_signal:
            super()._respawn_workers(workers, *arguments, **delays)
            self.respawned_wrks.clear()  # Granian would stop the server if a new worker is killed within seconds


def session_folder(settings: Settings, library: Path) -> Settings:
    """The settings, with a folder of its own for the sessions if they name none and the default folder is that of
    another library: it belongs to the library that was served with it first, whether its server runs or not. So servers
    of two libraries do not write into one trajectory, and each finds its sessions again.
    """
    if settings.sessions is not None:
        return settings
    folder = state_folder()
    # A link such as current is not followed: it stays the same library.
    name = os.fsencode(library.parent.resolve() / library.name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "served-library").open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            owner = file.read()
            if not owner:
                file.write(name)
    except OSError:  # the sessions say so where they are needed
        return settings
    if owner in (b"", name):
        return settings
    own_folder = folder / f"{library.name}-{hashlib.sha256(name).hexdigest()[:8]}"
    log.info(
        "The sessions in %s are those of %s, so this server records its own in %s: set SCHOLARBASE_SESSIONS to choose "
        "the folder.", folder, os.fsdecode(owner), own_folder,
    )  # fmt: skip
    return settings.model_copy(update={"sessions": str(own_folder)})


def check_sessions(settings: Settings, *, is_named: bool) -> None:
    """Check that sessions can be written to their folder, and log a warning if they cannot. A database may come later.

    Raises:
        StorageError: they cannot, and the caller's settings name the folder.
    """
    location = settings.sessions_location
    if not isinstance(location, Path):
        return
    try:
        check_writable(location)
    except StorageError as error:
        if is_named:
            raise
        log.warning("No sessions are recorded: %s", error)


@contextmanager
def _runtime_folder(settings: Settings) -> Iterator[Runtime]:
    """A folder for the files of this server, which is removed at the end.

    Raises:
        StorageError: it cannot be created.
    """
    temporary = settings.runtime_dir or Path(tempfile.gettempdir())
    with storage_errors(temporary, "set SCHOLARBASE_RUNTIME_DIR to a folder that exists and is writable"):
        folder = Path(tempfile.mkdtemp(prefix="scholarbase-", dir=temporary))
    try:
        with _shared_metrics(folder) if settings.workers > 1 else nullcontext():
            make_file(folder / FILE_NAME)
            import_module("scholarbase.api.worker")  # once: forked workers share its memory
            yield Runtime(folder)
    finally:
        with suppress(OSError):
            shutil.rmtree(folder)


@contextmanager
def _shared_metrics(folder: Path) -> Iterator[None]:
    """Count metrics and rates over all workers, in files of this folder.

    Prometheus's client looks for the variable when it is imported, which may have happened before.
    """
    os.environ[METRICS_FOLDER] = str(folder)
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        del os.environ[METRICS_FOLDER]
        values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _announcement(what: str, url: str, settings: Settings) -> str:
    processes = "1 process" if settings.workers == 1 else f"{settings.workers} processes"
    # A server with a dialect alone has no explorer.
    how = "Try the" if settings.dialect else f"Open {url}/ in a browser, or try the"
    return f"Ready. Serving {what} at {url} with {processes}. {how} API at {url}/docs."
