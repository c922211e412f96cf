"""Checks of vectors and points before they are searched for or stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from scholarbase.errors import VectorIndexError
from scholarbase.indexes.vectors.base import SparseVector, VectorConfig, VectorPoint


def check_dense(
    vector: npt.NDArray[np.float32], dimensions: int | None, what: str
) -> npt.NDArray[np.float32]:
    """Return the vector as float32 after checking that cosine similarity is defined for it.

    Raises:
        VectorIndexError: no dense vectors in this index, other dimensions, NaN, infinity, or all zeros.
    """
    if dimensions is None:
        raise VectorIndexError(f"{what} has a dense vector, but this index was built without: leave it out.")
    array = np.asarray(vector, dtype=np.float32)
    if array.shape != (dimensions,):
        raise VectorIndexError(
            f"{what} has a dense vector of shape {array.shape}, but this index has vectors of shape "
            f"({dimensions},): use the encoder named in the library's manifest."
        )
    if not np.isfinite(array).all():
        raise VectorIndexError(f"{what} has NaN or infinity in its dense vector: check the encoder's output.")
    if not array.any():
        raise VectorIndexError(
            f"{what} has a dense vector of zeros, for which cosine similarity is undefined: check the encoder's output."
        )
    return array


def check_sparse(name: str, vector: SparseVector, what: str) -> None:
    """Raises VectorIndexError: a repeated or negative index, or a weight that is not a finite number."""
    indices, values = vector
    if len(indices) != len(values):
        raise VectorIndexError(f"{what} has {len(indices)} {name} indices but {len(values)} weights.")
    if len(indices):
        if len(set(indices)) != len(indices) or min(indices) < 0 or max(indices) > 0xFFFFFFFF:
            raise VectorIndexError(f"{what} has {name} indices that are not distinct 32-bit numbers.")
        if not np.isfinite(values).all():
            raise VectorIndexError(f"{what} has NaN or infinity among its {name} weights.")


def check_points(points: Sequence[VectorPoint], config: VectorConfig) -> None:
    """Raises VectorIndexError: a point's id or one of its vectors is not valid in an index with this layout."""
    names = config.sparse_names
    for point in points:
        what = f"Paper {point.id}"
        if isinstance(point.id, bool) or not isinstance(point.id, int) or point.id < 0:
            raise VectorIndexError(
                f"{point.id!r} is not a valid point id: use the paper's integer id in the catalogue."
            )
        if point.dense is not None:
            check_dense(point.dense, config.dimensions, what)
        for name, sparse in point.sparse.items():
            if not isinstance(sparse, SparseVector):  # Qdrant's own vectors are always valid
                continue
            if name not in names:
                raise VectorIndexError(
                    f"{what} has a sparse vector named {name!r}, but this index has {' and '.join(names)}."
                )
            check_sparse(name, sparse, what)
