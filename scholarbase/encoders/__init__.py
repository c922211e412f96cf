"""Text to vectors: one protocol, several models."""

from scholarbase.encoders.base import Encoder, Encodings, LearnedSparse, document_text
from scholarbase.encoders.registry import open_encoder

__all__ = ["Encoder", "Encodings", "LearnedSparse", "document_text", "open_encoder"]
