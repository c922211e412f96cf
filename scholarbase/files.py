"""Files: reading compressed ones, and errors that name the file."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from scholarbase.errors import QueryFileError, StorageError

# gzip: RFC 1952, 2.3.1. xz: the .xz file format, 2.1.1.1.
_GZIP: Final = b"\x1f\x8b"
_XZ: Final = b"\xfd7zXZ\x00"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_BOM: Final = b"\xef\xbb\xbf"
_BUFFER: Final = 1 << 16


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed if it is gzip or xz, without a byte order mark.

    Raises:
        QueryFileError: it cannot be read, or its compressed stream breaks off. Also while it is being read.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            magic = file.read(6)
            file.seek(0)
            if magic.startswith(_ZSTD):
                raise QueryFileError(f"{path} is packed with zstd: unpack it, or pack it with gzip or xz.")
            stream: Any = file
            if magic.startswith(_GZIP):
                stream = stack.enter_context(gzip.GzipFile(fileobj=file))
            elif magic.startswith(_XZ):
                stream = stack.enter_context(lzma.LZMAFile(file))
            buffered = io.BufferedReader(cast("io.RawIOBase", stream), _BUFFER)
            if buffered.peek(3).startswith(_BOM):
                buffered.read(3)
            yield buffered
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise QueryFileError(
            f"{path} is incomplete or damaged: its compressed stream breaks off ({error}). Fetch it again."
        ) from error
    except OSError as error:
        raise QueryFileError(f"{path} cannot be read ({error.strerror or error}).") from error


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, compressed with gzip or xz or not at all, numbered from 1, with their line ends.

    Raises:
        QueryFileError: the file is missing, cut off, or not UTF-8 text.
    """
    with opened(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise QueryFileError(f"{path}, line {number} is no UTF-8 text: {error}.") from error
            yield number, text


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an operating system's error inside the block into a StorageError that names the file or folder."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"Cannot write {path} ({error.strerror or error}): make room, or write the run elsewhere."
        ) from error
