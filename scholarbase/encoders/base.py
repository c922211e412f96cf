"""The encoder protocol and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scholarbase.errors import EncoderError
from scholarbase.models.encoders import EncoderSpec


def document_text(title: str, abstract: str | None, title_weight: int = 1) -> str:
    """The encoded text of a paper: its title, ``title_weight`` times, and its abstract, each on a line."""
    return f"{title}\n" * title_weight + abstract if abstract else title


@dataclass(frozen=True, slots=True)
class LearnedSparse:
    """Learned term weights of one text: ascending token ids, and their weights above zero."""

    indices: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Encodings:
    """Vectors of n texts.

    ``dense`` is float32 of shape (n, dimensions), each row of unit length, or all zero for a text that a static
    encoder has no tokens of; of shape (n, 0) where the model has learned sparse weights only. ``sparse`` has n items,
    or is None where the model has no learned sparse weights.
    """

    dense: npt.NDArray[np.float32]
    sparse: list[LearnedSparse] | None = None


class Encoder(Protocol):
    """Turns documents and queries into vectors. Safe to call from several threads."""

    @property
    def spec(self) -> EncoderSpec: ...

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents; the encoder chooses the batches. No texts give shape (0, dimensions).

        Raises:
            EncoderError: the model or the service behind it fails.
        """
        ...

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        """Encode queries. Raises the same errors as ``encode_documents``."""
        ...

    def close(self) -> None:
        """Release the model or close the connection."""
        ...


def unit_rows(vectors: npt.ArrayLike, source: str, *, allow_zero: bool = False) -> npt.NDArray[np.float32]:
    """Scale each row of ``vectors``, of shape (n, dimensions), to length 1, as float32.

    Rows of length 1 within float32's rounding stay unchanged to the last bit, so that sent or stored vectors do not
    change. ``source`` names the encoder in the error. With ``allow_zero``, rows of zeros stay zero.

    Raises:
        EncoderError: a row is zero, without ``allow_zero``, or not finite.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if allow_zero:
        lengths[lengths == 0] = 1
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if bad.size:
        raise EncoderError(
            f"{source} returned a vector that is zero or not finite for text {bad[0] + 1} of {len(rows)}. "
            "Check the model's files and its device."
        )
    lengths[np.abs(lengths - 1) < 1e-6] = 1
    return np.ascontiguousarray(rows / lengths, dtype=np.float32)
