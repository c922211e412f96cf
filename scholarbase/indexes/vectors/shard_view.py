"""A private view of a shard for one process: the shard's large files, shared, and small ones of its own.

Qdrant Edge rewrites a shard's small files when it opens one (its layout, segment descriptions, flags,
trackers), so processes that open one folder write over each other, and a library that is read-only cannot be
opened at all. A view is a folder in which the large files, which a search only reads, are hard links to the
shard's, and all others are copies. Where the library's own folder cannot be written to, the view lies in the
folder for temporary files: there the large files are symbolic links, except the pages that Qdrant opens for
writing or does not find behind a link.

A view is locked (``flock``) by the process it belongs to and removed when that closes it or ends. What a
killed process leaves has no lock any more, and goes when the next view of the same shard is opened.
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from scholarbase.errors import StorageError, VectorIndexError

logger = logging.getLogger(__name__)

READ_ONLY: Final = re.compile(
    r"matrix\.dat|quantized\.data|links(_compressed)?\.bin|graph\.bin|inverted_index\.dat"
    r"|id_tracker\.(mappings|e2i|i2e)|(point_to_values|values_to_points|data)\.bin"
)
"""Files of an immutable segment that Qdrant opens for reading only."""

PAGES: Final = re.compile(r"page_\d+\.dat|chunk_\d+\.mmap")
"""Files that it opens for writing too, but changes only when points are written."""

_ATTEMPTS: Final = 100
"""Times that the folder of a shard's views may vanish while a view is put into it."""
_BLOCK: Final = 1 << 16
_ZEROS: Final = bytes(_BLOCK)


class ShardView:
    """A view that exists until it is closed. Made by :meth:`open`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder = folder
        self.path = folder / "shard"
        # Also runs when the process ends without closing.
        self._finalizer = weakref.finalize(self, _remove, folder, lock, os.getpid())

    @classmethod
    def open(cls, shard: Path, temporary: Path | None = None) -> ShardView:
        """Make a view of the shard, beside it where that is possible, else under ``temporary`` (by default
        the system's folder for temporary files).

        Raises:
            StorageError: neither place has room for it.
            VectorIndexError: the shard cannot be read.
        """
        shard = shard.resolve()
        if not shard.is_dir():
            raise VectorIndexError(f"No vector index at {shard}: the library is not whole.")
        beside = shard.with_name(f".{shard.name}-views")
        try:
            return cls._make(shard, beside)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT):
                raise VectorIndexError(f"The vector index at {shard} cannot be read: {error}.") from error
            reason = error
        name = hashlib.sha256(os.fsencode(shard)).hexdigest()[:16]
        # The user's id: a folder of another user's could not be written to.
        elsewhere = Path(temporary or tempfile.gettempdir()) / f"scholarbase-views-{os.getuid()}" / name
        logger.info(
            "No view can be made beside %s (%s): it is made in %s.", shard, reason.strerror, elsewhere
        )
        try:
            return cls._make(shard, elsewhere)
        except OSError as error:
            raise StorageError(
                f"No view of the vector index can be made in {elsewhere}: {error}. Make {shard.parent} "
                f"writable, or point TMPDIR at a folder with room."
            ) from error

    @classmethod
    def _make(cls, shard: Path, views: Path) -> ShardView:
        views.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if views.parent != shard.parent and views.parent.lstat().st_uid != os.getuid():
            raise PermissionError(errno.EPERM, "It belongs to another user", str(views.parent))
        with _locked(shard):
            folder = _new_folder(views)
            try:
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                _remove_if_empty(views)
                raise
            fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            _mirror(shard, folder / "shard")
        except BaseException:
            _remove(folder, lock, os.getpid())
            raise
        return cls(folder, lock)

    def close(self) -> None:
        """Remove the view. A second call does nothing, nor does one in a forked child."""
        self._finalizer()


def _new_folder(views: Path) -> Path:
    """An empty folder for a view, when the shard is locked.

    A view that closes removes ``views`` if it leaves it empty, and waits for no lock: its finalizer may run
    anywhere, inside this function too. So ``views`` may vanish between any two steps. While the shard is locked
    no view is begun elsewhere, so only those closing now can do this, each once.
    """
    for attempt in range(_ATTEMPTS):
        try:
            views.mkdir(mode=0o700, exist_ok=True)
            remove_stale(views)
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


def remove_stale(views: Path) -> None:
    """Remove the views whose processes are gone: nobody holds their locks."""
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


def _mirror(source: Path, target: Path) -> None:
    target.mkdir(mode=0o700)
    for entry in sorted(os.scandir(source), key=lambda e: e.name):
        mirrored = target / entry.name
        if entry.is_dir():
            _mirror(Path(entry.path), mirrored)
        else:
            _place(Path(entry.path), mirrored)


def _place(source: Path, target: Path) -> None:
    read_only = READ_ONLY.fullmatch(source.name) is not None
    page = PAGES.fullmatch(source.name) is not None
    # A link shares the file's permissions: pages are linked only where this process may write to them.
    if read_only or (page and os.access(source, os.R_OK | os.W_OK)):
        with suppress(OSError):
            os.link(source, target)
            return
    if read_only:
        target.symlink_to(source)
        return
    copy_sparse(source, target)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file without its holes and zeros: Qdrant lays out files of 32 MiB for a few kilobytes."""
    with source.open("rb") as reader, target.open("xb") as writer:
        size = os.fstat(reader.fileno()).st_size
        end = 0
        while end < size:
            try:
                start = os.lseek(reader.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                    break
                raise
            end = os.lseek(reader.fileno(), start, os.SEEK_HOLE)
            _copy_range(reader, writer, start, end)
        writer.truncate(size)


def _copy_range(reader: BinaryIO, writer: BinaryIO, start: int, end: int) -> None:
    reader.seek(start)
    position = start
    while position < end:
        block = reader.read(min(_BLOCK, end - position))
        if not block:
            break
        if block != _ZEROS[: len(block)]:
            writer.seek(position)
            writer.write(block)
        position += len(block)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time makes views of a shard or removes stale ones: a new one has no lock at first."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove(folder: Path, lock: int, pid: int) -> None:
    if os.getpid() != pid:
        return
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
    _remove_if_empty(folder.parent)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()
