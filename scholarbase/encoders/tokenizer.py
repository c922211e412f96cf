"""The tokenizers of transformers, for other uses than encoding."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer


def copy_tokenizer(tokenizer: Any) -> Tokenizer | None:
    """A copy of a model's tokenizer that neither truncates nor pads; None for one that is not written in Rust.

    Truncation and padding are part of a tokenizer's state, which the model changes while it encodes.
    """
    fast = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(fast, Tokenizer):
        return None
    copy: Tokenizer = Tokenizer.from_str(fast.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy
