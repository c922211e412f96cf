"""The identity of an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

PACKAGED: Final = "arxiv-static-v1"
"""The name of the encoder in the package. An encoder with other files gets another name."""
TRUSTED: Final = frozenset({PACKAGED, "BAAI/bge-m3"})
"""The names that are opened where only a library has them: no code comes with these models. docs/trust.md."""
STATIC: Final = "static"
"""The kind of encoders with a vector for each token. Texts without known tokens have the vector zero."""
_STATIC_TITLE_WEIGHT: Final = 4
"""A static encoder's vector is the mean of the tokens, of which an abstract has ten times as many as its title, but a
question is more like a title. docs/measurements.md has the figures."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """The identity of the model that encodes queries, where it is another than that of documents."""

    kind: str
    name: str
    max_tokens: int | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """An encoder's identity, stored in the manifest: encoders with equal specs have comparable vectors.

    ``name`` is the model's name without a path. ``dimensions`` are those of the dense vectors; 0 is an encoder without
    dense vectors, which has learned sparse weights only. ``fingerprint`` is a hash of the files that decide its output,
    None where they are unknown, as for a URL. ``query`` is None if one model encodes documents and queries; else the
    other fields describe the documents' model.
    """

    kind: str
    name: str
    dimensions: int
    learned_sparse: bool = False
    max_tokens: int | None = None
    fingerprint: str | None = None
    query: QuerySpec | None = None

    @property
    def title_weight(self) -> int:
        """The number of times the title is repeated in a paper's encoded text."""
        return _STATIC_TITLE_WEIGHT if self.kind == STATIC else 1

    @property
    def for_queries(self) -> EncoderSpec:
        """The spec of the model that encodes queries."""
        return self if self.query is None else replace(self, **asdict(self.query), query=None)

    def to_dict(self) -> dict[str, Any]:
        """The spec as JSON, without ``query`` where it is None."""
        return {key: value for key, value in asdict(self).items() if key != "query" or value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EncoderSpec:
        """Raises TypeError: a key is missing or unknown."""
        content = {**data}
        if content.get("query") is not None:
            content["query"] = QuerySpec(**content["query"])
        return cls(**content)
