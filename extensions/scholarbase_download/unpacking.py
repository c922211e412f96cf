"""``scholarbase unpack``: a library from one file, checked while it is written.

Nothing in an archive is trusted: names, sizes and hashes of its members must be those of its list of files, which may
name only a library's own files, and more bytes than it says are never written.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, cast

from scholarbase import manifest
from scholarbase.errors import LibraryCorrupt, LibraryExists, StorageError
from scholarbase.files import DECOMPRESSION_ERRORS, ZstdStream, free_space, sync_folder
from scholarbase.indexes import contents
from scholarbase.indexes.contents import BLOCK, ZEROS, ZEROS_HASH, Contents, FileFact, block_hash
from scholarbase.ingest.folder import BuildFolder, build_errors
from scholarbase.manifest import Manifest, snapshot_id
from scholarbase.progress import Reporter, SilentReporter
from scholarbase_download.archive import FIRST, check_listed, counted
from scholarbase_download.opening import PackedFile, open_packed

COMMAND: Final = "unpack"
MAX_WINDOW: Final = 1 << 27
"""Bytes of the longest window, as for the zstd command: the memory that an archive may take to decompress."""
MOST_PADDING: Final = 1 << 20
"""Bytes of zeros after the last member: GNU tar fills a record, of up to this size."""
SPARE: Final = 64 << 20
"""Bytes of the disk that are left free."""


def unpack(
    source: str | Path,
    library: str | Path,
    *,
    sha256: str | None = None,
    snapshot: str | None = None,
    reporter: Reporter | None = None,
) -> Manifest:
    """Write the library in a packed file or URL to the folder ``library``.

    The library appears when it is complete. After an interruption the same call starts over. If the folder already has
    the same library, nothing is done.

    Args:
        sha256: the hash of the packed file, in hexadecimal; by default the one in ``SOURCE.sha256``, if there is one.
        snapshot: the id of the library; by default any.

    Raises:
        LibraryCorrupt: the packed file is damaged, incomplete, or not a packed library, or has another hash or library.
            Also where its library has a format that this release does not read.
        LibraryExists: the folder has another library, other files, or an unfinished job of another command.
        LibraryBusy: another process writes to the folder.
        SourceError: the file or URL cannot be read.
        StorageError: the disk is too small, full or cannot be written.
        InvalidRequest: ``sha256`` is not a SHA-256, or the URL is invalid.
    """
    library = Path(library)
    with open_packed(source, sha256) as packed, build_errors(library):
        folder = BuildFolder(library, COMMAND)
        try:
            if folder.pending_contents.exists():  # only moves are left
                folder.publish()
            return _Unpacking(packed, folder, snapshot, reporter or SilentReporter()).run()
        finally:
            folder.close()


class _Unpacking:
    def __init__(
        self, packed: PackedFile, folder: BuildFolder, snapshot: str | None, reporter: Reporter
    ) -> None:
        self._packed = packed
        self._folder = folder
        self._snapshot = snapshot
        self._reporter = reporter

    def run(self) -> Manifest:
        stream = cast("BinaryIO", ZstdStream(self._packed.file, MAX_WINDOW))
        try:
            with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK, errorlevel=2) as tar:
                return self._unpack(tar)
        except DECOMPRESSION_ERRORS as error:
            raise self._damaged(f"cannot be decompressed ({error})") from error
        except tarfile.TarError as error:
            raise self._damaged(f"is not a tar archive ({error})") from error

    def _unpack(self, tar: tarfile.TarFile) -> Manifest:
        manifest_bytes = self._first(tar, manifest.FILE_NAME, manifest.MOST_BYTES)
        listed_bytes = self._first(tar, contents.FILE_NAME, contents.MOST_BYTES)
        parsed = Manifest.from_bytes(manifest_bytes, Path(self._packed.name) / manifest.FILE_NAME)
        if self._snapshot not in {None, parsed.snapshot}:
            raise LibraryCorrupt(
                f"{self._packed.name} has the snapshot {parsed.snapshot}, not {self._snapshot}: the list that names it "
                'is wrong. "scholarbase unpack" takes the file as it is.'
            )
        listed = self._check_list(manifest_bytes, listed_bytes)
        if self._is_finished(manifest_bytes, listed_bytes):
            return parsed
        self._folder.clear()
        try:
            _check_space(listed, self._folder, self._packed.name)
            self._write_files(tar, listed.files)
            self._packed.check_hash()
            self._folder.write(self._folder.pending_manifest.name, manifest_bytes)
            _sync_folders(self._folder.path)
            self._folder.write(self._folder.pending_contents.name, listed_bytes)
        except BaseException:
            self._folder.clear()
            raise
        self._folder.publish()
        return parsed

    def _damaged(self, what: str) -> LibraryCorrupt:
        return LibraryCorrupt(
            f'{self._packed.name} {what}: it was not written by "scholarbase pack", or is damaged. Get it again.'
        )

    def _next(self, tar: tarfile.TarFile) -> tarfile.TarInfo | None:
        """The next member, None after the last."""
        member = tar.next()
        if member is not None and (not member.isreg() or member.issparse()):
            raise self._damaged(f"has the member {member.name[:200]!r}, which is not a plain file")
        return member

    def _first(self, tar: tarfile.TarFile, name: str, limit: int) -> bytes:
        """One of the first two members."""
        member = self._next(tar)
        if member is None or member.name != name or not 0 < member.size <= limit:
            raise self._damaged(f"does not begin with {' and '.join(FIRST)}")
        return b"".join(_content(tar, member))

    def _check_list(self, manifest_bytes: bytes, listed_bytes: bytes) -> Contents:
        where = f"{contents.FILE_NAME} in {self._packed.name}"
        listed = Contents.from_bytes(listed_bytes, Path(self._packed.name) / contents.FILE_NAME)
        check_listed(listed, where)
        fact = listed.files[manifest.FILE_NAME]
        blocks = [
            block_hash(manifest_bytes[start : start + BLOCK])
            for start in range(0, len(manifest_bytes), BLOCK)
        ]
        if listed.snapshot != snapshot_id(manifest_bytes) or fact != FileFact(len(manifest_bytes), blocks):
            raise self._damaged(f"has a {contents.FILE_NAME} of another {manifest.FILE_NAME}")
        return listed

    def _is_finished(self, manifest_bytes: bytes, listed_bytes: bytes) -> bool:
        """Whether the folder has this library. Raises LibraryExists: it has another one."""
        library = self._folder.library
        paths = (library / manifest.FILE_NAME, library / contents.FILE_NAME)
        stored = [path.read_bytes() if path.exists() else None for path in paths]
        if stored == [None, None]:
            return False
        if stored != [manifest_bytes, listed_bytes]:
            raise LibraryExists(
                f"{library} already has a library, and {self._packed.name} has another one (snapshot "
                f"{snapshot_id(manifest_bytes)}): give another --library."
            )
        return True

    def _write_files(self, tar: tarfile.TarFile, facts: Mapping[str, FileFact]) -> None:
        missing = set(facts) - {manifest.FILE_NAME}
        total = sum(facts[name].bytes for name in missing)
        with self._reporter.stage("unpack", "bytes", total) as tracker:
            progress = counted(tracker)
            while (member := self._next(tar)) is not None:
                name = member.name
                if name not in missing:
                    what = "a second" if name in facts or name in FIRST else "an unlisted"
                    raise self._damaged(f"has {what} file {name[:200]!r}")
                if member.size != facts[name].bytes:
                    raise self._damaged(
                        f"has {name} with {member.size:,} bytes instead of {facts[name].bytes:,}"
                    )
                missing.remove(name)
                blocks = self._checked(_content(tar, member), name, facts[name], progress)
                _write_blocks(self._folder.path / name, blocks, member.size)
        if missing:
            raise self._damaged(f"lacks {min(missing)}")
        self._check_end(cast("BinaryIO", tar.fileobj))

    def _check_end(self, rest: BinaryIO) -> None:
        """Read what follows the last member: zeros, to the end of a record of tar."""
        size = 0
        while data := rest.read(BLOCK):
            size += len(data)
            if any(data) or size > MOST_PADDING:
                raise self._damaged("goes on after its end")

    def _checked(
        self, content: Iterator[bytes], name: str, fact: FileFact, progress: Callable[[int], None]
    ) -> Iterator[bytes]:
        """The blocks of a member, which must have their hashes."""
        for number, data in enumerate(content):
            if block_hash(data) != fact.blocks[number]:
                raise self._damaged(f"has {name} with a changed block {number}")
            yield data
            progress(len(data))


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    """The bytes of a plain file, in blocks."""
    file = tar.extractfile(member)
    while file is not None and (block := file.read(BLOCK)):
        yield block


def _check_space(listed: Contents, folder: BuildFolder, what: str) -> None:
    """Raises StorageError: the disk is too small for the files of ``what``. Blocks of zeros take no space."""
    needed = sum(fact.bytes - BLOCK * fact.blocks.count(ZEROS_HASH) for fact in listed.files.values())
    free = free_space(folder.path)
    if needed + SPARE > free:
        raise StorageError(
            f"The files of {what} take {needed / 1e6:,.0f} MB, and the disk of {folder.library} has "
            f"{free / 1e6:,.0f} MB free: free some disk space, or give another --library."
        )


def _write_blocks(path: Path, blocks: Iterable[bytes], size: int) -> None:
    """Write and fsync a new file of ``size`` bytes. Blocks of zeros become holes, which take no space."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb", buffering=0) as out:
        for data in blocks:
            if data == ZEROS:
                out.seek(BLOCK, os.SEEK_CUR)
                continue
            rest = memoryview(data)
            while rest:  # a call may write less
                rest = rest[os.write(out.fileno(), rest) :]
        out.truncate(size)
        os.fsync(out.fileno())


def _sync_folders(path: Path) -> None:
    """Fsync a folder and all below it."""
    for folder in (path, *path.rglob("*")):
        if folder.is_dir():
            sync_folder(folder)
