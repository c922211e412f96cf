"""Messages between the supervisor and the workers of a server, over a Unix socket in their folder.

A worker connects when it starts, receives the libraries to open, and then carries out what the supervisor sends
(:class:`WorkerMember`), one request and one reply at a time. To reload, it opens another connection. Messages are JSON.
Only the server's user can open the folder of the socket.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

import orjson

from scholarbase import errors
from scholarbase.api.swapping import LocalMember, Swaps, Target
from scholarbase.errors import AddressError, LibraryError, ScholarBaseError, SwapFailed

log = logging.getLogger("scholarbase.api")

SOCKET: Final = "control.sock"
"""The name of the socket in the folder of the workers."""
MAX_BYTES: Final = 1 << 20
"""The largest message."""
REPLY_SECONDS: Final = 600.0
"""How long a worker may take to open a library."""


def send(connection: Connection, message: Any) -> None:
    connection.send_bytes(orjson.dumps(message))


def receive(connection: Connection) -> Any:
    """The next message. Raises EOFError or OSError: the other process has ended."""
    return orjson.loads(connection.recv_bytes(MAX_BYTES))


def _failure(error: ScholarBaseError) -> dict[str, str]:
    return {"error": type(error).__name__, "message": str(error)}


def _raise(reply: dict[str, Any]) -> None:
    """Raise the error of a reply, if it has one."""
    if "error" in reply:
        kind: type[ScholarBaseError] = getattr(errors, reply["error"], LibraryError)
        raise kind(reply["message"])


# -- in the supervisor ----------------------------------------------------------------------------------


class WorkerMember:
    """A worker, from the supervisor's side."""

    def __init__(self, pid: int, connection: Connection) -> None:
        self.pid = pid
        self._connection = connection
        self.is_alive = True

    def prepare(self, target: Target) -> None:
        reply = self._ask({"do": "prepare", "folder": os.fspath(target.folder), "snapshot": target.snapshot})
        if reply is None:
            raise LibraryError(f"The worker {self.pid} ended while it opened {target.folder}: try again.")
        _raise(reply)

    def switch(self, snapshot: str, keep: int) -> None:
        reply = self._ask({"do": "switch", "snapshot": snapshot, "keep": keep})
        if reply:
            log.error("The worker %s cannot serve snapshot %s: %s", self.pid, snapshot, reply["message"])
            self._end()

    def drop(self, snapshot: str) -> None:
        self._ask({"do": "drop", "snapshot": snapshot})

    def close(self) -> None:
        self.is_alive = False
        self._connection.close()

    def _end(self) -> None:
        """Stop the worker. The one that replaces it opens what is served."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)

    def _ask(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The worker's reply; None if it has ended. The worker that replaces it opens what is served then."""
        if not self.is_alive:
            return None
        try:
            send(self._connection, message)
            if self._connection.poll(REPLY_SECONDS):
                reply: dict[str, Any] = receive(self._connection)
                return reply
            log.error(
                "The worker %s did not %s a library within %g s.", self.pid, message["do"], REPLY_SECONDS
            )
            self._end()
        except (EOFError, OSError):
            pass
        self.close()
        return None


class Supervision:
    """Listens for workers, and holds those that have connected.

    Raises :class:`AddressError` if the socket cannot be created.
    """

    def __init__(self, address: Path) -> None:
        try:
            self._listener = Listener(os.fspath(address), family="AF_UNIX", backlog=64)
        except OSError as error:
            raise AddressError(
                f"The server cannot create the socket {address} ({error}): set SCHOLARBASE_RUNTIME_DIR to a folder "
                "with a short path, at most about 70 characters."
            ) from error
        self._workers: list[WorkerMember] = []

    def members(self) -> list[WorkerMember]:
        """The workers that have not ended."""
        self._workers = [one for one in self._workers if one.is_alive]
        return list(self._workers)

    def start(self, swaps: Swaps) -> None:
        """Accept connections in a thread."""
        threading.Thread(target=self._accept, args=(swaps,), name="control", daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self, swaps: Swaps) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(
                target=self._greet, args=(connection, swaps), name="control", daemon=True
            ).start()

    def _greet(self, connection: Connection, swaps: Swaps) -> None:
        with suppress(EOFError, OSError):
            message = receive(connection)
            if "worker" in message:
                with swaps.lock:  # after a swap that runs
                    held = [{"folder": os.fspath(one.folder), "snapshot": one.snapshot} for one in swaps.held]
                    send(connection, {"held": held})
                    self._workers.append(WorkerMember(message["worker"], connection))
                    swaps.lock.notify_all()
                    log.info("Worker %s opens snapshot %s.", message["worker"], swaps.held[-1].snapshot)
                return
            try:
                send(connection, swaps.reload().to_dict())
            except ScholarBaseError as error:
                send(connection, _failure(error))
        connection.close()


# -- in a worker ----------------------------------------------------------------------------------------


def connect(address: Path) -> tuple[Connection, list[Target]]:
    """Connect this worker: its connection, and the libraries that it serves, the current one last."""
    connection = Client(os.fspath(address), family="AF_UNIX")
    send(connection, {"worker": os.getpid()})
    held = receive(connection)["held"]
    return connection, [Target(Path(one["folder"]), one["snapshot"]) for one in held]


def follow(connection: Connection, member: LocalMember) -> None:
    """Carry out what the supervisor sends, until it ends."""
    with suppress(EOFError, OSError):
        while True:
            message = receive(connection)
            try:
                reply = _carry_out(message, member)
            except ScholarBaseError as error:
                reply = _failure(error)
            except Exception as error:
                log.exception("A library cannot be opened.")
                reply = _failure(
                    LibraryError(f"Opening the library failed ({error!r}): see the server's log.")
                )
            send(connection, reply)


def _carry_out(message: dict[str, Any], member: LocalMember) -> dict[str, str]:
    snapshot: str = message["snapshot"]
    if message["do"] == "prepare":
        member.prepare(Target(Path(message["folder"]), snapshot))
    elif message["do"] == "switch":
        member.switch(snapshot, message["keep"])
    else:
        member.drop(snapshot)
    return {}


def ask_reload(address: Path) -> dict[str, Any]:
    """Let the supervisor reload the library in all workers: what :meth:`Reloaded.to_dict` has.

    Raises:
        SwapFailed: the new library cannot be served, or the server stops.
    """
    try:
        with Client(os.fspath(address), family="AF_UNIX") as connection:
            send(connection, {"reload": True})
            reply: dict[str, Any] = receive(connection)
    except (EOFError, OSError):
        raise SwapFailed("The server is stopping: reload the one that follows.") from None
    _raise(reply)
    return reply
