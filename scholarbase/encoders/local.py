"""What models in this process share: their loading, their device, and copies of their tokenizers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from scholarbase.errors import EncoderError, ScholarBaseError


@contextmanager
def loading(name: str | Path, device: str, kind: type[ScholarBaseError] = EncoderError) -> Iterator[None]:
    """Load a model in the block, without the progress bar that transformers draws on standard error.

    Raises:
        EncoderError: or another ``kind``, for any error of the block.
    """
    try:
        from transformers.utils import logging

        is_shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            if is_shown:
                logging.enable_progress_bar()
    except Exception as error:
        raise kind(
            f"The model {name} could not be loaded on {device} ({type(error).__name__}: {error}): copy the model "
            "again, or try another device."
        ) from error


def choose_device(name: str | None) -> str:
    """The device for a model: ``name`` if specified, else ``cuda`` if available, else ``cpu``.

    Models always get an explicit device: without one, some libraries use every GPU of the machine.

    Raises:
        EncoderError: torch does not know the device, or does not find it here.
    """
    import torch

    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise EncoderError(
            f"Unknown device {name!r}: give cpu, cuda, cuda:1 or another device of torch's."
        ) from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise EncoderError(
            f"No device {name!r}: torch finds {torch.cuda.device_count()} CUDA devices. "
            "Use cpu, or install a CUDA build of torch."
        )
    return name


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
