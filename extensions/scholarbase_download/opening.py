"""Opening a packed library, from a file or a URL, with the hash that it must have."""

from __future__ import annotations

import hashlib
import io
import logging
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import SplitResult, unquote, urlsplit

from scholarbase.errors import InvalidRequest, LibraryCorrupt, SourceError
from scholarbase.settings import is_url
from scholarbase_download.archive import PieceReader
from scholarbase_download.objects import STORES, small_object, stored_pieces
from scholarbase_download.packing import hash_file
from scholarbase_download.requests import (
    SHA256,
    Fetcher,
    LinkExpired,
    Patience,
    address,
    hash_beside,
    hash_in,
)

log = logging.getLogger("scholarbase.updates")

PATIENCE: Final = Patience(retries=5, timeout=60.0)
_BUFFER: Final = 1 << 16
WEB: Final = ("http://", "https://")
MAX_HASH_FILE: Final = 4096
"""Bytes of a file with one hash and a name."""


class PackedFile:
    """A packed file that is being read; ``name`` is for messages."""

    def __init__(self, name: str, pieces: Iterator[bytes], sha256: str | None) -> None:
        self.name = name
        self._hash = hashlib.sha256()
        self._sha256 = None if sha256 is None else sha256.lower()
        self.file: BinaryIO = io.BufferedReader(PieceReader(self._hashed(pieces)), _BUFFER)

    def _hashed(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._hash.update(piece)
            yield piece

    def check_hash(self) -> None:
        """Compare the hash of all bytes, after the last is read. Raises LibraryCorrupt: it is another."""
        actual = self._hash.hexdigest()
        if self._sha256 is None:
            log.warning(
                "%s has no known hash: its files are those of its own list, but nothing says that this is the library "
                "that was published. Its SHA-256 is %s.",
                self.name,
                actual,
            )
        elif actual != self._sha256:
            raise LibraryCorrupt(
                f"{self.name} has the SHA-256 {actual} instead of {self._sha256}: it is damaged, or another file. Get "
                "it again."
            )


@contextmanager
def open_packed(source: str | Path, sha256: str | None) -> Iterator[PackedFile]:
    """Open a packed file or URL. Its hash is ``sha256``, or the one in ``SOURCE.sha256`` if there is such a file.

    Raises:
        InvalidRequest: ``sha256`` is not a SHA-256, or the URL is invalid.
        SourceError: the file or URL cannot be read, or ``SOURCE.sha256`` is not what sha256sum writes; also while
            reading.
    """
    if sha256 is not None and not SHA256.fullmatch(sha256):
        raise InvalidRequest(f"--sha256 {sha256!r} is not a SHA-256: give 64 hexadecimal digits.")
    with closing(_pieces(source)) as pieces:
        name = address(source) if isinstance(source, str) and is_url(source) else str(source)
        yield PackedFile(name, pieces, sha256 or published_hash(source))


def _pieces(source: str | Path) -> Generator[bytes]:
    if _starts(source, WEB):
        with Fetcher(PATIENCE) as fetcher:
            try:
                yield from fetcher.stream(str(source))
            except LinkExpired as error:
                raise SourceError(f"{error}: check the URL, or download the file and unpack that.") from error
    elif _starts(source, STORES):
        yield from stored_pieces(str(source))
    else:
        path = path_of(source)
        try:
            with path.open("rb") as file:
                while piece := file.read(_BUFFER):
                    yield piece
        except OSError as error:  # of the source: others are of the library's disk
            raise _unreadable(path, error) from error


def published_hash(source: str | Path) -> str | None:
    """The hash in ``SOURCE.sha256``, None if there is no such file. Raises as :func:`open_packed`."""
    if _starts(source, WEB):
        if not _split(str(source)).hostname:
            raise InvalidRequest(f"{source!r} is not a valid URL: it names no host.")
        with Fetcher(PATIENCE) as fetcher:
            return hash_beside(fetcher, str(source))
    if _starts(source, STORES):
        data = small_object(f"{source}.sha256", MAX_HASH_FILE)
        return None if data is None else hash_in(data, f"{source}.sha256")
    beside = hash_file(path_of(source))
    try:
        if not beside.exists():
            return None
        with beside.open("rb") as hashes:
            return hash_in(hashes.read(MAX_HASH_FILE), str(beside))
    except OSError as error:
        raise _unreadable(beside, error) from error


def path_of(source: str | Path) -> Path:
    """The path that a path or ``file://`` URL names. Raises InvalidRequest: it is another URL."""
    if isinstance(source, Path) or not is_url(source):
        return Path(source)
    parts = _split(source)
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        raise InvalidRequest(
            f"{source!r} is not the URL of a packed library: use http, https, s3, gs or az, or file:///path."
        )
    return Path(unquote(parts.path))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError if it is not a number
    except ValueError as error:
        raise InvalidRequest(f"{url!r} is not a valid URL ({error}): correct it.") from error
    return parts


def _starts(source: str | Path, schemes: tuple[str, ...]) -> bool:
    return isinstance(source, str) and source.lower().startswith(schemes)


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(
        f'{path} cannot be read ({error.strerror or error}): give a file that "scholarbase pack" wrote, or its URL.'
    )
