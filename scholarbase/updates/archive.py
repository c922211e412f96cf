"""The format of a packed library: a tar archive of plain files, compressed with zstd.

The members are the manifest, the list of files, and then the listed files in the order of their names. Each has a
header of GNU tar (https://www.gnu.org/software/tar/manual/html_node/Standard.html), without an owner or a time, so
equal libraries have equal archives. A name of more than 100 bytes has a header of its own before.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable, Iterator
from typing import Final

from scholarbase import manifest
from scholarbase.errors import LibraryCorrupt
from scholarbase.files import DECOMPRESSION_ERRORS, ByteStream
from scholarbase.indexes import contents
from scholarbase.indexes.contents import BLOCK, Contents
from scholarbase.indexes.passages import FOLDER as PASSAGES
from scholarbase.ingest.folder import MOVED, VECTORS
from scholarbase.progress import Tracker

FIRST: Final = (manifest.FILE_NAME, contents.FILE_NAME)
"""The first two members. The second is not in the list of files, which it is."""
END: Final = bytes(2 * tarfile.BLOCKSIZE)
LONGEST_NAME: Final = 1024
"""Bytes of a member's name, and of the header that has it."""
MOST_PADDING: Final = 1 << 20
"""Bytes of zeros after the end: GNU tar fills a record, of up to this size."""
_SHARDS: Final = (VECTORS, PASSAGES)
_FILES: Final = {manifest.FILE_NAME, *MOVED} - {*_SHARDS}
_PART: Final = re.compile(r"\w[\w.-]*", re.ASCII)
"""A part of a member's name. None begins with a dot, so none is ``..`` or a hidden file."""


def header(name: str, size: int) -> bytes:
    """The header of a member of ``size`` bytes."""
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o644
    return member.tobuf(tarfile.GNU_FORMAT, "ascii", "strict")


def padding(size: int) -> int:
    """The bytes of zeros after a member of ``size`` bytes."""
    return -size % tarfile.BLOCKSIZE


def check_listed(listed: Contents, where: object) -> None:
    """Check a list of files that anyone may have written.

    Raises:
        LibraryCorrupt: it has a name that no library has, or a size that is none.
    """
    for name, fact in listed.files.items():
        parts = name.split("/")
        plain = all(_PART.fullmatch(part) for part in parts) and len(name) <= LONGEST_NAME
        known = name in _FILES or (parts[0] in _SHARDS and len(parts) > 1)
        if not plain or not known:
            raise LibraryCorrupt(f"{where} lists the file {name[:200]!r}, which is not a file of a library.")
        folders = ("/".join(parts[:end]) for end in range(1, len(parts)))
        if any(folder in listed.files for folder in folders):
            raise LibraryCorrupt(f"{where} lists the file {name!r} in a folder that is a file too.")
        size, hashes = fact.bytes, fact.blocks
        if type(size) is not int or size < 0 or type(hashes) is not list or len(hashes) != -(-size // BLOCK):
            raise LibraryCorrupt(f"{where} lists {name!r} with a size or hashes that no file has.")
    if manifest.FILE_NAME not in listed.files:
        raise LibraryCorrupt(f"{where} does not list {manifest.FILE_NAME}.")


class ArchiveReader:
    """The members of an archive, read in their order from a decompressed stream.

    Every method raises LibraryCorrupt where the archive is cut short or damaged.
    """

    def __init__(self, stream: ByteStream, where: object) -> None:
        self._stream = stream
        self._where = where

    def next(self) -> tuple[str, int] | None:
        """The name and size of the next member, whose bytes must be read then; None after the last."""
        block = self._read(tarfile.BLOCKSIZE)
        if block == END[: len(block)]:
            return None
        member = self._member(block)
        name = member.name
        if member.type == tarfile.GNUTYPE_LONGNAME:
            if not 0 < member.size <= LONGEST_NAME:
                raise self.damaged(f"has a name of {member.size:,} bytes")
            stored = b"".join(self.content(member.size))
            member = self._member(self._read(tarfile.BLOCKSIZE))
            name = stored.rstrip(b"\0").decode(errors="backslashreplace")
        if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
            raise self.damaged(f"has the member {name[:200]!r}, which is not a plain file")
        return name, member.size

    def content(self, size: int) -> Iterator[bytes]:
        """The bytes of the member of ``size`` bytes, in blocks."""
        for start in range(0, size, BLOCK):
            yield self._read(min(BLOCK, size - start))
        if any(self._read(padding(size))):
            raise self.damaged("has data after the end of a member")

    def finish(self) -> None:
        """Read to the end of the stream, after the last member."""
        rest = 0
        while data := self._read_some(BLOCK):
            rest += len(data)
            if any(data) or rest > MOST_PADDING:
                raise self.damaged("goes on after its end")

    def damaged(self, what: str) -> LibraryCorrupt:
        """The error for an archive that ``what`` describes."""
        return LibraryCorrupt(
            f'{self._where} {what}: it was not written by "scholarbase pack", or is damaged. Get it again.'
        )

    def _member(self, block: bytes) -> tarfile.TarInfo:
        try:
            return tarfile.TarInfo.frombuf(block, "utf-8", "backslashreplace")
        except (tarfile.HeaderError, ValueError) as error:
            raise self.damaged(f"has an invalid header ({error})") from error

    def _read(self, size: int) -> bytes:
        pieces = []
        while size > 0:
            piece = self._read_some(size)
            if not piece:
                raise self.damaged("ends too early")
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _read_some(self, size: int) -> bytes:
        try:
            return self._stream.read1(size)
        except DECOMPRESSION_ERRORS as error:
            raise self.damaged(f"cannot be decompressed ({error})") from error


def counted(tracker: Tracker) -> Callable[[int], None]:
    """A function that adds bytes to a stage's progress."""
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        tracker.advance(size)
        tracker.at(done)

    return add
