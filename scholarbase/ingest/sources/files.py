"""The files of a snapshot: which there are, what they are, and their lines, one after the other."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from scholarbase.errors import SourceError
from scholarbase.ingest.sources.detect import LINES_LOOKED_AT, UNUSED, Dataset, detect

Compression = Literal["none", "gzip", "xz", "zstd"]

# gzip: RFC 1952, 2.3.1. xz: the .xz file format, 2.1.1.1. zstd: RFC 8878, 3.1.1.
_MAGIC: Final[tuple[tuple[bytes, Compression], ...]] = (
    (b"\x1f\x8b", "gzip"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_CHUNK: Final = 1 << 18

READ_ORDER: Final[tuple[Dataset, ...]] = (
    Dataset.PAPERS,
    Dataset.PAPER_IDS,
    Dataset.ABSTRACTS,
    Dataset.PUBLICATION_VENUES,
    Dataset.AUTHORS,
    Dataset.TLDRS,
    Dataset.ARXIV,
    Dataset.BEIR,
    Dataset.CITATIONS,
)
"""The order in which datasets must be read: what others refer to, or complete, comes first."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a snapshot. ``name`` is its path below the source that was given, with forward slashes: it is
    the same wherever the snapshot lies. ``size`` is in bytes, as stored."""

    path: Path
    name: str
    dataset: Dataset
    compression: Compression
    size: int


def compression_of(path: Path) -> Compression:
    """How a file is compressed, by its first bytes.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = file.read(6)
    except OSError as error:
        raise _unreadable(path, error) from error
    return next((name for magic, name in _MAGIC if start.startswith(magic)), "none")


def open_lines(path: Path, position: list[int] | None = None) -> Generator[tuple[int, bytes]]:
    """The lines of a file, plain or compressed, each with its number, counted from 1.

    Lines may be of any length; they come without what ends them. Blank lines are counted and passed over.
    The file is closed when the iterator ends, or is closed. ``position``, a list of one number, is kept at how
    many bytes of the stored file have been read, for a progress display.

    Raises:
        SourceError: the file cannot be read, or its compressed stream breaks off or is damaged.
    """
    number = 0
    try:
        with path.open("rb") as file, closing(_decompressed(file, compression_of(path))) as stream:
            for number, line in enumerate(_split(stream), 1):
                text = line.removesuffix(b"\r")
                if number == 1:
                    text = text.removeprefix(b"\xef\xbb\xbf")
                if position is not None and number % 1000 == 0:
                    position[0] = file.tell()
                if text and not text.isspace():
                    yield number, text
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise SourceError(
            f"{path} is incomplete or damaged: its compressed stream ends after {number} whole lines "
            f"({error}). Download it again."
        ) from error
    except OSError as error:
        raise _unreadable(path, error) from error


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file as it is stored, in hexadecimal.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from error


def discover(paths: Sequence[str | Path]) -> list[SourceFile]:
    """The snapshot files among ``paths`` and below the folders among them, in the order they must be read.

    Within a dataset they keep the order of ``paths``, and below a folder that of their names. Each file
    counts once, however often it is reached. Notes that come with a snapshot (README, LICENSE, ``.md``,
    ``.txt``, checksums) and hidden files are passed over below a folder. Files of datasets that are not used
    (:data:`~scholarbase.ingest.sources.detect.UNUSED`) stand last: say so, and don't read them.

    Raises:
        SourceError: a path does not exist, a file is no snapshot file or cannot be read, or nothing is left.
    """
    found: dict[Path, SourceFile] = {}
    names: set[str] = set()
    for position, given in enumerate(paths, 1):
        root = Path(given)
        if not root.exists():
            raise SourceError(f"No file or folder at {given}: check the path of the snapshot.")
        for path in _below(root, set()) if root.is_dir() else [root]:
            key = path.resolve()
            if key in found:
                continue
            name = path.relative_to(root).as_posix() if root.is_dir() else root.name
            if name in names:
                name = f"{position}/{name}"
            names.add(name)
            found[key] = _source_file(path, name)
    if not any(source.dataset not in UNUSED for source in found.values()):
        where = ", ".join(str(path) for path in paths) or "no path"
        unused = sorted({source.dataset.value for source in found.values()})
        held = f"only {' and '.join(unused)}, which are not used" if unused else "none"
        raise SourceError(
            f"No snapshot file in {where} ({held}): give the files or folders of a Semantic Scholar release "
            "(papers, abstracts, citations), an arXiv metadata snapshot or the corpus of a BEIR collection."
        )
    order = {dataset: rank for rank, dataset in enumerate((*READ_ORDER, *sorted(UNUSED)))}
    return sorted(found.values(), key=lambda source: order[source.dataset])


def _source_file(path: Path, name: str) -> SourceFile:
    if path.exists() and not path.is_file():
        raise SourceError(f"{path} is no ordinary file: a snapshot cannot be read from a pipe or a device.")
    compression = compression_of(path)
    lines = open_lines(path)
    with closing(lines):
        dataset = detect((line for _, line in lines), path.name)
    if dataset is None:
        raise SourceError(
            f"{path} is no snapshot file: none of its first {LINES_LOOKED_AT} lines is a JSON record of a "
            "Semantic Scholar dataset, of an arXiv metadata snapshot or of a BEIR collection. Leave it out, or "
            "download it again."
        )
    return SourceFile(path, name, dataset, compression, path.stat().st_size)


_NOTE_NAMES: Final = (
    "readme",
    "license",
    "licence",
    "copying",
    "notice",
    "changelog",
    "checksum",
    "sha256",
    "md5",
)
_NOTE_ENDINGS: Final = frozenset({".md", ".txt", ".rst", ".pdf", ".html", ".md5", ".sha256", ".bib"})


def _is_note(path: Path) -> bool:
    name = path.name.lower()
    return name.startswith((".", "_success", *_NOTE_NAMES)) or path.suffix.lower() in _NOTE_ENDINGS


def _below(folder: Path, seen: set[Path]) -> Iterator[Path]:
    """The files below a folder by name, hidden ones and notes left out. Links are followed, each once."""
    key = folder.resolve()
    if key in seen:
        return
    seen.add(key)
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError as error:
        raise _unreadable(folder, error) from error
    for entry in entries:
        if entry.is_dir():
            if not entry.name.startswith("."):
                yield from _below(entry, seen)
        elif not _is_note(entry):
            yield entry


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(
        f"{path} cannot be read: {error.strerror or error}. Check that it exists and may be read."
    )


def _decompressed(file: io.BufferedReader, compression: Compression) -> _Stream:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=file)
    if compression == "xz":
        return lzma.LZMAFile(file)
    return _ZstdStream(file) if compression == "zstd" else file


def _split(stream: _Stream) -> Iterator[bytes]:
    """The lines of a stream. Unlike a BufferedReader's, they come to the last whole one before a fault."""
    pieces: list[bytes] = []
    while chunk := stream.read1(_CHUNK):
        lines = chunk.split(b"\n")
        pieces.append(lines[0])
        if len(lines) > 1:
            yield b"".join(pieces)
            yield from lines[1:-1]
            pieces = [lines[-1]]
    last = b"".join(pieces)
    if last:
        yield last


class _Stream(Protocol):
    def read1(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class _ZstdStream:
    """A zstd stream of any number of frames. zstandard's own reader takes a stream cut short for a whole one,
    so this one looks for the end of the last frame."""

    def __init__(self, file: io.BufferedReader) -> None:
        try:
            import zstandard
        except ImportError as error:
            raise SourceError(
                f"{file.name} is compressed with zstd, which needs the zstandard package: "
                'run pip install "scholarbase[zstd]".'
            ) from error
        self._new_frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj
        self._failure = zstandard.ZstdError
        self._file = file
        self._frame: Any = self._new_frame()
        self._begun = False

    def read1(self, size: int, /) -> bytes:
        """What the next ``size`` stored bytes hold; nothing at the end of the file."""
        while True:
            data = b""
            if self._frame.eof:
                data = self._frame.unused_data
                self._frame, self._begun = self._new_frame(), False
            data = data or self._file.read(size)
            if not data:
                if self._begun:
                    raise EOFError("the last zstd frame is cut short")
                return b""
            self._begun = True
            try:
                text: bytes = self._frame.decompress(data)
            except self._failure as error:
                raise EOFError(str(error)) from error
            if text:
                return text

    def close(self) -> None:
        """The file is closed by who opened it."""
