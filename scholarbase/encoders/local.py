"""What models in this process share: their loading, their device, and copies of their tokenizers."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from scholarbase.encoders.base import Encodings, LearnedSparse, unit_rows
from scholarbase.errors import EncoderError, ScholarBaseError
from scholarbase.models.encoders import EncoderSpec

Task = Literal["document", "query"]


class LocalEncoder(ABC):
    """A model on one device. One thread at a time uses it: truncation and padding are part of a tokenizer's state.

    Args:
        name: the model's name without a path, since errors may be sent to clients.
        device: a torch device, for messages.
    """

    _spec: EncoderSpec

    def __init__(self, name: str, device: str) -> None:
        self._name = name
        self._device = device
        self._model: Any = None
        self._lock = threading.Lock()

    @property
    def spec(self) -> EncoderSpec:
        return self._spec

    @property
    def device(self) -> str:
        return self._device

    @property
    def tokenizer(self) -> Tokenizer | None:
        """A copy of the documents' tokenizer, without truncation; None if the model has none in Rust.

        Raises:
            EncoderError: the encoder is closed.
        """
        with self._opened():
            return copy_tokenizer(self._tokenizer())

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents, with the model's prompt for them if it has one."""
        return self._encode(texts, "document")

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        """Encode queries, with the model's prompt for them if it has one."""
        return self._encode(texts, "query")

    def close(self) -> None:
        """Release the model. Encoding after this raises EncoderError."""
        with self._lock:
            self._model = None

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """The model, for this thread."""
        with self._lock:
            if self._model is None:
                raise EncoderError(f"The encoder {self._name} is closed: open it again.")
            yield self._model

    def _encode(self, texts: Sequence[str], task: Task) -> Encodings:
        with self._opened():
            if not texts:
                empty = np.empty((0, self._spec.dimensions), np.float32)
                return Encodings(empty, [] if self._spec.learned_sparse else None)
            try:
                dense, sparse = self._run(texts, task)
            except Exception as error:
                raise EncoderError(
                    f"The model {self._name} failed to encode {len(texts)} texts on {self._device} "
                    f"({type(error).__name__}: {error}): if memory ran out, use another device."
                ) from error
        if dense is None:
            return Encodings(np.empty((len(texts), 0), np.float32), sparse)
        return Encodings(unit_rows(dense, f"The model {self._name}"), sparse)

    @abstractmethod
    def _run(
        self, texts: Sequence[str], task: Task
    ) -> tuple[npt.NDArray[np.float32] | None, list[LearnedSparse] | None]:
        """The dense vectors and the term weights of one or more texts."""

    @abstractmethod
    def _tokenizer(self) -> Any:
        """The tokenizer of documents."""


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
