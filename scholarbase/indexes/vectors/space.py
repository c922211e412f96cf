"""Room on disk for a vector index, asked for beforehand.

Qdrant writes through memory-mapped files. On a full disk such a write is no error that could be caught: the
process dies of SIGBUS. So room is asked for before a build, and again before each batch.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from scholarbase.errors import StorageError
from scholarbase.indexes.vectors.base import VectorConfig

RESERVE_BYTES: Final = 64 << 20
"""What an index may allocate at any moment besides its points: files grow in pieces of up to 32 MiB."""

POINT_BYTES: Final = 3500
"""Of a paper's payload, BM25 vector and ids at the height of a build, when the finished segment stands beside the
one it is made of. Measured: 2,320 for arXiv papers, of 61 terms on average; longer abstracts take more."""
LEARNED_BYTES: Final = 4000
"""Of learned sparse weights, which are about twice as many as BM25's terms."""


def required_bytes(config: VectorConfig, points: int) -> int:
    """Bytes that building an index of so many points takes at its height: an estimate on the safe side."""
    each = POINT_BYTES
    if config.learned:
        each += LEARNED_BYTES
    if config.dimensions is not None:
        # float16 in both segments, codes of a quarter of a byte, and the links of the graph.
        codes = config.dimensions // 4 if config.quantization else 0
        each += 4 * config.dimensions + codes + 12 * config.m
    return RESERVE_BYTES + points * each


def check_space(path: Path, needed: int) -> None:
    """Make sure that the disk under ``path``, which need not exist yet, has ``needed`` bytes free.

    Raises:
        StorageError: it has not.
    """
    folder = path.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StorageError(
            f"The vector index at {path} needs about {_megabytes(needed)} MB, but the disk has {_megabytes(free)} MB "
            f"free: free some space, or build the library on another disk."
        )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}"
