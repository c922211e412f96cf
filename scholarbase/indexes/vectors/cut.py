"""What is the same for every engine: what a query must be, and which hits stand above the cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from scholarbase.errors import InvalidRequest, VectorIndexError
from scholarbase.indexes.vectors.base import (
    BM25,
    DENSE,
    LEARNED,
    ScoredId,
    SparseVector,
    VectorConfig,
    VectorPoint,
)

PAD = 16
"""Hits fetched beyond the limit, to see in one call whether the last that counts is tied."""


def best(fetch: Callable[[int], Sequence[ScoredId]], limit: int) -> list[ScoredId]:
    """The first ``limit`` hits by score, then id, of an engine that orders ties as it likes.

    ``fetch(n)`` gives the engine's n best. Where the n-th hit is tied with the ``limit``-th, hits with a
    lower id may lie beyond, so twice as many are fetched until the tie ends.
    """
    wanted = limit + PAD
    while True:
        hits = fetch(wanted)
        if len(hits) < wanted or hits[-1].score < hits[limit - 1].score:
            return sorted(hits, key=lambda hit: (-hit.score, hit.id))[:limit]
        wanted *= 2


def check_limit(limit: int) -> None:
    """Raises InvalidRequest: ``limit`` is below 1."""
    if limit < 1:
        raise InvalidRequest(f"limit is {limit}: it must be 1 or more.")


def check_dense(
    vector: npt.NDArray[np.float32], dimensions: int | None, what: str
) -> npt.NDArray[np.float32]:
    """The vector as float32, once it is known to have a direction in this index's space.

    Raises:
        VectorIndexError: no dense vectors here, other dimensions, NaN, infinity, or all zeros.
    """
    if dimensions is None:
        raise VectorIndexError(f"{what} has a dense vector, but this index was built without: leave it out.")
    array = np.asarray(vector, dtype=np.float32)
    if array.shape != (dimensions,):
        raise VectorIndexError(
            f"{what} has a dense vector of shape {array.shape}, but this index holds vectors of shape "
            f"({dimensions},): use the encoder that the library's manifest names."
        )
    if not np.isfinite(array).all():
        raise VectorIndexError(
            f"{what} has NaN or infinity in its dense vector: the encoder's output is broken."
        )
    if not array.any():
        raise VectorIndexError(f"{what} has a dense vector of zeros, which has no direction to compare.")
    return array


def check_sparse(name: str, vector: SparseVector, config: VectorConfig, what: str) -> SparseVector:
    """The vector, once it is known to be one of this index.

    Raises:
        VectorIndexError: no such sparse vectors here, an index twice or negative, or a weight that is not a
            finite number.
    """
    names = sparse_names(config)
    if name not in names:
        raise VectorIndexError(
            f"{what} has a sparse vector named {name!r}, but this index holds {' and '.join(names)}."
        )
    indices, values = vector
    if len(indices) != len(values):
        raise VectorIndexError(f"{what} has {len(indices)} {name} indices but {len(values)} weights.")
    if len(indices):
        if len(set(indices)) != len(indices) or min(indices) < 0 or max(indices) > 0xFFFFFFFF:
            raise VectorIndexError(f"{what} has {name} indices that are not distinct 32-bit numbers.")
        if not np.isfinite(values).all():
            raise VectorIndexError(f"{what} has {name} weights with NaN or infinity among them.")
    return vector


def check_points(points: Sequence[VectorPoint], config: VectorConfig) -> None:
    """Raises VectorIndexError: a point's id or one of its vectors cannot stand in an index so laid out."""
    for point in points:
        what = f"Paper {point.id}"
        if isinstance(point.id, bool) or not isinstance(point.id, int) or point.id < 0:
            raise VectorIndexError(
                f"{point.id!r} is no id of a point: it must be the catalogue's whole number."
            )
        if point.dense is not None:
            check_dense(point.dense, config.dimensions, what)
        for name, sparse in point.sparse.items():
            if isinstance(sparse, SparseVector):  # the engine's own need no check
                check_sparse(name, sparse, config, what)


def sparse_names(config: VectorConfig) -> tuple[str, ...]:
    """The sparse vectors that a point of such an index may have."""
    return (BM25, LEARNED) if config.learned else (BM25,)


def vector_names(config: VectorConfig) -> tuple[str, ...]:
    """All vectors that a point of such an index may have."""
    return ((DENSE,) if config.dimensions is not None else ()) + sparse_names(config)


def check_vector_name(name: str, config: VectorConfig) -> None:
    """Raises VectorIndexError: the index has no such vectors."""
    names = vector_names(config)
    if name not in names:
        raise VectorIndexError(
            f"There are no vectors named {name!r} here: this index holds {' and '.join(names)}."
        )
