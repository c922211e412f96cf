"""Tokens of words, kept between texts.

WordPiece tokenizes each word alone, and the same words recur: looking them up takes half the processor time of
tokenizing whole texts. The tokens are those of the tokenizer. It reads texts with other than printable ASCII
characters, and all texts where its settings let a word depend on its surroundings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
from tokenizers import Tokenizer

MOST_WORDS: Final = 200_000
"""Words that are kept, of which each takes about 200 bytes. 334,917 papers of arXiv have about 300,000."""
LONGEST: Final = 64
"""Characters of a word that is kept. Longer ones are tokenized each time."""
_PLAIN: Final = re.compile(r"[\t\n\r -~]*")
"""Texts in which the tokenizer changes nothing but case. It removes other control characters."""
_WORD: Final = re.compile(r"[A-Za-z0-9]+|[^\sA-Za-z0-9]")
"""A word of printable ASCII: of letters and digits, or one other character."""


class WordTokens:
    """Tokenizes texts with a cache of words. Safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int | None) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._words: dict[str, list[int]] = {}
        content = orjson.loads(tokenizer.to_str())
        self._by_word = _is_by_word(content)
        self._lower = self._by_word and bool(content["normalizer"]["lowercase"])
        special = [re.escape(token["content"]) for token in content["added_tokens"]]
        # Tokens such as [CLS] are found in the text itself, before it is divided into words.
        self._special = re.compile("|".join(special)) if special else None

    def ids(self, texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """The first ``max_tokens`` tokens of each text."""
        found: list[npt.NDArray[np.int64] | None] = [None] * len(texts)
        plain = {number: self._split(text) for number, text in enumerate(texts) if self._is_plain(text)}
        others = [number for number in range(len(texts)) if number not in plain]
        for number, row in zip(others, self._tokenize([texts[number] for number in others]), strict=True):
            found[number] = np.array(row, dtype=np.int64)
        known = self._look_up(plain.values())
        for number, words in plain.items():
            found[number] = np.fromiter(chain.from_iterable(map(known.__getitem__, words)), dtype=np.int64)
        return [row[: self._max_tokens] for row in found if row is not None]

    def _split(self, text: str) -> list[str]:
        return _WORD.findall(text.lower() if self._lower else text)

    def _is_plain(self, text: str) -> bool:
        return (
            self._by_word
            and _PLAIN.fullmatch(text) is not None
            and (self._special is None or self._special.search(text) is None)
        )

    def _look_up(self, texts: Any) -> dict[str, list[int]]:
        """The tokens of all words of these texts."""
        words = set().union(*texts)
        new = [word for word in words if word not in self._words]
        tokens = dict(zip(new, self._tokenize(new), strict=True))
        if len(self._words) + len(tokens) <= MOST_WORDS and all(len(word) <= LONGEST for word in new):
            self._words.update(tokens)
            return self._words
        return {word: tokens[word] if word in tokens else self._words[word] for word in words}

    def _tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]


def _is_by_word(content: Any) -> bool:
    """Whether a tokenizer, as in tokenizer.json, divides texts as BERT's does: at white space and punctuation."""
    types = [(content[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    return types == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]
