"""Checks of whole files, by their format."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

from scholarbase.files import DECOMPRESSION_ERRORS
from scholarbase.ingest.sources import sha256_of
from scholarbase.updates.download.fetching import Check, Damaged

_PIECE: Final = 1 << 20
_PARQUET: Final = b"PAR1"
"""The first and last bytes of a Parquet file."""


def check_gzip(path: Path) -> None:
    """Decompress a gzip file to its end, which compares its checksums and lengths (RFC 1952, 2.3.1)."""
    try:
        with gzip.open(path) as stream:
            while stream.read(_PIECE):
                pass
    except DECOMPRESSION_ERRORS as error:
        raise Damaged(f"its gzip stream: {error}") from error


def check_parquet(path: Path) -> None:
    """Compare the first and last four bytes."""
    with path.open("rb") as file:
        begins = file.read(4)
        file.seek(-min(4, path.stat().st_size), 2)
        if (begins, file.read()) != (_PARQUET, _PARQUET):
            raise Damaged("not a whole Parquet file")


def check_sha256(expected: str) -> Check:
    """A check that compares the SHA-256 of a file with ``expected``, in hexadecimal."""

    def check(path: Path) -> None:
        found = sha256_of(path)
        if found != expected:
            raise Damaged(f"its SHA-256 is {found}, not {expected}")

    return check
