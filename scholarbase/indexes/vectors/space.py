"""Checks of the free disk space for a vector index.

Qdrant writes to memory-mapped files. On a full disk such a write kills the process with SIGBUS and cannot be caught, so
that space is checked before a build and before each batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scholarbase.errors import StorageError
from scholarbase.files import free_space
from scholarbase.indexes.vectors.base import VectorConfig
from scholarbase.memory import check_address_space

RESERVE_BYTES: Final = 64 << 20
"""Allocated besides the points: files grow in steps of up to 32 MiB."""

ENGINE_BYTES: Final = 512 << 20
"""Address space of a shard besides its files: the heaps and stacks of its threads."""

POINT_BYTES: Final = 3500
"""Peak size of a paper's payload, BM25 vector and ids during a build, when the old and the new segment are on disk.
Measured: 2,320 for arXiv papers, with 61 terms on average; longer abstracts take more."""
LEARNED_BYTES: Final = 4000
"""Peak size of learned sparse weights, which are about twice as many as BM25's terms."""


def required_bytes(config: VectorConfig, points: int) -> int:
    """An upper estimate of the peak bytes on disk while building an index of this many points."""
    per_point = POINT_BYTES
    if config.learned:
        per_point += LEARNED_BYTES
    if config.dimensions is not None:
        # float16 in both segments, 2-bit codes, and the links of the graph.
        codes = config.dimensions // 4 if config.quantization else 0
        per_point += 4 * config.dimensions + codes + 12 * config.m
    return RESERVE_BYTES + points * per_point


def check_space(path: Path, needed: int) -> None:
    """Raises StorageError: the disk of ``path``, which need not exist yet, has fewer than ``needed`` bytes free."""
    free = free_space(path)
    if free < needed:
        raise StorageError(
            f"The vector index at {path} needs about {_megabytes(needed)} MB, but the disk has {_megabytes(free)} MB "
            f"free: free some space, or build the library on another disk. {_megabytes(RESERVE_BYTES)} MB of it are a "
            "reserve, because files grow in large steps: a finished index of few papers is far smaller."
        )


def check_engine_memory(size: int) -> None:
    """Raises OutOfMemory: the address space is limited, and too small for a shard with files of ``size`` bytes."""
    check_address_space(ENGINE_BYTES + size, "The vector index")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f}"
