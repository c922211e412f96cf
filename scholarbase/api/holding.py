"""The libraries that one process has open, and the one that answers requests which name none.

Each request holds one library from its start to the end of its response and of its threads. A library that is no longer
served is closed when nothing holds it.

A native GET response is a function of the URL, the snapshot, the server's settings for rankings and the release. Its
entity tag (RFC 9110, section 8.8.3) is a hash of these, so it is known without running the request. Tags are weak: the
body may be compressed. They contain the URL, so that a tag is valid only for a URL that was answered with 200.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final

import orjson
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from scholarbase import __version__
from scholarbase.api.paths import is_about_library
from scholarbase.api.problems import rejection
from scholarbase.errors import InvalidRequest, ScholarBaseError, SnapshotNotHeld
from scholarbase.memory import return_free_memory
from scholarbase.search.library import Library

log = logging.getLogger("scholarbase.api")

HELD: Final = "scholarbase.held"
"""The key of a request's scope that has its :class:`Held`."""
WORK: Final = "scholarbase.work"
"""The key of a request's scope that has a list of futures: its work in threads, which may go on after the response."""
SNAPSHOT: Final = "X-ScholarBase-Snapshot"
"""The response header with the snapshot; in a request, the one that must answer it."""
SNAPSHOT_KEY: Final = SNAPSHOT.lower().encode()
_SEED_BYTES: Final = 16
_COUNTS: Final = {"papers": "papers", "abstracts": "abstracts", "citations": "edges"}
"""The counts of a manifest that describe a library, by their names in responses."""


class Held:
    """An open library and the number of its users. The last one's release closes it. Thread-safe."""

    __slots__ = ("_lock", "_users", "library", "seed", "snapshot")

    def __init__(self, library: Library) -> None:
        self.library = library
        self.snapshot: Final = library.snapshot_id.encode("latin-1")
        about = library.snapshot()
        facts = [about["snapshot"], about["ranking"], about["rerankers"], library.modes, __version__]
        seed = orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)
        self.seed: Final = blake2b(seed, digest_size=_SEED_BYTES).digest()
        """What entity tags depend on besides the URL."""
        self._users = 1
        self._lock = threading.Lock()

    def share(self) -> None:
        """Add a user, which must release it."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        with self._lock:
            self._users -= 1
            is_last = not self._users
        if is_last:  # in a thread, since closing takes tenths of a second
            threading.Thread(target=self._close, name="close-library", daemon=True).start()

    def _close(self) -> None:
        try:
            self.library.close()
        except ScholarBaseError as error:
            log.error("The library of snapshot %s cannot be closed: %s", self.library.snapshot_id, error)
        else:
            log.info("Closed the library of snapshot %s.", self.library.snapshot_id)
        return_free_memory()


class Libraries:
    """The open libraries of a process, in the order in which they were served, the current one last. Thread-safe."""

    def __init__(self, library: Library) -> None:
        self._current = Held(library)
        self._held = {library.snapshot_id: self._current}
        self._lock = threading.Lock()

    def take(self, snapshot: str | None = None) -> Held:
        """The current library, or that of a snapshot. The caller must release it.

        Raises:
            SnapshotNotHeld: no library of this snapshot is open.
        """
        with self._lock:
            held = self._current if snapshot is None else self._held.get(snapshot)
            if held is not None:
                held.share()
                return held
            names = ", ".join(reversed(self._held))
        raise SnapshotNotHeld(
            f"This server does not hold the snapshot {str(snapshot)[:64]!r}: name one of {names}, or none."
        )

    @property
    def snapshot(self) -> bytes:
        """The snapshot id of the current library."""
        return self._current.snapshot

    def names(self) -> tuple[str, ...]:
        """The snapshot ids of the open libraries, the current one last."""
        with self._lock:
            return tuple(self._held)

    def described(self) -> list[dict[str, Any]]:
        """The open libraries, the current one first: snapshot id, name of the folder, and counts."""
        with self._lock:
            libraries = [held.library for held in reversed(self._held.values())]
        return [
            {
                "snapshot": library.snapshot_id,
                "name": library.path.name,
                **{name: library.manifest.counts.get(count, 0) for name, count in _COUNTS.items()},
            }
            for library in libraries
        ]

    def add(self, library: Library) -> None:
        """Hold a library for requests that name its snapshot. It is closed if one of this snapshot is held."""
        held = Held(library)
        with self._lock:
            is_new = self._held.setdefault(library.snapshot_id, held) is held
            if is_new:  # before the current one
                self._held[library.snapshot_id] = self._held.pop(library.snapshot_id)
                self._move_last(self._current)
        if not is_new:
            held.release()

    def switch(self, snapshots: Sequence[str]) -> None:
        """Let the library of the last of these snapshots, which is open, answer new requests, and close those of other
        snapshots when the requests that they answer have ended."""
        with self._lock:
            self._current = self._held[snapshots[-1]]
            self._move_last(self._current)
            retired = [self._held.pop(name) for name in list(self._held) if name not in snapshots]
        for held in retired:
            held.release()

    def check_files(self) -> None:
        """Raises LibraryCorrupt: a file of an open library was written."""
        with self._lock:
            libraries = [held.library for held in self._held.values()]
        for library in libraries:
            library.check_files()

    def ready(self) -> dict[str, str]:
        """The state of each part of the current library, as :meth:`Library.ready`."""
        held = self.take()
        try:
            return held.library.ready()
        finally:
            held.release()

    def close(self) -> None:
        """Close all libraries, whatever runs."""
        with self._lock:
            libraries = [held.library for held in self._held.values()]
        for library in libraries:
            library.close()

    def _move_last(self, held: Held) -> None:
        name = held.library.snapshot_id
        self._held[name] = self._held.pop(name)


def held_by(scope: Scope) -> Held:
    """What a request holds."""
    held: Held = scope[HELD]
    return held


def library_of(request: HTTPConnection) -> Library:
    """The library that answers a request. It stays open until the response has been sent."""
    return held_by(request.scope).library


class Holding:
    """ASGI middleware: each request holds the current library, or the one that it names, until its response is sent."""

    def __init__(self, app: ASGIApp, *, libraries: Libraries) -> None:
        self._app = app
        self._libraries = libraries

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            held = scope[HELD] = self._libraries.take(_named(scope))
        except ScholarBaseError as error:
            response = await rejection(error, scope)
            await response(scope, receive, send)
            return
        work: list[asyncio.Future[Any]] = []
        scope[WORK] = work
        try:
            await self._app(scope, receive, send)
        finally:
            for future in work:
                if not future.done():
                    held.share()
                    future.add_done_callback(lambda _: held.release())
            held.release()


def _named(scope: Scope) -> str | None:
    """The snapshot that must answer a request; an empty header names none. Raises InvalidRequest: it names several."""
    sent = [value for name, value in scope["headers"] if name == SNAPSHOT_KEY and value]
    if not sent or not is_about_library(scope["path"]):
        return None
    if len(sent) > 1:
        raise InvalidRequest(f"The header {SNAPSHOT} occurs {len(sent)} times: send it once.")
    named: str = sent[0].decode("latin-1")
    return named
