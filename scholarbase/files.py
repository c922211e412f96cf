"""Files: atomic writes, compressed files, and errors that name the file."""

from __future__ import annotations

import codecs
import errno
import fcntl
import gzip
import io
import lzma
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, Protocol

from scholarbase.errors import QueryFileError, SourceError, StorageError

Compression = Literal["gzip", "xz", "zstd"]

# gzip: RFC 1952, 2.3.1. xz: the .xz file format, 2.1.1.1. zstd: RFC 8878, 3.1.1.
_MAGIC: Final[tuple[tuple[bytes, Compression], ...]] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
ZIP: Final = b"PK\x03\x04"
"""How ZIP archives begin. Those without compression have readable lines, but not all of them whole."""
_BOM: Final = b"\xef\xbb\xbf"
_BUFFER: Final = 1 << 16
_ZEROS: Final = bytes(_BUFFER)
_ZSTD_PIECE: Final = 1 << 9
"""Stored bytes that are decompressed at once. Four of them may hold a block of 128 KiB, so 16 MiB are the most."""

MAX_LINE: Final = 64_000_000
"""Bytes of the longest line that is read."""
MAX_WHOLE: Final = 256_000_000
"""Bytes of the longest file that is not read line by line."""

DECOMPRESSION_ERRORS: Final = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
"""What reading a compressed stream raises where it is cut short or damaged."""

NO_FOLDER: Final = frozenset({errno.EEXIST, errno.ENOTDIR})
DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NOT_WRITABLE: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
DISK_FAILED: Final = frozenset({errno.EIO})


# -- writing --------------------------------------------------------------------------------------------


@contextmanager
def atomic_write(path: Path, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``path``; at the end of the block, fsync it and rename it to ``path``.

    If the block or the writing raises, the temporary file is removed and ``path`` stays as it was. ``mode`` is that
    of a new file, before the umask.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Fsync a folder, so that renames in it survive a crash of the operating system."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def temporary_files(path: Path) -> Iterator[Path]:
    """The temporary files that killed processes left while they wrote ``path``."""
    return path.parent.glob(f".{path.name}.*.tmp")


def unhidden(folder: Path) -> set[str]:
    """The names in a folder, without hidden ones, such as the temporary files that killed processes left."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file to a new one, without its holes and zeros: Qdrant allocates 32 MiB for a few kilobytes."""
    with source.open("rb") as reader, target.open("xb") as writer:
        size = os.fstat(reader.fileno()).st_size
        end = 0
        while end < size:
            try:
                start = os.lseek(reader.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole up to the end
                    break
                raise
            end = os.lseek(reader.fileno(), start, os.SEEK_HOLE)
            _copy_range(reader, writer, start, end)
        writer.truncate(size)


def _copy_range(reader: BinaryIO, writer: BinaryIO, start: int, end: int) -> None:
    reader.seek(start)
    position = start
    while position < end:
        block = reader.read(min(_BUFFER, end - position))
        if not block:
            break
        if block != _ZEROS[: len(block)]:
            writer.seek(position)
            writer.write(block)
        position += len(block)


def gzip_writer(file: BinaryIO, level: int = 9) -> gzip.GzipFile:
    """A gzip stream without a time or file name in its header: equal contents give equal bytes."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=level, fileobj=file, mtime=0)


@contextmanager
def storage_errors(
    path: Path,
    advice: str = "free some disk space, or choose another place",
    errnos: Collection[int] | None = None,
) -> Iterator[None]:
    """Turn an OSError inside the block into a StorageError that names ``path`` and ends with ``advice``.

    Where a file is in the place of a folder, the message names the file instead of ``advice``.
    Errors with other numbers than ``errnos``, where specified, are raised unchanged.
    """
    try:
        yield
    except OSError as error:
        if errnos is not None and error.errno not in errnos:
            raise
        reason = error.strerror or str(error)
        named = Path(error.filename or path)
        files = [place for place in (named, *named.parents) if place.is_file()]
        if error.errno in NO_FOLDER and files:
            raise StorageError(
                f"Cannot write {path} ({os.strerror(errno.ENOTDIR)}): {files[0]} is a file. Give a folder, or move it."
            ) from error
        if error.errno == errno.ENOENT and not path.parent.exists():
            advice = f"create the folder {path.parent} first"
        if error.errno in DISK_FULL:
            reason += f"; {free_space(path) / 1e6:,.0f} MB free"
        if error.errno in DISK_FAILED:
            reason += "; the disk or its connection may be damaged"
        raise StorageError(f"Cannot write {path} ({reason}): {advice}.") from error


def free_space(path: Path) -> int:
    """Bytes that this user can write where ``path`` is or will be."""
    existing = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    return shutil.disk_usage(existing).free


@contextmanager
def locked(path: Path, busy: Exception | None = None) -> Iterator[None]:
    """Lock a folder, or a file, which is created. If another process has the lock, raise ``busy``, or wait for its end.

    The lock ends with the block, and with the process (flock(2)).
    """
    lock = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if busy is None else fcntl.LOCK_NB))
        except BlockingIOError as error:
            assert busy is not None
            raise busy from error
        try:
            yield
        finally:
            # Closing it is not enough: a process that was forked meanwhile has it open too.
            fcntl.flock(lock, fcntl.LOCK_UN)
    finally:
        os.close(lock)


@contextmanager
def locked_folder(folder: Path, busy: Exception) -> Iterator[None]:
    """Create a folder, and lock it. Raises ``busy`` if another process has the lock."""
    with ExitStack() as stack:
        with storage_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder, busy))
        yield


# -- reading --------------------------------------------------------------------------------------------


class ByteStream(Protocol):
    def read1(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


NOTES: Final = (
    "readme", "license", "licence", "copying", "notice", "changelog", "checksum", "sha256", "md5"
)  # fmt: skip
"""How the names of files that describe others begin."""


def walk(folder: Path, is_note: Callable[[Path], bool]) -> Iterator[Path]:
    """Files at any depth of a folder, by name, without hidden files and notes. Links are followed once each.

    Raises:
        SourceError: a folder cannot be read.
    """
    seen: set[Path] = set()

    def below(folder: Path) -> Iterator[Path]:
        if (key := folder.resolve()) in seen:
            return
        seen.add(key)
        with source_errors(folder):
            entries = sorted(folder.iterdir(), key=lambda path: path.name)
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                yield from below(entry)
            elif not is_note(entry):
                yield entry

    return below(folder)


@contextmanager
def source_errors(path: Path, done: Callable[[], str] = str) -> Iterator[None]:
    """Turn the errors of reading a source in the block into a SourceError.

    ``done`` describes what was read before damage.
    """
    try:
        yield
    except DECOMPRESSION_ERRORS as error:
        raise SourceError(
            f"{path} is incomplete or damaged: its compressed stream breaks off{done()} ({error}). Download it again."
        ) from error
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read: {error.strerror or error}. Check that it exists and is readable."
        ) from error


def decompress(file: io.BufferedReader) -> ByteStream:
    """Decompress an open file as it is read: gzip, xz or zstd, detected by its first bytes, or not compressed.

    Files of several compressed streams, as ``pigz``, ``xz -T`` and ``cat`` write them, are read to their end.
    Reading raises one of :data:`DECOMPRESSION_ERRORS` where a stream is cut short or damaged.
    """
    compression = _compression(file)
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file)
    if compression == "xz":
        return lzma.LZMAFile(file)
    return ZstdStream(file) if compression == "zstd" else file


def _compression(file: io.BufferedReader) -> Compression | None:
    start = file.read(6)
    file.seek(0)
    return next((name for magic, name in _MAGIC if start.startswith(magic)), None)


class ZstdStream:
    """A zstd stream of any number of frames.

    zstandard's own reader does not report a stream that is cut short, so this one checks the end of the last frame. Its
    decompressor has no limit of output, so it gets small pieces. A frame with a larger
    window than ``max_window`` bytes, which are held in memory, is an error.
    """

    def __init__(self, file: BinaryIO, max_window: int = 1 << 31) -> None:
        import zstandard

        decompressor = zstandard.ZstdDecompressor(max_window_size=max_window)
        self._new_frame = partial(decompressor.decompressobj, write_size=_BUFFER)
        self._error = zstandard.ZstdError
        self._file = file
        self._frame: Any = self._new_frame()
        self._in_frame = False
        self._piece = b""
        self._failure: EOFError | None = None
        self._text = b""
        self._place = 0

    def read1(self, size: int, /) -> bytes:
        """At most ``size`` bytes. Empty at the end of the file."""
        if self._place == len(self._text):
            self._text, self._place = self._next(size), 0
        start, self._place = self._place, min(self._place + size, len(self._text))
        return self._text[start : self._place]

    read = read1

    def _next(self, size: int) -> bytes:
        """Decompress pieces until they hold ``size`` bytes or more, or up to damage. Empty at the end of the file."""
        texts: list[bytes] = []
        while size > 0 and self._failure is None:
            if self._frame.eof:
                self._piece = self._frame.unused_data
                self._frame, self._in_frame = self._new_frame(), False
            self._piece = self._piece or self._file.read(_ZSTD_PIECE)
            try:
                if not self._piece and self._in_frame:
                    raise EOFError("the last zstd frame is cut short")
                text: bytes = self._frame.decompress(self._piece)
            except (EOFError, self._error) as error:
                self._failure = EOFError(str(error))
                break
            if not self._piece:
                break
            self._in_frame, self._piece = True, b""
            texts.append(text)
            size -= len(text)
        decompressed = b"".join(texts)
        if self._failure is not None and not decompressed:
            raise self._failure
        return decompressed

    def close(self) -> None:
        """Does not close the file."""


class _BoundedLines(io.RawIOBase):
    """The bytes of a stream. Reading raises QueryFileError in a line of more than ``MAX_LINE`` bytes."""

    def __init__(self, stream: ByteStream, path: Path) -> None:
        self._stream = stream
        self._path = path
        self._lines = 0
        self._length = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read1(len(buffer))
        ends = data.count(b"\n")
        self._lines += ends
        self._length = len(data) - data.rfind(b"\n") - 1 if ends else self._length + len(data)
        if self._length > MAX_LINE:
            raise QueryFileError(
                f"{self._path}, line {self._lines + 1} has more than {MAX_LINE:,} bytes: it is damaged, or needs line "
                "breaks."
            )
        buffer[: len(data)] = data
        return len(data)


def read_whole(path: Path) -> bytes:
    """The content of a query file. Raises as :func:`opened`, and where it has more than ``MAX_WHOLE`` bytes."""
    with opened(path) as stream:
        content = stream.read(MAX_WHOLE + 1)
    if len(content) > MAX_WHOLE:
        raise QueryFileError(
            f"{path} has more than {MAX_WHOLE:,} bytes, and its format is read as a whole: split it, or write JSON "
            "lines."
        )
    return content


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a query file for reading bytes, decompressed if it is gzip or xz, without a byte order mark.

    Raises:
        QueryFileError: it cannot be read, its compressed stream is cut short or damaged, or a line has more than
            ``MAX_LINE`` bytes; also while reading.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            if _compression(file) == "zstd":
                raise QueryFileError(
                    f"{path} is compressed with zstd: decompress it, or compress it with gzip or xz."
                )
            stream = stack.enter_context(closing(decompress(file)))
            buffered = io.BufferedReader(_BoundedLines(stream, path), _BUFFER)
            if buffered.peek(3).startswith(_BOM):
                buffered.read(3)
            yield buffered
    except DECOMPRESSION_ERRORS as error:
        raise QueryFileError(
            f"{path} is incomplete or damaged: its compressed stream breaks off ({error}). Download it again."
        ) from error
    except OSError as error:
        raise QueryFileError(f"{path} cannot be read ({error.strerror or error}).") from error


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a UTF-8 text file, plain, gzip or xz, with their line ends, numbered from 1.

    Raises:
        QueryFileError: the file cannot be read, is cut short, or is not UTF-8 text.
    """
    with opened(path) as lines:
        for number, line in enumerate(lines, 1):
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise QueryFileError(f"{path}, line {number} is not valid UTF-8: {error}.") from error
            yield number, text


def disk_size(paths: Iterable[Path]) -> int:
    """The bytes that the files among these paths take on the disk."""
    return sum(path.stat().st_blocks * 512 for path in paths if path.is_file())


def wide_encoding(first: bytes) -> str | None:
    """UTF-16 or UTF-32, by the mark at the start of a file's first line, or by its zeros."""
    if first.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "UTF-32"
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    zeros = first.count(0) / len(first) if first.strip(b"\0\r\n ") else 0
    return None if zeros < 0.25 else "UTF-16" if zeros < 0.6 else "UTF-32"  # of ASCII they are 0.5 and 0.75
