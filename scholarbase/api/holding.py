"""The libraries that one process has open, and the one that answers requests which name none.

Each request holds one library from its start to the end of its response and of its threads. A library that is no longer
served is closed when nothing holds it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final

from starlette.requests import HTTPConnection
from starlette.types import Scope

from scholarbase.api.conditional import seed_of
from scholarbase.errors import ScholarBaseError, SnapshotNotHeld
from scholarbase.memory import return_free_memory
from scholarbase.search.library import Library

log = logging.getLogger("scholarbase.api")

HELD: Final = "scholarbase.held"
"""The key of a request's scope that has its :class:`Held`."""
SNAPSHOT: Final = "X-ScholarBase-Snapshot"
"""The response header with the snapshot; in a request, the one that must answer it."""
SNAPSHOT_KEY: Final = SNAPSHOT.lower().encode()
_TAG_BYTES: Final = 12
_COUNTS: Final = {"papers": "papers", "abstracts": "abstracts", "citations": "edges"}
"""The counts of a manifest that describe a library, by their names in responses."""


class Held:
    """An open library and the number of its users. The last one's release closes it. Thread-safe."""

    __slots__ = ("_lock", "_seed", "_users", "library", "snapshot")

    def __init__(self, library: Library) -> None:
        self.library = library
        self.snapshot: Final = library.snapshot_id.encode("latin-1")
        self._seed = seed_of(library)
        self._users = 1
        self._lock = threading.Lock()

    def tag(self, scope: Scope) -> bytes:
        """The entity tag of a URL (:mod:`.conditional`)."""
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        url = path + b"?" + scope["query_string"]
        return b'W/"%s"' % blake2b(url, digest_size=_TAG_BYTES, key=self._seed).hexdigest().encode()

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

    @contextmanager
    def current(self) -> Iterator[Library]:
        """The current library, which stays open during the block."""
        held = self.take()
        try:
            yield held.library
        finally:
            held.release()

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
                "snapshot": one.snapshot_id,
                "name": one.path.name,
                **{name: one.manifest.counts.get(count, 0) for name, count in _COUNTS.items()},
            }
            for one in libraries
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
        with self.current() as library:
            return library.ready()

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
