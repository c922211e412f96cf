"""An encoder as a reranker: the cosine of the query and a text, whose vector may have been stored before.

Encoding fifty abstracts takes a small model a second or more on a CPU. Their vectors are the same for every query, so
:mod:`scholarbase.ingest.stored` computes them once, and a search encodes only the query. A folder of stored vectors has

- ``stored.json``: the format, where the encoder is, its spec, and the snapshot of the library;
- ``keys.npy``: the first 8 bytes of the BLAKE2b hash of each text, as 64-bit integers, ascending;
- ``rows.npy``: the row of the vector of each key;
- ``vectors.f16``: float16, a row of the encoder's dimensions for each text.

The key is the text and not the paper's id, so a paper that an update changed has no wrong vector; it is encoded anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import orjson

from scholarbase.deadlines import check
from scholarbase.encoders import Encoder, open_encoder
from scholarbase.encoders.probe import check_spec
from scholarbase.errors import EncoderError, EncoderMismatch, RerankerError
from scholarbase.models.encoders import EncoderSpec
from scholarbase.rerankers.base import BATCH_SIZE, RERANKING, Scores

FILE_NAME: Final = "stored.json"
KEYS: Final = "keys.npy"
ROWS: Final = "rows.npy"
VECTORS: Final = "vectors.f16"
FORMAT: Final = 1
CACHED_QUERIES: Final = 8
"""Queries whose vectors are cached: the batches of a search with a time budget have the same."""


def key_of(text: str) -> int:
    """The key of a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """Vectors of texts in memory-mapped files, which processes share."""

    encoder: str
    """The name, path or URL of the encoder."""
    spec: EncoderSpec
    keys: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.uint32]
    vectors: npt.NDArray[np.float16]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Raises RerankerError: a file is missing, or the files do not belong together."""
        try:
            about = orjson.loads((folder / FILE_NAME).read_bytes())
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']!r}")
            spec = EncoderSpec.from_dict(about["spec"])
            keys, rows = (np.load(folder / name, mmap_mode="r") for name in (KEYS, ROWS))
            count = (folder / VECTORS).stat().st_size // (2 * spec.dimensions)
            vectors = np.memmap(folder / VECTORS, np.float16, "r", shape=(count, spec.dimensions))
            if not len(keys) == len(rows) == count:
                raise ValueError(f"{len(keys)} keys, {len(rows)} rows and {count} vectors")
            return cls(about["encoder"], spec, keys, rows, vectors)
        except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
            raise RerankerError(
                f"The stored vectors in {folder} cannot be read ({error}): store them again, or copy the folder again."
            ) from error

    def find(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """The row of each text, -1 without one."""
        keys = np.array([key_of(text) for text in texts], dtype=np.uint64)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.rows[places].astype(np.int64), -1)


class EncoderReranker:
    """Scores texts by their cosine with the query. Thread-safe, as the encoder is.

    Raises:
        RerankerError: the encoder has no dense vectors, or other ones than those stored.
    """

    weight: Final = 0.4
    """The part of the order that is by cosine; the rest is that of the search. A small model alone orders worse than a
    hybrid search, and both together better (docs/measurements.md)."""

    def __init__(self, encoder: Encoder, stored: StoredVectors | None = None) -> None:
        self._encoder = encoder
        self._stored = stored
        self._query = lru_cache(CACHED_QUERIES)(self._encode_query)
        if not encoder.spec.dimensions:
            raise RerankerError(f"The encoder {self.name} has no dense vectors: use one that has.")
        if stored is not None:
            try:
                check_spec(stored.spec, encoder.spec)
            except EncoderMismatch as error:
                raise RerankerError(f"The stored vectors are from another encoder. {error}") from error

    @classmethod
    def open(cls, folder: Path, device: str | None = None) -> Self:
        """Open a folder of stored vectors with its encoder, or that of an encoder.

        Raises:
            EncoderError, RerankerError: the files cannot be read, or the encoder cannot be opened.
        """
        stored = StoredVectors.open(folder) if (folder / FILE_NAME).is_file() else None
        encoder = open_encoder(str(folder) if stored is None else stored.encoder, device=device)
        try:
            return cls(encoder, stored)
        except BaseException:
            encoder.close()
            raise

    @property
    def name(self) -> str:
        return self._encoder.spec.name

    @property
    def fingerprint(self) -> str | None:
        return self._encoder.spec.fingerprint

    def score(self, query: str, texts: Sequence[str]) -> Scores:
        """See :meth:`.Reranker.score`. The time limit is checked before each batch of texts without stored vectors."""
        check(*RERANKING)
        rows = np.full(len(texts), -1) if self._stored is None else self._stored.find(texts)
        scores = np.empty(len(texts), dtype=np.float32)
        missing = np.flatnonzero(rows < 0)
        try:
            vector = self._query(query)
            if self._stored is not None:
                scores[rows >= 0] = self._stored.vectors[rows[rows >= 0]].astype(np.float32) @ vector
            for start in range(0, len(missing), BATCH_SIZE):
                check(*RERANKING)
                batch = missing[start : start + BATCH_SIZE]
                scores[batch] = (
                    self._encoder.encode_documents([texts[index] for index in batch]).dense @ vector
                )
        except EncoderError as error:
            failed = RerankerError(str(error))
            failed.public = error.public
            raise failed from error
        return scores

    def close(self) -> None:
        """Release the encoder. Scoring after this raises RerankerError."""
        self._query.cache_clear()
        self._encoder.close()

    def _encode_query(self, text: str) -> Any:
        return self._encoder.encode_queries([text]).dense[0]
