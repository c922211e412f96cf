"""Writing a zip file of any number of members with constant memory.

``zipfile`` keeps an object for each member until the end. The format is
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 6.3.10.
"""

from __future__ import annotations

import shutil
import tempfile
import zlib
from pathlib import Path
from struct import pack
from types import TracebackType
from typing import BinaryIO, Final, Self

_UTF8: Final = 0x800
_DEFLATED: Final = 8
_DATE: Final = 0x21
"""1980-01-01, so that equal contents give equal bytes."""
_VERSION: Final = 45
"""4.5, which has ZIP64."""
_FULL: Final = 2**32 - 1
"""Marks a value that is in the ZIP64 record."""


class ZipWriter:
    """A zip file that is written to ``file`` from its beginning. Use it as a context manager.

    Args:
        folder: where the central directory, which comes last, is kept until then.
    """

    def __init__(self, file: BinaryIO, folder: Path) -> None:
        self._file = file
        self._directory: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._offset = 0
        self._count = 0

    def add(self, name: str, content: bytes) -> None:
        """Add a member, of less than 4 GB and with a name of less than 64 KB, which no other member has."""
        path = name.encode()
        compressor = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
        packed = compressor.compress(content) + compressor.flush()
        facts = pack(
            "<HHHHHLLLHH",
            *(_VERSION, _UTF8, _DEFLATED, 0, _DATE),
            *(zlib.crc32(content), len(packed), len(content), len(path)),
            0,
        )
        offset = pack("<HHQ", 1, 8, self._offset)
        self._directory.write(b"PK\x01\x02" + pack("<H", 3 << 8 | _VERSION) + facts[:-2])
        self._directory.write(pack("<HHHHLL", len(offset), 0, 0, 0, 0o600 << 16, _FULL) + path + offset)
        local = b"PK\x03\x04" + facts + path
        self._file.write(local + packed)
        self._offset += len(local) + len(packed)
        self._count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._directory:
            if error is None:
                self._finish()

    def _finish(self) -> None:
        size = self._directory.tell()
        self._directory.seek(0)
        shutil.copyfileobj(self._directory, self._file, 2**20)
        sizes = (self._count, self._count, size, self._offset)
        self._file.write(b"PK\x06\x06" + pack("<QHHLLQQQQ", 44, _VERSION, _VERSION, 0, 0, *sizes))
        self._file.write(b"PK\x06\x07" + pack("<LQL", 0, self._offset + size, 1))
        self._file.write(b"PK\x05\x06" + pack("<HHHHLLH", 0, 0, 0xFFFF, 0xFFFF, _FULL, _FULL, 0))
