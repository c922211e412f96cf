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
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from scholarbase.api.paths import is_about_library
from scholarbase.api.problems import rejection
from scholarbase.errors import InvalidRequest, ScholarBaseError, SnapshotNotHeld
from scholarbase.memory import return_free_memory
from scholarbase.search.library import Library

log = logging.getLogger("scholarbase.api")

LIBRARY: Final = "scholarbase.library"
"""The key of a request's scope that has the library that answers it."""
WORK: Final = "scholarbase.work"
"""The key of a request's scope that has a list of futures: its work in threads, which may go on after the response."""
SNAPSHOT: Final = "X-ScholarBase-Snapshot"
"""The response header with the snapshot; in a request, the one that must answer it."""
SNAPSHOT_KEY: Final = SNAPSHOT.lower().encode()
_COUNTS: Final = {"papers": "papers", "abstracts": "abstracts", "citations": "edges"}
"""The counts of a manifest that describe a library, by their names in responses."""


class Libraries:
    """The open libraries of a process, in the order in which they were served, the current one last. Thread-safe."""

    def __init__(self, library: Library) -> None:
        self._current = library
        self._open = {library.snapshot_id: library}
        self._users = Counter([library])
        """How often each library is in use; being served is one use. It is closed after the last."""
        self._lock = threading.Lock()

    def take(self, snapshot: str | None = None) -> Library:
        """The current library, or that of a snapshot. The caller must release it.

        Raises:
            SnapshotNotHeld: no library of this snapshot is open.
        """
        with self._lock:
            library = self._current if snapshot is None else self._open.get(snapshot)
            if library is not None:
                self._users[library] += 1
                return library
            names = ", ".join(reversed(self._open))
        raise SnapshotNotHeld(
            f"This server does not hold the snapshot {str(snapshot)[:64]!r}: name one of {names}, or none."
        )

    def share(self, library: Library) -> None:
        """Add a user of a library in use, which must release it."""
        with self._lock:
            self._users[library] += 1

    def release(self, library: Library) -> None:
        """End one use of a library. The last one's end closes it."""
        with self._lock:
            self._users[library] -= 1
            is_last = not self._users[library]
            if is_last:
                del self._users[library]
        if is_last:  # in a thread, since closing takes tenths of a second
            threading.Thread(target=_close, args=(library,), name="close-library", daemon=True).start()

    @property
    def snapshot(self) -> str:
        """The snapshot id of the current library."""
        return self._current.snapshot_id

    def names(self) -> tuple[str, ...]:
        """The snapshot ids of the open libraries, the current one last."""
        with self._lock:
            return tuple(self._open)

    def described(self) -> list[dict[str, Any]]:
        """The open libraries, the current one first: snapshot id, name of the folder, and counts."""
        with self._lock:
            libraries = list(reversed(self._open.values()))
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
        with self._lock:
            self._users[library] += 1
            is_new = self._open.setdefault(library.snapshot_id, library) is library
            self._move_last(self._current)
        if not is_new:
            self.release(library)

    def switch(self, snapshots: Sequence[str]) -> None:
        """Let the library of the last of these snapshots, which is open, answer new requests, and close those of other
        snapshots when the requests that they answer have ended."""
        with self._lock:
            self._current = self._open[snapshots[-1]]
            self._move_last(self._current)
            retired = [self._open.pop(name) for name in list(self._open) if name not in snapshots]
        for library in retired:
            self.release(library)

    def check_files(self) -> None:
        """Raises LibraryCorrupt: a file of an open library was written."""
        with self._lock:
            libraries = list(self._open.values())
        for library in libraries:
            library.check_files()

    def ready(self) -> dict[str, str]:
        """The state of each part of the current library, as :meth:`Library.ready`."""
        library = self.take()
        try:
            return library.ready()
        finally:
            self.release(library)

    def close(self) -> None:
        """Close all libraries, whatever runs."""
        with self._lock:
            libraries = list(self._open.values())
        for library in libraries:
            library.close()

    def _move_last(self, library: Library) -> None:
        self._open[library.snapshot_id] = self._open.pop(library.snapshot_id)


def _close(library: Library) -> None:
    try:
        library.close()
    except ScholarBaseError as error:
        log.error("The library of snapshot %s cannot be closed: %s", library.snapshot_id, error)
    else:
        log.info("Closed the library of snapshot %s.", library.snapshot_id)
    return_free_memory()


def library_of(request: HTTPConnection) -> Library:
    """The library that answers a request. It stays open until the response has been sent."""
    library: Library = request.scope[LIBRARY]
    return library


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
            library = scope[LIBRARY] = self._libraries.take(_named(scope))
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
                    self._libraries.share(library)
                    future.add_done_callback(lambda _: self._libraries.release(library))
            self._libraries.release(library)


def _named(scope: Scope) -> str | None:
    """The snapshot that must answer a request; an empty header names none. Raises InvalidRequest: it names several."""
    sent = [value for name, value in scope["headers"] if name == SNAPSHOT_KEY and value]
    if not sent or not is_about_library(scope["path"]):
        return None
    if len(sent) > 1:
        raise InvalidRequest(f"The header {SNAPSHOT} occurs {len(sent)} times: send it once.")
    named: str = sent[0].decode("latin-1")
    return named
