"""Granian, the HTTP server (https://github.com/emmett-framework/granian), on sockets that already listen.

Each worker accepts from a socket of its own, and the kernel distributes connections over them. Granian opens them in
the workers, so connections that wait for a worker are lost with it. Here the first process opens them and keeps them
open.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from typing import Any, Final

# Granian's allocator, jemalloc, otherwise keeps the memory of a burst of connections for ten seconds and more.
# Returning it at once (0) costs a tenth of the throughput. It is returned while memory is taken or freed, in each arena
# by itself: with one, that of threads that are idle since the burst too.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:1000,muzzy_decay_ms:0,narenas:1")

from granian._granian import SocketHolder
from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server as _Embedded
from granian.server.mp import MPServer

from scholarbase.errors import StorageError
from scholarbase.http import BACKLOG

HEAD_SECONDS: Final = 20
"""From the start of a connection, or from a response, to the end of the next request's head. Clients such as httpx
close their idle connections after 5 seconds."""
MAX_HEAD: Final = 131_072
"""Bytes of request line and headers."""
RUNTIME_THREADS: Final = 2
"""Threads of Granian that accept connections and read requests. One alone waits for Python's lock while Python is busy:
beside 8,000 abandoned bodies a health request then took 1.5 seconds, with two half a second."""
SPARE_FILES: Final = 256
"""File descriptors that are left for indexes, sessions and keys."""
LEAST_FILES: Final = 64
"""Open files that a server of one worker needs to start."""
ENDING_SECONDS: Final = 0.2
"""After a server in this process has stopped, until its threads have ended."""
_holder: Final[Any] = SocketHolder  # its stub lacks the arguments


def options(max_connections: int) -> dict[str, Any]:
    """The options of a server. ``max_connections`` is for each worker; more wait to be accepted.

    Increases this process's limit of open files, which workers inherit.
    """
    return {
        "interface": Interfaces.ASGI,
        "http": HTTPModes.http1,
        "websockets": False,
        "backlog": BACKLOG,
        "backpressure": _allowed(max_connections),
        "runtime_threads": RUNTIME_THREADS,
        "http1_settings": HTTP1Settings(header_read_timeout=HEAD_SECONDS * 1000, max_buffer_size=MAX_HEAD),
        # Granian would write to standard output. Its warnings reach the handlers of the root logger.
        "log_level": "warning",
        "log_dictconfig": {"loggers": {"_granian": {"propagate": True}}, "handlers": {}, "formatters": {}},
    }


def _allowed(wanted: int) -> int:
    """The number of connections for which a process may open files, ``wanted`` at most.

    Increases the soft limit of open files as far as needed and allowed.

    Raises:
        StorageError: too few files may be opened for any server.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        with suppress(ValueError, OSError):  # macOS has a limit below the hard one
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    if soft < LEAST_FILES:
        raise StorageError(
            f"A server needs at least {LEAST_FILES} open files, and this process may open {soft}: raise ulimit -n."
        )
    allowed = max(soft // 2, soft - SPARE_FILES)
    logging.getLogger("scholarbase.api").warning(
        "This process may open %s files, so it keeps %s connections open instead of %s: raise ulimit -n.",
        f"{soft:,}",
        f"{allowed:,}",
        f"{wanted:,}",
    )
    return allowed


class Workers(MPServer):
    """A server of several processes, which replaces those that end.

    Args:
        listeners: an inheritable socket that listens for each worker. They stay open here, so that connections wait in
            them while a worker is replaced.
    """

    def __init__(self, listeners: Sequence[socket.socket], **options: Any) -> None:
        super().__init__("", workers=len(listeners), respawn_failed_workers=True, **options)
        self._listeners = listeners
        self._copies: dict[int, socket.socket] = {}
        """What each worker listens on."""

    # Private methods of Granian 2.8, which has no public way to pass sockets: see its version in pyproject.toml.
    def _init_shared_socket(self) -> None:
        self._ssp: Any = None
        self._shd: Any = None
        self._sso: Any = None

    def _spawn_worker(self, idx: int, target: Any, callback_loader: Any) -> Any:  # type: ignore[override]
        self._sso = self._listeners[idx].dup()
        self._sso.set_inheritable(True)
        self._shd = _holder(self._sso.fileno(), False, BACKLOG)
        if idx in self._copies:
            self._copies[idx].close()
        self._copies[idx] = self._sso

        def load() -> Any:
            """In the worker: the sockets of others are not for it, and would stay open when it stops."""
            del self._copies[idx]
            self.stop_listening()
            return callback_loader()

        return super()._spawn_worker(idx, target, load)

    def _stop_workers(self) -> None:
        """End the workers, and kill those that have not ended when the time is over.

        A thread of Granian waits for each process too, and only one thread learns its status. Until it is stored,
        Granian's own method takes the process for running, so it said that it killed one that had ended.
        """
        workers: list[Any] = self.wrks  # their methods have no types
        for worker in workers:
            worker.terminate()
        seconds = self.workers_kill_timeout or 0
        deadline = time.monotonic() + seconds
        for worker in workers:
            has_ended = wait([worker.inner.sentinel], max(0.0, deadline - time.monotonic()))
            if not has_ended and worker.is_alive():
                logging.getLogger("scholarbase.api").warning(
                    "Killing worker %s, which has not ended %s seconds after the server was stopped.",
                    worker.inner.pid,
                    seconds,
                )
                worker.kill()
            worker.join()
        workers.clear()

    def stop_listening(self) -> None:
        """Close the sockets of this process. Each worker closes its own when it stops."""
        for listener in (*self._listeners, *self._copies.values()):
            listener.close()


class Embedded(_Embedded):
    """A server in the event loop of this process.

    Args:
        app: the ASGI application.
        listener: a socket that listens, of TCP or a Unix socket.
    """

    def __init__(self, app: Any, listener: socket.socket, **options: Any) -> None:
        # At the level of warnings, Granian says that its server in an event loop is experimental.
        super().__init__(app, **{**options, "log_level": "error"})
        self._listener = listener

    def _init_shared_socket(self) -> None:
        self._ssp = None
        # Granian closes the socket, so it gets one of its own.
        is_unix = self._listener.family == socket.AF_UNIX
        self._shd: Any = _holder(os.dup(self._listener.fileno()), is_unix, BACKLOG)


async def serve_until_stopped(server: Embedded) -> None:
    """Run a server until SIGTERM or SIGINT. For the main thread."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    await server.serve()
    # Granian's thread needs Python's global lock once more before it ends. Before Python 3.14 the process aborts if the
    # interpreter ends meanwhile (https://github.com/PyO3/pyo3/pull/4874).
    await asyncio.sleep(ENDING_SECONDS)
