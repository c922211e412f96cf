import string
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import Unigram, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, Metaspace

from scholarbase.encoders import static
from scholarbase.encoders.registry import PACKAGED_FOLDER
from scholarbase.encoders.static import WordTokens

PACKAGED = Tokenizer.from_file(str(PACKAGED_FOLDER / "tokenizer.json"))


def plain(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=False)]


def cached(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    tokens = WordTokens(tokenizer, None)
    return [row.tolist() for row in tokens.ids(texts)]


def small(**options: Any) -> Tokenizer:
    vocabulary = ["[UNK]", "[CLS]", "graph", "Graph", "##s", "[", "]", "CLS", "cls", "a", "b", "ab"]
    tokenizer = Tokenizer(WordPiece({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(**options)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet=st.one_of(st.sampled_from(string.printable), st.characters())), max_size=5))
def test_tokens_are_those_of_the_tokenizer(texts: list[str]) -> None:
    texts = [text.encode("utf-8", "ignore").decode() for text in texts]
    assert cached(PACKAGED, texts) == plain(PACKAGED, texts)


def test_control_characters_are_read_by_the_tokenizer() -> None:
    """BERT's normalizer removes them, so that the words around them are one."""
    texts = [f"a{chr(code)}b" for code in range(128)]
    assert cached(small(), texts) == plain(small(), texts)


def test_special_tokens_in_a_text_are_those_of_the_tokenizer() -> None:
    tokenizer = small()
    tokenizer.add_special_tokens(["[CLS]"])
    texts = ["[CLS] graphs", "[cls] Graph", "[ CLS ]"]
    assert cached(tokenizer, texts) == plain(tokenizer, texts)


@pytest.mark.parametrize("lowercase", [True, False])
def test_case_is_kept_where_the_tokenizer_keeps_it(lowercase: bool) -> None:
    tokenizer = small(lowercase=lowercase)
    assert cached(tokenizer, ["Graph graphs"]) == plain(tokenizer, ["Graph graphs"])


def test_words_of_other_tokenizers_are_not_kept() -> None:
    tokenizer = Tokenizer(
        Unigram([("<unk>", 0.0), ("\u2581a", -1.0), ("b", -2.0), ("\u2581", -3.0)], unk_id=0)
    )
    tokenizer.pre_tokenizer = Metaspace()
    tokens = WordTokens(tokenizer, None)
    assert [row.tolist() for row in tokens.ids(["a b", "ab"])] == plain(tokenizer, ["a b", "ab"])
    assert not tokens._words


def test_a_text_is_truncated() -> None:
    tokens = WordTokens(PACKAGED, 3)
    assert [
        len(row) for row in tokens.ids(["deep neural network models", "deep naïve neural networks", "deep"])
    ] == [3, 3, 1]


def test_the_number_of_words_that_are_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "MOST_WORDS", 3)
    tokens = WordTokens(PACKAGED, None)
    texts = ["deep neural", "graph networks of words", "neural words", "a (graph-based) network of words"]
    for text, expected in zip(texts, plain(PACKAGED, texts), strict=True):
        assert [row.tolist() for row in tokens.ids([text])] == [expected]
        assert 1 <= len(tokens._words) <= 3


def test_long_words_are_not_kept() -> None:
    """Queries of strange long words filled the memory."""
    tokens = WordTokens(PACKAGED, None)
    texts = ["graph " + "x" * 3000, "graph", "graph " + "-".join(["graph"] * 1000)]
    assert [row.tolist() for text in texts for row in tokens.ids([text])] == plain(PACKAGED, texts)
    assert sorted(tokens._words) == ["-", "graph"]


def test_threads_share_the_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is emptied while other threads read it."""
    monkeypatch.setattr(static, "MOST_WORDS", 2)
    tokens = WordTokens(PACKAGED, None)
    texts = [f"graph networks, (deep) words {number % 7}." for number in range(2000)]
    expected = plain(PACKAGED, texts)
    with ThreadPoolExecutor(4) as threads:
        found = [row.tolist() for rows in threads.map(lambda text: tokens.ids([text]), texts) for row in rows]
    assert found == expected
