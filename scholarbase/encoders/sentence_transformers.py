"""Sentence-transformers models, by path or hub name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from scholarbase.encoders.base import Encodings, unit_rows
from scholarbase.encoders.checkpoint import (
    deciding_files,
    find_checkpoint,
    fingerprint,
    model_name,
    no_progress_bars,
    read_json,
)
from scholarbase.encoders.device import choose_device
from scholarbase.errors import EncoderError
from scholarbase.extras import missing
from scholarbase.models.encoders import EncoderSpec

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT_BATCH_SIZE: Final = 64


class SentenceTransformersEncoder:
    """A model that sentence-transformers can load, on one device.

    Queries and documents get the prompts in the model's configuration. Texts are truncated to ``spec.max_tokens``
    tokens.

    Raises:
        EncoderError: the extra is not installed, or the model cannot be found or loaded.
    """

    def __init__(
        self, path_or_name: str | Path, device: str | None = None, batch_size: int = DEFAULT_BATCH_SIZE
    ) -> None:
        if batch_size < 1:
            raise EncoderError(f"batch_size is {batch_size}: it must be 1 or more texts.")
        folder = find_checkpoint(str(path_or_name), extra_files=["modules.json"])
        module_folders = _module_folders(folder)
        try:
            import sentence_transformers
        except ImportError as error:
            package = "sentence-transformers"
            raise missing(package, package, f"The model {path_or_name}") from error
        self._batch_size = batch_size
        self._lock = threading.Lock()
        # Errors may be sent to clients, so they have the name and not the path.
        self._name = model_name(folder)
        device = choose_device(device)
        try:
            with no_progress_bars():
                self._model: SentenceTransformer | None = sentence_transformers.SentenceTransformer(
                    str(folder), device=device, local_files_only=True
                )
            sample = self._model.encode(["sample"], show_progress_bar=False)
        except Exception as error:
            raise EncoderError(
                f"The model {path_or_name} could not be loaded on {device} "
                f"({type(error).__name__}: {error}): copy the model again, or try another device."
            ) from error
        self._spec = EncoderSpec(
            kind="sentence-transformers",
            name=self._name,
            dimensions=int(sample.shape[1]),
            max_tokens=self._model.max_seq_length,
            fingerprint=fingerprint(
                folder, [file for part in module_folders for file in deciding_files(part)]
            ),
        )

    @property
    def spec(self) -> EncoderSpec:
        return self._spec

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents with the model's document prompt, if it has one."""
        return self._encode(texts, lambda model: model.encode_document)

    def encode_queries(self, texts: Sequence[str]) -> Encodings:
        """Encode queries with the model's query prompt, if it has one."""
        return self._encode(texts, lambda model: model.encode_query)

    def close(self) -> None:
        """Release the model. Encoding after this raises EncoderError."""
        with self._lock:
            self._model = None

    def _encode(
        self, texts: Sequence[str], method: Callable[[SentenceTransformer], Callable[..., Any]]
    ) -> Encodings:
        # Tokenizers are not thread-safe: truncation and padding are part of their state.
        with self._lock:
            if self._model is None:
                raise EncoderError(f"The encoder {self._name} is closed: open it again.")
            if not texts:
                return Encodings(np.empty((0, self._spec.dimensions), dtype=np.float32))
            try:
                vectors = method(self._model)(
                    list(texts),
                    batch_size=self._batch_size,
                    normalize_embeddings=True,
                    convert_to_numpy=True,
                    show_progress_bar=False,
                )
            except Exception as error:
                raise EncoderError(
                    f"The model {self._name} failed to encode {len(texts)} texts "
                    f"({type(error).__name__}: {error}): if memory ran out, use a smaller batch or the CPU."
                ) from error
        return Encodings(unit_rows(vectors, f"The model {self._name}"))


def _module_folders(folder: Path) -> list[Path]:
    """The model's folder and those of the modules in its ``modules.json``.

    Raises:
        EncoderError: ``modules.json`` is missing. sentence-transformers would then guess the pooling, and a wrong
            guess gives vectors that look valid and rank badly.
    """
    if not (folder / "modules.json").exists():
        raise EncoderError(
            f"{folder} has no modules.json, so the pooling of its vectors is unknown: give the folder of a "
            "sentence-transformers model, as SentenceTransformer.save writes it."
        )
    modules = read_json(folder / "modules.json")
    if not isinstance(modules, list) or not all(isinstance(m, dict) and "path" in m for m in modules):
        raise EncoderError(f"{folder / 'modules.json'} is not a list of modules: copy the model again.")
    paths = {str(module["path"]) for module in modules}
    return [folder, *(folder / path for path in sorted(paths - {""}))]
