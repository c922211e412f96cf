"""A checkpoint of BGE-M3's architecture with a few thousand random weights from a fixed seed."""

import string
from pathlib import Path

HIDDEN_SIZE = 16
MAX_POSITIONS = 66

SENTENCES = (
    "We show that attention is all you need for machine translation.",
    "Dense retrieval of passages with a dual encoder and hard negatives.",
    "Graph neural networks learn from the structure of citations.",
    "A measurement of the mass of the top quark in proton collisions.",
    "Réseaux de neurones pour la recherche d'information.",
    "Sparse lexical weights complement dense vectors in hybrid search.",
)


def make_tiny_bge_m3(folder: Path) -> Path:
    """Write the checkpoint to ``folder`` and return the folder."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

    # Words and, for unknown words, their letters. Not trained, as training is not deterministic.
    words = sorted({f"\u2581{word}" for sentence in SENTENCES for word in sentence.split()})
    letters = sorted({"\u2581", *string.ascii_letters, *string.punctuation, *"".join(SENTENCES)} - {" "})
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("<mask>", 0.0)]
    pieces += [(word, -3.0) for word in words] + [(letter, -6.0) for letter in letters]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        model_max_length=MAX_POSITIONS - 2,
    ).save_pretrained(folder)
    config = XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=HIDDEN_SIZE,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=MAX_POSITIONS,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        initializer_range=0.5,  # at the usual 0.02 all vectors would be alike
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(20240205)
        XLMRobertaModel(config).eval().save_pretrained(folder)
        torch.save(torch.nn.Linear(HIDDEN_SIZE, HIDDEN_SIZE).state_dict(), folder / "colbert_linear.pt")
        sparse = torch.nn.Linear(HIDDEN_SIZE, 1).state_dict()
        sparse["bias"] += 0.6  # most tokens have a positive weight
        torch.save(sparse, folder / "sparse_linear.pt")
    return folder
