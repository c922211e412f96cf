"""Two models of one vector space: one encodes documents, the other queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tokenizers import Tokenizer

from scholarbase.encoders.base import Encoder, Encodings
from scholarbase.errors import EncoderError
from scholarbase.models.encoders import EncoderSpec, QuerySpec


class PairedEncoder:
    """Documents from one encoder, queries from another. It has learned sparse weights if both have.

    Raises:
        EncoderError: the encoders have other dimensions or vocabularies.
    """

    def __init__(self, documents: Encoder, queries: Encoder) -> None:
        self.documents, self._queries = documents, queries
        ours, theirs = documents.spec, queries.spec.for_queries
        if ours.dimensions != theirs.dimensions:
            raise EncoderError(
                f"The encoder {ours.name} has {ours.dimensions} dimensions, and the query encoder {theirs.name} has "
                f"{theirs.dimensions}: both must have the same, so give two models that were trained together."
            )
        learned = ours.learned_sparse and theirs.learned_sparse
        sizes = [getattr(encoder, "vocabulary_size", None) for encoder in (documents, queries)]
        if learned and None not in sizes and sizes[0] != sizes[1]:
            raise EncoderError(
                f"The encoder {ours.name} has term weights for {sizes[0]} tokens, and the query encoder {theirs.name} "
                f"for {sizes[1]}: both must have the same vocabulary, so give two models that were trained together."
            )
        query = QuerySpec(theirs.kind, theirs.name, theirs.max_tokens, theirs.fingerprint)
        self._spec = replace(ours, learned_sparse=learned, query=query)

    @property
    def spec(self) -> EncoderSpec:
        return self._spec

    @property
    def tokenizer(self) -> Tokenizer | None:
        """That of the documents' model; None if it is not at hand."""
        return getattr(self.documents, "tokenizer", None)

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents with their model."""
        return self._encoded(self.documents.encode_documents(texts))

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        """Encode queries with theirs."""
        return self._encoded(self._queries.encode_queries(texts))

    def close(self) -> None:
        """Close both encoders."""
        self.documents.close()
        self._queries.close()

    def _encoded(self, encodings: Encodings) -> Encodings:
        return encodings if self._spec.learned_sparse else Encodings(encodings.dense)
