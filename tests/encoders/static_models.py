"""Small models in the format of model2vec."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

WORDS = ["[PAD]", "[UNK]", "dark", "matter", "graph", "##s", "neural", "net", "##work", "of", "the", "x"]
VECTORS = np.random.default_rng(0).standard_normal((len(WORDS), 8)).astype(np.float32)


def make_model(
    folder: Path,
    tensors: dict[str, Any] | None = None,
    words: list[str] | None = None,
    **config: Any,
) -> Path:
    """Write a model of 12 tokens and 8 dimensions."""
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {word: number for number, word in enumerate(words or WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"embeddings": VECTORS} if tensors is None else tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "normalize": True, **config}))
    return folder
