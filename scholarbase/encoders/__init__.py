"""Text to vectors: one protocol, several models."""

from scholarbase.encoders.base import Encoder, Encodings, LearnedSparse, document_text

__all__ = ["Encoder", "Encodings", "LearnedSparse", "document_text", "open_encoder"]


def open_encoder(
    name: str,
    *,
    device: str | None = None,
    api_key: str | None = None,
    requests: int = 1,
) -> Encoder:
    """Open an encoder by name: see :func:`scholarbase.encoders.registry.open_encoder`."""
    from scholarbase.encoders.registry import open_encoder as open_by_name  # keeps the import light

    return open_by_name(name, device=device, api_key=api_key, requests=requests)
