"""The identity of an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

PACKAGED: Final = "arxiv-static-v1"
"""The name of the encoder in the package. An encoder with other files gets another name."""
STATIC: Final = "static"
"""The kind of encoders with a vector for each token. Texts without known tokens have the vector zero."""


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """An encoder's identity, stored in the manifest: encoders with equal specs have comparable vectors.

    ``name`` is the model's name without a path. ``fingerprint`` is a hash of the files that decide its output, None
    where they are unknown, as for a URL.
    """

    kind: str
    name: str
    dimensions: int
    learned_sparse: bool = False
    max_tokens: int | None = None
    fingerprint: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EncoderSpec:
        return cls(**data)
