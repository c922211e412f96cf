"""``scholarbase pack``: a library as one file, with its hash beside it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

from scholarbase import manifest
from scholarbase.errors import InvalidRequest, LibraryCorrupt, StorageError
from scholarbase.files import atomic_write, locked_folder, storage_errors, sync_folder, temporary_files
from scholarbase.indexes import contents
from scholarbase.indexes.contents import BLOCK, FileFact, block_hash, changed_block, read_contents
from scholarbase.ingest.folder import VECTORS
from scholarbase.manifest import read_manifest
from scholarbase.memory import cores
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_download.archive import PieceReader, check_listed, counted

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

    The file gets its name when it is complete; ``FILE.sha256`` is written before. The same library gives the same
    bytes, with the same release of zstandard.

    Args:
        force: replace a file that exists.
        vectors: pack the vectors of papers, which a library does not need where they are on a Qdrant server.

    Raises:
        InvalidRequest: ``file`` exists and ``force`` is off, or it is in the library's folder.
        LibraryNotFound, LibraryCorrupt: the library cannot be read, or a file differs from its hashes.
        StorageError: the disk is full or cannot be written, or another process writes to the folder.
    """
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
    folder = file.absolute().parent
    busy = StorageError(
        f"Another process is writing to {folder}: wait until it ends, or choose another FILE."
    )
    with storage_errors(file, ADVICE), locked_folder(folder, busy):
        for left in (*temporary_files(file), *temporary_files(hash_file(file))):  # of a killed call
            left.unlink(missing_ok=True)
        with (
            (reporter or SilentReporter()).stage("pack", "bytes", total) as tracker,
            atomic_write(file) as out,
        ):
            archive = _Compressed(out)
            progress = counted(tracker)
            with tarfile.open(fileobj=cast("BinaryIO", archive), mode="w|", format=tarfile.GNU_FORMAT) as tar:
                for name in names:
                    blocks = _read_blocks(library / name, listed.files[name], progress)
                    tar.addfile(
                        _member(name, listed.files[name].bytes), io.BufferedReader(PieceReader(blocks))
                    )
                    if name == manifest.FILE_NAME:
                        tar.addfile(_member(contents.FILE_NAME, len(listed_bytes)), io.BytesIO(listed_bytes))
            archive.finish()
            digest = archive.hash.hexdigest()
            # A file that has its name always has its own hash beside it.
            file.unlink(missing_ok=True)
            with atomic_write(hash_file(file)) as hash_out:
                hash_out.write(f"{digest}  ".encode() + os.fsencode(file.name) + b"\n")
        sync_folder(folder)
    return Packed(snapshot, len(names) + 1, total + len(listed_bytes), archive.count, digest)


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    return member


class _Compressed:
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


def _read_blocks(path: Path, fact: FileFact, progress: Callable[[int], None]) -> Iterator[bytes]:
    """The blocks of a file. Raises LibraryCorrupt: it cannot be read, or differs from its size and hashes."""
    try:
        with path.open("rb", buffering=0) as file:
            for number, start in enumerate(range(0, fact.bytes, BLOCK)):
                data = file.read(min(BLOCK, fact.bytes - start))
                if block_hash(data) != fact.blocks[number]:
                    raise changed_block(path, fact, number)
                yield data
                progress(len(data))
            rest = file.read(1)
    except OSError as error:
        raise LibraryCorrupt(f"{path} cannot be read: {error}. Restore the copy, or ingest again.") from error
    if rest:
        raise LibraryCorrupt(
            f"{path} has more than {fact.bytes:,} bytes: it has changed since it was written. Restore the copy, or "
            "ingest again."
        )
