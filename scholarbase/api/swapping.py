"""Swapping the library of a running server.

What is served is a file (:mod:`.runtime`). A swap writes the next one, and every worker opens that library beside the
old one, checks it, runs some searches, and then lets it answer new requests; it closes the old one when its last
request has finished. No worker ends. If one cannot open it, the file names the old library again. Workers change one
after the other: a request that needs one snapshot names it, and gets an error from a worker that does not hold it.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, NamedTuple, cast

from scholarbase.api.holding import Libraries
from scholarbase.api.runtime import POLL_SECONDS, STARTING, Runtime, Served, State, Target
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
OPEN_SECONDS: Final = 600.0
"""How long a swap waits for the workers."""
WARM_TEXT: Final = "A survey of methods"
"""The query that a new library answers first."""


class Reloaded(NamedTuple):
    """What a reload did.

    Args:
        snapshot: the snapshot that is served now.
        previous: the one that was served before.
        changed: whether they differ.
        held: the snapshots that requests may name, the newest first.
    """

    snapshot: str
    previous: str
    changed: bool
    held: tuple[str, ...]


# -- in a worker -----------------------------------------------------------------------------------------


class KeptOpen:
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
        self.encoder = None if encoder is None else cast(Encoder, KeptOpen(encoder))
        self.rerankers = {name: cast(Reranker, KeptOpen(reranker)) for name, reranker in rerankers.items()}

    @classmethod
    def open(cls, encoder_name: str | None, settings: Settings) -> Models:
        """Open the encoder of this name, path or URL, and the rerankers of the settings.

        Raises:
            EncoderError, RerankerError: one cannot be opened.
        """
        key = settings.encoder_api_key.get_secret_value() if settings.encoder_api_key else None
        encoder = None
        if encoder_name not in (None, "none"):
            encoder = open_encoder(encoder_name, device=settings.device, api_key=key)
        try:
            rerankers = open_rerankers(None, settings)
        except BaseException:
            if encoder is not None:
                encoder.close()
            raise
        return cls(encoder, rerankers)

    def open_library(self, folder: Path, settings: Settings) -> Library:
        """Open a library that uses these models. Raises as :meth:`Library.open`."""
        encoder = "none" if self.encoder is None else self.encoder
        return Library.open(folder, encoder=encoder, rerankers=self.rerankers, settings=settings)

    def close(self) -> None:
        for model in self._opened:
            model.close()


def open_target(target: Target, models: Models, settings: Settings) -> Library:
    """Open a library and let it answer some requests.

    Raises:
        ScholarBaseError: it cannot be opened, or a part of it does not work.
    """
    library = models.open_library(target.folder, settings)
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


class Follower:
    """Lets a worker serve what the server serves.

    Args:
        libraries: the open libraries of this process.
        runtime: the files of the server.
    """

    def __init__(self, libraries: Libraries, models: Models, settings: Settings, runtime: Runtime) -> None:
        self._libraries = libraries
        self._models = models
        self._settings = settings
        self._runtime = runtime
        self._number = STARTING

    def follow(self) -> None:
        """Take what is served now, and report it."""
        served = self._runtime.served()
        if served.number == self._number:
            return
        error = None
        try:
            self._take(served)
        except ScholarBaseError as failure:
            error = failure
        except Exception as failure:
            log.exception("A library cannot be opened.")
            error = LibraryError(f"Opening the library failed ({failure!r}): see the server's log.")
        if error is not None:
            log.error("A worker cannot serve snapshot %s: %s", served.current.snapshot, error)
        self._runtime.report(State(served.number, error))
        self._number = served.number

    def _take(self, served: Served) -> None:
        self._open(served.current)
        if self._number == STARTING:  # earlier libraries, for requests that name their snapshots
            for kept in served.held[:-1]:
                try:
                    self._open(kept)
                except ScholarBaseError as error:
                    log.warning("Snapshot %s cannot be opened again by this worker: %s", kept.snapshot, error)
        self._libraries.switch([target.snapshot for target in served.held])

    def _open(self, target: Target) -> None:
        if target.snapshot not in self._libraries.names():
            self._libraries.add(open_target(target, self._models, self._settings))


# -- in any process of the server -----------------------------------------------------------------------


class Swaps:
    """Decides which library a server serves.

    Args:
        path: what the operator named: a library, a link to one, or a folder of libraries.
        has_encoder: whether the workers have a query encoder.
    """

    def __init__(self, path: Path, runtime: Runtime, settings: Settings, *, has_encoder: bool) -> None:
        self._path = path
        self.runtime: Final = runtime
        self._settings = settings
        self._needs_encoder = not has_encoder and settings.encoder != "none"
        self._signals: SimpleQueue[None] = SimpleQueue()

    def reload(self) -> Reloaded:
        """Serve the library that the path names now.

        Raises:
            SwapFailed: it cannot be served. The old one is.
        """
        with self.runtime.changing():
            targets = self.runtime.served().held
            previous = targets[-1].snapshot
            try:
                target = self._target()
                # A worker that starts would open the same snapshot from its new folder.
                if target != targets[-1]:
                    self._check(target)
                    self._publish(target, targets)
            except ScholarBaseError as error:
                failure = SwapFailed(
                    f"Snapshot {previous} is still served, since the new library cannot be: {error}"
                )
                log.error("%s", failure)
                raise failure from error
            changed = target.snapshot != previous
            if changed:
                log.info("Serving %s (snapshot %s) instead of snapshot %s.", *target, previous)
            held = tuple(kept.snapshot for kept in reversed(self.runtime.served().held))
            return Reloaded(target.snapshot, previous, changed, held)

    def _target(self) -> Target:
        folder = locate(self._path)
        return Target(folder, read_manifest(folder)[1])

    def _check(self, target: Target) -> None:
        manifest, _ = read_manifest(target.folder)
        if manifest.encoder is not None and self._needs_encoder:
            raise EncoderMismatch(
                f"The library at {target.folder} needs the encoder {manifest.encoder.for_queries.name}, and this "
                "server was started without one: start it again, or with --encoder none to search only by words."
            )
        check_files(target.folder, target.snapshot, self._settings, full=self._settings.full_check)

    def _publish(self, target: Target, targets: tuple[Target, ...]) -> None:
        """Let all workers serve a library. Raises what the first worker that cannot raises; then none does."""
        others = [other for other in targets if other.snapshot != target.snapshot]
        kept = tuple([*others, target][-self._settings.keep_libraries :])
        try:
            self._wait(self.runtime.publish(kept).number)
        except BaseException:
            number = self.runtime.publish(targets).number
            with suppress(ScholarBaseError):  # which a worker has logged
                self._wait(number)
            raise

    def _wait(self, number: int) -> None:
        """Wait until all workers serve what was published as ``number``, and one at least."""
        deadline = monotonic() + OPEN_SECONDS
        while monotonic() < deadline:
            states = self.runtime.workers().values()
            for state in states:
                if state.number >= number and state.error is not None:
                    raise state.error
            if states and all(state.number >= number for state in states):
                return
            if self.runtime.is_stopping:
                raise LibraryError("The server is stopping: reload the one that follows.")
            time.sleep(POLL_SECONDS / 2)
        raise LibraryError(f"A worker did not open the library within {OPEN_SECONDS:g} s.")

    # -- signals and the clock --------------------------------------------------------------------------

    def request(self) -> None:
        """Let :meth:`run` reload. A signal handler may call it."""
        self._signals.put(None)

    def run(self) -> None:
        """Reload when requested, and with ``--watch`` when the library of the path is another one, but one that was
        refused only after ``RETRY_SECONDS``."""
        refused: object = None
        until = 0.0
        while True:
            is_requested = True
            try:
                self._signals.get(timeout=WATCH_SECONDS if self._settings.watch else None)
            except Empty:
                is_requested = False
            named: object = None
            try:
                named = self._named()
                is_old = named == self.runtime.served().current or (named == refused and monotonic() < until)
                if is_requested or not is_old:
                    reloaded = self.reload()
                    if is_requested and not reloaded.changed:
                        log.info("Snapshot %s is the newest and is still served.", reloaded.snapshot)
            except Exception as error:
                if not isinstance(error, SwapFailed):  # which is in the log
                    log.exception("The library cannot be reloaded.")
                refused, until = named, monotonic() + RETRY_SECONDS

    def _named(self) -> object:
        """The library that the path names, or the message why it names none."""
        try:
            return self._target()
        except ScholarBaseError as error:
            return str(error)
