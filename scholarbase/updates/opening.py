"""Opening a packed library, from a file or a URL, with the hash that it must have."""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

from scholarbase.errors import InvalidRequest, LibraryCorrupt, SourceError
from scholarbase.settings import is_url
from scholarbase.updates.objects import STORES, StoredObject, small_object
from scholarbase.updates.packing import hash_file
from scholarbase.updates.remote import RemoteFile, fetch_small, shown

log = logging.getLogger("scholarbase.updates")

_BUFFER: Final = 1 << 16
MAX_HASH_FILE: Final = 4096
"""Bytes of a file with one hash and a name."""
_HASH_LINE: Final = re.compile(rb"\\?([0-9a-fA-F]{64})(?: [ *][^\n]*)?\n?")
"""What ``sha256sum`` writes for one file."""
_HASH: Final = re.compile(r"[0-9a-fA-F]{64}")


class PackedFile:
    """A packed file that is being read; ``name`` is for messages."""

    def __init__(self, name: str, read: Callable[[int], bytes], sha256: str | None) -> None:
        self.name = name
        self._hashing = _HashingReader(read)
        self._sha256 = sha256
        self.file: BinaryIO = io.BufferedReader(self._hashing, _BUFFER)

    def check_hash(self) -> None:
        """Compare the hash of all bytes, after the last is read. Raises LibraryCorrupt: it is another."""
        found = self._hashing.hash.hexdigest()
        if self._sha256 is None:
            log.warning(
                "%s has no known hash: its files are those of its own list, but nothing says that this is the library "
                "that was published. Its SHA-256 is %s.",
                self.name,
                found,
            )
        elif found != self._sha256:
            raise LibraryCorrupt(
                f"{self.name} has the SHA-256 {found} instead of {self._sha256}: it is damaged, or another file. Get "
                "it again."
            )


class _HashingReader(io.RawIOBase):
    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        self.hash.update(data)
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def open_packed(source: str | Path, sha256: str | None) -> Iterator[PackedFile]:
    """Open a packed file or URL. Its hash is ``sha256``, or the one in ``SOURCE.sha256`` if there is such a file.

    Raises:
        InvalidRequest: ``sha256`` is not a SHA-256, or the URL is invalid.
        SourceError: the file or URL cannot be read, or ``SOURCE.sha256`` is not what sha256sum writes; also while
            reading.
    """
    if sha256 is not None and not _HASH.fullmatch(sha256):
        raise InvalidRequest(f"--sha256 {sha256!r} is not a SHA-256: give 64 hexadecimal digits.")
    with ExitStack() as stack:
        if isinstance(source, str) and source.lower().startswith(("http://", "https://")):
            remote = stack.enter_context(RemoteFile(source))
            yield PackedFile(remote.name, remote.read, _lower(sha256 or published_hash(source)))
            return
        if isinstance(source, str) and source.lower().startswith(STORES):
            stored = StoredObject(source)
            yield PackedFile(stored.name, stored.read, _lower(sha256 or published_hash(source)))
            return
        path = path_of(source)
        try:
            file = stack.enter_context(path.open("rb", buffering=0))
        except OSError as error:
            raise _unreadable(path, error) from error
        yield PackedFile(str(path), _reading(file, path), _lower(sha256 or published_hash(source)))


def published_hash(source: str | Path) -> str | None:
    """The hash in ``SOURCE.sha256``, None if there is no such file. Raises as :func:`open_packed`."""
    if isinstance(source, str) and source.lower().startswith(("http://", "https://")):
        return _hash_in(fetch_small(source, ".sha256", MAX_HASH_FILE), f"{shown(source)}.sha256")
    if isinstance(source, str) and source.lower().startswith(STORES):
        return _hash_in(small_object(f"{source}.sha256", MAX_HASH_FILE), f"{source}.sha256")
    beside = hash_file(path_of(source))
    try:
        if not beside.exists():
            return None
        with beside.open("rb") as hashes:
            return _hash_in(hashes.read(MAX_HASH_FILE), str(beside))
    except OSError as error:
        raise _unreadable(beside, error) from error


def path_of(source: str | Path) -> Path:
    """The path that a path or ``file://`` URL names. Raises InvalidRequest: it is another URL."""
    if isinstance(source, Path) or not is_url(source):
        return Path(source)
    parts = urlsplit(source)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        raise InvalidRequest(
            f"{source!r} is not the URL of a packed library: use http, https, s3, gs or az, or file:///path."
        )
    return Path(unquote(parts.path))


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(
        f'{path} cannot be read ({error.strerror or error}): give a file that "scholarbase pack" wrote, or its URL.'
    )


def _reading(file: io.FileIO, path: Path) -> Callable[[int], bytes]:
    def read(size: int) -> bytes:
        try:
            return file.read(size) or b""
        except OSError as error:  # of the source: others are of the library's disk
            raise SourceError(f"{path} cannot be read ({error.strerror or error}).") from error

    return read


def _hash_in(data: bytes | None, name: str) -> str | None:
    if data is None:
        return None
    found = _HASH_LINE.fullmatch(data)
    if found is None:
        raise SourceError(
            f"{name} is not the hash of one file as sha256sum writes it: delete it, or give the right hash with "
            "--sha256."
        )
    return found[1].decode("ascii")


def _lower(digest: str | None) -> str | None:
    return None if digest is None else digest.lower()
