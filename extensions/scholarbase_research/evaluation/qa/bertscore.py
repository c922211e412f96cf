"""BERTScore (https://arxiv.org/abs/1904.09675) by the package bert-score, with a model from a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scholarbase.errors import EncoderError, InvalidRequest
from scholarbase.extras import require
from scholarbase.models.checks import check_whole

BATCH: Final = 16


class BertScorer:
    """F1 of BERTScore, the best over the references, without rescaling to a baseline.

    Args:
        model: the folder of a transformers checkpoint; nothing is downloaded.
        layer: the layer whose vectors are compared, counted from 1; the package's README names the best of each model.

    Raises:
        MissingExtra: bert-score is not installed.
        InvalidRequest: ``model`` is not a folder with a checkpoint.
    """

    def __init__(self, model: Path, layer: int) -> None:
        check_whole(layer, "layer", 1, 1_000)
        if not (model / "config.json").is_file():
            raise InvalidRequest(f"{model} has no config.json: give the folder of a transformers checkpoint.")
        self._package = require("bert_score", "bertscore", "BERTScore")
        self._model, self._layer = str(model.absolute()), layer

    def __call__(self, answers: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
        """The F1 of each answer. Raises EncoderError: the model cannot be loaded."""
        try:
            _, _, f1 = self._package.score(
                list(answers),
                [list(texts) for texts in references],
                model_type=self._model,
                num_layers=self._layer,
                batch_size=BATCH,
            )
        except (AssertionError, KeyError, OSError, OverflowError, RuntimeError, ValueError) as error:
            raise EncoderError(
                f"bert-score cannot use {self._model} with layer {self._layer} ({type(error).__name__}: {error}): give "
                "a checkpoint with its tokenizer and its length, and a layer that it has."
            ) from error
        return [float(value) for value in f1]
