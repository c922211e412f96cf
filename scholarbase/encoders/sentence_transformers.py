"""Sentence-transformers models, by path or hub name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from scholarbase.encoders.base import Encodings, LearnedSparse
from scholarbase.encoders.checkpoint import find_checkpoint, fingerprint, model_name
from scholarbase.encoders.local import LocalEncoder, Task, choose_device, loading
from scholarbase.encoders.modules import Modules
from scholarbase.errors import EncoderError
from scholarbase.extras import missing
from scholarbase.models.encoders import STATIC, EncoderSpec, QuerySpec

if TYPE_CHECKING:
    from torch import Tensor

BATCH_SIZE: Final = 64
_NO_LIMIT: Final = 2**31
"""Tokenizers without a limit have a huge one."""
_KIND: Final = "sentence-transformers"


class SentenceTransformersEncoder(LocalEncoder):
    """A model that sentence-transformers can load, on one device.

    Queries and documents get the prompts in the model's configuration, and take their own routes in a model with a
    Router. Texts are truncated to ``spec.max_tokens`` tokens, queries to ``spec.query.max_tokens`` where they have a
    route. A SparseEncoder gives learned sparse weights and no dense vectors.

    With ``queries_only``, a model with two routes loads only that of queries, ``spec`` describes this route, and
    documents cannot be encoded. It has no effect on other models.

    Raises:
        EncoderError: the extra is not installed, the model cannot be found or loaded, it has no route for queries or
            documents, or their vectors have other dimensions.
    """

    def __init__(
        self,
        path_or_name: str | Path,
        device: str | None = None,
        *,
        queries_only: bool = False,
    ) -> None:
        folder = find_checkpoint(str(path_or_name), extra_files=["modules.json"])
        modules = Modules.read(folder)
        routed = modules.asymmetric
        try:
            import sentence_transformers
        except ImportError as error:
            package = "sentence-transformers"
            raise missing(package, package, f"The model {path_or_name}") from error
        device = choose_device(device)
        super().__init__(model_name(folder), device)
        self._modules = modules
        self._sparse = modules.sparse
        self._may_be_zero = ("query",) if routed and modules.static_queries else ()
        self._queries_only = routed and queries_only
        tasks: tuple[Task, ...] = ("document", "query") if routed and not queries_only else ("query",)
        with loading(path_or_name, device):
            open_model: Any = (
                sentence_transformers.SparseEncoder
                if modules.sparse
                else sentence_transformers.SentenceTransformer
            )
            with modules.for_queries() if self._queries_only else nullcontext(folder) as source:
                self._model = open_model(str(source), device=device, local_files_only=True)
            widths = {task: int(self._vectors(["sample"], task).shape[1]) for task in tasks}
            limits = {task: _max_tokens(self._model, modules, task) for task in tasks}
            similarity = self._model.similarity_fn_name
        if modules.sparse and similarity != "dot":
            raise EncoderError(
                f"The model {self._name} compares term weights by {similarity}, and a library does by dot product: "
                "give a model whose similarity_fn_name is dot."
            )
        if len(set(widths.values())) > 1:
            raise EncoderError(
                f"The model {self._name} returns {widths['document']} dimensions for documents and {widths['query']} "
                "for queries: both must have the same, so give a model whose routes were trained together."
            )
        self.vocabulary_size = widths["query"] if modules.sparse else None
        self._spec = self._describe(modules, widths["query"], limits)

    def _describe(self, modules: Modules, width: int, limits: Mapping[Task, int | None]) -> EncoderSpec:
        folder, query = modules.folder, None
        if modules.asymmetric:
            kind = STATIC if self._may_be_zero else _KIND
            query = QuerySpec(kind, self._name, limits["query"], fingerprint(folder, modules.query_files()))
        spec = EncoderSpec(
            kind=_KIND,
            name=self._name,
            dimensions=0 if modules.sparse else width,
            learned_sparse=modules.sparse,
            max_tokens=limits.get("document", limits["query"]),
            fingerprint=None if self._queries_only else fingerprint(folder, modules.files()),
            query=query,
        )
        return spec.for_queries if self._queries_only else spec

    def _tokenizer(self) -> Any:
        task: Task = "query" if self._queries_only else "document"
        return getattr(_first_module(self._model, self._modules, task), "tokenizer", None)

    def encode_documents(self, texts: Sequence[str]) -> Encodings:
        """Encode documents with the model's document prompt, if it has one."""
        if self._queries_only:
            raise EncoderError(
                f"The encoder {self._name} was opened for queries only: open it for documents too."
            )
        return super().encode_documents(texts)

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


def _max_tokens(model: Any, modules: Modules, task: Task) -> int | None:
    """The number of tokens to which texts for ``task`` are truncated."""
    limit = (
        model.max_seq_length
        if modules.router is None
        else getattr(_first_module(model, modules, task), "max_seq_length", None)
    )
    return None if limit is None or limit >= _NO_LIMIT else int(limit)


def _first_module(model: Any, modules: Modules, task: Task) -> Any:
    """The module that reads the texts for ``task``."""
    if modules.router is None:
        return model[0]
    [router] = [module for module in model.children() if hasattr(module, "sub_modules")]
    return router.sub_modules[modules.router.route(task)][0]


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
