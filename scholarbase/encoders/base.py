"""What every encoder is and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scholarbase.errors import EncoderError
from scholarbase.models.encoders import EncoderSpec


def document_text(title: str, abstract: str | None) -> str:
    """The text of a paper that every index is made from: its title, a newline, its abstract."""
    return f"{title}\n{abstract}" if abstract else title


@dataclass(frozen=True, slots=True)
class LearnedSparse:
    """Learned term weights of one text: token ids, ascending, and their weights, all above zero."""

    indices: npt.NDArray[np.uint32]
    values: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Encodings:
    """What n texts became: ``dense`` is float32 of shape (n, dimensions), each row of unit length;
    ``sparse`` has n items, or is None where the model has no learned sparse weights."""

    dense: npt.NDArray[np.float32]
    sparse: list[LearnedSparse] | None = None


class Encoder(Protocol):
    """Turns documents and queries into vectors. Safe to call from several threads."""

    @property
    def spec(self) -> EncoderSpec: ...

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents, longest possible batches chosen by the encoder. No texts give shape (0, dim).

        Raises:
            EncoderError: the model or the service behind it fails.
        """
        ...

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        """Encode queries. Raises as ``encode_documents``."""
        ...

    def close(self) -> None:
        """Let go of the model or the connection."""
        ...


def unit_rows(vectors: npt.ArrayLike, source: str) -> npt.NDArray[np.float32]:
    """``vectors``, of shape (n, dimensions), as float32 with each row scaled to length 1.

    Rows whose length is 1 but for float32's rounding stay as they are, to the last bit: vectors that travel
    or are stored do not change on the way. ``source`` names the encoder in the error.

    Raises:
        EncoderError: a row has a number that is not finite, or no direction.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    bad = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if bad.size:
        raise EncoderError(
            f"{source} gave a vector that is zero or not finite for text {bad[0] + 1} of {len(rows)}: "
            "none of this batch is used. Check the model's files and its device."
        )
    lengths[np.abs(lengths - 1) < 1e-6] = 1
    return np.ascontiguousarray(rows / lengths, dtype=np.float32)
