"""Cross-encoders of sentence-transformers, by path or hub name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt

from scholarbase.encoders.checkpoint import (
    deciding_files,
    find_checkpoint,
    fingerprint,
    model_name,
    read_json,
)
from scholarbase.encoders.local import choose_device, loading
from scholarbase.errors import RerankerError
from scholarbase.extras import missing
from scholarbase.rerankers.base import BATCH_SIZE, LocalReranker

_SCORING = ("ForSequenceClassification", "ForCausalLM")
"""How the architectures with a layer for scores end. For others, such as an embedding model, transformers makes this
layer at random and only logs that."""


class CrossEncoderReranker(LocalReranker):
    """A model that sentence-transformers can load as a ``CrossEncoder``, with one score for a pair, on one device.

    Scores are those of ``predict``, with the model's activation function. Pairs are truncated to the model's maximum.

    Raises:
        EncoderError: the model cannot be found, or the device does not exist.
        MissingExtra: sentence-transformers is not installed.
        RerankerError: the model cannot be loaded, or is not a cross-encoder with one score.
    """

    def __init__(self, path_or_name: str | Path, device: str | None = None) -> None:
        folder = find_checkpoint(str(path_or_name))
        _check_architecture(folder)
        try:
            import sentence_transformers
        except ImportError as error:
            package = "sentence-transformers"
            raise missing(package, package, f"The reranker {path_or_name}") from error
        device = choose_device(device)
        with loading(path_or_name, device, RerankerError):
            self._model: Any = sentence_transformers.CrossEncoder(
                str(folder), device=device, local_files_only=True
            )
            scores = self._predict([("sample", "sample")])
        if scores.shape != (1,):
            raise RerankerError(
                f"The model {path_or_name} has {scores.size} scores for a pair of texts, and a reranker has one: use "
                "a cross-encoder with one label."
            )
        modules = [module for module in sorted(folder.glob("[0-9]*_*")) if module.is_dir()]
        files = [file for module_folder in (folder, *modules) for file in deciding_files(module_folder)]
        super().__init__(model_name(folder), fingerprint(folder, files), device)

    def _predict(self, pairs: list[tuple[str, str]]) -> Any:
        return self._model.predict(pairs, batch_size=BATCH_SIZE, show_progress_bar=False)

    def _scorer(self, query: str) -> Callable[[list[str]], npt.ArrayLike]:
        return lambda texts: self._predict([(query, text) for text in texts])

    def _release(self) -> None:
        self._model = None


def has_scores(folder: Path) -> bool:
    """Whether a model has a layer for scores, by its architecture."""
    return str(_architecture(folder)).endswith(_SCORING)


def _architecture(folder: Path) -> Any:
    config = read_json(folder / "config.json")
    names = config.get("architectures") if isinstance(config, dict) else None
    return names[0] if isinstance(names, list) and names else None


def _check_architecture(folder: Path) -> None:
    if not has_scores(folder):
        raise RerankerError(
            f"{folder} has the architecture {_architecture(folder)}, which has no layer for scores: give the folder of "
            "a cross-encoder, as CrossEncoder.save_pretrained writes it, of an embedding model, or of BGE-M3."
        )
