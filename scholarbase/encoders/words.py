"""Tokens of words, kept between texts.

WordPiece tokenizes each word alone, and the same words recur: looking them up takes a third of the processor time of
tokenizing whole texts. The tokens are those of the tokenizer, which itself reads texts with other than printable ASCII
characters, and all texts where its settings let a word depend on its surroundings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
from tokenizers import Tokenizer

MOST_WORDS: Final = 200_000
"""Words that are kept, of which each takes about 250 bytes."""
LONGEST: Final = 64
"""Characters of a word that is kept."""
_PLAIN: Final = re.compile(r"[\t\n\r -~]*")
"""Texts in which the tokenizer changes nothing but case. It removes other control characters."""
_PART: Final = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]")
"""A part of a word: letters and digits, or one other character."""


class WordTokens:
    """Tokenizes texts with a cache of words. Safe to call from several threads."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int | None) -> None:
        self._tokenizer = tokenizer
        self._max_tokens = max_tokens
        self._words = WordCache(self._word, MOST_WORDS, LONGEST)
        content = orjson.loads(tokenizer.to_str())
        self._by_word = _is_by_word(content)
        self._lower = self._by_word and bool(content["normalizer"]["lowercase"])
        special = [re.escape(token["content"]) for token in content["added_tokens"]]
        # Tokens such as [CLS] are found in the text itself, before it is divided into words.
        self._special = re.compile("|".join(special)) if special else None

    def ids(self, texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """The first ``max_tokens`` tokens of each text."""
        found = [self._look_up(text) if self._is_plain(text) else None for text in texts]
        others = iter(_tokenize(self._tokenizer, [texts[n] for n, ids in enumerate(found) if ids is None]))
        return [
            np.frombuffer(next(others) if ids is None else ids, np.int64)[: self._max_tokens] for ids in found
        ]

    def _look_up(self, text: str) -> bytes:
        return b"".join(map(self._words.__getitem__, (text.lower() if self._lower else text).split()))

    def _word(self, word: str) -> bytes:
        """The tokens of a word: what white space separates, with its punctuation."""
        # Most new words are known ones with punctuation.
        parts = _PART.findall(word)
        if len(parts) > 1:
            return b"".join(map(self._words.__getitem__, parts))
        return _tokenize(self._tokenizer, [word])[0]

    def _is_plain(self, text: str) -> bool:
        return (
            self._by_word
            and _PLAIN.fullmatch(text) is not None
            and (self._special is None or self._special.search(text) is None)
        )


class WordCache(dict[str, bytes]):
    """What ``compute`` returns for each word. Words of up to ``longest`` characters are kept, ``most`` of them."""

    def __init__(self, compute: Callable[[str], bytes], most: int, longest: int) -> None:
        self._compute = compute
        self._most = most
        self._longest = longest

    def __missing__(self, word: str) -> bytes:
        value = self._compute(word)
        if len(word) <= self._longest:
            if len(self) >= self._most:
                self.clear()  # frequent words are soon back
            self[word] = value
        return value


def _tokenize(tokenizer: Tokenizer, texts: list[str]) -> list[bytes]:
    """The tokens of each text, as the bytes of 64-bit integers, which are joined fast."""
    found = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [np.array(one.ids, np.int64).tobytes() for one in found]


def divides_by_word(tokenizer: Tokenizer) -> bool:
    """Whether the tokens of a text are those of its words, wherever they stand."""
    content = orjson.loads(tokenizer.to_str())
    return _is_by_word(content) and not any(
        token["lstrip"] or token["rstrip"] or any(map(str.isspace, token["content"]))
        for token in content["added_tokens"]
    )


def _is_by_word(content: Any) -> bool:
    """Whether a tokenizer, as in tokenizer.json, divides texts as BERT's does: at white space and punctuation."""
    types = [(content[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model")]
    return types == ["BertNormalizer", "BertPreTokenizer", "WordPiece"]
