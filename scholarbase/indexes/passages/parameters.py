"""The parameters of the passages' BM25 vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scholarbase.indexes.vectors.bm25 import Bm25Parameters

FOLDER: Final = "passages"
"""The shard of the passages, in the library's folder."""

AVERAGE_LENGTHS: Final[Mapping[str, float]] = {
    "tokens-512": 220.0,
    "sentences-512": 205.0,
    "sentences-10-1": 105.0,
    "paragraphs": 60.0,
}
"""Terms of a passage of each chunker on average, without stop words: constants of the format, as for papers."""


def parameters_of(chunker: str) -> Bm25Parameters:
    """The parameters for the passages of a chunker. A passage has no title."""
    return Bm25Parameters(title_weight=1, average_length=AVERAGE_LENGTHS[chunker])
