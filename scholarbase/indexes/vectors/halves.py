"""Dense vectors as float16: Qdrant scales what it is given to unit length, then rounds it. A stored vector that is
written again must be one that rounds to the same numbers after that."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from scholarbase.errors import VectorIndexError

_MARGIN: Final = 0.49
"""How far from a float16 a number may be, in units of its distance to the next one, to be rounded to it."""
_STEPS: Final = 50
_SAME: Final = _MARGIN * 2.0**-11
"""Numbers of a float16 vector that are scaled by a factor this close to 1 are rounded to the same ones: the distance to
the next float16 is at least 2^-11 of a number."""


def restored(stored: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """A vector of unit length that rounds to these float16 numbers, those of such a vector.

    Each number may be anything that rounds to it. The nearest point of unit length within these bounds is found by
    alternating projections.

    Raises:
        VectorIndexError: there is none, so the numbers are not those of a rounded unit vector.
    """
    half = stored.astype(np.float16)
    exact = half.astype(np.float64)
    above = np.nextafter(half, np.float16(np.inf)).astype(np.float64) - exact
    below = exact - np.nextafter(half, np.float16(-np.inf)).astype(np.float64)
    vector = exact
    for _ in range(_STEPS):
        vector = vector / np.linalg.norm(vector)
        single = vector.astype(np.float32)
        if (single.astype(np.float16) == half).all():
            return single
        vector = vector.clip(exact - _MARGIN * below, exact + _MARGIN * above)
    raise VectorIndexError(
        "A stored vector is not the rounded one of a vector of unit length: build the library again."
    )


def sent(stored: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The stored vectors, rows of ``stored``, as they must be sent to be stored again. Raises as :func:`restored`.

    Nearly all can be sent as they are.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", stored, stored, dtype=np.float64))
    for row in np.flatnonzero(np.abs(1 / lengths - 1) > _SAME):
        stored[row] = restored(stored[row])
    return stored


def rounding(dimensions: int) -> float:
    """An upper bound of the error of a score that an engine computes.

    A sum of n 32-bit products of unit vectors, added in four or more lanes, is at most about n/4 * 2^-24 from the exact
    one (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section 3.1). The last term is for numbers of
    the query that another processor rounds to the next float16.
    """
    return (dimensions + 32) * 2.0**-24 + 2.0**-16
