"""Sentence-transformers models, by path or hub name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from torch import Tensor

BATCH_SIZE: Final = 64
_NO_LIMIT: Final = 2**31
"""Tokenizers without a limit have a huge one."""
_KIND: Final = "sentence-transformers"
_MODULES: Final = "modules.json"
_ROUTERS: Final = (".Router", ".Asym")
"""Asym is the name of a Router before sentence-transformers 5."""


class SentenceTransformersEncoder(LocalEncoder):
    """A model that sentence-transformers can load, on one device.

    Queries and documents get the prompts in the model's configuration. Texts are truncated to ``spec.max_tokens``
    tokens. A SparseEncoder gives learned sparse weights and no dense vectors.

    Raises:
        EncoderError: the extra is not installed, or the model cannot be found or loaded, or has routes.
    """

    def __init__(self, path_or_name: str | Path, device: str | None = None) -> None:
        folder = find_checkpoint(str(path_or_name), extra_files=[_MODULES])
        modules = _module_folders(folder)
        try:
            import sentence_transformers
        except ImportError as error:
            package = "sentence-transformers"
            raise missing(package, package, f"The model {path_or_name}") from error
        device = choose_device(device)
        super().__init__(model_name(folder), device)
        self._sparse = _is_sparse(folder)
        with loading(path_or_name, device):
            open_model: Any = (
                sentence_transformers.SparseEncoder
                if self._sparse
                else sentence_transformers.SentenceTransformer
            )
            self._model = open_model(str(folder), device=device, local_files_only=True)
            width = int(self._vectors(["sample"], "query").shape[1])
            limit = self._model.max_seq_length
            similarity = self._model.similarity_fn_name
        if self._sparse and similarity != "dot":
            raise EncoderError(
                f"The model {self._name} compares term weights by {similarity}, and a library does by dot product: "
                "give a model whose similarity_fn_name is dot."
            )
        self.vocabulary_size = width if self._sparse else None
        files = [file for module in {folder, *modules} for file in deciding_files(module)]
        self._spec = EncoderSpec(
            kind=_KIND,
            name=self._name,
            dimensions=0 if self._sparse else width,
            learned_sparse=self._sparse,
            max_tokens=None if limit is None or limit >= _NO_LIMIT else int(limit),
            fingerprint=fingerprint(folder, files),
        )

    def _tokenizer(self) -> Any:
        return getattr(self._model[0], "tokenizer", None)

    def _run(
        self, texts: Sequence[str], task: Task
    ) -> tuple[npt.NDArray[np.float32] | None, list[LearnedSparse] | None]:
        vectors = self._vectors(texts, task)
        return (None, _term_weights(vectors)) if self._sparse else (vectors, None)

    def _vectors(self, texts: Sequence[str], task: Task) -> Any:
        """The vectors of shape (n, dimensions), or (n, tokens) as a sparse tensor."""
        model: Any = self._model
        encode = model.encode_query if task == "query" else model.encode_document
        options = (
            {"save_to_cpu": True}
            if self._sparse
            else {"normalize_embeddings": True, "convert_to_numpy": True}
        )
        return encode(list(texts), batch_size=BATCH_SIZE, show_progress_bar=False, **options)


def _module_folders(folder: Path) -> list[Path]:
    """The folders of the model's modules.

    Raises:
        EncoderError: ``modules.json`` is missing or not valid, or has a Router. Without the file, sentence-transformers
            would guess the pooling, and a wrong guess gives vectors that look valid and rank badly.
    """
    if not (folder / _MODULES).exists():
        raise EncoderError(
            f"{folder} has no modules.json, so the pooling of its vectors is unknown: give the folder of a "
            "sentence-transformers model, as SentenceTransformer.save writes it, or of a model2vec model, whose "
            "model.safetensors has a tensor embeddings."
        )
    modules = read_json(folder / _MODULES)
    if not isinstance(modules, list) or not all(isinstance(m, dict) and "path" in m for m in modules):
        raise EncoderError(f"{folder / _MODULES} is not a list of modules: copy the model again.")
    if any(str(module.get("type")).endswith(_ROUTERS) for module in modules):
        raise EncoderError(
            f"{folder} has a Router, and so several models: save that of documents and that of queries, and give them "
            "by --encoder and --query-encoder."
        )
    return [folder / str(module["path"]) for module in modules]


def _is_sparse(folder: Path) -> bool:
    """Whether the model is a SparseEncoder: it has learned sparse weights and no dense vectors."""
    path = folder / "config_sentence_transformers.json"
    config = read_json(path) if path.exists() else None
    return isinstance(config, dict) and config.get("model_type") == "SparseEncoder"


def _term_weights(rows: Tensor) -> list[LearnedSparse]:
    """The weights above zero of each row of a sparse tensor of shape (n, tokens)."""
    rows = rows.coalesce()
    (row, token), values = rows.indices().numpy(), rows.values().float().numpy()
    if not np.isfinite(values).all():
        raise ValueError("a term weight is not finite")
    keep = values > 0
    token, values = token[keep].astype(np.uint32), values[keep]
    ends = np.searchsorted(row[keep], np.arange(rows.shape[0] + 1))
    return [LearnedSparse(token[start:end], values[start:end]) for start, end in pairwise(ends)]
