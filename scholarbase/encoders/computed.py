"""Vectors of known queries that were computed elsewhere, in place of a query encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from scholarbase.encoders.base import Encodings
from scholarbase.errors import EncoderError
from scholarbase.models.encoders import EncoderSpec


class QueryVectors:
    """An :class:`.Encoder` of these queries only.

    Args:
        spec: of the encoder whose vectors the library has. The library cannot check that the queries' vectors are of
            the same model.
        vectors: each query's text to its vector, float32 of shape (dimensions,) and of unit length, or all zero.
    """

    def __init__(self, spec: EncoderSpec, vectors: Mapping[str, npt.NDArray[np.float32]]) -> None:
        self.spec = spec
        self._vectors = vectors

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Raises EncoderError: only vectors of queries are known."""
        raise EncoderError("Vectors of queries were given in place of an encoder: papers cannot be encoded.")

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        """The vectors of the queries. Raises EncoderError: one of them has none."""
        for text in texts:
            if text not in self._vectors:
                raise EncoderError(
                    f"No vector was given for the query {text[:80]!r}: add it to the file of vectors."
                )
        return Encodings(np.stack([self._vectors[text] for text in texts]))

    def close(self) -> None:
        """Do nothing: nothing is open."""
