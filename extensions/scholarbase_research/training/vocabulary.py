"""The vocabulary: WordPiece (Schuster and Nakajima, 2012) trained on the texts themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

PADDING: Final = "[PAD]"
UNKNOWN: Final = "[UNK]"
CONTINUED: Final = "##"
"""Marks pieces inside a word."""

MAX_CHARACTERS: Final = 300
"""Characters of the alphabet, the most frequent ones. Words with other characters are unknown."""
MIN_FREQUENCY: Final = 2


def train_tokenizer(texts: Callable[[], Iterable[str]], size: int) -> Tokenizer:
    """A tokenizer of at most ``size`` tokens, the same for the same texts. ``texts`` is called twice.

    The trainer numbers the pieces of one character in the order of a hash table with random keys, and these numbers
    decide between pairs of equal frequency. So the alphabet is counted here and set in advance.
    """
    tokenizer = _tokenizer(models.WordPiece(unk_token=UNKNOWN))
    alphabet = _alphabet(texts(), tokenizer.normalizer)
    numbered = [PADDING, UNKNOWN, *alphabet, *(CONTINUED + character for character in alphabet)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=MIN_FREQUENCY,
        special_tokens=numbered,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=CONTINUED,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    # Without the marks of special tokens, which would split words.
    return _tokenizer(models.WordPiece(tokenizer.get_vocab(), unk_token=UNKNOWN))


def _tokenizer(model: models.Model) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _alphabet(texts: Iterable[str], normalizer: normalizers.Normalizer) -> list[str]:
    """The most frequent characters without spaces, in order."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    normal: Counter[str] = Counter()
    for character, count in counts.items():
        for part in normalizer.normalize_str(character):
            if not part.isspace():
                normal[part] += count
    ranked = sorted(normal, key=lambda character: (-normal[character], character))
    return sorted(ranked[:MAX_CHARACTERS])
