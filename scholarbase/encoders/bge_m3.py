"""BGE-M3 (Chen et al., arXiv:2402.03216): dense vectors and learned term weights from one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scholarbase.encoders.base import LearnedSparse
from scholarbase.encoders.checkpoint import (
    deciding_files,
    find_checkpoint,
    fingerprint,
    model_name,
    read_json,
)
from scholarbase.encoders.local import LocalEncoder, Task, choose_device, loading
from scholarbase.errors import EncoderError
from scholarbase.extras import missing
from scholarbase.models.encoders import EncoderSpec

DEFAULT_NAME: Final = "BAAI/bge-m3"
MAX_TOKENS: Final = 1024
"""Enough for a title and an abstract in any language: arXiv limits abstracts to 1,920 characters."""

# FlagEmbedding reads both or none: if either is missing, it initializes both layers at random and only logs that.
_LINEAR_LAYERS: Final = ("colbert_linear.pt", "sparse_linear.pt")

# Padded tokens per batch. Larger batches gain nothing on a CPU.
_TOKENS_PER_BATCH: Final = {"cpu": 4096}
_TOKENS_PER_BATCH_ON_GPU: Final = 65536


def is_bge_m3(folder: Path) -> bool:
    """Whether ``folder`` has a BGE-M3 model: XLM-RoBERTa with a layer for term weights."""
    if not (folder / "config.json").is_file() or not (folder / "sparse_linear.pt").is_file():
        return False
    config = read_json(folder / "config.json")
    return isinstance(config, dict) and config.get("model_type") == "xlm-roberta"


class BgeM3Encoder(LocalEncoder):
    """BGE-M3 through FlagEmbedding, on one device: half precision on a GPU, single on a CPU.

    Weights, tokenizer and forward pass are FlagEmbedding's, without its batching: that runs the first batch of every
    call twice (to test whether it fits), which doubles the time of a query, and retries after any error. Texts are
    truncated to :data:`MAX_TOKENS` tokens. Queries are encoded as documents: BGE-M3 has no query instruction.

    Raises:
        EncoderError: the extra is not installed, or the model cannot be found or loaded, or is incomplete.
    """

    def __init__(
        self,
        path_or_name: str | Path = DEFAULT_NAME,
        device: str | None = None,
        tokens_per_batch: int | None = None,
    ) -> None:
        folder = find_checkpoint(str(path_or_name), extra_files=_LINEAR_LAYERS)
        config = _check_folder(folder)
        # XLM-RoBERTa numbers positions from padding_idx + 1, so two are never used.
        positions = int(config["max_position_embeddings"]) - 2
        try:
            from FlagEmbedding import BGEM3FlagModel
        except ImportError as error:
            raise missing("FlagEmbedding", "bge-m3", f"The model {path_or_name}") from error
        device = choose_device(device)
        super().__init__(model_name(folder), device)
        self._max_tokens = min(MAX_TOKENS, positions)
        self._tokens_per_batch = tokens_per_batch or _TOKENS_PER_BATCH.get(device, _TOKENS_PER_BATCH_ON_GPU)
        with loading(path_or_name, device):
            self._model = BGEM3FlagModel(
                str(folder), devices=device, use_fp16=device.startswith("cuda"), normalize_embeddings=True
            )
            self._model.model.to(device)
            self._model.model.eval()
        tokenizer = self._model.tokenizer
        special = (
            tokenizer.cls_token_id,
            tokenizer.eos_token_id,
            tokenizer.pad_token_id,
            tokenizer.unk_token_id,
        )
        self._special_ids = np.array(sorted({i for i in special if i is not None}), dtype=np.int64)
        self._spec = EncoderSpec(
            kind="bge-m3",
            name=self._name,
            dimensions=int(config["hidden_size"]),
            learned_sparse=True,
            max_tokens=self._max_tokens,
            # Without colbert_linear.pt: multi-vectors are not used.
            fingerprint=fingerprint(
                folder, [*_without_modules(deciding_files(folder)), folder / "sparse_linear.pt"]
            ),
        )

    def _tokenizer(self) -> Any:
        return self._model.tokenizer

    def token_vectors(self, texts: Sequence[str]) -> list[npt.NDArray[np.float32]]:
        """The ColBERT vectors of texts, in one batch: for each text a row of unit length for each token but the first.

        Raises:
            EncoderError: the encoder is closed.
        """
        import torch

        with self._opened() as flag:
            batch = flag.tokenizer(
                list(texts), truncation=True, max_length=self._max_tokens, padding=True, return_tensors="pt"
            ).to(self._device)
            with torch.inference_mode():
                output = flag.model(
                    {name: batch[name] for name in ("input_ids", "attention_mask")},
                    return_dense=False,
                    return_sparse=False,
                    return_colbert_vecs=True,
                )
            vectors = output["colbert_vecs"].float().cpu().numpy()
            counts = batch["attention_mask"].sum(dim=1).tolist()
        return [rows[: count - 1] for rows, count in zip(vectors, counts, strict=True)]

    def _run(self, texts: Sequence[str], task: Task) -> tuple[npt.NDArray[np.float32], list[LearnedSparse]]:
        import torch

        tokenizer = self._model.tokenizer
        ids = tokenizer(list(texts), truncation=True, max_length=self._max_tokens)["input_ids"]
        # Longest first: there is little padding, and a batch that does not fit in memory fails early.
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        dense = np.empty((len(ids), self._spec.dimensions), dtype=np.float32)
        sparse: list[LearnedSparse | None] = [None] * len(ids)
        start = 0
        while start < len(order):
            rows = order[start : start + max(1, self._tokens_per_batch // len(ids[order[start]]))]
            batch = tokenizer.pad({"input_ids": [ids[i] for i in rows]}, padding=True, return_tensors="pt")
            with torch.inference_mode():
                output = self._model.model(batch.to(self._device), return_dense=True, return_sparse=True)
            dense[rows] = output["dense_vecs"].float().cpu().numpy()
            weights = output["sparse_vecs"].squeeze(-1).float().cpu().numpy()
            for row, token_ids, row_weights in zip(
                rows, batch["input_ids"].cpu().numpy(), weights, strict=True
            ):
                sparse[row] = self._term_weights(token_ids, row_weights)
            start += len(rows)
        return dense, [item for item in sparse if item is not None]

    def _term_weights(
        self, token_ids: npt.NDArray[np.int64], weights: npt.NDArray[np.float32]
    ) -> LearnedSparse:
        """Each token's greatest weight in the text, without the start, end, padding and unknown tokens."""
        if not np.isfinite(weights).all():
            raise ValueError("a term weight is not finite")
        keep = (weights > 0) & ~np.isin(token_ids, self._special_ids)
        unique, where = np.unique(token_ids[keep], return_inverse=True)
        greatest = np.zeros(len(unique), dtype=np.float32)
        np.maximum.at(greatest, where, weights[keep])
        return LearnedSparse(unique.astype(np.uint32), greatest)


def _without_modules(files: Sequence[Path]) -> list[Path]:
    """The files without those that only sentence-transformers reads."""
    return [
        file
        for file in files
        if file.name not in ("modules.json", "config_sentence_transformers.json")
        and not file.name.startswith("sentence_")
    ]


def _check_folder(folder: Path) -> dict[str, Any]:
    """Read the model's configuration, and check that all its files exist."""
    config = read_json(folder / "config.json")
    if not isinstance(config, dict) or config.get("model_type") != "xlm-roberta":
        raise EncoderError(
            f"{folder} is not a BGE-M3 model: its config.json is not of the type xlm-roberta. "
            "Open other models with the sentence-transformers encoder."
        )
    for name in _LINEAR_LAYERS:
        if not (folder / name).is_file():
            raise EncoderError(
                f"{folder} has no {name}: without it BGE-M3's term weights would be random. "
                "Copy the whole model again."
            )
    for key in ("hidden_size", "max_position_embeddings"):
        if type(config.get(key)) is not int:
            raise EncoderError(f"{folder / 'config.json'} has no integer {key}: copy the model again.")
    return config
