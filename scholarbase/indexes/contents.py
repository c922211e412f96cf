"""``files.json``: every file of a library with its size and the hash of each block of 1 MiB.

Neither SQLite nor Qdrant detects every truncated or damaged file, and both may return wrong results from them. Opening
a library compares the sizes and a random sample of blocks; verifying it compares all blocks.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import orjson

from scholarbase.errors import LibraryCorrupt
from scholarbase.manifest import INGEST, read_plain, unfinished_command
from scholarbase.memory import cores

FILE_NAME: Final = "files.json"
MOST_BYTES: Final = 256 << 20
"""Bytes of the list, which has 75 for each MiB of the library: 3.6 TB."""
BLOCK: Final = 1 << 20
SAMPLE: Final = 16
"""Random blocks that are compared when a library is opened, besides those that are always compared."""
SMALL_BYTES: Final = 64 << 20
"""The total size of the smallest files, all blocks of which are compared when a library is opened."""
RECORDS: Final = "records.sqlite"
"""The file that only updates read, so that opening a library does not check its blocks."""
_ALWAYS: Final = re.compile(r".*/id_tracker\..*")
"""Files that Qdrant reads whole: with damaged ones it may end the process."""

ZEROS: Final = bytes(BLOCK)
"""A block without data, as a preallocated file has many."""
ZEROS_HASH: Final = hashlib.sha256(ZEROS).hexdigest()


LONGEST_NAME: Final = 1024
"""Characters of a file's path in the library's folder."""
_PART: Final = re.compile(r"\w[\w.-]*", re.ASCII)
"""A part of such a path. None begins with a dot, so none is ``..`` or a hidden file."""


@dataclass(frozen=True, slots=True)
class FileFact:
    """A file's size in bytes, and the SHA-256 of each block."""

    bytes: Annotated[int, msgspec.Meta(ge=0)]
    blocks: list[str]


@dataclass(frozen=True, slots=True)
class Contents:
    """The files of the library with this snapshot id, by their paths in its folder."""

    snapshot: str
    files: dict[str, FileFact]

    @classmethod
    def of(
        cls,
        snapshot: str,
        files: Mapping[str, Path],
        advance: Callable[[int], None] = lambda blocks: None,
    ) -> Contents:
        """Hash these files. ``advance`` is called with the number of blocks hashed since the last call."""
        sizes = {name: path.stat().st_size for name, path in sorted(files.items())}
        hashes = iter(
            _hash_blocks(
                (
                    (files[name], number)
                    for name, size in sizes.items()
                    for number in range(-(-size // BLOCK))
                ),
                advance,
            )
        )
        return cls(
            snapshot,
            {
                name: FileFact(size, [next(hashes) for _ in range(-(-size // BLOCK))])
                for name, size in sizes.items()
            },
        )

    def to_bytes(self) -> bytes:
        """The file's bytes. ``sha256`` is the hash of the other fields, written in the same way without it."""
        files = {name: {"bytes": fact.bytes, "blocks": fact.blocks} for name, fact in self.files.items()}
        fields = {"block_bytes": BLOCK, "snapshot": self.snapshot, "files": files}
        return _dump(fields | {"sha256": hashlib.sha256(_dump(fields)).hexdigest()})

    @classmethod
    def from_bytes(cls, data: bytes, where: Path) -> Contents:
        """Parse a list of files, which may be from anyone. Raises LibraryCorrupt: it is not as it was written, or has
        a name outside of the library's folder, or a size that its hashes do not fit."""
        try:
            contents = msgspec.convert(orjson.loads(data), cls)
        except (orjson.JSONDecodeError, msgspec.ValidationError, RecursionError) as error:
            raise LibraryCorrupt(
                f"{where} cannot be read: {error}. Restore the copy, or ingest again."
            ) from error
        for name, fact in contents.files.items():
            if not all(_PART.fullmatch(part) for part in name.split("/")) or len(name) > LONGEST_NAME:
                raise LibraryCorrupt(
                    f"{where} lists the file {name[:200]!r}, which is not a file of a library."
                )
            if len(fact.blocks) != -(-fact.bytes // BLOCK):
                raise LibraryCorrupt(f"{where} lists {name!r} with a size or hashes that no file has.")
        if contents.to_bytes() != data:
            raise LibraryCorrupt(
                f"{where} has changed since it was written: restore the copy, or ingest again."
            )
        return contents

    @property
    def has_vectors(self) -> bool:
        """Whether the vectors of papers are among the files: a library can be packed without them."""
        return any(name.startswith("vectors/") for name in self.files)

    def without(self, start: str) -> Contents:
        """Leave out the files whose names begin with ``start``."""
        files = {name: fact for name, fact in self.files.items() if not name.startswith(start)}
        return Contents(self.snapshot, files)

    def check_sizes(self, library: Path) -> None:
        """Raises LibraryCorrupt: a file is missing or has another size."""
        for name, fact in self.files.items():
            path = library / name
            size = path.stat().st_size if path.is_file() else None
            if size != fact.bytes:
                what = "is missing" if size is None else f"has {size:,} bytes instead of {fact.bytes:,}"
                raise LibraryCorrupt(f"{path} {what}: the copy is incomplete. Restore it, or ingest again.")

    def check_blocks(self, library: Path, blocks: Iterable[tuple[str, int]]) -> None:
        """Compare blocks, each a file's name and a number.

        Raises:
            LibraryCorrupt: one has changed.
        """
        compared = list(blocks)
        hashes = _hash_blocks((library / name, number) for name, number in compared)
        for (name, number), digest in zip(compared, hashes, strict=True):
            fact = self.files[name]
            if digest != fact.blocks[number]:
                raise changed_block(library / name, fact, number)

    def blocks(self) -> list[tuple[str, int]]:
        """All blocks."""
        return [(name, number) for name, fact in self.files.items() for number in range(len(fact.blocks))]

    def sample(self) -> list[tuple[str, int]]:
        """The blocks to compare when a library is opened: of small files, of those that may end the process, and a
        random sample of the others."""
        total = 0
        whole = set()
        for name, fact in sorted(self.files.items(), key=lambda item: item[1].bytes):
            if name == RECORDS:
                continue
            total += fact.bytes
            if total <= SMALL_BYTES or _ALWAYS.fullmatch(name):
                whole.add(name)
        blocks = self.blocks()
        others = [block for block in blocks if block[0] not in {*whole, RECORDS}]
        return [block for block in blocks if block[0] in whole] + random.sample(
            others, min(SAMPLE, len(others))
        )

    def others(self, library: Path, folder: str = "") -> list[str]:
        """The names of other files in the library's folder, or in a folder of it.

        Not those of an ingest that replaces the library, or of views (:mod:`~scholarbase.indexes.vectors.shard_view`).
        """
        return [
            name
            for name in files_in(library, folder)
            if name not in self.files and name != FILE_NAME and not name.startswith(("building/", "."))
        ]


class OpenedFiles:
    """The sizes and times of files when they were opened, to detect that one was written."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._before = {path: path.stat() for path in paths}

    def check(self) -> None:
        """Raises LibraryCorrupt: a file was written. One that was replaced or deleted is still open, unchanged."""
        for path, before in self._before.items():
            try:
                now = path.stat()
            except OSError:
                continue
            if not os.path.samestat(now, before):
                continue
            if now.st_size != before.st_size:
                raise LibraryCorrupt(
                    f"{path} had {before.st_size:,} bytes when it was opened and has {now.st_size:,} now: restore the "
                    "copy, or ingest again."
                )
            if now.st_mtime_ns != before.st_mtime_ns:
                raise LibraryCorrupt(
                    f'{path} was written after it was opened: run "scholarbase verify", and open the library again.'
                )


def changed_block(path: Path, fact: FileFact, number: int) -> LibraryCorrupt:
    """The error for a block that differs from its hash."""
    last = min((number + 1) * BLOCK, fact.bytes) - 1
    return LibraryCorrupt(
        f"Block {number} of {path} (bytes {number * BLOCK:,} to {last:,}) has changed since it was written: restore "
        "the copy, or ingest again."
    )


def block_hash(data: bytes) -> str:
    return ZEROS_HASH if data == ZEROS else hashlib.sha256(data).hexdigest()


def read_contents(library: Path, snapshot: str) -> Contents:
    """Read the list of files of the library with this snapshot id.

    Raises:
        LibraryCorrupt: it is missing, damaged, or another library's.
    """
    path = library / FILE_NAME
    try:
        contents = Contents.from_bytes(read_plain(path, MOST_BYTES), path)
    except FileNotFoundError as error:
        command = unfinished_command(library)
        raise LibraryCorrupt(
            f'{library} has no {FILE_NAME}: the copy is incomplete, or "scholarbase {command}" was stopped while it '
            f"moved the files. Restore the copy, or run the same {command} again"
            f"{' with --restart' if command == INGEST else ''}."
        ) from error
    if contents.snapshot != snapshot:
        raise LibraryCorrupt(
            f"The manifest of {library} hashes to {snapshot}, but {FILE_NAME} is of snapshot {contents.snapshot}: one "
            "of them was changed or belongs to another library. Restore the copy, or ingest again."
        )
    return contents


def files_in(library: Path, folder: str = "") -> Iterator[str]:
    """The names of the files in a library's folder, or in a folder of it, in order."""
    for path in sorted((library / folder).rglob("*")):
        if not path.is_dir():
            yield path.relative_to(library).as_posix()


def _dump(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def _hash_blocks(
    blocks: Iterable[tuple[Path, int]], advance: Callable[[int], None] = lambda blocks: None
) -> list[str]:
    """The SHA-256 of blocks, in their order, computed in threads."""
    hashes = []
    # A list: the garbage collector may close an unfinished generator while it holds the lock that threads need to end.
    with ThreadPoolExecutor(min(8, cores())) as threads:
        for digest in threads.map(lambda block: _hash_block(*block), blocks):
            hashes.append(digest)
            advance(1)
    return hashes


def _hash_block(path: Path, number: int) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            data = os.pread(descriptor, BLOCK, number * BLOCK)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise LibraryCorrupt(f"{path} cannot be read: {error}. Restore the copy, or ingest again.") from error
    return block_hash(data)
