"""Swapping the library of a running server, in all of its processes.

A swap has two steps. First every process opens the new library, checks it and runs some searches; meanwhile the old
one answers, and the new one answers requests that name its snapshot. If one process fails, all of them drop the new
library. Then every process lets it answer new requests, and closes the old one when its last request has finished.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, NamedTuple, Protocol, cast

from scholarbase.api.holding import Libraries
from scholarbase.encoders import Encoder, open_encoder
from scholarbase.errors import EncoderMismatch, LibraryError, ScholarBaseError, SwapFailed
from scholarbase.manifest import read_manifest
from scholarbase.models.requests import SearchRequest, TitleParameters
from scholarbase.rerankers import Reranker
from scholarbase.search.library import Library
from scholarbase.search.opening import check_files, open_rerankers
from scholarbase.search.snapshots import locate
from scholarbase.settings import Settings

log = logging.getLogger("scholarbase.api")

WATCH_SECONDS: Final = 2.0
"""How often ``--watch`` reads the link or the folder."""
RETRY_SECONDS: Final = 60.0
"""When ``--watch`` tries again to take a library that could not be served."""
START_SECONDS: Final = 600.0
"""How long a swap waits for the first worker to start."""
WARM_TEXT: Final = "A survey of methods"
"""The query that a new library answers first."""


class Target(NamedTuple):
    """A library to serve: its folder, and its snapshot."""

    folder: Path
    snapshot: str


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did.

    Args:
        snapshot: the snapshot that is served now.
        previous: the one that was served before.
        held: the snapshots that requests may name, the newest first.
    """

    snapshot: str
    previous: str
    held: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        changed = self.snapshot != self.previous
        return {"snapshot": self.snapshot, "previous": self.previous, "changed": changed, "held": self.held}


class Member(Protocol):
    """A process that serves."""

    def prepare(self, target: Target) -> None:
        """Open a library, for requests that name its snapshot.

        Raises:
            ScholarBaseError: it cannot be opened.
        """

    def switch(self, snapshot: str, keep: int) -> None:
        """Let a prepared library answer new requests, and keep the last ``keep`` libraries open."""

    def drop(self, snapshot: str) -> None:
        """Stop to hold a library that was prepared."""


# -- one process ----------------------------------------------------------------------------------------


class Shared:
    """A model that several libraries of a process use one after the other. Closing a library does not close it."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def close(self) -> None:
        """Does nothing: :meth:`Models.close` closes the model."""


class Models:
    """The query encoder and the rerankers of a process, which stay open when its library changes."""

    def __init__(self, encoder: Encoder | None, rerankers: dict[str, Reranker]) -> None:
        self._opened: list[Any] = [*rerankers.values(), *([] if encoder is None else [encoder])]
        self.encoder = None if encoder is None else cast(Encoder, Shared(encoder))
        self.rerankers = {name: cast(Reranker, Shared(one)) for name, one in rerankers.items()}

    @classmethod
    def open(cls, encoder_name: str | None, settings: Settings) -> Models:
        """Open the encoder of this name, path or URL, and the rerankers of the settings.

        Raises:
            EncoderError, RerankerError: one cannot be opened.
        """
        key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
        encoder = None
        if encoder_name not in (None, "none"):
            encoder = open_encoder(encoder_name, device=settings.device, api_key=key, queries_only=True)
        try:
            rerankers = open_rerankers(None, settings)
        except BaseException:
            if encoder is not None:
                encoder.close()
            raise
        return cls(encoder, rerankers)

    def open_library(self, folder: Path, settings: Settings, *, full: bool = False) -> Library:
        """Open a library that uses these models. Raises as :meth:`Library.open`."""
        encoder = "none" if self.encoder is None else self.encoder
        return Library.open(folder, encoder=encoder, rerankers=self.rerankers, settings=settings, full=full)

    def close(self) -> None:
        for model in self._opened:
            model.close()


class LocalMember:
    """This process."""

    def __init__(self, libraries: Libraries, models: Models, settings: Settings) -> None:
        self.libraries = libraries
        self._models = models
        self._settings = settings

    def prepare(self, target: Target) -> None:
        if target.snapshot in self.libraries.names():
            return
        self.libraries.add(self.open(target))

    def open(self, target: Target) -> Library:
        """Open a library and let it answer some requests.

        Raises:
            ScholarBaseError: it cannot be opened, or a part of it does not work.
        """
        library = self._models.open_library(target.folder, self._settings)
        try:
            if library.snapshot_id != target.snapshot:
                raise LibraryError(
                    f"The library at {target.folder} was replaced while it was opened (snapshot {target.snapshot}, "
                    f"now {library.snapshot_id}): try again."
                )
            warm(library)
        except BaseException:
            library.close()
            raise
        return library

    def switch(self, snapshot: str, keep: int) -> None:
        self.libraries.switch(snapshot, keep)

    def drop(self, snapshot: str) -> None:
        self.libraries.drop(snapshot)


def warm(library: Library) -> None:
    """Read what the first requests need, with a request of each kind.

    Raises:
        LibraryError: a part of the library does not work.
    """
    failed = [f"{part}: {state}" for part, state in library.ready().items() if state not in ("ok", "absent")]
    if failed:
        raise LibraryError(f"A part of the library at {library.path} does not work: {'; '.join(failed)}.")
    for mode in library.modes:
        library.run(SearchRequest.of(q=WARM_TEXT, mode=mode))
    library.run_title(TitleParameters.of(title=WARM_TEXT))


# -- all processes --------------------------------------------------------------------------------------


class Swaps:
    """Decides which library a server serves.

    Args:
        path: what the operator named: a library, a link to one, or a folder of libraries.
        first: the library that is served.
        members: returns the processes that serve.
        has_encoder: whether they have a query encoder.
    """

    def __init__(
        self,
        path: Path,
        first: Target,
        settings: Settings,
        members: Callable[[], Sequence[Member]],
        *,
        has_encoder: bool,
    ) -> None:
        self._path = path
        self._settings = settings
        self._members = members
        self._needs_encoder = not has_encoder and settings.encoder != "none"
        self._held = [first]
        self._signals: SimpleQueue[bool] = SimpleQueue()
        self._refused: tuple[object, float] = (None, 0.0)
        self.lock = threading.Condition()
        """Held during a swap, so that a process that starts learns which libraries are served before it or after it.
        Notified when a process is added to the members."""

    @property
    def held(self) -> list[Target]:
        """The libraries that are served, the current one last."""
        with self.lock:
            return list(self._held)

    def reload(self) -> Reloaded:
        """Serve the library that the path names now.

        Raises:
            SwapFailed: it cannot be served. The old one is.
        """
        with self.lock:
            previous = self._held[-1].snapshot
            try:
                target = self._target()
                if target.snapshot != previous:
                    self._swap(target)
                elif target.folder != self._held[-1].folder:  # from which a worker that starts would open it
                    check_files(
                        target.folder, target.snapshot, self._settings, full=self._settings.full_check
                    )
            except ScholarBaseError as error:
                failure = SwapFailed(
                    f"Snapshot {previous} is still served, since the new library cannot be: {error}"
                )
                log.error("%s", failure)
                raise failure from error
            self._record(target)
            if target.snapshot != previous:
                log.info("Serving %s (snapshot %s) instead of snapshot %s.", *target, previous)
            return Reloaded(target.snapshot, previous, tuple(one.snapshot for one in reversed(self._held)))

    def _target(self) -> Target:
        folder = locate(self._path)
        return Target(folder, read_manifest(folder)[1])

    def _swap(self, target: Target) -> None:
        manifest, _ = read_manifest(target.folder)
        if manifest.encoder is not None and self._needs_encoder:
            raise EncoderMismatch(
                f"The library at {target.folder} needs the encoder {manifest.encoder.for_queries.name}, and this "
                "server was started without one: start it again, or with --encoder none to search only by words."
            )
        if self._settings.full_check:
            check_files(target.folder, target.snapshot, self._settings, full=True)
        if not self.lock.wait_for(self._members, START_SECONDS):
            raise LibraryError("No worker has started yet.")
        members = self._members()
        is_held = any(one.snapshot == target.snapshot for one in self._held)
        try:
            for member in members:
                member.prepare(target)
        except BaseException:
            for member in () if is_held else members:
                member.drop(target.snapshot)
            raise
        # A process that starts from here on serves the new library.
        self._record(target)
        for member in members:
            member.switch(target.snapshot, self._settings.keep_libraries)

    def _record(self, target: Target) -> None:
        others = [one for one in self._held if one.snapshot != target.snapshot]
        self._held = [*others, target][-self._settings.keep_libraries :]

    # -- signals and the clock --------------------------------------------------------------------------

    def request(self) -> None:
        """Let :meth:`run` reload. A signal handler may call it."""
        self._signals.put(True)

    def stop(self) -> None:
        """End :meth:`run`."""
        self._signals.put(False)

    def run(self) -> None:
        """Reload when requested, and with ``--watch`` when the library of the path is another one."""
        while True:
            try:
                if not self._signals.get(timeout=WATCH_SECONDS if self._settings.watch else None):
                    return
                self._try(reload=True)
            except Empty:
                self._try(reload=False)

    def _try(self, *, reload: bool) -> None:
        """Reload; without ``reload``, only if the library is a new one that was not refused lately."""
        found: object = None
        try:
            if not reload:
                found = self._found()
                if found == self._held[-1].snapshot or self._is_refused(found):
                    return
            reloaded = self.reload()
            if reload and reloaded.snapshot == reloaded.previous:
                log.info("Snapshot %s is the newest and is still served.", reloaded.snapshot)
        except SwapFailed:  # in the log
            self._refused = found, monotonic() + RETRY_SECONDS
        except Exception:
            log.exception("The library cannot be reloaded.")
            self._refused = found, monotonic() + RETRY_SECONDS

    def _found(self) -> object:
        """The snapshot that the path names, or the message why it names none."""
        try:
            return self._target().snapshot
        except ScholarBaseError as error:
            return str(error)

    def _is_refused(self, found: object) -> bool:
        refused, until = self._refused
        return found == refused and monotonic() < until
