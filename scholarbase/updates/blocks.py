"""Files of libraries, read and written in blocks that have their hashes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from scholarbase.errors import LibraryCorrupt
from scholarbase.files import sync_folder
from scholarbase.indexes.contents import BLOCK, ZEROS, FileFact, block_hash, changed_block
from scholarbase.progress import Tracker


def read_blocks(path: Path, fact: FileFact) -> Iterator[bytes]:
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


def write_blocks(path: Path, blocks: Iterable[bytes], size: int) -> None:
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


def sync_folders(path: Path) -> None:
    """Fsync a folder and all below it."""
    for folder in (path, *path.rglob("*")):
        if folder.is_dir():
            sync_folder(folder)


def counted(tracker: Tracker) -> Callable[[int], None]:
    """A function that adds bytes to a stage's progress."""
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        tracker.advance(size)
        tracker.at(done)

    return add
