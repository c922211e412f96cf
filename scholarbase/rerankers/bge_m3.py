"""Late interaction of BGE-M3's token vectors (Chen et al., arXiv:2402.03216), as in ColBERT.

The score of a text is the mean, over the query's tokens, of the greatest cosine with a token of the text (Khattab and
Zaharia, arXiv:2004.12832, section 3.3; FlagEmbedding's ``colbert_score`` divides the sum by the number of tokens).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from scholarbase.encoders.bge_m3 import BgeM3Encoder
from scholarbase.encoders.checkpoint import find_checkpoint, fingerprint
from scholarbase.rerankers.base import LocalReranker


class BgeM3Reranker(LocalReranker):
    """BGE-M3 through FlagEmbedding, on one device. Raises as :class:`.BgeM3Encoder`."""

    def __init__(self, path_or_name: str | Path, device: str | None = None) -> None:
        self._encoder = BgeM3Encoder(path_or_name, device)
        folder, spec = find_checkpoint(str(path_or_name)), self._encoder.spec
        layer = fingerprint(folder, [folder / "colbert_linear.pt"])
        both = hashlib.sha256(f"{spec.fingerprint} {layer}".encode()).hexdigest()[:32]
        super().__init__(spec.name, both, self._encoder.device)

    def _scorer(self, query: str) -> Callable[[list[str]], npt.ArrayLike]:
        [tokens] = self._encoder.token_vectors([query])

        def score(texts: list[str]) -> npt.ArrayLike:
            vectors = self._encoder.token_vectors(texts)
            return np.array(
                [(tokens @ text_vectors.T).max(axis=1).sum() / len(tokens) for text_vectors in vectors]
            )

        return score

    def _release(self) -> None:
        self._encoder.close()
