"""Tiny models for documents and queries, with random weights from a fixed seed, written by sentence-transformers."""

from pathlib import Path
from typing import Any, Final

WORDS: Final = (
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    *("dark", "matter", "graph", "##s", "neural", "net", "##work", "of", "the", "in", "galaxies"),
)
DOCUMENT_TOKENS: Final = 32


def _tokenizer(max_tokens: int, words: tuple[str, ...] = WORDS) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=max_tokens,
    )


def _save_bert(folder: Path, kind: str, width: int, seed: int) -> Path:
    import torch
    import transformers

    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=DOCUMENT_TOKENS,
        initializer_range=0.5,  # at the usual 0.02 all vectors would be alike
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        getattr(transformers, kind)(config).eval().save_pretrained(folder)
    _tokenizer(DOCUMENT_TOKENS).save_pretrained(folder)
    return folder


def make_bert(folder: Path, width: int = 8, seed: int = 1) -> Path:
    """A model with mean pooling."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    bert = Transformer(str(_save_bert(folder.with_name(f"{folder.name}-base"), "BertModel", width, seed)))
    SentenceTransformer(modules=[bert, Pooling(width)], device="cpu").save(str(folder))
    return folder


def make_splade(folder: Path, seed: int) -> Path:
    """One model of term weights for documents and queries."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SpladePooling, Transformer

    base = _save_bert(folder.with_name(f"{folder.name}-base"), "BertForMaskedLM", 8, seed)
    modules = [Transformer(str(base), transformer_task="fill-mask"), SpladePooling("max")]
    SparseEncoder(modules=modules, device="cpu").save(str(folder))
    return folder
