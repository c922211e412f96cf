"""Where tokens are, compared with the tokenizers themselves."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from scholarbase.documents.tokens import LONGEST_WORD, PiecewiseTokens, WordwiseTokens, tokens_of
from scholarbase.encoders import open_encoder
from scholarbase.encoders.registry import PACKAGED_FOLDER
from scholarbase.models.encoders import PACKAGED, EncoderSpec

PACKAGED_TOKENIZER = Tokenizer.from_file(str(PACKAGED_FOLDER / "tokenizer.json"))


def byte_level() -> Tokenizer:
    """Of the kind of GPT-2: spaces belong to the words after them, and a character may have several tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def of_the_tokenizer(text: str) -> list[list[int]]:
    return [list(span) for span in PACKAGED_TOKENIZER.encode(text, add_special_tokens=False).offsets]


def test_spans_count_code_points() -> None:
    """*naïve* is one token, as *naive* is; the mathematical letter is in no vocabulary."""
    text = "A naïve 𝔸 model."
    spans = tokens_of().spans(text)
    assert [text[start:end] for start, end in spans] == ["A", "naïve", "𝔸", "model", "."]
    assert spans.shape == (5, 2)
    assert tokens_of().spans("").shape == tokens_of().spans(" \n").shape == (0, 2)


PARTS = [
    "word", "naïve", " ", "\n", "\u00a0", "\u2003", "\x1c", "中文", "[CLS]", "e\u0301", "\u200b", "don't", "x^2_{ij}",
    "ﬁ", "İ", "ΑΣ",
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PARTS), max_size=30).map("".join)))
def test_spans_are_those_of_the_tokenizer(text: str) -> None:
    assert tokens_of().spans(text).tolist() == of_the_tokenizer(text)
    pieces = PiecewiseTokens("packaged", PACKAGED_TOKENIZER).spans(text)
    assert pieces.tolist() == of_the_tokenizer(text)


@pytest.mark.parametrize("text", ["word " * 30_000, "a-b " * 20_000 + "x" * 3 * LONGEST_WORD + " end"])
def test_pieces_change_no_token_of_words(text: str) -> None:
    wordwise, piecewise = tokens_of(), PiecewiseTokens("packaged", PACKAGED_TOKENIZER)
    assert isinstance(wordwise, WordwiseTokens)
    spans = piecewise.spans(text)
    assert np.array_equal(wordwise.spans(text), spans)
    assert (spans[:, 1] - spans[:, 0]).max() <= LONGEST_WORD
    covered = "".join(text[start:end] for start, end in spans)
    assert covered == "".join(text.split())


def test_a_space_before_a_word_is_not_counted_to_it() -> None:
    tokens = tokens_of_tokenizer(byte_level())
    assert isinstance(tokens, PiecewiseTokens)
    spans = tokens.spans("I  am é")
    assert all(start <= end for start, end in spans)
    assert all(a[0] <= b[0] for a, b in pairwise(spans))


class _Service:
    """An encoder whose tokenizer is not at hand, as of a URL."""

    spec = EncoderSpec("http", "other-model", 3)


def tokens_of_tokenizer(tokenizer: Tokenizer) -> object:
    encoder = _Service()
    encoder.tokenizer = tokenizer  # type: ignore[attr-defined]
    return tokens_of(encoder)  # type: ignore[arg-type]


def test_the_name_says_whose_tokens_they_are() -> None:
    encoder = open_encoder(PACKAGED)
    assert tokens_of(encoder).name == tokens_of().name == PACKAGED
    assert tokens_of(_Service()).name == PACKAGED  # type: ignore[arg-type]
    assert tokens_of_tokenizer(byte_level()).name == "other-model"  # type: ignore[attr-defined]
    encoder.close()
