"""BM25 sparse vectors of texts, made with Qdrant's tokenizer and weights.

A document's weight for a term is BM25's saturated, length-normalised term frequency (Robertson and Zaragoza,
*The Probabilistic Relevance Framework: BM25 and Beyond*, 2009)::

    tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average_length))

A query's weight for each of its terms is the term's inverse document frequency, ``ln(1 + (N - n + 0.5) / (n + 0.5))``,
so that the dot product is BM25. N and n come from the catalogue (:mod:`scholarbase.indexes.frequencies`), not from the
index, whose own IDF would be that of one shard.

Weights are rounded, so that scores are exact. Qdrant multiplies and adds 32-bit floats, which have 24 significant bits.
The weights of documents are multiples of :data:`DOCUMENT_STEP` and those of a query multiples of a power of two, so
every partial sum of a score is a multiple of their product. Up to 2^24 times that, which is 2,048 with
:data:`.legs.QUERY_STEP`, each is exact, and the order of the sum cannot change a score: any division into segments,
shards or replicas returns the same bits.

Texts are in their searchable form (:func:`scholarbase.markup.searchable`). Words are lower-cased, Latin letters are
folded to ASCII (*naïve* to *naive*; other scripts are unchanged), stop words are removed, and the remaining words are
stemmed (Snowball English).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import qdrant_edge

from scholarbase.errors import LibraryCorrupt
from scholarbase.indexes.stop_words import STOP_WORDS
from scholarbase.indexes.vectors.base import EngineVector
from scholarbase.markup import searchable

AVERAGE_LENGTH: Final = 109.0
"""Terms of an abstract and of a title counted twice, on average over 334,917 arXiv papers. A constant of the format:
with a library's own average every weight would change with every update. Other values rank about as well
(``docs/measurements.md``)."""

DOCUMENT_STEP: Final = 2.0**-8

_SHORTENED: Final = re.compile(
    r"(?<=\w)['\u2019][md]\b|\b(?:e\.g|i\.e|c\.f|a\.k\.a|w\.r\.t)\b|\b(?:e\.[ ~]g|i\.[ ~]e)(?=\.)",
    re.IGNORECASE,
)
"""Contractions and abbreviations of which words would keep single letters: *I'm*, *I'd*, *e.g.* The other letters that
they leave are stop words."""
_SHORTENING: Final = re.compile("['\u2019.]")
"""What each of them has."""

STOP_WORDS_FINGERPRINT: Final = hashlib.sha256(" ".join(sorted(STOP_WORDS)).encode()).hexdigest()[:16]
"""Part of the manifest, so that libraries built with different stop words have different snapshot ids."""


@dataclass(frozen=True, slots=True)
class Bm25Parameters:
    """The parameters of documents' and queries' vectors, as recorded in the manifest.

    ``average_length`` is in terms, without stop words. ``title_weight`` is how many times a title counts: 2 measured
    best (``docs/measurements.md``).

    Raises:
        LibraryCorrupt: a value outside BM25's domain.
    """

    k1: float = 1.0
    b: float = 0.75
    average_length: float = AVERAGE_LENGTH
    title_weight: int = 2
    stop_words: str = STOP_WORDS_FINGERPRINT

    def __post_init__(self) -> None:
        for name, ok, expected in (
            ("k1", 0 <= self.k1 < float("inf"), "a number of 0 or more"),
            ("b", 0 <= self.b <= 1, "a number from 0 to 1"),
            ("average_length", 0 < self.average_length < float("inf"), "a number above 0"),
            ("title_weight", self.title_weight in range(1, 11), "a whole number from 1 to 10"),
        ):
            if not ok:
                raise LibraryCorrupt(f"BM25's {name} is {getattr(self, name)!r}: it must be {expected}.")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Bm25Parameters:
        """Read the result of ``to_dict``.

        Raises:
            LibraryCorrupt: an unknown key, or a value outside BM25's domain.
        """
        try:
            return cls(**data)
        except TypeError as error:
            raise LibraryCorrupt(
                f"The manifest's BM25 parameters {dict(data)!r} cannot be read: {error}."
            ) from error


class Bm25Text:
    """Makes BM25 vectors of documents and queries. Safe to share between threads: it has no state."""

    def __init__(self, parameters: Bm25Parameters | None = None) -> None:
        self.parameters = parameters = parameters or Bm25Parameters()
        self._model = engine_model(parameters.k1, parameters.b, parameters.average_length)

    def document(self, title: str, abstract: str | None) -> EngineVector:
        """The vector of a paper. Empty if its text has only stop words."""
        vector = self.unrounded(title, abstract)
        return EngineVector(vector.indices, round_document(vector.values))

    def unrounded(self, title: str, abstract: str | None) -> EngineVector:
        """The vector of a paper with Qdrant's own weights, for callers that round those of many papers at once."""
        return self._model.embed_document(self._text(title, abstract))

    def query(self, text: str) -> EngineVector:
        """The terms of a query, each with weight 1. :class:`.legs.Bm25Queries` weighs them.

        Empty if the query has only stop words (*Which studies show this?*), which documents' vectors lack too. FTS5
        keeps all words.
        """
        return self._model.embed_query(_tokenized(without_shortened(text)))

    def _text(self, title: str, abstract: str | None) -> str:
        parts = [title] * self.parameters.title_weight
        if abstract:
            parts.append(abstract)
        return _tokenized("\n".join(parts))


def round_document(weights: Sequence[float]) -> list[float]:
    """The :func:`rounded` weights of one document."""
    # With NumPy: of millions of documents, plain Python would take twice as long.
    numbers: list[float] = rounded(np.array(weights, np.float64)).tolist()
    return numbers


def rounded(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Round the weights of documents' terms to multiples of :data:`DOCUMENT_STEP`.

    The least is one step, not 0, so that every word of a very long text is found.
    """
    return np.maximum(np.rint(weights / DOCUMENT_STEP), 1) * DOCUMENT_STEP


def _tokenized(text: str) -> str:
    """The searchable form of a text in NFC: Qdrant's tokenizer splits words at combining marks, which texts from macOS
    and PDFs have."""
    return searchable(unicodedata.normalize("NFC", text))


def engine_model(k1: float, b: float, average_length: float) -> qdrant_edge.Bm25:
    """Qdrant's tokenizer and weights with this library's language settings."""
    return qdrant_edge.Bm25(
        qdrant_edge.Bm25Config(
            k=k1,
            b=b,
            avg_len=average_length,
            tokenizer=qdrant_edge.TokenizerType.Word,
            language="english",
            lowercase=True,
            ascii_folding=True,
            stopwords=qdrant_edge.StopwordsSet(custom=set(STOP_WORDS)),
            stemmer=qdrant_edge.SnowballParams(qdrant_edge.SnowballLanguage.English),
        )
    )


def without_shortened(text: str) -> str:
    """Return a text without :data:`_SHORTENED`, or unchanged if it has none or nothing else."""
    if not _SHORTENING.search(text):  # most texts, at a tenth of the time
        return text
    rest = _SHORTENED.sub(" ", text)
    return rest if any(map(str.isalnum, rest)) else text
