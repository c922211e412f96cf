"""Where the tokens of a text are, as an encoder's tokenizer divides it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from scholarbase.encoders import Encoder
from scholarbase.encoders.registry import PACKAGED_FOLDER
from scholarbase.encoders.static import LONGEST, MOST_WORDS, WordCache, divides_by_word
from scholarbase.models.encoders import PACKAGED

Spans = npt.NDArray[np.int64]
"""Start and end of each token, in code points of the text, of shape (n, 2). Starts ascend."""

LONGEST_WORD: Final = 1000
"""Characters without white space that are tokenized at a time. Papers have no longer words, and a tokenizer may take
quadratic time for them."""
_PIECE: Final = 50_000
"""Characters of a text that are tokenized at a time: it bounds the memory."""
_WORD: Final = re.compile(rf"[^ \t\n\r]{{1,{LONGEST_WORD}}}")
_SPACES: Final = tuple(map(ord, " \t\n\r"))
"""White space that every tokenizer divides words at. Tokenizers treat the rest of Unicode's differently."""


class TokenSpans(Protocol):
    """Finds the tokens of texts. Safe to call from several threads."""

    @property
    def name(self) -> str:
        """The model that the tokens are of."""
        ...

    def spans(self, text: str) -> Spans:
        """All tokens of a text: none are left out at a limit, none are added."""
        ...


def tokens_of(encoder: Encoder | None = None) -> TokenSpans:
    """The tokens of an encoder; those of the encoder in the package where its tokenizer is not at hand, as for a URL,
    and without an encoder. :attr:`TokenSpans.name` says which."""
    tokenizer = getattr(encoder, "tokenizer", None)
    if encoder is None or tokenizer is None:
        return _packaged()
    return _open(encoder.spec.name, tokenizer)


@cache
def _packaged() -> TokenSpans:
    return _open(PACKAGED, Tokenizer.from_file(str(PACKAGED_FOLDER / "tokenizer.json")))


def _open(name: str, tokenizer: Tokenizer) -> TokenSpans:
    return WordwiseTokens(name, tokenizer) if divides_by_word(tokenizer) else PiecewiseTokens(name, tokenizer)


class PiecewiseTokens:
    """The tokens of any tokenizer, which reads the text in pieces that end at white space."""

    def __init__(self, name: str, tokenizer: Tokenizer) -> None:
        """``tokenizer`` must neither truncate nor pad."""
        self.name = name
        self._tokenizer = tokenizer

    def spans(self, text: str) -> Spans:
        parts = [np.empty((0, 2), np.int64)]
        for start, end in _pieces(text):
            parts.append(_encode(self._tokenizer, text[start:end]) + start)
        return _without_space(text, np.concatenate(parts))


class WordwiseTokens:
    """The tokens of a tokenizer that reads each word alone. The tokens of words are kept between texts: looking them up
    takes a fifth of the time."""

    def __init__(self, name: str, tokenizer: Tokenizer) -> None:
        self.name = name
        self._words = WordCache(
            lambda word: _encode(tokenizer, word).astype(np.int32).tobytes(), MOST_WORDS, LONGEST
        )
        """The spans of each word's tokens from its start, as 32-bit integers."""

    def spans(self, text: str) -> Spans:
        words = _WORD.findall(text)
        tokens = list(map(self._words.__getitem__, words))
        counts = np.fromiter(map(len, tokens), np.int64, len(tokens)) // _BYTES
        spans = np.frombuffer(b"".join(tokens), np.int32).reshape(-1, 2)
        return spans + np.repeat(_starts(text, words), counts)[:, None]


def _starts(text: str, words: Sequence[str]) -> npt.NDArray[np.int64]:
    """Where each word starts."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    ink = ~np.isin(codes, _SPACES)
    ink[1:] &= ~ink[:-1]
    starts = np.flatnonzero(ink)
    if len(starts) < len(words):  # one of more than LONGEST_WORD characters is divided
        starts = np.fromiter((match.start() for match in _WORD.finditer(text)), np.int64, len(words))
    return starts


_BYTES: Final = 8
"""Bytes of a token's span in a word."""


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Divide a text at white space, and words of more than LONGEST_WORD characters."""
    start = end = 0
    for match in _WORD.finditer(text):
        long = match.end() - match.start() == LONGEST_WORD
        if end - start > 0 and (match.end() - start > _PIECE or long):
            yield start, end
            start = end
        end = match.end()
        if long:
            yield start, end
            start = end
    if end > start:
        yield start, end


def _encode(tokenizer: Tokenizer, text: str) -> Spans:
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    return np.array(offsets, np.int64).reshape(-1, 2)


def _without_space(text: str, spans: Spans) -> Spans:
    """Tokens without the space before their words, which some tokenizers count to them."""
    space = np.array([*map(str.isspace, text), False])
    while (shift := space[spans[:, 0]] & (spans[:, 0] < spans[:, 1] - 1)).any():
        spans[shift, 0] += 1
    return spans
