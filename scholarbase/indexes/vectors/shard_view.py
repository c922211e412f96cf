"""A private view of a shard for one process: links to the shard's large files and copies of the small ones.

Qdrant Edge rewrites a shard's small files (layout, segment descriptions, flags, trackers) when it opens it, so
processes that open the same folder overwrite each other's files, and a read-only library cannot be opened at all.
A view is a folder in which the large files, which a search only reads, are hard links, and all others are copies.

Views are outside the library's folder: beside it, or else in the temporary folder. Hard links need the file system of
the library, so where it is a mount point, and writable, views are in a hidden folder inside. Where no hard link can be
made, the view is in the temporary folder: there the large files are symbolic links, and pages, which Qdrant opens for
writing and does not find through symbolic links, are copies.

A view is locked (``flock``) by its process and removed when it is closed or the process exits. Views of killed
processes, which are not locked any more, are removed when the next view of the same shard is opened.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import secrets
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from scholarbase.errors import StorageError, VectorIndexError
from scholarbase.files import copy_sparse, locked

logger = logging.getLogger(__name__)

READ_ONLY: Final = re.compile(
    r"matrix\.dat|quantized\.data|links(_compressed)?\.bin|graph\.bin|inverted_index\.dat"
    r"|id_tracker\.(mappings|e2i|i2e)|(point_to_values|values_to_points|data)\.bin"
)
"""Files of an immutable segment that Qdrant opens for reading only."""

PAGES: Final = re.compile(r"page_\d+\.dat|chunk_\d+\.mmap")
"""Files that Qdrant opens for writing too, but changes only when points are written."""

PART_NAME: Final = re.compile(r"(\d+)-of-(\d+)")
"""The name of a shard's folder in that of a library's vectors, if there are several (:mod:`.shards`)."""

_NEXT: Final = frozenset(
    {
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EXDEV,
        errno.EMLINK,
        errno.ENOTSUP,
    }
)
"""Errors of a folder in which no view can be made. Hard links fail with EXDEV between file systems and bind mounts."""

_ATTEMPTS: Final = 100
"""Attempts to create a view while closing views remove the folder of all views."""


class ShardView:
    """A view, removed by :meth:`close`. Use :meth:`open`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.path = folder / "shard"
        # Also runs when the process exits without closing the view.
        self._finalizer = weakref.finalize(self, _remove, folder, lock, os.getpid())

    @classmethod
    def open(cls, shard: Path, temporary: Path | None = None) -> ShardView:
        """Create a view of a library's shard, beside the library or under ``temporary``, by default the system's
        temporary folder.

        Raises:
            StorageError: no folder is writable and has space for it.
            VectorIndexError: the shard cannot be read.
        """
        shard = shard.resolve()
        if not shard.is_dir():
            raise VectorIndexError(f"No vector index at {shard}: the library is incomplete.")
        library = shard.parents[1 if PART_NAME.fullmatch(shard.name) else 0]
        name = hashlib.sha256(os.fsencode(shard)).hexdigest()[:16]
        # One folder per user: another user's is not writable.
        elsewhere = Path(temporary or tempfile.gettempdir()) / f"scholarbase-views-{os.getuid()}" / name
        for views, linked in (
            (library.with_name(f".{library.name}-views"), True),
            (elsewhere, True),
            (library / f".{shard.name}-views", True),
            (elsewhere, False),
        ):
            try:
                view = cls._create(shard, views, linked=linked)
            except OSError as error:
                if error.errno not in _NEXT:
                    raise VectorIndexError(f"The vector index at {shard} cannot be read: {error}.") from error
                logger.info("Cannot create a view of %s in %s: %s.", shard, views, error.strerror)
                reason = error
            else:
                return view
        raise StorageError(
            f"Cannot create a view of the vector index in {elsewhere}: {reason}. Make {library.parent} "
            f"writable, or set TMPDIR to a folder with free space."
        ) from reason

    @classmethod
    def _create(cls, shard: Path, views: Path, *, linked: bool) -> ShardView:
        if views.parent.name.startswith("scholarbase-views-"):
            views.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_owner(views.parent)
        with locked(shard):  # while creating a view and removing stale ones: a new view is not locked yet
            folder = _new_folder(views)
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                _remove_if_empty(views)
                raise
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            _mirror(shard, folder / "shard", linked=linked)
        except BaseException:
            _remove(folder, lock, os.getpid())
            raise
        return cls(folder, lock)

    def close(self) -> None:
        """Remove the view. A second call does nothing, nor does one in a forked child."""
        self._finalizer()


def _check_owner(folder: Path) -> None:
    """Another user could change the files of a view."""
    if folder.is_symlink() or folder.lstat().st_uid != os.getuid():
        raise PermissionError(errno.EPERM, "It belongs to another user", str(folder))


def _new_folder(views: Path) -> Path:
    """Create an empty folder for a view. The shard must be locked.

    Closing the last view removes ``views`` without taking the lock, since finalizers may run anywhere, including in
    this function. So ``views`` may be removed between any two steps. While the shard is locked no other view is
    created, so that each open view can do this only once.
    """
    for attempt in range(_ATTEMPTS):
        try:
            views.mkdir(mode=0o700, exist_ok=True)
            _check_owner(views)
            _remove_stale(views)
            folder = views / f"{os.getpid()}-{secrets.token_hex(4)}"
            folder.mkdir(mode=0o700)
            return folder
        except (FileNotFoundError, FileExistsError):
            if attempt == _ATTEMPTS - 1:
                raise
        except BaseException:
            _remove_if_empty(views)
            raise
    raise AssertionError("unreachable")


def _remove_stale(views: Path) -> None:
    """Remove the views of processes that have exited, which are not locked."""
    for folder in views.iterdir():
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _mirror(source: Path, target: Path, *, linked: bool) -> None:
    target.mkdir(mode=0o700)
    for entry in sorted(os.scandir(source), key=lambda e: e.name):
        mirrored = target / entry.name
        if entry.is_symlink() and entry.is_dir():  # it may name any folder, also this one
            raise VectorIndexError(f"{entry.path} is a link to a folder, and no index has one: remove it.")
        if entry.is_dir():
            _mirror(Path(entry.path), mirrored, linked=linked)
        else:
            _place(Path(entry.path), mirrored, linked=linked)


def _place(source: Path, target: Path, *, linked: bool) -> None:
    read_only = READ_ONLY.fullmatch(source.name) is not None
    page = PAGES.fullmatch(source.name) is not None
    # A hard link shares the file's permissions: pages are linked only if this process may write to them.
    if linked and (read_only or (page and os.access(source, os.R_OK | os.W_OK))):
        os.link(source, target)
    elif read_only:
        target.symlink_to(source)
    else:
        copy_sparse(source, target)


def _remove(folder: Path, lock: int, pid: int) -> None:
    if os.getpid() != pid:
        return
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
    _remove_if_empty(folder.parent)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
