"""The folder of sessions of a server that names none: servers of two libraries do not write into one trajectory."""

from __future__ import annotations

import fcntl
import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scholarbase.settings import Settings, state_folder

log = logging.getLogger("scholarbase.api")


@contextmanager
def session_folder(settings: Settings, library: Path) -> Iterator[Settings]:
    """The settings, with a folder of its own for the sessions if they name none and a running server of another library
    records in the default folder. The default folder stays this library's until the block ends, by flock(2)."""
    if settings.sessions is not None:
        yield settings
        return
    folder, name = state_folder(), str(library.absolute())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "served-library").open("a+")
    except OSError:  # the sessions say so where they are needed
        yield settings
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            lock.write(name)
            lock.flush()
        except BlockingIOError:
            lock.seek(0)
            if (other := lock.read()) != name:
                digest = hashlib.sha256(name.encode()).hexdigest()[:8]
                own_folder = folder / f"{library.name}-{digest}"
                log.info(
                    "The server of %s records sessions in %s, so this one records them in %s: set "
                    "SCHOLARBASE_SESSIONS to choose the folder.", other, folder, own_folder,
                )  # fmt: skip
                yield settings.model_copy(update={"sessions": str(own_folder)})
                return
        fcntl.flock(lock, fcntl.LOCK_SH)  # servers of one library share the folder
        yield settings
