"""``scholarbase pack``: a library as one file, with its hash beside it."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from scholarbase import manifest
from scholarbase.errors import InvalidRequest, LibraryCorrupt, StorageError
from scholarbase.extras import check_installed
from scholarbase.files import atomic_write, storage_errors, sync_folder, temporary_files
from scholarbase.indexes import contents
from scholarbase.indexes.contents import BLOCK, FileFact, block_hash, changed_block, read_contents
from scholarbase.ingest.folder import VECTORS
from scholarbase.manifest import read_manifest
from scholarbase.memory import cores
from scholarbase.progress import Reporter, SilentReporter
from scholarbase.updates.archive import END, check_listed, counted, header, padding

LEVEL: Final = 3
"""zstd's default level."""
MOST_THREADS: Final = 8
"""Threads that compress, each with some 20 MB. Their number does not change the bytes, but 0 would."""
ADVICE: Final = "free some disk space, or choose another FILE"


class Packed(NamedTuple):
    """What was packed: the snapshot id, the number and bytes of the files, and the archive's bytes and SHA-256."""

    snapshot: str
    files: int
    bytes: int
    packed_bytes: int
    sha256: str


def hash_file(file: Path) -> Path:
    """The file beside an archive that has its hash, as ``sha256sum`` writes it."""
    return file.with_name(file.name + ".sha256")


def pack(
    library: str | Path,
    file: str | Path,
    *,
    force: bool = False,
    vectors: bool = True,
    reporter: Reporter | None = None,
) -> Packed:
    """Write a library as one file, and compare each block with its hash while it is read.

    The file has the name ``FILE.part`` until it is complete, and an interrupted call is repeated. ``FILE.sha256`` is
    written before ``FILE`` gets its name. The same library gives the same bytes, with the same release of zstandard.

    Args:
        force: replace a file that exists.
        vectors: pack the vectors of papers, which a library does not need where they are on a Qdrant server.

    Raises:
        InvalidRequest: ``file`` exists and ``force`` is off, or it is in the library's folder.
        LibraryNotFound, LibraryCorrupt: the library cannot be read, or a file differs from its hashes.
        StorageError: the disk is full or cannot be written, or another process writes the same file.
        MissingExtra: zstandard is not installed.
    """
    check_installed("zstd", "Packing a library")
    library, file = Path(library), Path(file)
    _, snapshot = read_manifest(library)
    if file.is_dir() or (file.exists() and not force):
        raise InvalidRequest(f"{file} exists: choose another FILE, or replace the file with --force.")
    if file.resolve().is_relative_to(library.resolve()):
        raise InvalidRequest(f"{file} is in the library's folder: choose a FILE outside of it.")
    listed = read_contents(library, snapshot)
    if not vectors:
        listed = listed.without(f"{VECTORS}/")
    listed.check_sizes(library)
    check_listed(listed, library / contents.FILE_NAME)
    listed_bytes = listed.to_bytes()
    names = [manifest.FILE_NAME, *sorted(set(listed.files) - {manifest.FILE_NAME})]
    total = sum(fact.bytes for fact in listed.files.values())
    with (
        storage_errors(file, ADVICE),
        _part_of(file) as out,
        (reporter or SilentReporter()).stage("pack", "bytes", total) as tracker,
    ):
        archive = _Archive(out)
        progress = counted(tracker)
        for name in names:
            _write_member(archive, library, name, listed.files[name], progress)
            if name == manifest.FILE_NAME:
                archive.write(header(contents.FILE_NAME, len(listed_bytes)))
                archive.write(listed_bytes)
                archive.write(bytes(padding(len(listed_bytes))))
        archive.write(END)
        archive.finish()
        out.flush()
        os.fsync(out.fileno())
        digest = archive.hash.hexdigest()
        # A file that has its name always has its own hash beside it.
        file.unlink(missing_ok=True)
        for left in temporary_files(hash_file(file)):  # of a killed call; this one has the lock
            left.unlink(missing_ok=True)
        with atomic_write(hash_file(file)) as hash_out:
            hash_out.write(f"{digest}  {file.name}\n".encode())
        _part(file).replace(file)
        sync_folder(file.absolute().parent)
    return Packed(snapshot, len(names) + 1, total + len(listed_bytes), archive.count, digest)


def _part(file: Path) -> Path:
    return file.with_name(file.name + ".part")


@contextmanager
def _part_of(file: Path) -> Iterator[BinaryIO]:
    """``FILE.part``, empty and locked. It is removed if the block raises."""
    path = _part(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=BLOCK) as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The process that held the lock may have renamed the file before it ended.
            if not path.exists() or not os.path.samestat(path.stat(), os.fstat(out.fileno())):
                raise BlockingIOError
        except BlockingIOError as error:
            raise StorageError(
                f"Another process is writing {path}: wait until it ends, or choose another FILE."
            ) from error
        out.truncate(0)
        try:
            yield out
        except BaseException:
            path.unlink(missing_ok=True)
            raise


class _Archive:
    """Compresses what is written to a file, and counts and hashes the compressed bytes."""

    def __init__(self, out: BinaryIO) -> None:
        import zstandard

        threads = min(MOST_THREADS, cores())
        compressor = zstandard.ZstdCompressor(level=LEVEL, threads=threads, write_checksum=True)
        self._stream = compressor.compressobj()
        self._out = out
        self.hash = hashlib.sha256()
        self.count = 0

    def write(self, data: bytes) -> None:
        self._store(self._stream.compress(data))

    def finish(self) -> None:
        self._store(self._stream.flush())

    def _store(self, data: bytes) -> None:
        self.hash.update(data)
        self.count += len(data)
        self._out.write(data)


def _write_member(
    archive: _Archive, library: Path, name: str, fact: FileFact, progress: Callable[[int], None]
) -> None:
    """Write a file of the library, whose blocks must have their hashes."""
    archive.write(header(name, fact.bytes))
    for data in _read_blocks(library / name, fact):
        archive.write(data)
        progress(len(data))
    archive.write(bytes(padding(fact.bytes)))


def _read_blocks(path: Path, fact: FileFact) -> Iterator[bytes]:
    """The blocks of a file. Raises LibraryCorrupt: it cannot be read, or differs from its size and hashes."""
    try:
        with path.open("rb", buffering=0) as file:
            for number, start in enumerate(range(0, fact.bytes, BLOCK)):
                data = file.read(min(BLOCK, fact.bytes - start))
                if block_hash(data) != fact.blocks[number]:
                    raise changed_block(path, fact, number)
                yield data
            rest = file.read(1)
    except OSError as error:
        raise LibraryCorrupt(f"{path} cannot be read: {error}. Restore the copy, or ingest again.") from error
    if rest:
        raise LibraryCorrupt(
            f"{path} has more than {fact.bytes:,} bytes: it has changed since it was written. Restore the copy, or "
            "ingest again."
        )
